//! Measures that are computed from counters, each declared once: rules, comparisons, screens, metrics and docs have their words from
//! here.

use super::Counter;
use crate::units::Unit;

/// A measure that is computed from counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Derived {
    /// In JSON; stable.
    pub name: &'static str,
    /// For people.
    pub label: &'static str,
    pub unit: Unit,
    /// How it is computed, of counters by their names. `capacity_ns` is the time that all CPUs had: `busy_ns + idle_ns`.
    /// `switching_ns` is pick and swap cost without `kept_ns`, and without that of idle.
    pub formula: &'static str,
    /// What it says, for the help.
    pub meaning: &'static str,
}

/// Declares them: name in code, name in JSON, unit, label, formula, and meaning.
macro_rules! derived {
    ($($constant:ident = $name:literal: $unit:ident, $label:literal = $formula:literal, $meaning:literal;)*) => {
        impl Derived {
            $(pub const $constant: Self = Self {
                name: $name,
                label: $label,
                unit: Unit::$unit,
                formula: $formula,
                meaning: $meaning,
            };)*
        }
    };
}

derived! {
    OVERHEAD = "overhead": Share, "overhead" = "(switching_ns + kept_ns) / capacity_ns",
        "switch cost of all cgroups, in % of the time of all online CPUs";
    CGROUP_OVERHEAD = "overhead": Cores, "overhead" = "(switching_ns + kept_ns) / duration_ns",
        "switch cost of the cgroup, in CPUs";
    MEAN_SWITCH_COST = "mean_switch_cost": Ns, "mean switch cost" = "switching_ns / switches",
        "mean cost of a switch, without switches from idle";
    PICK_FUNCTION_COST = "pick_function_cost": Ns, "pick function" = "pick_function_ns / switches",
        "mean time in the pick function for a switch";
    SWITCH_RATE = "switch_rate": PerSecond, "switches" = "switches / duration_ns",
        "switches per second, without those from idle";
    CPU = "cpu": Cores, "CPU time" = "cpu_ns / duration_ns",
        "CPU time as accounted by the kernel, in CPUs";
    WAIT_PER_CPU = "wait_per_cpu": Factor, "wait per CPU time" = "runq_wait_ns / cpu_ns",
        "run-queue wait per second of CPU time: at 1.00, it waited as long as it ran";
    MEAN_WAIT = "mean_wait": Ns, "mean run-queue wait" = "runq_wait_ns / runq_waits",
        "mean run-queue wait: time from runnable to running";
    WAITING = "waiting": Tasks, "tasks waiting" = "runq_wait_ns / duration_ns",
        "average number of tasks that were runnable but not running";
    WAIT_P99 = "wait_p99": Ns, "p99 run-queue wait" = "99th percentile of its run-queue waits",
        "99 % of the run-queue waits are at most this long";
    RUNNABLE_LOAD = "runnable_load": Tasks, "runnable load" = "(cpu_ns + runq_wait_ns) / duration_ns",
        "runnable load: average number of tasks that ran or waited for a CPU";
    LOAD_CREDIT = "load_credit": Tasks, "Load Credit" = "exponential moving average of runnable_load, time constant --load-credit-time",
        "Load Credit: moving average of the runnable load over several seconds";
    ENTITLED_CPU = "entitled_cpu": Cores, "entitled CPU time" = "from the top of the tree: min(its load, its weight's part, quota, CPUs)",
        "CPU time that its weight, quota and CPU set grant it at the current load, in CPUs";
    RUNNABLE_PER_CPU = "runnable_per_cpu": Tasks, "runnable tasks per CPU" = "(busy_ns + runq_wait_ns) / capacity_ns",
        "average number of tasks per CPU that ran or waited for a CPU";
    INVOLUNTARY = "involuntary": Share, "involuntary switches" = "involuntary_switches / switches",
        "involuntary switches, in % of all switches";
    CROSS_CGROUP = "cross_cgroup": Share, "switches between cgroups" = "cross_cgroup_switches / switches",
        "switches to a task of another cgroup, in % of all switches";
    THROTTLED = "throttled": Share, "throttled periods" = "nr_throttled / nr_periods",
        "quota periods in which the quota was used up, in % of all periods";
    MIGRATION_RATE = "migration_rate": PerSecond, "migrations" = "migrations / duration_ns",
        "migrations to another CPU, per second";
    MEAN_ACCEPT_WAIT = "mean_accept_wait": Ns, "mean accept wait" = "accept_wait_ns / accepts",
        "mean accept wait: time that a connection waited to be accepted";
    WAITING_BEHIND_OTHERS = "waiting_behind_others": Tasks, "waiting behind other cgroups" = "wait_behind_ns / duration_ns",
        "tasks that wait while tasks of other cgroups run, on average";
    WAITING_BEHIND_ITSELF = "waiting_behind_itself": Tasks, "waiting behind its own threads" = "wait_self_ns / duration_ns",
        "tasks that wait while others of their own cgroup run, on average";
    WAITING_FOR_QUOTA = "waiting_for_quota": Tasks, "waiting for its quota" = "wait_throttled_ns / duration_ns",
        "tasks that wait while a quota, of their cgroup or of one above, is used up, on average";
    CPU_UTILISATION = "cpu_utilisation": Share, "CPU utilisation" = "busy_ns / capacity_ns",
        "CPU utilisation: busy CPU time";
    STEAL = "steal": Share, "steal" = "steal_ns / max(capacity_ns, duration_ns · cpus_online)",
        "time of the CPUs that a hypervisor gave to others";
    EFFECTIVE_UTILISATION = "effective_utilisation": Share,
        "effective utilisation" = "(busy_ns − switching_ns − kept_ns) / capacity_ns",
        "effective utilisation: CPU time spent on the tasks' own work";
}

impl Derived {
    /// The share of time that a counter of time is.
    pub(crate) fn of_time(counter: &'static Counter) -> Self {
        Self {
            name: counter.name.trim_end_matches("_ns"),
            label: counter.column.map_or(counter.name, |column| column.name),
            unit: Unit::Share,
            formula: "its counter (_ns) / duration_ns of the intervals in which it was read",
            meaning: counter.meaning,
        }
    }
}
