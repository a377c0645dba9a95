//! Cgroups in an interval.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Distribution, FileCounters, Level, Nanos, Tasks, Totals, bounded, file_counters::FileCountersRead,
    flattened::flattened, totals::TotalsRead,
};

/// What groups tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GroupBy {
    /// The cgroup of the `task_group` that the task is in: the one whose run queues it competes in.
    #[default]
    Scheduler,
    /// The cgroup v2 leaf that the task is in, whether or not the scheduler groups by it.
    Leaf,
}

/// Identity of a cgroup while it exists: the inode number of its directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct CgroupId(pub u64);

impl CgroupId {
    /// The row that cgroups share when the kernel's table was full. No directory has inode number 0.
    pub const OTHER: Self = Self(0);
    /// The root of every hierarchy.
    pub const ROOT: Self = Self(1);

    /// One of the numbers below `of`, by which work for cgroups is spread evenly. Ids are often a fixed step apart: a
    /// remainder would not do.
    pub const fn turn(self, of: u64) -> u64 {
        // Fibonacci hashing: 2^64 divided by the golden ratio.
        ((self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) * of) >> 32
    }
}

/// What a cgroup is called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CgroupLabel {
    /// Path from the root of its hierarchy. May hold anything that a directory name can.
    pub path: Arc<str>,
    /// What people call it: the unit, the container, the pod and container; the path where nothing better is known.
    pub name: Arc<str>,
    /// The container, where it is in one.
    pub workload: Option<Arc<Workload>>,
}

/// The container that a cgroup is, or that it is inside of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Workload {
    /// The Kubernetes namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<Arc<str>>,
    /// The pod's name, or its uid where the name is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<Arc<str>>,
    /// The container's name, or its id where the name is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<Arc<str>>,
}

/// One cgroup in one interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self")]
#[schemars(!remote)]
pub struct Cgroup {
    /// Its id.
    pub id: CgroupId,
    /// Path from the root of its hierarchy.
    pub path: Arc<str>,
    /// What people call it.
    pub name: Arc<str>,
    /// The container, where it is in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<Arc<Workload>>,
    /// What it and each cgroup above it are entitled to, one for each component of `path`, from the child of the root down
    /// to itself; none of the root. `None` where that is not known of all of them, or was not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "bounded::levels")]
    pub levels: Option<Arc<[Level]>>,
    /// The CPUs that it may run on, as the kernel writes lists: `0-3,7`. `None` where that is not known, or was not recorded:
    /// all CPUs are a list, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<Arc<str>>,
    /// What was counted.
    #[serde(flatten, skip_deserializing)]
    #[schemars(!skip_deserializing)]
    pub totals: Totals,
    /// Average number of runnable tasks: (CPU time + run-queue wait) / duration.
    pub runnable_load: Option<Tasks>,
    /// Exponential moving average of the runnable load.
    pub load_credit: Option<Tasks>,
    /// What its files count.
    #[serde(flatten, skip_deserializing)]
    #[schemars(!skip_deserializing)]
    pub files: FileCounters,
    /// CPU time that it may use in each second, at the end of the interval. `None` without a quota of its own, or where
    /// that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota_ns: Option<Nanos>,
    /// Cost of each switch away.
    pub switch_cost: Option<Distribution>,
    /// Each wait on a run queue.
    pub runq_wait: Option<Distribution>,
    /// Each accept wait.
    pub accept_wait: Option<Distribution>,
}

flattened!(Cgroup, (TotalsRead, FileCountersRead), |self, (totals, files)| Self { totals, files, ..self });

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_even_whatever_the_step_of_the_ids() {
        for step in 1..=64 {
            let mut taken = [0; 60];
            (1..=2_500).for_each(|n| taken[CgroupId(n * step).turn(60) as usize] += 1);
            assert!(taken.iter().all(|taken| (21..=63).contains(taken)), "{step}: {taken:?}");
        }
    }
}
