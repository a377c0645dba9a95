//! Everything here is plain integers, so that both sides see the same bytes. Times are nanoseconds.

use bytemuck::{Pod, Zeroable};

/// 1 as credits are ranked: what a cgroup has that uses exactly its share of the host. Sixteen binary places.
pub const ONE: u64 = 1 << 16;
/// One CPU in use, or one runnable task, in [`Group::credit`]. Twenty binary places.
pub const CORE: u64 = 1 << 20;
/// Last-level caches that have a queue of their own; those above share with others.
pub const MAX_QUEUES: u32 = 64;
/// CPUs that are looked at when a task wakes: those that share its cache, from the one on that was chosen for it.
pub const MAX_LOOKS: u32 = 16;
/// Binary places of [`Plan::rank`].
pub const RANK_PLACES: u32 = 24;
/// Cgroups that are kept.
pub const MAX_GROUPS: u32 = 16_384;
/// Key of [`Plan`] for cgroups that have none of their own yet.
pub const ANY_GROUP: u64 = 0;
/// Id of the root cgroup, also for tasks that are in no cgroup.
pub const ROOT_GROUP: u64 = 1;
/// The longest name or message of the kernel's that is kept.
pub const MESSAGE: usize = 120;
/// Bytes of one piece of the kernel's report on the scheduler's end.
pub const REPORT_PIECE: usize = 4_096;

/// A function of the kernel is called as if it were a helper with this number and that of [`Kfunc`]: no helper has it, and user
/// space makes calls to functions of them, or to nothing where the kernel has no such function.
pub const KFUNC_BASE: u32 = 0x4c41_4700;

/// The functions of the kernel that the programs call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kfunc {
    CreateDsq,
    SelectCpu,
    Insert,
    InsertVtime,
    InsertVtimeArgs,
    MoveToLocal,
    KickCpu,
    Now,
    SetSlice,
    TestCpu,
    PickIdleCpu,
    TaskCpu,
    IterNew,
    IterNext,
    IterDestroy,
}

impl Kfunc {
    /// In the order of their numbers.
    pub const ALL: [Self; 15] = [
        Self::CreateDsq,
        Self::SelectCpu,
        Self::Insert,
        Self::InsertVtime,
        Self::InsertVtimeArgs,
        Self::MoveToLocal,
        Self::KickCpu,
        Self::Now,
        Self::SetSlice,
        Self::TestCpu,
        Self::PickIdleCpu,
        Self::TaskCpu,
        Self::IterNew,
        Self::IterNext,
        Self::IterDestroy,
    ];

    /// What a call has for a helper's number.
    pub const fn call(self) -> u32 {
        KFUNC_BASE + self as u32
    }
}

/// Where this kernel has its fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Offsets {
    pub task_group: u64,
    pub group_cgroup: u64,
    pub cgroup_kn: u64,
    pub kn_id: u64,
    pub task_flags: u64,
    pub task_pid: u64,
    pub task_tgid: u64,
    pub task_start_time: u64,
    pub task_nr_cpus_allowed: u64,
    pub task_cpus_ptr: u64,
    pub task_slice: u64,
    pub task_vtime: u64,
    pub task_scx_flags: u64,
    pub exit_kind: u64,
    pub exit_code: u64,
    pub exit_message: u64,
    pub exit_report: u64,
}

/// How it schedules, for as long as it is loaded. Flags are 0 or 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Settings {
    /// Half-life of the paper's credits, in 65,536 ns.
    pub half_life: u64,
    /// Credits above count as this much, with [`ONE`].
    pub max_credit: u64,
    /// A waking task preempts one whose cgroup's credit is higher by more than this, with [`ONE`].
    pub margin: u64,
    /// Time that a task runs before it is preempted.
    pub protect: u64,
    /// Do waking tasks preempt?
    pub preempts: u64,
    /// Are credits the paper's, of runnable tasks, and not of CPU time used?
    pub by_load: u64,
    /// Queues: one for each last-level cache.
    pub queues: u64,
    /// This process is lagstop's: it is to keep pace whatever its cgroup uses.
    pub own_tgid: u64,
    /// Turns of tasks that are nobody's load, which run as long as this.
    pub slice: u64,
    pub has_now: u64,
    pub has_vtime_args: u64,
    pub has_set_slice: u64,
}

/// What user space has worked out for a cgroup from weights and from what the others use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Plan {
    /// By how much a nanosecond of CPU time moves its virtual time on, with [`ONE`]: the inverse of its share in CPUs. Of the
    /// paper's credits it is [`ONE`].
    pub factor: u64,
    /// How far its virtual time may be behind that of its queue: how much it may go first. Of the paper's credits it is how much
    /// later a credit of 1 is served.
    pub behind: u64,
    /// How far it may be ahead.
    pub ahead: u64,
    /// How long a turn is at most.
    pub slice: u64,
    /// By how much the virtual time moves on in a turn as they have been: so much later each of its tasks is served than the one
    /// before.
    pub turn: u64,
    /// Credit with [`ONE`] for a nanosecond of virtual time, with [`RANK_PLACES`]: the same for all.
    pub rank: u64,
}

/// What the programs know of a cgroup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Group {
    /// Its virtual time: CPU time used, by its share. At 0 and below it is as of the first look at it, against that of the
    /// queue. Not used of the root: each of its threads has one.
    pub virtual_time: i64,
    /// CPU time used.
    pub used: i64,
    /// Runnable tasks, decayed, with [`CORE`], as of `at`: the paper's credit, which only then is kept.
    pub credit: i64,
    /// Clock of the scheduler; 0 where user space set the credit, which then is as of the first look at it.
    pub at: u64,
    /// Tasks.
    pub runnable: i64,
    /// Turns that its tasks have had.
    pub turns: u64,
    /// Times that one was taken off its CPU for a lighter one's, a kernel thread or lagstop.
    pub preempted: u64,
}

/// The virtual time of a queue: that of the last one that was taken from it and not behind, and as much later as time has passed
/// since. A cache line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Queue {
    /// By how much it is ahead of the clock of the scheduler; it wraps. One number, so that nobody reads half of it.
    pub ahead: u64,
    pub unused: [u64; 7],
}

/// What the programs know of a CPU: a cache line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Cpu {
    /// Credit that the running task is ranked by, with [`ONE`]; below 0 where it is not to be preempted.
    pub credit: i64,
    /// Since when it runs, and until when that is in what its cgroup used.
    pub since: u64,
    pub charged: u64,
    /// Its cgroup; 0 where it is nobody's load.
    pub group: u64,
    /// Does a lighter one wait for the end of its protected time?
    pub asked: u64,
    /// The queue of its cache.
    pub queue: u32,
    /// The next CPU of the same cache, in a ring.
    pub next: u32,
    /// The queue that is looked at next for something to steal.
    pub other: u32,
    /// The running thread.
    pub task: u32,
    pub unused: [u32; 2],
}

/// What is counted, on each CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Counters {
    /// Tasks that woke and found an idle CPU.
    pub to_idle: u64,
    /// Tasks that were queued.
    pub queued: u64,
    /// Tasks taken from a queue to be run, and those among them from another cache's queue.
    pub dispatched: u64,
    pub stolen: u64,
    /// Tasks that went on at the end of their time, as nobody had an earlier turn.
    pub kept: u64,
    /// Tasks that were taken off their CPU for lighter ones.
    pub preempted: u64,
    /// Tasks that ran later than the guard after their turn, and by how much at most, in virtual time.
    pub overdue: u64,
    pub longest_overdue: u64,
    /// Tasks of cgroups for which there was no place.
    pub unknown: u64,
}

/// How it ended, as the kernel says.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct End {
    /// 0 while it has not.
    pub kind: u64,
    pub code: u64,
    pub message: [u8; MESSAGE],
    pub report: [[u8; REPORT_PIECE]; 4],
}

const _: () = assert!(size_of::<Cpu>() == 64 && size_of::<Queue>() == 64 && size_of::<End>().is_multiple_of(8));
const _: () = {
    let mut n = 0;
    while n < Kfunc::ALL.len() {
        assert!(Kfunc::ALL[n] as usize == n);
        n += 1;
    }
};
