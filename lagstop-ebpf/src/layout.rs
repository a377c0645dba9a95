//! Plain data in the maps. Everything is `u64` or an array, so that there is no padding to leak or to differ.

use bytemuck::{Pod, Zeroable};

use crate::{BUCKETS, Times};

/// Row of the idle tasks (pid 0), kept apart from every cgroup.
pub const ROW_IDLE: u32 = 0;
/// Row of the cgroups that found the table full: `(other)`.
pub const ROW_OTHER: u32 = 1;
/// The first row a cgroup may get.
pub const ROW_FIRST: u32 = 2;

/// Rows, the two fixed ones included, unless user space asks for another number.
pub const DEFAULT_ROWS: u32 = 2_502;
/// Rows whose marks are in one element of their map: a cache line.
pub const ROWS_A_LINE: u32 = 64;

/// Copies of every distribution, at most. CPUs share a copy in blocks, so that neighbours write to the same memory; one
/// copy a CPU would take 320 MB on 112 CPUs.
pub const MAX_SHARDS: u32 = 4;

/// Ancestors whose names are kept for a cgroup, itself included.
pub const LINEAGE_DEPTH: usize = 8;
/// Bytes kept of one directory name, the closing zero included. Docker's scopes need 77.
pub const NAME_LEN: usize = 88;

/// Places for tasks about which something is kept, unless user space asks for fewer: a power of two.
pub const MAX_TASKS: u32 = 65_536;
/// One in so many of these can be kept beside its place, where another task has that.
pub const DISPLACED: u32 = 4;

/// Places that may be taken by a task each at once.
pub const MAX_CLAIMS: u32 = 1_024;

/// Connections that may wait unaccepted at once, over the whole host.
pub const MAX_PENDING: u32 = 16_384;
/// Listening addresses that can be told apart.
pub const MAX_LISTENERS: u32 = 4_096;
/// Threads that accept about which something can be kept.
pub const MAX_ACCEPTORS: u32 = 8_192;

/// Where this kernel keeps what the programs read, in bytes; resolved from its BTF.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
pub struct Offsets {
    /// `task_struct.flags`
    pub task_flags: u64,
    /// `task_struct.pid`
    pub task_pid: u64,
    /// `task_struct.tgid`
    pub task_tgid: u64,
    /// `task_struct.thread_info.cpu`, or `task_struct.cpu` on older kernels
    pub task_cpu: u64,
    /// `task_struct.__state`, or `task_struct.state` on older kernels
    pub task_state: u64,
    /// `task_struct.nvcsw`
    pub task_nvcsw: u64,
    /// `task_struct.start_time` (CLOCK_MONOTONIC)
    pub task_start_time: u64,
    /// `task_struct.se.sum_exec_runtime`
    pub task_sum_exec_runtime: u64,
    /// `task_struct.se.prev_sum_exec_runtime`; 0 where the kernel has none
    pub task_prev_sum_exec_runtime: u64,
    /// `task_struct.se.cfs_rq`
    pub task_cfs_rq: u64,
    /// `task_struct.sched_info.run_delay`
    pub task_run_delay: u64,
    /// `task_struct.sched_info.last_arrival`
    pub task_last_arrival: u64,
    /// `task_struct.sched_info.last_queued`
    pub task_last_queued: u64,
    /// `task_struct.sched_task_group`
    pub task_group: u64,
    /// `task_struct.cgroups`
    pub task_cgroups: u64,
    /// `task_struct.files`
    pub task_files: u64,
    /// `cfs_rq.rq`
    pub cfs_rq_rq: u64,
    /// `rq.clock`
    pub rq_clock: u64,
    /// Where a `cfs_rq` adds up for how long it was throttled
    pub throttled_time: u64,
    /// `task_group.css.cgroup`
    pub group_cgroup: u64,
    /// `css_set.dfl_cgrp`
    pub css_set_dfl_cgrp: u64,
    /// `cgroup.kn`
    pub cgroup_kn: u64,
    /// `cgroup.self.parent`
    pub cgroup_parent_css: u64,
    /// `cgroup_subsys_state.cgroup`
    pub css_cgroup: u64,
    /// `kernfs_node.id`
    pub kn_id: u64,
    /// `kernfs_node.name`
    pub kn_name: u64,
    /// `files_struct.fdt`
    pub files_fdt: u64,
    /// `fdtable.fd`
    pub fdt_fd: u64,
    /// `fdtable.max_fds`
    pub fdt_max_fds: u64,
    /// `file.private_data`
    pub file_private_data: u64,
    /// `socket.sk`
    pub socket_sk: u64,
    /// `socket.file`
    pub socket_file: u64,
    /// `sock.sk_socket`: null until the connection is accepted
    pub sk_socket: u64,
    /// `sock.__sk_common.skc_state`
    pub sk_state: u64,
    /// `sock.__sk_common.skc_family`
    pub sk_family: u64,
    /// `sock.__sk_common.skc_num`: the local port, host byte order
    pub sk_num: u64,
    /// `sock.__sk_common.skc_rcv_saddr`
    pub sk_rcv_saddr: u64,
    /// `sock.__sk_common.skc_v6_rcv_saddr`
    pub sk_v6_rcv_saddr: u64,
    /// `sock.__sk_common.skc_net.net`
    pub sk_net: u64,
    /// `net.ns.inum`
    pub net_inum: u64,
}

/// What the programs are to do; constants for the verifier, which drops what is switched off.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
pub struct Settings {
    /// 1: group tasks by their cgroup v2 leaf instead of the group they are scheduled in.
    pub group_by_leaf: u64,
    /// How run-queue waits are measured: one of the `WAITS_` constants.
    pub runq_wait: u64,
    /// What is seen of a call to `__schedule()` beside the switch: one of the `COST_` constants.
    pub switch_cost: u64,
    /// 1: switches are timed only while [`CpuState::is_timed`] says so.
    pub samples_cost: u64,
    /// 1: calls that kept the running task are seen to end.
    pub sees_kept: u64,
    /// 1: another task may get the CPU while the programs at entry and exit run.
    pub is_preemptible: u64,
    /// 1: the helper is there that gives the running task with its type.
    pub current_is_typed: u64,
    /// Where the program at the exit of `inet_csk_accept` finds the socket, in bytes from its context.
    pub accept_result: u64,
    /// CLOCK_MONOTONIC when the programs were loaded: tasks born later had no wait before.
    pub loaded_at_ns: u64,
    /// Copies of every distribution.
    pub shards: u64,
    /// 1: there are CPUs that nobody reads.
    pub excludes_cpus: u64,
    /// 1: no two CPUs write to the same copy, and no program that does is preempted by another one.
    pub owns_distributions: u64,
    /// The highest number of a place for a task: all its bits are set.
    pub task_places: u64,
    /// 1: tell what each wait was caused by.
    pub blame: u64,
    /// 1: a `cfs_rq` tells for how long it was throttled.
    pub sees_throttling: u64,
    /// 1: read the clock and return, for measuring what no program could do without.
    pub clock_only: u64,
}

/// Waits are not measured.
pub const WAITS_NONE: u64 = 0;
/// Waits are read from `task_struct.sched_info`.
pub const WAITS_SCHED_INFO: u64 = 1;
/// Waits are taken by the clock from a wake-up, or a switch away from a task that can go on, to the switch to it.
pub const WAITS_WAKEUPS: u64 = 2;

/// Stints of a CPU that are remembered, and as many blocks of older ones.
pub const STINTS: usize = 512;
/// Pairs of a cgroup that waits and one that makes it wait, unless user space asks for another number.
pub const MAX_PAIRS: u32 = 16_384;
/// Run queues of cgroups, one a CPU, of which it is remembered when they were throttled last.
pub const MAX_THROTTLES: u32 = 8_192;

/// In place of the cgroup that ran: those that found no row.
pub const RAN_OTHER: u64 = 0;
/// In place of the cgroup that ran: the idle task.
pub const RAN_IDLE: u64 = u64::MAX;
/// In place of the cgroup that ran: a kernel thread.
pub const RAN_KERNEL: u64 = u64::MAX - 1;
/// In place of the cgroup that ran: nobody knows.
pub const RAN_UNKNOWN: u64 = u64::MAX - 2;

/// Neither entry nor exit is seen: switches have no cost.
pub const COST_NONE: u64 = 0;
/// The entry is seen: switches have a pick cost.
pub const COST_PICK: u64 = 1;
/// Both are seen.
pub const COST_WHOLE: u64 = 2;

/// Totals of one row on one CPU, in two cache lines. All grow without end; each is written by one program, or by programs that
/// cannot interrupt each other, so plain additions lose nothing.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct RowTotals {
    /// Switches away from the row that the kernel counted in `nvcsw`.
    pub voluntary_switches: u64,
    /// All other switches away from the row.
    pub involuntary_switches: u64,
    /// Switches away from the row to another one.
    pub cross_cgroup_switches: u64,
    /// `__schedule()` calls that kept the running task.
    pub kept_calls: u64,
    /// Entry to `sched_switch`, plus all of `kept_ns`.
    pub pick_ns: u64,
    /// Entry to exit of the calls that kept the running task.
    pub kept_ns: u64,
    /// `sched_switch` to exit, of switches to the row.
    pub swap_ns: u64,
    /// Time in the function that picks the next task of the fair class, called by the row's tasks.
    pub pick_function_ns: u64,
    /// Growth of `se.sum_exec_runtime` while the row's tasks were on the CPU.
    pub cpu_ns: u64,
    /// Waits on the run queue that ended in running.
    pub runq_waits: u64,
    /// Time of those waits.
    pub runq_wait_ns: u64,
    /// Moves to another CPU.
    pub migrations: u64,
    /// Moves to another last-level cache.
    pub migrations_cross_llc: u64,
    /// Moves to another NUMA node.
    pub migrations_cross_numa: u64,
    /// Tasks seen running, each once an epoch.
    pub threads: u64,
    /// The epoch in which the row was last marked as touched on this CPU.
    pub touched: u64,
}

const _: () = assert!(size_of::<RowTotals>() == 128);

/// Marks of consecutive rows on one CPU, by the row's remainder: the lowest byte of the epoch in which the row was last touched.
/// User space reads them instead of all totals.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Marks {
    /// By the row's remainder.
    pub rows: [u8; ROWS_A_LINE as usize],
}

/// What is known about the task on a CPU, the `__schedule()` call in flight there, and the CPU's own totals.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
pub struct CpuState {
    /// How far the call in flight has come: one of the `CALL_` constants.
    pub call: u64,
    /// When the last call that was seen to be entered was.
    pub entry_ns: u64,
    /// When the last switch was over for its program.
    pub switch_ns: u64,
    /// Pick cost of the last switch.
    pub pick_ns: u64,
    /// 1: that pick cost is known.
    pub is_pick_known: u64,
    /// When the function that picks the next task was entered; 0 when that was not seen.
    pub pick_function_entry_ns: u64,
    /// Row of the task that the call in flight switched away from.
    pub previous_row: u64,
    /// Address of the running task; 0 before the first was seen. The fields below speak of it.
    pub task: u64,
    /// Address of the structure that groups the running task; 0 for idle.
    pub group: u64,
    /// Id of its cgroup.
    pub cgroup: u64,
    /// Row of the running task.
    pub row: u64,
    /// Its `nvcsw` when it was put on the CPU.
    pub nvcsw: u64,
    /// Its `sum_exec_runtime` at the last booking.
    pub runtime_ns: u64,
    /// When its time on the CPU was last booked.
    pub booked_ns: u64,
    /// Counts the reads of user space; a task is counted in `threads` once in each.
    pub epoch: u64,
    /// The epoch in which the running task was last counted.
    pub counted_epoch: u64,
    /// 1: switches are timed now, where not all are; set by each reading.
    pub is_timed: u64,
    /// The copy of the distributions that the CPU writes to; set by user space, like the next three.
    pub shard: u64,
    /// 1: nobody reads what is counted on the CPU.
    pub is_excluded: u64,
    /// Where in its map the CPU's totals begin,
    pub first_totals: u64,
    /// and where its marks do.
    pub first_marks: u64,
    /// 1 when the table of rows was found full; user space clears it.
    pub rows_full: u64,
    /// Rows that were given to cgroups here.
    pub rows_allocated: u64,
    /// 1 when the table of tasks was found full; every reading clears it.
    pub tasks_full: u64,
    /// 1 when the table of pairs was found full; every reading clears it.
    pub pairs_full: u64,
    /// When the last stint in the log began, by the run queue's clock; 0 where that is not known.
    pub stint_begin_ns: u64,
    /// When it ended; 0 before the first.
    pub stint_end_ns: u64,
    /// Who ran in it.
    pub stint_cgroup: u64,
    /// 1: the kernel did not show a switch in the stint that has begun since: who ran in it is not known.
    pub is_stint_mixed: u64,
    /// Address of the `cfs_rq` of the task that gets the CPU.
    pub cfs_rq: u64,
    /// From when on something is to be done for the block that is not closed yet.
    pub block_due_ns: u64,
    /// Since when stints go into that block.
    pub block_since_ns: u64,
    /// The number of the last stint before them.
    pub block_first: u64,
    /// Who ran at an instant of them, drawn at random,
    pub block_cgroup: u64,
    /// and when another one is to be drawn.
    pub block_draw_ns: u64,
    /// Waits that were charged since the block began.
    pub block_charges: u64,
    /// The step at which waits are sampled, in nanoseconds: 2 to the power of this. Those shorter than half of it are.
    pub step_bits: u64,
    /// [`TaskState::sampled`] of the task that gets the CPU,
    pub sampled: u64,
    /// and of all those of which nothing can be kept.
    pub stateless_sampled: u64,
    /// What the next random number is made of; never 0.
    pub random: u64,
    /// What happened on this CPU since the programs were attached.
    pub totals: CpuTotals,
}

impl CpuState {
    /// In place of the running task's address while another one's figures are still being booked.
    pub const IN_BETWEEN: u64 = 1;
    /// No call is in flight, or its entry was not seen.
    pub const CALL_NONE: u64 = 0;
    /// The call was entered.
    pub const CALL_ENTERED: u64 = 1;
    /// The call has switched.
    pub const CALL_SWITCHED: u64 = 2;
}

/// Totals of one CPU, counted apart from the rows', so that the two can be held against each other.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct CpuTotals {
    /// Switches, those from idle included.
    pub switches: u64,
    /// Calls that kept the running task.
    pub kept_calls: u64,
    /// As in [`RowTotals`].
    pub pick_ns: u64,
    /// As in [`RowTotals`].
    pub swap_ns: u64,
    /// Calls of the function that picks the next task.
    pub pick_function_calls: u64,
    /// As in [`RowTotals`].
    pub runq_waits: u64,
    /// As in [`RowTotals`].
    pub runq_wait_ns: u64,
    /// Time from a switch to a task other than idle until the switch away from it.
    pub busy_ns: u64,
    /// Time from a switch to idle until the switch away from it.
    pub idle_ns: u64,
    /// What could not be measured, by [`Lost`].
    pub lost: [u64; LOST_KINDS],
}

/// Number of [`Lost`] kinds.
pub const LOST_KINDS: usize = 11;

/// Things that could not be measured, each counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Lost {
    /// A switch whose entry was not seen: its pick cost is unknown.
    Entries = 0,
    /// A switch whose exit was not seen: its swap cost is unknown.
    Exits = 1,
    /// A switch that the kernel did not show, found out afterwards: its cost is unknown.
    Switches = 2,
    /// A task about which nothing could be kept, because the table is full: a wait that was moved between CPUs is short
    /// by its first part.
    Tasks = 3,
    /// A switch booked under `(other)`, because its cgroup found no free row.
    Rows = 4,
    /// A connection not followed, because too many were waiting.
    Connections = 5,
    /// A connection that was accepted in a way that is not seen: its accept wait is unknown.
    Accepts = 6,
    /// An event of a listener that found no place in the table of listeners.
    Listeners = 7,
    /// A task that got the CPU although it was not seen to be woken, where waits are taken by the clock: its wait is
    /// unknown.
    Wakeups = 8,
    /// A connection accepted by a thread about which nothing could be kept, because the table is full: its service is not
    /// timed.
    Acceptors = 9,
    /// A wait behind a cgroup that found no place in the table of pairs.
    Pairs = 10,
}

/// Distributions of one row in one shard; counts wrap.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Distributions {
    /// Pick + swap cost of each switch away from the row.
    pub switch_cost: [u32; BUCKETS],
    /// Each wait on the run queue.
    pub runq_wait: [u32; BUCKETS],
    /// Time of those waits by cause, in the order of [`Cause`].
    pub causes_ns: [u64; CAUSES],
}

/// Number of [`Cause`]s.
pub const CAUSES: usize = 7;

/// What a wait is caused by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Cause {
    /// Another task of the same cgroup ran.
    Own = 0,
    /// A kernel thread ran.
    Kernel = 1,
    /// Nobody ran.
    Idle = 2,
    /// Its cgroup, or one above it, had used up its quota.
    Throttled = 3,
    /// It waited on another CPU before it was moved to the one where it ran.
    Elsewhere = 4,
    /// A task of another cgroup ran.
    Behind = 5,
    /// Nobody knows.
    Unknown = 6,
}

/// A cgroup that waits, and one that runs meanwhile: their ids.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Pod, Zeroable)]
pub struct Pair {
    /// Whose tasks wait.
    pub victim: u64,
    /// Whose tasks run.
    pub culprit: u64,
}

/// The last stints on a CPU, or blocks of them, each at the remainder of its number. One begins where the one before it ends.
/// Ends lie side by side: they are what is searched, in memory that is cold on a crowded host.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct StintLog {
    /// How many were logged so far.
    pub logged: u64,
    /// When each ended, by the run queue's clock.
    pub ends_ns: [u64; STINTS],
    /// Ids of the cgroups that ran, or one of the `RAN_` constants.
    pub cgroups: [u64; STINTS],
}

/// Whose tasks share a run queue on a CPU.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Pod, Zeroable)]
pub struct GroupQueue {
    /// Address of the `cfs_rq`.
    pub cfs_rq: u64,
    /// Id of the cgroup, which tells it from another one that had the same address.
    pub cgroup: u64,
}

/// When a cgroup was throttled last on a CPU, by the run queue's clock.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
pub struct Throttle {
    /// For how long it had been throttled when it was asked last.
    pub seen_ns: u64,
    /// When it was seen that it had been throttled again,
    pub end_ns: u64,
    /// and for how long.
    pub length_ns: u64,
}

/// Accepts by one row's tasks.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct AcceptTotals {
    /// Connections accepted whose start was seen.
    pub accepts: u64,
    /// Their accept wait.
    pub accept_wait_ns: u64,
    /// Each accept wait; counts wrap.
    pub accept_wait: [u32; BUCKETS],
}

/// One directory on the way from a cgroup to its root.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Ancestor {
    /// Its id; 0 ends the lineage.
    pub id: u64,
    /// Its name, closed by a zero.
    pub name: [u8; NAME_LEN],
}

/// The names a cgroup had when it was first seen, itself first. This is what is left of those that live and die between
/// two reads.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Lineage {
    /// The cgroup, its parent, and so on, up to the root or [`LINEAGE_DEPTH`].
    pub ancestors: [Ancestor; LINEAGE_DEPTH],
}

/// What is kept about a task: a cache line.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
pub struct TaskState {
    /// Address of its `task_struct`; 0: nobody's.
    pub task: u64,
    /// When it was born, which tells it from another one at the same address.
    pub born_ns: u64,
    /// What its next wait is told by. Where waits are taken by the clock, since when it has been waiting: 0 when it is not, or
    /// [`TaskState::PREEMPTED_NOT_RUNNABLE`]. Else `run_delay` as the kernel will have booked it after the last wait seen.
    pub wait_from_ns: u64,
    /// How far its sampled waits are from the next instant that is to be charged, in 2 to the power of −32 of a step, and above
    /// that, in the upper 31 bits, where in its step that instant is.
    pub sampled: u64,
    /// Address of what grouped it when the next two were looked up.
    pub group: u64,
    /// Id of its cgroup.
    pub cgroup: u64,
    /// Its row.
    pub row: u32,
    /// The epoch in which that was.
    pub group_epoch: u32,
    /// The epoch in which the task was last counted in `threads`; 0 when it has not been seen before.
    pub epoch: u32,
    /// Fills the line.
    pub unused: u32,
}

const _: () = assert!(size_of::<TaskState>() == 64);

impl TaskState {
    /// In place of the time since when a task has been waiting: it was preempted on its way to sleep, and runs again
    /// without having been woken. The kernel does not call that waiting.
    pub const PREEMPTED_NOT_RUNNABLE: u64 = u64::MAX;
}

/// Where a CPU sits.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct CpuPlace {
    /// A number that CPUs with the same last-level cache share.
    pub llc: u32,
    /// NUMA node.
    pub numa: u32,
}

/// A local address that connections are accepted on.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Pod, Zeroable)]
pub struct ListenerKey {
    /// Inode number of the network namespace.
    pub netns: u32,
    /// Local port.
    pub port: u16,
    /// `AF_INET` or `AF_INET6`.
    pub family: u16,
    /// Local address in network byte order; IPv4 in the first four bytes.
    pub address: [u8; 16],
}

/// A connection that waits to be accepted.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Pending {
    /// When it was established.
    pub since_ns: u64,
    /// The address that it came to.
    pub listener: ListenerKey,
}

/// What happened on such an address.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct ListenerTotals {
    /// Connections that reached ESTABLISHED and waited to be accepted.
    pub established: u64,
    /// Of those, accepted.
    pub accepts: u64,
    /// Their accept wait.
    pub accept_wait_ns: u64,
    /// Of those, closed or reset before they were accepted.
    pub abandoned: u64,
    /// Cgroup of the last task that accepted; 0 before the first.
    pub cgroup: u64,
    /// Its process.
    pub tgid: u64,
    /// When these totals were begun, which tells them from earlier ones of the same address.
    pub made_ns: u64,
    /// Threads that accepted a connection here last, and live.
    pub threads: u64,
    /// Connections accepted by threads whose last one had come to another port.
    pub strayed: u64,
    /// Of `services`, those after which there was no connection when the thread asked for one.
    pub found_none: u64,
    /// From a connection until its thread asked for the next one, which came to the same port.
    pub services: Times,
    /// Of these, those during all of which the next connection waited.
    pub kept_waiting: Times,
}

impl ListenerKey {
    /// Same port in the same namespace and family: a socket that listens on every address has connections to any of them.
    #[inline(always)]
    pub const fn shares_port(&self, other: &Self) -> bool {
        self.port == other.port && self.netns == other.netns && self.family == other.family
    }
}
