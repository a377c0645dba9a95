//! What files count of the host and of one cgroup, at one moment: for who looks at the beginning and at the end of something.

use std::{fs, path::Path};

use serde::{Deserialize, Serialize};

use super::{busy, figures, pressure, read};
use crate::model::Nanos;

/// What the host has counted since it was started. Two of them subtract.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostMoment {
    /// Time that a hypervisor took from all CPUs, in clock ticks.
    pub steal_ns: Option<Nanos>,
    /// Time of all CPUs in tasks and interrupts, in clock ticks.
    pub busy_ns: Option<Nanos>,
    /// Time in which some task waited for a CPU (PSI).
    pub pressure_ns: Option<Nanos>,
    /// How often CPUs were slowed down because they were too hot. `None` where the kernel does not count it.
    pub heat: Option<u64>,
}

impl HostMoment {
    /// Reads them. What cannot be read is `None`.
    pub fn read() -> Self {
        let stat = read("/proc/stat").ok();
        let tick = figures::clock_tick();
        let busy = stat.as_deref().map(|stat| busy::parse(stat, tick));
        Self {
            steal_ns: stat.as_deref().and_then(|stat| figures::steal(stat, &[], tick)),
            busy_ns: busy.filter(|cpus| !cpus.is_empty()).map(|cpus| cpus.iter().map(|cpu| cpu.busy_ns).sum()),
            pressure_ns: fs::read_to_string("/proc/pressure/cpu").ok().and_then(|text| pressure::parse(&text).some_ns),
            heat: heat(Path::new("/sys/devices/system/cpu")),
        }
    }

    /// What happened since `earlier`, of what was read both times.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let since = |now: Option<Nanos>, then: Option<Nanos>| Some(now?.saturating_sub(then?));
        Self {
            steal_ns: since(self.steal_ns, earlier.steal_ns),
            busy_ns: since(self.busy_ns, earlier.busy_ns),
            pressure_ns: since(self.pressure_ns, earlier.pressure_ns),
            heat: self.heat.zip(earlier.heat).map(|(now, then)| now.saturating_sub(then)),
        }
    }
}

/// The sum of `cpu<n>/thermal_throttle/core_throttle_count` (drivers/thermal/intel/therm_throt.c). Other makers' CPUs have none.
fn heat(cpus: &Path) -> Option<u64> {
    let entries = fs::read_dir(cpus).ok()?.flatten();
    let counts = entries.filter_map(|entry| {
        let file = entry.path().join("thermal_throttle/core_throttle_count");
        fs::read_to_string(file).ok()?.trim().parse::<u64>().ok()
    });
    counts.fold(None, |sum, count| Some(sum.unwrap_or(0u64).saturating_add(count)))
}

/// What the kernel has booked to a cgroup and those inside of it since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CgroupMoment {
    /// Time in which some of its tasks waited for a CPU (PSI). `None` in version 1.
    pub pressure_some_ns: Option<Nanos>,
    /// Time in which some waited and none ran.
    pub pressure_full_ns: Option<Nanos>,
}

impl CgroupMoment {
    /// That of the cgroup in `directory`.
    pub fn read(directory: &Path) -> Self {
        let text = fs::read_to_string(directory.join("cpu.pressure")).unwrap_or_default();
        let pressure::PressureTimes { some_ns, full_ns } = pressure::parse(&text);
        Self { pressure_some_ns: some_ns, pressure_full_ns: full_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_once_is_not_known() {
        let then =
            HostMoment { steal_ns: Some(Nanos(5)), busy_ns: Some(Nanos(10)), heat: Some(2), ..HostMoment::default() };
        let now = HostMoment {
            steal_ns: Some(Nanos(7)),
            heat: Some(2),
            pressure_ns: Some(Nanos(1)),
            ..HostMoment::default()
        };
        let expected = HostMoment { steal_ns: Some(Nanos(2)), heat: Some(0), ..HostMoment::default() };
        assert_eq!(now.since(&then), expected);
        assert!(HostMoment::read().busy_ns.is_some_and(|busy| busy > Nanos::ZERO), "this host has done something");
    }

    #[test]
    fn heat_is_counted_where_the_kernel_counts_it() {
        let cpus = tempfile::tempdir().unwrap();
        assert_eq!(heat(cpus.path()), None);
        for (cpu, count) in [("cpu0", "3\n"), ("cpu1", "4\n"), ("cpuidle", "no number\n")] {
            let directory = cpus.path().join(cpu).join("thermal_throttle");
            fs::create_dir_all(&directory).unwrap();
            fs::write(directory.join("core_throttle_count"), count).unwrap();
        }
        assert_eq!(heat(cpus.path()), Some(7));
    }
}
