//! What is counted for a cgroup, for idle, and for the host alike.

use super::{
    Nanos, Tasks,
    counters::{Counter, counters},
};

const SWITCHES: Counter = Counter::from("tracepoint `sched_switch`");
const COSTS: Counter = Counter::from("entry and exit of `__schedule()`: `switch_cost_way`");
const WAITS: Counter = Counter::from("growth of `sched_info.run_delay`, or the clock");
const CAUSES: Counter = Counter::from("the log of who ran on each CPU");
const MOVES: Counter = Counter::from("tracepoint `sched_migrate_task`");
const CONNECTIONS: Counter = Counter::from("the ways of `accept` and `tcp-state` in `hooks`");

counters! {
    /// Totals of switches, their cost, and waits. In a snapshot they count from when the cgroup was first seen; in
    /// an interval they are the interval's own. `None` is what this kernel did not let us measure.
    pub struct Totals, read by TotalsRead;
    always {
        /// Switches away from its tasks: the voluntary and the involuntary ones.
        switches: u64 => SWITCHES.column("switches", "switch/s", 8, "switches", "switches a second");
        /// Switches away that the kernel counted as voluntary.
        voluntary_switches: u64 => Counter::from("growth of `task_struct.nvcsw`")
            .column("voluntary", "vol/s", 6, "voluntary switches", "switches to wait for something, a second");
        /// All other switches away.
        involuntary_switches: u64 => SWITCHES;
        /// CPU time as the kernel books it.
        cpu_ns: Nanos => Counter::from("growth of `se.sum_exec_runtime` of its tasks; scheduler cost is in it, as everywhere")
            .metric("lagstop_cgroup_cpu_seconds_total");
        /// Tasks seen running, each counted once; of the host, the sum.
        threads: u64 => SWITCHES;
    }
    if_measured {
        /// Switches away to a task of another cgroup; going idle is none.
        cross_cgroup_switches: u64 => SWITCHES.metric("lagstop_cgroup_cross_cgroup_switches_total");
        /// Calls of `__schedule()`: the switches, and those that kept the running task.
        schedule_calls: u64 => COSTS;
        /// Entry of `__schedule()` to `sched_switch`, of switches away from its tasks; and all of `kept_ns`.
        pick_ns: Nanos => COSTS.column("pick", "pick %", 6, "pick cost",
            "pick cost: from the scheduler's entry to the switch, in % of one CPU");
        /// Part of `pick_ns`: scheduler calls that kept the running task, entry to exit.
        kept_ns: Nanos => COSTS.metric("lagstop_cgroup_kept_running_seconds_total").column("kept", "kept %", 6,
            "kept-running cost", "kept-running cost: calls that kept the running task, part of pick cost, in % of one CPU");
        /// `sched_switch` to exit of `__schedule()`, of switches to its tasks.
        swap_ns: Nanos => COSTS.column("swap", "swap %", 6, "swap cost",
            "swap cost: from the switch to the scheduler's exit, in % of one CPU");
        /// Time in the function that picks the next task of the fair class, called by its tasks: part of `pick_ns`, where no
        /// entries are lost. `pick_function_way` says which function it is.
        pick_function_ns: Nanos => Counter::from("entry and exit of the function: `pick_function_way`")
            .column("pick-function", "pick fn%", 8, "cost of the pick function",
            "time in the fair class's function that picks the next task, in % of one CPU");
        /// Waits on a run queue that ended in running.
        runq_waits: u64 => WAITS;
        /// Their time. A wait is booked whole where it ends.
        runq_wait_ns: Nanos => WAITS;
        /// Part of `runq_wait_ns`: tasks of other cgroups ran meanwhile. With the six below it is all of it.
        wait_behind_ns: Nanos => CAUSES.column("behind-others", "behind%", 7,
            "waits behind other cgroups", "run-queue wait while tasks of other cgroups ran, in % of one CPU");
        /// Part of `runq_wait_ns`: other tasks of the same cgroup ran meanwhile.
        wait_self_ns: Nanos => CAUSES.column("behind-self", "self %", 6,
            "waits behind its own tasks", "run-queue wait while other tasks of the same cgroup ran, in % of one CPU");
        /// Part of `runq_wait_ns`: kernel threads ran meanwhile.
        wait_kernel_ns: Nanos => CAUSES;
        /// Part of `runq_wait_ns`: the CPU was idle, on its way to the task.
        wait_idle_ns: Nanos => CAUSES;
        /// Part of `runq_wait_ns`: the cgroup, or one above it, had used up its quota.
        wait_throttled_ns: Nanos => Counter::from("growth of `cfs_rq.throttled_clock_self_time`, or what older kernels have")
            .column("wait-throttled", "quota %", 7,
            "waits for its quota", "run-queue wait while its quota, or that of a cgroup above, was used up, in % of one CPU");
        /// Part of `runq_wait_ns`: on another CPU, before the task was moved.
        wait_elsewhere_ns: Nanos => CAUSES;
        /// Part of `runq_wait_ns` of which the cause is not known.
        wait_unknown_ns: Nanos => CAUSES;
        /// Moves of its tasks to another CPU.
        migrations: u64 => MOVES.metric("lagstop_cgroup_migrations_total")
            .column("migrations", "migr/s", 6, "migrations", "moves to another CPU, a second");
        /// Moves of its tasks to another last-level cache.
        migrations_cross_llc: u64 => MOVES.metric("lagstop_cgroup_cross_llc_migrations_total").column("cross-llc", "xLLC/s", 6,
            "migrations across last-level caches", "moves to another last-level cache, a second");
        /// Moves of its tasks to another NUMA node.
        migrations_cross_numa: u64 => MOVES.metric("lagstop_cgroup_cross_numa_migrations_total").column("cross-numa", "xNUMA/s",
            7, "migrations across NUMA nodes", "moves to another NUMA node, a second");
        /// TCP connections accepted by its tasks whose beginning was seen.
        accepts: u64 => CONNECTIONS
            .column("accepts", "accept/s", 8, "connections accepted", "connections accepted, a second");
        /// Their time from ESTABLISHED until accepted.
        accept_wait_ns: Nanos => CONNECTIONS;
    }
}

impl Totals {
    /// Pick + swap cost, where both were measured.
    pub fn switch_cost(&self) -> Option<Nanos> {
        self.pick_ns.zip(self.swap_ns).map(|(pick, swap)| pick.saturating_add(swap))
    }

    /// Mean cost of a switch: calls that kept the running task are no switches and are left out.
    pub fn mean_switch_cost(&self) -> Option<Nanos> {
        // Where those calls are not measured, they are not in the pick cost either.
        self.switch_cost()?.saturating_sub(self.kept_ns.unwrap_or_default()).mean(self.switches)
    }

    /// Average number of runnable tasks over `duration`: (CPU time + run-queue wait) / duration.
    pub fn runnable_load(&self, duration: Nanos) -> Option<Tasks> {
        Some(Tasks(self.cpu_ns.saturating_add(self.runq_wait_ns?).cores(duration).0))
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
