//! Plain data in the maps. Everything is `u64` or an array, so that there is no padding to leak or to differ.

use bytemuck::{Pod, Zeroable};

use crate::BUCKETS;

/// Row of the idle tasks (pid 0), kept apart from every cgroup.
pub const ROW_IDLE: u32 = 0;
/// Row of the cgroups that found the table full: `(other)`.
pub const ROW_OTHER: u32 = 1;
/// The first row a cgroup may get.
pub const ROW_FIRST: u32 = 2;

/// Rows, the two fixed ones included, unless user space asks for another number.
pub const DEFAULT_ROWS: u32 = 2_502;

/// Copies of every distribution, at most. CPUs share a copy in blocks, so that neighbours write to the same memory; one
/// copy a CPU would take 320 MB on 112 CPUs.
pub const MAX_SHARDS: u32 = 4;

/// Ancestors whose names are kept for a cgroup, itself included.
pub const LINEAGE_DEPTH: usize = 8;
/// Bytes kept of one directory name, the closing zero included. Docker's scopes need 77.
pub const NAME_LEN: usize = 88;

/// Connections that may wait unaccepted at once, over the whole host.
pub const MAX_PENDING: u32 = 16_384;
/// Listening addresses that can be told apart.
pub const MAX_LISTENERS: u32 = 4_096;

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
    /// `task_struct.nvcsw`
    pub task_nvcsw: u64,
    /// `task_struct.start_time` (CLOCK_MONOTONIC)
    pub task_start_time: u64,
    /// `task_struct.se.sum_exec_runtime`
    pub task_sum_exec_runtime: u64,
    /// `task_struct.se.cfs_rq`
    pub task_cfs_rq: u64,
    /// `task_struct.sched_info.run_delay`
    pub task_run_delay: u64,
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
    /// 1: `sched_info` is there, so run-queue waits can be read from it.
    pub runq_wait: u64,
    /// CLOCK_MONOTONIC when the programs were loaded: tasks born later had no wait before.
    pub loaded_at_ns: u64,
    /// Copies of every distribution.
    pub shards: u64,
    /// 1: read the clock and return, for measuring what no program could do without.
    pub clock_only: u64,
}

/// Totals of one row on one CPU. All grow without end; each is written by one program, or by programs that cannot
/// interrupt each other, so plain additions lose nothing.
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
}

/// What is known about the task on a CPU, the `__schedule()` call in flight there, and the CPU's own totals.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
pub struct CpuState {
    /// When the call in flight was entered; 0 when none was seen.
    pub entry_ns: u64,
    /// When the call in flight switched; 0 when it has not.
    pub switch_ns: u64,
    /// Pick cost of the call in flight.
    pub pick_ns: u64,
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
    /// The copy of the distributions that the CPU writes to; set by user space.
    pub shard: u64,
    /// 1 when the table of rows was found full; user space clears it.
    pub rows_full: u64,
    /// What happened on this CPU since the programs were attached.
    pub totals: CpuTotals,
}

impl CpuState {
    /// In place of the running task's address while another one's figures are still being booked.
    pub const IN_BETWEEN: u64 = 1;
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
pub const LOST_KINDS: usize = 6;

/// Things that could not be measured, each counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Lost {
    /// A switch whose entry was not seen: its pick cost is unknown.
    Entries = 0,
    /// A switch that the kernel did not show, found out afterwards: its cost is unknown.
    Switches = 5,
    /// A task for which no storage could be had: a wait that was moved between CPUs is short by its first part.
    TaskStorage = 1,
    /// A switch booked under `(other)`, because its cgroup found no free row.
    Rows = 2,
    /// A connection not followed, because too many were waiting.
    Connections = 3,
    /// An accept whose listener found no place in the table of listeners.
    Listeners = 4,
}

/// Distributions of one row in one shard; counts wrap.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Distributions {
    /// Pick + swap cost of each switch away from the row.
    pub switch_cost: [u32; BUCKETS],
    /// Each wait on the run queue.
    pub runq_wait: [u32; BUCKETS],
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

/// What is kept about a task.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
pub struct TaskState {
    /// `run_delay` as the kernel will have booked it after the last wait seen.
    pub run_delay_ns: u64,
    /// The epoch in which the task was last counted in `threads`; 0 when it has not been seen before.
    pub epoch: u64,
    /// Address of what grouped it when the next two were looked up.
    pub group: u64,
    /// Id of its cgroup.
    pub cgroup: u64,
    /// Its row.
    pub row: u64,
    /// The epoch in which that was.
    pub group_epoch: u64,
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
}
