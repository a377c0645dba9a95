//! Cgroups in an interval.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    CgroupId, Cores, Distribution, FileCounters, Level, Nanos, Tasks, Totals, WaitBehind, bounded,
    file_counters::FileCountersRead, flattened::flattened, totals::TotalsRead,
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
    /// Those whose tasks ran while its own waited on the same CPU: the worst, the worst first. All others are what is missing
    /// to `wait_behind_ns`.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "bounded::behind")]
    pub waits_behind: Vec<WaitBehind>,
    /// Average number of runnable tasks: (CPU time + run-queue wait) / duration.
    pub runnable_load: Option<Tasks>,
    /// Exponential moving average of the runnable load.
    pub load_credit: Option<Tasks>,
    /// CPU time that weights, quotas and CPU sets entitle it to. In no recording: [`super::Interval::entitle`] computes it. `None`
    /// where nobody has, where its weights or waits are not known, and of the row that cgroups share.
    #[serde(skip)]
    pub entitled_cpu: Option<Cores>,
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
