//! Cgroups in an interval.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    CgroupId, Cores, Distribution, FileCounters, Level, Nanos, Reading, Tasks, Totals, WaitBehind, bounded,
    file_counters::FileCountersRead, flattened::flattened, totals::TotalsRead,
};

/// How tasks are grouped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GroupBy {
    /// By the cgroup of the task's `task_group`, in whose run queues it competes.
    #[default]
    Scheduler,
    /// By the cgroup v2 leaf of the task, whether or not the scheduler groups by it.
    Leaf,
}

/// Names of a cgroup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CgroupLabel {
    /// Path from the root of its hierarchy. May hold anything that a directory name can.
    pub path: Arc<str>,
    /// Readable name: the unit, the container, or the pod and container. The path if no better name is known.
    pub name: Arc<str>,
    /// The container that it is in, if any.
    pub workload: Option<Arc<Workload>>,
    /// Where virtual CPUs of a guest run in it.
    pub vcpus: Option<Vcpus>,
}

/// Which threads of a cgroup are a guest's virtual CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vcpus {
    /// All of it: libvirt gives each virtual CPU a cgroup of its own.
    Own,
    /// Those that the hypervisor named so, beside others.
    Inside,
}

/// The container that a cgroup belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Workload {
    /// The Kubernetes namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<Arc<str>>,
    /// The pod's name, or its uid if the name is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<Arc<str>>,
    /// The container's name, or its id if the name is unknown.
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
    /// Readable name.
    pub name: Arc<str>,
    /// The container that it is in, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<Arc<Workload>>,
    /// CPU settings of the cgroup and its ancestors, one for each component of `path`, from the child of the root down
    /// to the cgroup itself. The root has no entry. `None` if any of them is unknown, or if they were not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "bounded::levels")]
    pub levels: Option<Arc<[Level]>>,
    /// The CPUs that it may run on, in the kernel's list format: `0-3,7`. Also set if it may run on all CPUs. `None` if
    /// they are unknown, or were not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<Arc<str>>,
    /// Its totals.
    #[serde(flatten, skip_deserializing)]
    #[schemars(!skip_deserializing)]
    pub totals: Totals,
    /// The cgroups whose tasks ran longest while its tasks waited on the same CPU, longest first. All other cgroups
    /// make up the rest of `wait_behind_ns`.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "bounded::behind")]
    pub waits_behind: Vec<WaitBehind>,
    /// Average number of runnable tasks: (CPU time + run-queue wait) / duration.
    pub runnable_load: Option<Tasks>,
    /// Exponential moving average of the runnable load.
    pub load_credit: Option<Tasks>,
    /// CPU time that weights, quotas and CPU sets grant it. Not in recordings: [`super::Interval::entitle`] computes
    /// it. `None` if not computed, if its weights or waits are unknown, and for the row `(other)`.
    #[serde(skip)]
    pub entitled_cpu: Option<Cores>,
    /// Counters from its files.
    #[serde(flatten, skip_deserializing)]
    #[schemars(!skip_deserializing)]
    pub files: FileCounters,
    /// See [`Reading::QUOTA`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(description = Reading::QUOTA.description())]
    pub quota_ns: Option<Nanos>,
    /// Distribution of the cost of switches away from its tasks.
    pub switch_cost: Option<Distribution>,
    /// Distribution of its run-queue waits.
    pub runq_wait: Option<Distribution>,
    /// Distribution of its accept waits.
    pub accept_wait: Option<Distribution>,
}

flattened!(Cgroup, (TotalsRead, FileCountersRead), |self, (totals, files)| Self { totals, files, ..self });
