//! Every map. All are allocated when they are made: nothing here may allocate while it schedules.

use aya_ebpf::{
    btf_maps::{Array, HashMap, LruHashMap, PerCpuArray},
    macros::btf_map,
};
use lagstop_ebpf::shared::{Lookup, Shared, field};
use lagstop_scheduler_ebpf::{ANY_GROUP, Counters, Cpu, End, Group, MAX_GROUPS, MAX_QUEUES, Plan, Queue};

use crate::kernel::Task;

/// By cgroup. User space takes out those that are gone.
#[btf_map]
static GROUPS: HashMap<u64, Group, { MAX_GROUPS as usize }> = HashMap::new();

/// By the id of a thread in the root cgroup, or of a kernel thread that computes for long: each has a clock of its own, as if it were a
/// cgroup. `at` is when it was started; the rest
/// of [`Group`] is not used.
#[btf_map]
static ROOT_TASKS: LruHashMap<u32, Group, 16_384> = LruHashMap::new();

/// By cgroup; only user space writes it.
#[btf_map]
static PLANS: HashMap<u64, Plan, { MAX_GROUPS as usize }> = HashMap::new();

/// By CPU. User space says how many.
#[btf_map]
static CPUS: Array<Cpu, 8_192> = Array::new();

/// By number.
#[btf_map]
static QUEUES: Array<Queue, { MAX_QUEUES as usize }> = Array::new();

#[btf_map]
static COUNTERS: PerCpuArray<Counters, 1> = PerCpuArray::new();

#[btf_map]
static END: Array<End, 1> = Array::new();

/// A cgroup that is known.
#[inline(always)]
pub(crate) fn known_group(id: u64) -> Option<Shared<Group>> {
    GROUPS.shared(id)
}

/// A cgroup, which is made known where it is not yet.
#[inline(always)]
pub(crate) fn group(id: u64, now: u64) -> Option<Shared<Group>> {
    if let Some(group) = known_group(id) {
        return Some(group);
    }
    /// As far behind as may be: starting a process takes more CPU time than many of its requests.
    const BEHIND: i64 = -(1 << 62);
    let new = Group { virtual_time: BEHIND, used: 0, credit: 0, at: now, runnable: 0, turns: 0, preempted: 0 };
    // Another CPU may have been faster: its value stays, and is found below.
    const NO_EXIST: u64 = 1;
    let _ = GROUPS.insert(id, new, NO_EXIST);
    known_group(id)
}

/// A thread of the root cgroup that is known.
#[inline(always)]
pub(crate) fn known_root_task(id: u32) -> Option<Shared<Group>> {
    ROOT_TASKS.shared(id)
}

/// A thread of the root cgroup. A new one is on time: whoever forks there again and again is not to go first.
#[inline(always)]
pub(crate) fn root_task(task: Task, of_queue: u64) -> Option<Shared<Group>> {
    let (id, virtual_time, at) = (task.id(), of_queue as i64, task.started());
    if let Some(known) = known_root_task(id) {
        // Another thread had that id before.
        if field!(known.at).get() != at {
            field!(known.at).set(at);
            field!(known.virtual_time).set(virtual_time);
        }
        return Some(known);
    }
    let new = Group { virtual_time, used: 0, credit: 0, at, runnable: 0, turns: 0, preempted: 0 };
    const ANY: u64 = 0;
    let _ = ROOT_TASKS.insert(id, new, ANY);
    known_root_task(id)
}

/// What is planned for the cgroup, or for those that nothing is known of. User space may change it meanwhile: each number is old
/// or new.
#[inline(always)]
pub(crate) fn plan(id: u64) -> Option<Shared<Plan>> {
    match PLANS.shared(id) {
        Some(plan) => Some(plan),
        None => PLANS.shared(ANY_GROUP),
    }
}

#[inline(always)]
pub(crate) fn queue(n: u32) -> Option<Shared<Queue>> {
    QUEUES.shared(n)
}

#[inline(always)]
pub(crate) fn cpu(n: u32) -> Option<Shared<Cpu>> {
    CPUS.shared(n)
}

#[inline(always)]
pub(crate) fn end() -> Option<Shared<End>> {
    END.shared(0)
}

/// This CPU's.
#[inline(always)]
pub(crate) fn counters() -> Option<Shared<Counters>> {
    COUNTERS.shared(0)
}

/// Adds one to a counter of this CPU's: the operations are called with interrupts off, so nobody else does meanwhile.
macro_rules! count {
    ($counter:ident) => {
        if let Some(counters) = $crate::maps::counters() {
            lagstop_ebpf::field!(counters.$counter).add_nonatomic(1);
        }
    };
}
pub(crate) use count;
