//! What is counted for a cgroup, for idle, and for the host alike.

use super::{
    Nanos, Tasks,
    counters::{COSTS, Counter, SWITCHES, WAITS, counters},
};

const CAUSES: Counter = Counter::from("log of the tasks that ran on each CPU");
const MOVES: Counter = Counter::from("tracepoint `sched_migrate_task`");
const CONNECTIONS: Counter = Counter::from("methods of `accept` and `tcp-state` in `hooks`");

counters! {
    /// Totals of switches, switch costs and waits. In a snapshot, they count from when the cgroup was first seen. In an
    /// interval, they cover that interval. `None` is a counter that this kernel does not let lagstop measure.
    pub struct Totals, read by TotalsRead;
    always {
        /// Switches away from its tasks, voluntary and involuntary.
        switches: u64 => SWITCHES.column("switches", "switch/s", 8, "switches", "switches per second");
        /// Switches away from its tasks that the kernel counted as voluntary.
        voluntary_switches: u64 => Counter::from("growth of `task_struct.nvcsw`")
            .column("voluntary", "vol/s", 6, "voluntary switches",
            "switches of tasks that began to wait for something, per second");
        /// All other switches away from its tasks.
        involuntary_switches: u64 => SWITCHES;
        /// CPU time as accounted by the kernel.
        cpu_ns: Nanos => Counter::from(
            "growth of `se.sum_exec_runtime` of its tasks; includes scheduler cost, like all CPU accounting")
            .metric("lagstop_cgroup_cpu_seconds_total");
        /// Tasks seen running, each counted once. For the host, the sum over cgroups.
        threads: u64 => SWITCHES.most_of_parts();
    }
    if_measured {
        /// Switches away to a task of another cgroup. A switch to idle does not count.
        cross_cgroup_switches: u64 => SWITCHES.metric("lagstop_cgroup_cross_cgroup_switches_total");
        /// Calls of `__schedule()`: switches, and calls that kept the running task.
        schedule_calls: u64 => COSTS;
        /// Time from the entry of `__schedule()` to `sched_switch`, for switches away from its tasks. Includes
        /// `kept_ns`.
        pick_ns: Nanos => COSTS.column("pick", "pick %", 6, "pick cost",
            "pick cost: time from scheduler entry to the switch, in % of one CPU");
        /// Part of `pick_ns`: scheduler calls that kept the running task, from entry to exit.
        kept_ns: Nanos => COSTS.metric("lagstop_cgroup_kept_running_seconds_total").column("kept", "kept %", 6,
            "kept-running cost",
            "kept-running cost: scheduler calls that kept the running task, in % of one CPU; part of pick cost");
        /// Time from `sched_switch` to the exit of `__schedule()`, for switches to its tasks.
        swap_ns: Nanos => COSTS.column("swap", "swap %", 6, "swap cost",
            "swap cost: time from the switch to scheduler exit, in % of one CPU");
        /// Time that its tasks spent in the function that picks the next task of the fair class. Part of `pick_ns`, if
        /// no entries are lost. `pick_function_way` names the function.
        pick_function_ns: Nanos => Counter::from("entry and exit of the function; method in `pick_function_way`")
            .column("pick-function", "pick fn%", 8, "cost of the pick function",
            "time in the function that picks the next task of the fair class, in % of one CPU");
        /// Run-queue waits that ended when the task ran.
        runq_waits: u64 => WAITS;
        /// Total time of these waits. A whole wait counts when and where it ends. The seven causes below add up to it.
        runq_wait_ns: Nanos => WAITS;
        /// Part of `runq_wait_ns`: tasks of other cgroups ran.
        wait_behind_ns: Nanos => CAUSES.column("behind-others", "behind%", 7,
            "waits behind other cgroups", "run-queue wait while tasks of other cgroups ran, in % of one CPU");
        /// Part of `runq_wait_ns`: other tasks of the same cgroup ran.
        wait_self_ns: Nanos => CAUSES.column("behind-self", "self %", 6,
            "waits behind its own tasks", "run-queue wait while other tasks of the same cgroup ran, in % of one CPU");
        /// Part of `runq_wait_ns`: kernel threads ran, whatever their cgroup.
        wait_kernel_ns: Nanos => CAUSES;
        /// Part of `runq_wait_ns`: the CPU was still idle, and about to run the task.
        wait_idle_ns: Nanos => CAUSES;
        /// Part of `runq_wait_ns`: the quota of the cgroup, or of an ancestor, was used up.
        wait_throttled_ns: Nanos => Counter::from(
            "growth of `cfs_rq.throttled_clock_self_time`, or its equivalent on older kernels")
            .column("wait-throttled", "quota %", 7,
            "waits for its quota",
            "run-queue wait while its quota, or that of an ancestor, was used up, in % of one CPU");
        /// Part of `runq_wait_ns`: the task waited on another CPU, before it was migrated.
        wait_elsewhere_ns: Nanos => CAUSES;
        /// Part of `runq_wait_ns`: what the CPU did is unknown.
        wait_unknown_ns: Nanos => CAUSES;
        /// Migrations of its tasks to another CPU.
        migrations: u64 => MOVES.metric("lagstop_cgroup_migrations_total")
            .column("migrations", "migr/s", 6, "migrations", "migrations to another CPU, per second");
        /// Migrations of its tasks to another last-level cache.
        migrations_cross_llc: u64 => MOVES.metric("lagstop_cgroup_cross_llc_migrations_total").column("cross-llc", "xLLC/s", 6,
            "migrations across last-level caches", "migrations to another last-level cache, per second");
        /// Migrations of its tasks to another NUMA node.
        migrations_cross_numa: u64 => MOVES.metric("lagstop_cgroup_cross_numa_migrations_total").column("cross-numa", "xNUMA/s",
            7, "migrations across NUMA nodes", "migrations to another NUMA node, per second");
        /// TCP connections that its tasks accepted and whose start lagstop saw.
        accepts: u64 => CONNECTIONS
            .column("accepts", "accept/s", 8, "connections accepted", "connections accepted, per second");
        /// Total time of these connections from ESTABLISHED until accepted.
        accept_wait_ns: Nanos => CONNECTIONS;
    }
}

impl Totals {
    /// Pick + swap cost, where both were measured.
    pub fn switch_cost(&self) -> Option<Nanos> {
        self.pick_ns.zip(self.swap_ns).map(|(pick, swap)| pick.saturating_add(swap))
    }

    /// Removes what is only known if switches are timed, but for the time in the pick function.
    pub(super) const fn forget_switch_costs(&mut self) {
        self.schedule_calls = None;
        self.pick_ns = None;
        self.kept_ns = None;
        self.swap_ns = None;
    }

    /// Mean cost of a switch, without calls that kept the running task.
    pub fn mean_switch_cost(&self) -> Option<Nanos> {
        // Where those calls are not measured, they are not in the pick cost either.
        self.switch_cost()?.saturating_sub(self.kept_ns.unwrap_or_default()).mean(self.switches)
    }

    /// Average number of runnable tasks over `duration`: (CPU time + run-queue wait) / duration.
    pub fn runnable_load(&self, duration: Nanos) -> Option<Tasks> {
        Some(Tasks(self.cpu_ns.saturating_add(self.runq_wait_ns?).cores(duration).0))
    }

    /// Run-queue wait / CPU time: infinite if it waited and never ran, not a number if it did neither.
    pub fn wait_per_cpu(&self) -> Option<f64> {
        Some(self.runq_wait_ns?.0 as f64 / self.cpu_ns.0 as f64)
    }

    /// Mean wait on a run queue.
    pub fn mean_runq_wait(&self) -> Option<Nanos> {
        self.runq_wait_ns?.mean(self.runq_waits?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_measured_stays_so() {
        let measured = Totals { swap_ns: Some(Nanos(5)), cpu_ns: Nanos(7), ..Totals::default() };
        let not = Totals { swap_ns: None, cpu_ns: Nanos(1), ..Totals::default() };
        let mut sum = measured;
        sum.add(&not);
        assert_eq!((sum.swap_ns, sum.cpu_ns), (None, Nanos(8)));
        assert_eq!(not.since(&measured).swap_ns, None);
        assert_eq!(measured.since(&not).swap_ns, Some(Nanos(5)), "a hook that was attached later");
        assert_eq!(measured.switch_cost(), None, "pick is missing");
    }

    #[test]
    fn figures_are_the_totals() {
        let totals =
            Totals { switches: 4, cpu_ns: Nanos(9), swap_ns: Some(Nanos(5)), accepts: Some(0), ..Totals::default() };
        assert_eq!(Totals::from_figures(totals.figures()), totals);
    }

    #[test]
    fn the_mean_switch_cost_leaves_out_calls_that_did_not_switch() {
        let totals = Totals {
            switches: 4,
            pick_ns: Some(Nanos(5_000)),
            kept_ns: Some(Nanos(1_000)),
            swap_ns: Some(Nanos(4_000)),
            ..Totals::default()
        };
        assert_eq!(totals.mean_switch_cost(), Some(Nanos(2_000)));
    }
}
