//! CPUs in an interval.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    CgroupId, Nanos, bounded,
    counters::{Counter, counters},
    flattened::flattened,
};

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

const SWITCHES: Counter = Counter::from("tracepoint `sched_switch`");
const COSTS: Counter = Counter::from("entry and exit of `__schedule()`: `switch_cost_way`");
const WAITS: Counter = Counter::from("growth of `sched_info.run_delay`, or the clock");

counters! {
    /// What was counted on a CPU, apart from what was for cgroups. `None` is what this kernel did not let us measure.
    pub struct CpuTotals, read by CpuTotalsRead;
    always {
        /// Time in tasks other than idle, by the clock, from switch to switch.
        busy_ns: Nanos => SWITCHES;
        /// Time in idle, by the clock, from switch to switch.
        idle_ns: Nanos => SWITCHES;
    }
    if_measured {
        /// Switches on it, those from idle included.
        switches: u64 => SWITCHES;
        /// Calls of `__schedule()` that kept the running task.
        kept_calls: u64 => COSTS;
        /// Pick cost, idle's included.
        pick_ns: Nanos => COSTS;
        /// Swap cost, that of switches to idle included.
        swap_ns: Nanos => COSTS;
        /// Waits on its run queue that ended in running, also of tasks that were moved there while they waited.
        runq_waits: u64 => WAITS;
        /// Their time. A wait is booked whole where it ends.
        runq_wait_ns: Nanos => WAITS;
    }
}

/// One CPU in one interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self")]
#[schemars(!remote)]
pub struct Cpu {
    /// Its number; `topology` of the session says where it sits.
    pub cpu: u32,
    #[serde(flatten, skip_deserializing)]
    #[schemars(!skip_deserializing)]
    pub totals: CpuTotals,
    /// The cgroups that crowd it most, by CPU time and run-queue wait on it; at most [`Cpu::CROWD`].
    #[serde(deserialize_with = "bounded::crowd")]
    pub crowd: Vec<Crowding>,
}

flattened!(Cpu, CpuTotalsRead, |self, totals| Self { totals, ..self });

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
        self.totals.pick_ns.zip(self.totals.swap_ns).map(|(pick, swap)| pick.saturating_add(swap))
    }
}
