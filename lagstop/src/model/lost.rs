//! What could not be measured.

use super::counters::{Counter, counters};

const SWITCHES: Counter = Counter::from("the programs at `__schedule()`");
const TASKS: Counter = Counter::from("the programs at `sched_switch`");
const TCP: Counter = Counter::from("the programs at `tcp_set_state()` and accept");

counters! {
    /// Things that could not be measured, each counted. All zero is what it should be.
    #[serde(default)]
    pub struct Lost;
    always {
        /// Switches whose entry was not seen: they have no pick cost.
        entries: u64 => SWITCHES;
        /// Switches whose exit was not seen: they have no swap cost.
        exits: u64 => SWITCHES;
        /// Switches that the kernel did not show, and that were found out at their end: they are counted, and have no cost.
        switches: u64 => TASKS;
        /// Times there was no room for a task's state (65,536 tasks, or as many as the kernel allows): the wait may be short.
        task_states: u64 => TASKS;
        /// Switches booked under `(other)`, and tasks that ran for it at a reading, because the table of cgroups was full:
        /// `--max-cgroups`.
        cgroup_overflows: u64 => TASKS;
        /// Connections not followed, because 16,384 were waiting.
        connections: u64 => TCP;
        /// Connections accepted in a way that is not seen (io_uring where accepts are seen at the system call, a kretprobe that
        /// ran out of room): they have no accept wait.
        accepts: u64 => TCP;
        /// Events of listening addresses beyond 4,096.
        listener_overflows: u64 => TCP;
        /// Connections accepted by threads beyond 8,192: their service is not timed.
        acceptors: u64 => TCP;
        /// Tasks that ran without having been seen to be woken, where waits are taken by the clock (`runq-wait=wakeups`): the
        /// wait is not counted.
        wakeups: u64 => TASKS;
        /// Waits behind a cgroup for which there was no room in the table of pairs: behind whom is not known.
        pairs: u64 => TASKS;
        /// Moves, wake-ups, connections and accepts that the kernel did not tell of, because it was just telling of another on
        /// that CPU (known since Linux 5.12).
        missed_runs: u64 => Counter::from("`recursion_misses` of the programs");
    }
    if_measured {}
}

/// "1 switch", "2 task states".
pub fn lost_kind(name: &str, count: u64) -> String {
    let words = name.replace('_', " ");
    let one = match words.as_str() {
        "entries" => "entry",
        "switches" => "switch",
        words => words.strip_suffix('s').unwrap_or(words),
    };
    if count == 1 { format!("1 {one}") } else { format!("{count} {words}") }
}

impl Lost {
    /// Each kind by its name, with its count.
    pub fn kinds(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Self::NAMES.into_iter().zip(self.figures().map(Option::unwrap_or_default))
    }

    /// Of all kinds.
    pub fn total(&self) -> u64 {
        self.kinds().fold(0, |sum, (_, count)| sum.saturating_add(count))
    }
}
