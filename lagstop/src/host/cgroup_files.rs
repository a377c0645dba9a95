//! What the files of each cgroup tell.

use std::path::PathBuf;

use super::{
    Hierarchy,
    bandwidth::Bandwidth,
    levels::{Levels, Placed},
    pressure::{PressureTimes, Pressures},
    vcpus::{Ready, VcpuWaits},
};
use crate::model::{CgroupId, CgroupLabel, FileCounters, Files, Nanos};

/// Reads them, the expensive ones no more often than necessary.
#[derive(Debug)]
pub struct CgroupFiles {
    bandwidth: Bandwidth,
    pressures: Pressures,
    levels: Levels,
    vcpus: VcpuWaits,
}

impl CgroupFiles {
    pub fn new(hierarchy: &Hierarchy) -> Self {
        Self {
            bandwidth: Bandwidth::new(hierarchy.version),
            pressures: Pressures::new(hierarchy.version),
            levels: Levels::new(hierarchy),
            vcpus: VcpuWaits::new(hierarchy),
        }
    }

    /// Begins a reading, in which cgroups have waited so long for a CPU since the last one.
    pub fn begin(&mut self, waited: impl Iterator<Item = Nanos>) {
        self.bandwidth.begin();
        self.pressures.begin(waited);
        self.levels.begin();
        self.vcpus.begin();
    }

    /// Forgets those that are not `there` any more.
    pub fn keep(&mut self, there: impl Fn(CgroupId) -> bool) {
        self.bandwidth.keep(&there);
        self.levels.keep(&there);
        self.vcpus.keep(&there);
    }

    /// Those of a cgroup that has waited so long since the last reading, if waits are measured; `directory` finds where they are, if
    /// that is known.
    pub fn of(
        &mut self,
        id: CgroupId,
        label: &CgroupLabel,
        waited: Option<Nanos>,
        directory: impl Fn() -> Option<PathBuf>,
    ) -> Files {
        let Placed { levels, cpus } = self.levels.of(id, &label.path);
        if id == CgroupId::OTHER {
            return Files { levels, cpus, ..Files::default() };
        }
        let throttling = self.bandwidth.of(id, &directory);
        let Ready { wait_ns, time_ns } = match label.vcpus {
            Some(vcpus) => self.vcpus.of(id, vcpus, waited, &directory),
            None => Ready::default(),
        };
        let PressureTimes { some_ns, full_ns } = self.pressures.of(waited.unwrap_or_default(), directory);
        let counters = FileCounters {
            nr_periods: throttling.map(|it| it.nr_periods),
            nr_throttled: throttling.map(|it| it.nr_throttled),
            throttled_ns: throttling.map(|it| it.throttled_ns),
            pressure_some_ns: some_ns,
            pressure_full_ns: full_ns,
            vcpu_wait_ns: wait_ns,
            vcpu_ns: time_ns,
        };
        Files { counters, quota_ns: throttling.and_then(|it| it.quota_ns), levels, cpus }
    }
}
