//! The operations of `struct sched_ext_ops`, each named for its member.

use core::{mem::MaybeUninit, ptr::read_volatile};

use aya_ebpf::helpers::generated::bpf_probe_read_kernel_str;
use lagstop_ebpf::shared::{Shared, field};
use lagstop_scheduler_ebpf::{ANY_GROUP, Cpu, MAX_LOOKS, MAX_QUEUES, REPORT_PIECE, ROOT_GROUP};

use crate::{
    credit,
    kernel::{Task, argument, constant, load, now, this_cpu},
    kfuncs::{self, ENQ_WAKEUP, InsertArguments, KICK_IDLE, KICK_PREEMPT, LOCAL, Pointer},
    maps::{self, count},
    turn::{FIRST, FIRST_OF_OTHERS, Standing, last_standing, standing},
    virtual_time::{self, NOT_BEHIND},
};

/// Id of the first queue: those of the caches follow each other.
const QUEUE: u64 = 0x4c41_4753;

/// Makes the queues.
#[unsafe(no_mangle)]
#[unsafe(link_section = "iter/init")]
extern "C" fn lags_init(_: *const u64) -> i32 {
    let mut n = 0;
    while n < MAX_QUEUES && u64::from(n) < constant!(SETTINGS.queues) {
        let error = kfuncs::create_dsq(QUEUE + u64::from(n), -1);
        if error != 0 {
            return error;
        }
        n += 1;
    }
    0
}

/// Keeps what the kernel says of the end.
#[unsafe(no_mangle)]
#[unsafe(link_section = "iter/exit")]
extern "C" fn lags_exit(context: *const u64) -> i32 {
    let info: Pointer = argument(context, 0);
    let Some(end) = maps::end() else { return 0 };
    let kind: u32 = load(info, constant!(OFFSETS.exit_kind));
    let code: u64 = load(info, constant!(OFFSETS.exit_code));
    let message: Pointer = load(info, constant!(OFFSETS.exit_message));
    let report: Pointer = load(info, constant!(OFFSETS.exit_report));
    keep(field!(end.message), message);
    let mut n = 0;
    while let Some(piece) = field!(end.report).at(n) {
        // Each piece ends in a zero.
        keep(piece, report.wrapping_add(n * (REPORT_PIECE - 1)));
        n += 1;
    }
    field!(end.code).set(code);
    // The last: now it has ended.
    field!(end.kind).set(u64::from(kind));
    0
}

/// Keeps as much of a text of the kernel's as has its place.
#[inline(always)]
fn keep<const N: usize>(place: Shared<[u8; N]>, text: Pointer) {
    // SAFETY: the place is so large; the helper checks where it reads.
    unsafe { bpf_probe_read_kernel_str(place.as_ptr().cast(), N as u32, text.cast()) };
}

/// Chooses an idle CPU near the last one, as the kernel does by itself, and sends it there at once.
#[unsafe(no_mangle)]
#[unsafe(link_section = "iter/select_cpu")]
extern "C" fn lags_select_cpu(context: *const u64) -> i32 {
    let task: Pointer = argument(context, 0);
    let previous: i32 = argument(context, 1);
    let flags: u64 = argument(context, 2);
    let mut is_idle = 0u8;
    let cpu = kfuncs::select_cpu(task, i64::from(previous), flags, &raw mut is_idle);
    // SAFETY: the kernel wrote it.
    if unsafe { read_volatile(&raw const is_idle) } != 0 {
        count!(to_idle);
        kfuncs::insert(task, LOCAL, standing(Task(task), queue_of(cpu as u32), now()).slice, 0);
    }
    cpu
}

/// The queue of a CPU.
#[inline(always)]
fn queue_of(cpu: u32) -> u32 {
    match maps::cpu(cpu) {
        Some(cpu) => field!(cpu.queue).get(),
        None => 0,
    }
}

#[unsafe(no_mangle)]
#[unsafe(link_section = "iter/runnable")]
extern "C" fn lags_runnable(context: *const u64) -> i32 {
    wants_to_run(Task(argument(context, 0)), 1);
    0
}

#[unsafe(no_mangle)]
#[unsafe(link_section = "iter/quiescent")]
extern "C" fn lags_quiescent(context: *const u64) -> i32 {
    wants_to_run(Task(argument(context, 0)), -1);
    0
}

/// Whoever moves a task to another cgroup takes it off its queue before, and puts it back behind: it is in the same one at both
/// ends.
#[inline(always)]
fn wants_to_run(task: Task, change: i64) {
    if task.is_kernel_thread() {
        return;
    }
    let (id, now) = (task.cgroup(), now());
    // lagstop runs whenever it looks at this.
    if id == ROOT_GROUP && task.is_own() {
        return;
    }
    let group = if change > 0 { maps::group(id, now) } else { maps::known_group(id) };
    if let Some(group) = group {
        credit::runnable(group, now, change);
    }
}

/// Queues a task by its turn, and gets it a CPU: an idle one, or that of the heaviest.
#[unsafe(no_mangle)]
#[unsafe(link_section = "iter/enqueue")]
extern "C" fn lags_enqueue(context: *const u64) -> i32 {
    let task = Task(argument(context, 0));
    let flags: u64 = argument(context, 1);
    let now = now();
    let cpu = kfuncs::task_cpu(task.0) as u32;
    let queue = queue_of(cpu);
    let is_waking = flags & ENQ_WAKEUP != 0;
    let wants_more = !is_waking && had_this_cpu(task);
    let own = last_standing(task, queue, now, wants_more);
    if !wants_more && task.is_kernel_thread() && task.is_pinned() {
        kfuncs::insert(task.0, LOCAL, own.slice, flags);
    } else {
        queue_up(task, queue, own, flags);
        count!(queued);
        let idle = kfuncs::pick_idle_cpu(task.cpus(), 0);
        if idle >= 0 {
            kfuncs::kick_cpu(i64::from(idle), KICK_IDLE);
            return 0;
        }
    }
    if is_waking && constant!(SETTINGS.preempts) != 0 {
        preempt_for(task, own, cpu, now);
    }
    0
}

/// Has it just had this CPU?
#[inline(always)]
fn had_this_cpu(task: Task) -> bool {
    match maps::cpu(this_cpu()) {
        Some(cpu) => field!(cpu.task).get() == task.id(),
        None => false,
    }
}

#[inline(always)]
fn queue_up(task: Task, queue: u32, own: Standing, flags: u64) {
    let Standing { turn, slice, .. } = own;
    let dsq = QUEUE + u64::from(queue);
    if constant!(SETTINGS.has_vtime_args) != 0 {
        let arguments = InsertArguments { dsq, slice, vtime: turn, flags };
        kfuncs::insert_vtime_args(task.0, &raw const arguments);
    } else {
        kfuncs::insert_vtime(task.0, dsq, slice, turn, flags);
    }
}

/// Takes the CPU from the heaviest of those near `first` that are heavier by the margin.
#[inline(always)]
fn preempt_for(task: Task, own: Standing, first: u32, now: u64) {
    let mut heaviest = own.credit + constant!(SETTINGS.margin) as i64;
    let mut victim = None;
    let mut n = first;
    let mut looks = 0;
    while looks < MAX_LOOKS {
        let Some(cpu) = maps::cpu(n) else { break };
        let (credit, next) = (field!(cpu.credit).get(), field!(cpu.next).get());
        if credit > heaviest && kfuncs::test_cpu(u64::from(n), task.cpus()) & 1 != 0 {
            heaviest = credit;
            victim = Some(n);
        }
        if next == first {
            break;
        }
        n = next;
        looks += 1;
    }
    let Some(victim) = victim else { return };
    let Some(cpu) = maps::cpu(victim) else { return };
    if is_over(cpu, now) {
        // The next one that wakes is to look elsewhere.
        field!(cpu.credit).set(FIRST);
        taken_off(cpu);
        kfuncs::kick_cpu(i64::from(victim), KICK_PREEMPT);
    } else {
        field!(cpu.asked).set(1);
    }
}

/// Is the protected time of the task on `cpu` over?
#[inline(always)]
fn is_over(cpu: Shared<Cpu>, now: u64) -> bool {
    now > field!(cpu.since).get() + constant!(SETTINGS.protect)
}

/// Counts that the task on `cpu` makes way.
#[inline(always)]
fn taken_off(cpu: Shared<Cpu>) {
    count!(preempted);
    if let Some(group) = maps::known_group(field!(cpu.group).get()) {
        field!(group.preempted).add(1);
    }
}

/// Books what the running task used until now, and ends its turn where the protected time is over and a lighter one waits for
/// that.
#[unsafe(no_mangle)]
#[unsafe(link_section = "iter/tick")]
extern "C" fn lags_tick(context: *const u64) -> i32 {
    let Some(cpu) = maps::cpu(this_cpu()) else { return 0 };
    let now = now();
    virtual_time::charge(cpu, now);
    if field!(cpu.asked).get() != 0 && is_over(cpu, now) {
        field!(cpu.asked).set(0);
        taken_off(cpu);
        Task(argument(context, 0)).set_slice(0);
    }
    0
}

/// Gives a CPU the task whose turn is first: the one that has it, one of its cache's queue, or one of another's.
#[unsafe(no_mangle)]
#[unsafe(link_section = "iter/dispatch")]
extern "C" fn lags_dispatch(context: *const u64) -> i32 {
    let previous: Pointer = argument(context, 1);
    let number = this_cpu();
    let Some(cpu) = maps::cpu(number) else { return 0 };
    let queue = field!(cpu.queue).get();
    let now = now();
    let first = first_turn(queue, number);
    let goes_on = !previous.is_null() && Task(previous).is_queued();
    if goes_on {
        virtual_time::charge(cpu, now);
        let own = last_standing(Task(previous), queue, now, true);
        if first == 0 || first > own.turn {
            let_go_on(cpu, Task(previous), own);
            return 0;
        }
    }
    if constant!(SETTINGS.queues) > 1 && takes_from_another(cpu, queue, first, number, now) {
        return 0;
    }
    if first != 0 && kfuncs::move_to_local(QUEUE + u64::from(queue), 0) & 1 != 0 {
        count!(dispatched);
        is_served(queue, first, now);
    } else if goes_on {
        // Another CPU was faster. The kernel lets it go on, for as long as it likes itself unless that is said here.
        let_go_on(cpu, Task(previous), last_standing(Task(previous), queue, now, true));
    }
    0
}

/// Lets the running task go on. It may be preempted again: the kernel does not say that it runs, as it never stopped.
#[inline(always)]
fn let_go_on(cpu: Shared<Cpu>, task: Task, own: Standing) {
    task.set_slice(own.slice);
    field!(cpu.credit).set(own.credit);
    count!(kept);
}

/// Moves the virtual time of the queue on, and counts who is served later than the guard allows.
#[inline(always)]
fn is_served(queue: u32, turn: u64, now: u64) {
    if turn < FIRST_OF_OTHERS || constant!(SETTINGS.by_load) != 0 {
        return;
    }
    let of_queue = virtual_time::of_queue(queue, now);
    if turn & NOT_BEHIND != 0
        && of_queue > turn
        && let Some(any) = maps::plan(ANY_GROUP)
    {
        let guard = virtual_time::head_start(any);
        if of_queue - turn > guard {
            is_overdue(of_queue - turn - guard);
        }
    }
    virtual_time::serves(queue, turn, now);
}

#[inline(always)]
fn is_overdue(time: u64) {
    if let Some(counters) = maps::counters() {
        field!(counters.overdue).add_nonatomic(1);
        let longest = field!(counters.longest_overdue);
        if time > longest.get() {
            longest.set(time);
        }
    }
}

/// Looks at one other queue, each time at the next, and takes from it where its first turn is well before `own`, which is 0 where
/// nothing waits here; then at more of them.
#[inline(always)]
fn takes_from_another(cpu: Shared<Cpu>, queue: u32, own: u64, number: u32, now: u64) -> bool {
    /// What moving to another cache may cost.
    const WELL_BEFORE: u64 = 10_000_000;
    let queues = constant!(SETTINGS.queues) as u32;
    let mut looks = 0;
    while looks < MAX_LOOKS {
        let other = field!(cpu.other).get() + 1;
        let other = if other >= queues { 0 } else { other };
        field!(cpu.other).set(other);
        if other != queue {
            let theirs = first_turn(other, number);
            if theirs != 0
                && (own == 0 || theirs + WELL_BEFORE < own)
                && kfuncs::move_to_local(QUEUE + u64::from(other), 0) & 1 != 0
            {
                count!(dispatched);
                count!(stolen);
                is_served(other, theirs, now);
                return true;
            }
            if own != 0 {
                return false;
            }
        }
        looks += 1;
    }
    false
}

/// The first turn of a queue among those that may be had on `cpu`: the kernel skips all others when it takes one. 0 where nothing for it
/// waits there. After many that may not it is looked for no longer: the turn of the last one is before it.
#[inline(always)]
fn first_turn(queue: u32, cpu: u32) -> u64 {
    let mut iterator = MaybeUninit::<[u64; 6]>::uninit();
    let iterator = iterator.as_mut_ptr().cast::<u64>();
    let mut turn = 0;
    if kfuncs::iter_new(iterator, QUEUE + u64::from(queue), 0) == 0 {
        let mut looks = 0;
        loop {
            let next = kfuncs::iter_next(iterator);
            if next.is_null() {
                turn = 0;
                break;
            }
            turn = Task(next).turn();
            looks += 1;
            if kfuncs::test_cpu(u64::from(cpu), Task(next).cpus()) & 1 != 0 || looks == MAX_LOOKS {
                break;
            }
        }
    }
    kfuncs::iter_destroy(iterator);
    turn
}

#[unsafe(no_mangle)]
#[unsafe(link_section = "iter/running")]
extern "C" fn lags_running(context: *const u64) -> i32 {
    let task = Task(argument(context, 0));
    let Some(cpu) = maps::cpu(this_cpu()) else { return 0 };
    let now = now();
    let Standing { credit, turn, group, .. } = standing(task, field!(cpu.queue).get(), now);
    // All others of nobody's go first.
    if group == 0 && turn >= FIRST_OF_OTHERS {
        count!(unknown);
    }
    field!(cpu.credit).set(credit);
    field!(cpu.since).set(now);
    field!(cpu.charged).set(now);
    field!(cpu.group).set(group);
    field!(cpu.task).set(task.id());
    field!(cpu.asked).set(0);
    if group != 0
        && let Some(group) = maps::group(group, now)
    {
        field!(group.turns).add(1);
    }
    0
}

#[unsafe(no_mangle)]
#[unsafe(link_section = "iter/stopping")]
extern "C" fn lags_stopping(_: *const u64) -> i32 {
    let Some(cpu) = maps::cpu(this_cpu()) else { return 0 };
    // What was used is that of the cgroup that began to run here, whichever the task is in by now.
    virtual_time::charge(cpu, now());
    field!(cpu.credit).set(FIRST);
    field!(cpu.group).set(0);
    0
}
