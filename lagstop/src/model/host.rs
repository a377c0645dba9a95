//! The host as a whole in an interval.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Lost, Nanos, Reading, Totals,
    counters::{COSTS, Counter, SWITCHES, counters},
    flattened::flattened,
    totals::TotalsRead,
};
use crate::units::ratio;

const PRESSURE: Counter = Counter::from("`/proc/pressure/cpu`, `some total=`");

counters! {
    /// How all CPUs spent their time.
    pub struct HostTimes, read by HostTimesRead;
    always {
        /// Wall-clock time that all CPUs spent in tasks other than idle, from switch to switch.
        busy_ns: Nanos => SWITCHES.metric("lagstop_host_busy_seconds_total");
        /// Wall-clock time that all CPUs spent in idle, from switch to switch.
        idle_ns: Nanos => SWITCHES.metric("lagstop_host_idle_seconds_total");
    }
    if_measured {
        /// Time in which a hypervisor ran something else while a CPU of this host wanted to run.
        steal_ns: Nanos => Counter::from("`/proc/stat`, in clock ticks").metric("lagstop_host_steal_seconds_total");
    }
}

counters! {
    /// Cost of measuring.
    pub struct OwnCost, read by OwnCostRead;
    always {
        /// CPU time of the lagstop process, including serving.
        self_cpu_ns: Nanos => Counter::from("`CLOCK_PROCESS_CPUTIME_ID`").metric("lagstop_self_cpu_seconds_total");
    }
    if_measured {
        /// Estimated time in lagstop's eBPF programs: switches × time per switch, measured right after start.
        self_probe_ns: Nanos => Counter::from("BPF statistics").metric("lagstop_self_probe_seconds_total");
    }
}

counters! {
    /// Scheduling cost of the idle tasks. Waking a CPU from idle is scheduling too, but belongs to no cgroup.
    pub struct Idle;
    always {
        /// Switches from idle.
        switches: u64 => SWITCHES;
    }
    if_measured {
        /// Calls of `__schedule()` by idle tasks.
        schedule_calls: u64 => COSTS;
        /// Pick cost of the idle tasks: waking a CPU from idle.
        pick_ns: Nanos => COSTS;
        /// Part of this pick cost: calls that stayed idle.
        kept_ns: Nanos => COSTS;
        /// Swap cost of switches to idle.
        swap_ns: Nanos => COSTS;
    }
}

counters! {
    /// CPU pressure stall information of the host.
    pub struct Pressure;
    always {
        /// Time in which at least one task waited for a CPU (PSI some).
        some_ns: Nanos => PRESSURE.metric("lagstop_host_cpu_pressure_seconds_total");
    }
    if_measured {}
}

/// Sums over all cgroups and idle, and metrics of the host alone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self")]
#[schemars(!remote)]
pub struct Host {
    /// Σ cgroups + idle.
    #[serde(flatten, skip_deserializing)]
    #[schemars(!skip_deserializing)]
    pub totals: Totals,
    #[serde(flatten, skip_deserializing)]
    #[schemars(!skip_deserializing)]
    pub times: HostTimes,
    #[serde(flatten, skip_deserializing)]
    #[schemars(!skip_deserializing)]
    pub own_cost: OwnCost,
    /// The part of the sums that belongs to the idle tasks.
    pub idle: Idle,
    /// See [`Reading::CPUS_ONLINE`].
    #[schemars(description = Reading::CPUS_ONLINE.description())]
    pub cpus_online: u64,
    /// CPU pressure.
    pub pressure: Option<Pressure>,
    /// Events that could not be measured.
    pub lost: Lost,
}

flattened!(Host, ((TotalsRead, HostTimesRead), OwnCostRead), |self, ((totals, times), own_cost)| Self {
    totals,
    times,
    own_cost,
    ..self
});

impl From<&Totals> for Idle {
    fn from(totals: &Totals) -> Self {
        Self {
            switches: totals.switches,
            schedule_calls: totals.schedule_calls,
            pick_ns: totals.pick_ns,
            kept_ns: totals.kept_ns,
            swap_ns: totals.swap_ns,
        }
    }
}

impl Host {
    /// Adds what happened next. What only one of the two measured is not measured in the sum.
    pub fn add(&mut self, next: &Self) {
        self.totals.add_next(&next.totals);
        self.times.add(&next.times);
        // The first interval that has this value includes the cost of the intervals before it.
        let probe = self.own_cost.self_probe_ns.or(next.own_cost.self_probe_ns);
        self.own_cost.add(&next.own_cost);
        self.own_cost.self_probe_ns = self.own_cost.self_probe_ns.or(probe);
        self.idle.add(&next.idle);
        self.cpus_online = next.cpus_online;
        self.pressure = self.pressure.zip(next.pressure).map(|(mut sum, more)| {
            sum.add(&more);
            sum
        });
        self.lost.add(&next.lost);
    }

    /// Switch cost of the cgroups, without idle's.
    pub fn overhead_ns(&self) -> Option<Nanos> {
        let all = self.totals.switch_cost()?;
        let idle = self.idle.pick_ns?.saturating_add(self.idle.swap_ns?);
        Some(all.saturating_sub(idle))
    }

    /// Switches away from tasks other than idle.
    pub const fn task_switches(&self) -> u64 {
        self.totals.switches.saturating_sub(self.idle.switches)
    }

    /// Mean cost of a switch away from a task other than idle.
    pub fn mean_switch_cost(&self) -> Option<Nanos> {
        let kept = self.totals.kept_ns.unwrap_or_default().saturating_sub(self.idle.kept_ns.unwrap_or_default());
        self.overhead_ns()?.saturating_sub(kept).mean(self.task_switches())
    }

    /// Time all CPUs had.
    pub const fn capacity(&self) -> Nanos {
        Nanos(self.times.busy_ns.0.saturating_add(self.times.idle_ns.0))
    }

    /// Overhead: the cgroups' switch cost as a share of the time of all online CPUs.
    pub fn overhead(&self) -> Option<f64> {
        Some(ratio(self.overhead_ns()?.0 as f64, self.capacity().0 as f64))
    }

    /// Share of the time of all CPUs that was not idle.
    pub fn cpu_utilisation(&self) -> f64 {
        ratio(self.times.busy_ns.0 as f64, self.capacity().0 as f64)
    }

    /// Share of the time of all CPUs that a hypervisor took, in an interval of this length. Where the clock tells busy from idle,
    /// stolen time is in one of them. In the kernel's own accounts it is in neither, so that these are shorter than the interval.
    pub fn steal(&self, duration: Nanos) -> Option<f64> {
        let all = duration.0.saturating_mul(self.cpus_online).max(self.capacity().0);
        Some(ratio(self.times.steal_ns?.0 as f64, all as f64))
    }

    /// Share of the time of all CPUs that went into the tasks' own work. From switch to switch, the time that is not idle
    /// holds exactly the swap cost that is charged to the task before its work, and the pick cost after it.
    pub fn effective_utilisation(&self) -> Option<f64> {
        let work = self.times.busy_ns.saturating_sub(self.overhead_ns()?);
        Some(ratio(work.0 as f64, self.capacity().0 as f64))
    }
}
