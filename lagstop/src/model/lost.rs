//! What could not be measured.

use super::counters::{Counter, counters};

const SWITCHES: Counter = Counter::from("eBPF programs at `__schedule()`");
const TASKS: Counter = Counter::from("eBPF programs at `sched_switch`");
const TCP: Counter = Counter::from("eBPF programs at `tcp_set_state()` and accept");

counters! {
    /// Counts of events that could not be measured. All of them should be 0.
    #[serde(default)]
    pub struct Lost;
    always {
        /// Switches whose scheduler entry was not seen. They have no pick cost.
        entries: u64 => SWITCHES;
        /// Switches whose scheduler exit was not seen. They have no swap cost.
        exits: u64 => SWITCHES;
        /// Switches that the kernel did not report and that lagstop detected at their end. They are counted, but have
        /// no cost. Where switches are not timed, or their end may be preempted, they are detected at the next switch or reading, and not
        /// counted; what the task that left had used since its last booking is no cgroup's.
        switches: u64 => TASKS;
        /// Times that the table of task states was full (65,536 tasks, or the kernel's limit). The wait may be too
        /// short.
        task_states: u64 => TASKS;
        /// Switches counted under `(other)`, and tasks that ran for it at a reading, because the table of cgroups was
        /// full. See `--max-cgroups`.
        cgroup_overflows: u64 => TASKS;
        /// Connections not tracked because 16,384 were already waiting.
        connections: u64 => TCP;
        /// Connections whose accept was not seen (io_uring if accepts are seen at the system call, or a kretprobe that
        /// ran out of instances). They have no accept wait.
        accepts: u64 => TCP;
        /// Events of listening addresses beyond the first 4,096.
        listener_overflows: u64 => TCP;
        /// Connections accepted by threads beyond the first 8,192. Their service is not timed.
        acceptors: u64 => TCP;
        /// Tasks that ran although their wakeup was not seen, if waits are measured by the clock (`runq-wait=wakeups`).
        /// Their wait is not counted.
        wakeups: u64 => TASKS;
        /// Waits behind a cgroup that did not fit in the table of pairs. Their culprit is unknown.
        pairs: u64 => TASKS;
        /// Migrations, wakeups, connections and accepts that the kernel did not report because the eBPF program was
        /// already handling another event on that CPU (known since Linux 5.12).
        missed_runs: u64 => Counter::from("`recursion_misses` of the eBPF programs");
    }
    if_measured {}
}

impl Lost {
    /// Above this share of what was to be measured, what was lost may bias the rest.
    pub const MATTERS: f64 = 0.01;
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
