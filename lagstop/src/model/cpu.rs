//! CPUs in an interval.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CgroupId, Nanos, bounded};

/// Where a CPU sits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Place {
    /// Its number.
    pub cpu: u32,
    /// Its last-level cache, named by the lowest CPU that shares it.
    pub llc: u32,
    /// Its NUMA node.
    pub numa: u32,
}

/// One CPU in one interval. `None` is what this kernel did not let us measure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cpu {
    /// Its number.
    pub cpu: u32,
    /// Switches, those from idle included.
    pub switches: Option<u64>,
    /// Pick cost, idle's included.
    pub pick_ns: Option<Nanos>,
    /// Swap cost, that of switches to idle included.
    pub swap_ns: Option<Nanos>,
    /// Waits on its run queue that ended in running.
    pub runq_waits: Option<u64>,
    /// Their time.
    pub runq_wait_ns: Option<Nanos>,
    /// Time in tasks other than idle, by the clock.
    pub busy_ns: Nanos,
    /// Time in idle, by the clock.
    pub idle_ns: Nanos,
    /// The cgroups that crowd it most, by CPU time and run-queue wait on it; at most [`Cpu::CROWD`].
    #[serde(deserialize_with = "bounded::crowd")]
    pub crowd: Vec<Crowding>,
}

/// A cgroup's part in crowding a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Crowding {
    /// The cgroup.
    pub id: CgroupId,
    /// CPU time of its tasks on this CPU.
    pub cpu_ns: Nanos,
    /// Run-queue wait of its tasks that ended on this CPU.
    pub runq_wait_ns: Option<Nanos>,
}

impl Crowding {
    /// CPU time and run-queue wait, where that is measured.
    pub fn time(&self) -> Nanos {
        self.cpu_ns.saturating_add(self.runq_wait_ns.unwrap_or_default())
    }
}

impl Cpu {
    /// Cgroups that are named for each CPU.
    pub const CROWD: usize = 3;

    /// Pick + swap cost.
    pub fn switch_cost(&self) -> Option<Nanos> {
        self.pick_ns.zip(self.swap_ns).map(|(pick, swap)| pick.saturating_add(swap))
    }
}
