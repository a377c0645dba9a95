//! CPUs in an interval.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    CgroupId, Nanos, bounded,
    counters::{COSTS, Counter, SWITCHES, WAITS, counters},
    flattened::flattened,
};

/// Cache and NUMA node of a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Place {
    /// Its number.
    pub cpu: u32,
    /// Its last-level cache, named by the lowest CPU that shares it.
    pub llc: u32,
    /// Its NUMA node.
    pub numa: u32,
}

counters! {
    /// Counters of a CPU, over all cgroups. `None` is a counter that this kernel does not let lagstop measure.
    pub struct CpuTotals, read by CpuTotalsRead;
    always {
        /// Wall-clock time in tasks other than idle, from switch to switch.
        busy_ns: Nanos => SWITCHES;
        /// Wall-clock time in idle, from switch to switch.
        idle_ns: Nanos => SWITCHES;
    }
    if_measured {
        /// Switches on this CPU, including those from idle.
        switches: u64 => SWITCHES;
        /// Calls of `__schedule()` that kept the running task.
        kept_calls: u64 => COSTS;
        /// Pick cost, including that of idle.
        pick_ns: Nanos => COSTS;
        /// Swap cost, including that of switches to idle.
        swap_ns: Nanos => COSTS;
        /// Run-queue waits that ended when the task ran on this CPU. Includes tasks that were migrated to it while they
        /// waited.
        runq_waits: u64 => WAITS;
        /// Total time of these waits. A whole wait counts when and where it ends.
        runq_wait_ns: Nanos => WAITS;
    }
}

/// One CPU in one interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self")]
#[schemars(!remote)]
pub struct Cpu {
    /// Its number. `topology` of the session lists its cache and NUMA node.
    pub cpu: u32,
    #[serde(flatten, skip_deserializing)]
    #[schemars(!skip_deserializing)]
    pub totals: CpuTotals,
    /// The cgroups that use it most, by CPU time and run-queue wait on it. At most [`Cpu::CROWD`].
    #[serde(deserialize_with = "bounded::crowd")]
    pub crowd: Vec<Crowding>,
}

flattened!(Cpu, CpuTotalsRead, |self, totals| Self { totals, ..self });

/// How much a cgroup uses a CPU.
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
    /// The most cgroups that are listed for each CPU.
    pub const CROWD: usize = 3;

    /// Pick + swap cost.
    pub fn switch_cost(&self) -> Option<Nanos> {
        self.totals.pick_ns.zip(self.totals.swap_ns).map(|(pick, swap)| pick.saturating_add(swap))
    }
}
