//! What each wait was caused by. Every nanosecond of it has one cause.
//!
//! Each CPU logs its stints: who ran until when. A wait on this CPU is a part of that log. One that overlaps few stints is charged
//! to all who ran in it. Of one that overlaps many, as on a host with many tasks to a CPU, instants are drawn at random, and
//! whoever ran then is charged with the part of the wait that the instant stands for: the sum stays exact, nobody is favoured, and
//! the work has an end.
//!
//! Where there are so many waits that this would be dear, the shorter ones are sampled: laid end to end, each task's waits are
//! charged at one instant of each step, at random, so that no rhythm of who runs is in step with them. The step is such that a CPU
//! charges some thousand waits a second at most.
//!
//! Behind the log stands one of blocks of stints. Of a block it is known who ran at an instant drawn at random, and no more.
//!
//! Times here are of the run queue's clock, like the kernel's stamps of when a wait began.
//!
//! The functions that are called `lagstop_` are global ones for the verifier, which checks each of them once, and not wherever
//! they are called.

use lagstop_ebpf::{
    Cause, CpuState, GroupQueue, Lost, Pair, RAN_IDLE, RAN_KERNEL, RAN_OTHER, RAN_UNKNOWN, ROW_OTHER, STINTS, StintLog,
    TaskState, Throttle,
};

use crate::{
    distributions,
    kernel::{Task, constant},
    maps::{PAIRS, STINT_LOGS, THROTTLES, is_excluded, this_cpu},
    rows::Membership,
    shared::{Lookup, Shared, field},
};

/// A wait that overlaps at most as many stints is charged to all of them.
const SHORT: u64 = 16;
/// Waits that a CPU charges are this far from each other or further, as far as the step can see to it.
const CHARGE_EVERY_NS: u64 = 250_000;
/// The longest step is two seconds: no CPU has so many waits that are longer. All bits of it are set.
const MAX_STEP_BITS: u64 = 31;
/// Stints that make a block, when they took as long as [`BLOCK_NS`].
const BLOCK: u64 = 64;
const BLOCK_NS: u64 = 8_000_000;
/// A block is closed when it took so long, however few stints it has.
const LONG_BLOCK_NS: u64 = 1_000_000_000;

/// The log of stints, and that of blocks.
const RECENT: u32 = 0;
const BLOCKS: u32 = 1;

/// Who it is that runs or waits.
#[inline(always)]
fn cgroup_of(of: Membership) -> u64 {
    if of.row == ROW_OTHER { RAN_OTHER } else { of.cgroup }
}

/// Who runs: `task` of `of`.
#[inline(always)]
pub(crate) fn who_runs(task: Task, of: Membership) -> u64 {
    if task.is_idle() {
        RAN_IDLE
    } else if task.is_kernel_thread() {
        RAN_KERNEL
    } else {
        cgroup_of(of)
    }
}

/// Logs the stint of who `ran`, which ends at `clock`.
#[inline(always)]
pub(crate) fn log(cpu: Shared<CpuState>, ran: u64, clock: u64) {
    let since = field!(cpu.stint_end_ns).get();
    // Nor is it known who ran before the first switch that was seen.
    let ran = if since == 0 || field!(cpu.is_stint_mixed).get() != 0 { RAN_UNKNOWN } else { ran };
    field!(cpu.is_stint_mixed).set(0);
    field!(cpu.stint_begin_ns).set(since);
    field!(cpu.stint_end_ns).set(clock);
    field!(cpu.stint_cgroup).set(ran);
    push(RECENT, clock, ran);
    if clock >= field!(cpu.block_due_ns).get() {
        lagstop_tend_block(ran, clock);
    }
}

/// Draws for the block that the last stint belongs to, and closes it, where that is due.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn lagstop_tend_block(ran: u64, clock: u64) -> u64 {
    let (Some(cpu), Some(log)) = (this_cpu(), STINT_LOGS.shared(RECENT)) else { return 0 };
    let since = field!(cpu.block_since_ns).get();
    let passed = clock.wrapping_sub(since);
    if clock >= field!(cpu.block_draw_ns).get() {
        // Of all instants of the block so far each is as likely when the next one is taken after as many times the time that has
        // passed as 1 is of a random part of it. None is drawn beyond two minutes: the block is closed by then.
        field!(cpu.block_cgroup).set(ran);
        let part = random(cpu) >> 6;
        field!(cpu.block_draw_ns).set(since.wrapping_add((passed.min(1 << 37) << 26) / (part + 1)));
    }
    let stints = field!(log.logged).get();
    let mut due = since.wrapping_add(BLOCK_NS);
    if passed >= BLOCK_NS {
        if stints.wrapping_sub(field!(cpu.block_first).get()) >= BLOCK || passed >= LONG_BLOCK_NS {
            push(BLOCKS, clock, field!(cpu.block_cgroup).get());
            adapt_step(cpu, passed);
            field!(cpu.block_since_ns).set(clock);
            field!(cpu.block_first).set(stints);
            field!(cpu.block_draw_ns).set(0);
        }
        due = 0;
    }
    field!(cpu.block_due_ns).set(due.min(field!(cpu.block_draw_ns).get()));
    0
}

/// Makes the step longer or shorter, at the end of a block that took `passed`.
#[inline(always)]
fn adapt_step(cpu: Shared<CpuState>, passed: u64) {
    let charged_ns = field!(cpu.block_charges).get() * CHARGE_EVERY_NS;
    let bits = field!(cpu.step_bits).get();
    if charged_ns > passed && bits < MAX_STEP_BITS {
        field!(cpu.step_bits).set(bits + 1);
    } else if charged_ns * 4 < passed && bits > 0 {
        // No sooner: a step up leaves a quarter at least, and whatever goes back and forth loses a part of a step each time.
        field!(cpu.step_bits).set(bits - 1);
    }
    field!(cpu.block_charges).set(0);
}

/// Adds a stint to a log.
#[inline(always)]
fn push(log: u32, end_ns: u64, cgroup: u64) {
    let Some(log) = STINT_LOGS.shared(log) else { return };
    let number = field!(log.logged).get();
    field!(log.logged).set(number + 1);
    end_of(log, number).set(end_ns);
    cgroup_in(log, number).set(cgroup);
}

/// When the stint with this number ended.
#[inline(always)]
fn end_of(log: Shared<StintLog>, number: u64) -> Shared<u64> {
    field!(log.ends_ns[slot(number)])
}

/// Who ran in the stint with this number.
#[inline(always)]
fn cgroup_in(log: Shared<StintLog>, number: u64) -> Shared<u64> {
    field!(log.cgroups[slot(number)])
}

/// Its place. The verifier has to see it, and the compiler would take it for superfluous where it knows the number.
#[inline(always)]
fn slot(number: u64) -> usize {
    core::hint::black_box(number) as usize & (STINTS - 1)
}

/// 32 random bits (xorshift, Marsaglia 2003).
#[inline(always)]
fn random(cpu: Shared<CpuState>) -> u64 {
    let mut state = field!(cpu.random).get();
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    field!(cpu.random).set(state);
    state >> 32
}

/// 32 bits that look random.
#[inline(always)]
fn scatter(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32
}

/// A wait that ended.
#[derive(Clone, Copy)]
pub(crate) struct Wait {
    /// All of it.
    pub(crate) ns: u64,
    /// The part that was spent on this CPU, up to now.
    pub(crate) here_ns: u64,
}

/// Charges the wait of `next`, which gets the CPU after the last stint in the log, and has `state`. Where `is_whole` is false it is
/// not known how the wait came about.
#[inline(always)]
pub(crate) fn charge(
    cpu: Shared<CpuState>,
    next: Task,
    state: Option<Shared<TaskState>>,
    of: Membership,
    wait: Wait,
    is_whole: bool,
) {
    // Pairs are of all CPUs.
    if is_excluded(cpu) {
        return;
    }
    if !is_whole {
        count(cpu, of.row, Cause::Unknown, wait.ns);
        return;
    }
    let mut throttled_ns = 0;
    if constant!(SETTINGS.sees_throttling) != 0 {
        let (cfs_rq, ns) = next.throttled();
        field!(cpu.cfs_rq).set(cfs_rq);
        throttled_ns = ns;
    }
    // Of tasks that nothing can be kept of each CPU lays the waits end to end.
    let sampled = match state {
        Some(state) => field!(state.sampled),
        None => field!(cpu.stateless_sampled),
    };
    let step = field!(cpu.step_bits).get() & MAX_STEP_BITS;
    if throttled_ns == 0 && wait.here_ns >= wait.ns && is_sampled(wait.ns, step) {
        let (state, length) = (sampled.get(), in_steps(wait.ns, step));
        // Most waits end here where there are many.
        if length <= state & TO_NEXT {
            sampled.set(state - length);
            return;
        }
    }
    field!(cpu.sampled).set(sampled.get());
    lagstop_charge_wait(u64::from(of.row), cgroup_of(of), wait.ns, wait.here_ns, throttled_ns);
    sampled.set(field!(cpu.sampled).get());
}

/// Charges a wait of `ns`, of which `here_ns` were spent on this CPU, of `cgroup`, which has `row`. The run queue of `cgroup` was
/// throttled for `throttled_ns` so far.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn lagstop_charge_wait(row: u64, cgroup: u64, ns: u64, here_ns: u64, throttled_ns: u64) -> u64 {
    let Some(cpu) = this_cpu() else { return 0 };
    let here_ns = here_ns.min(ns);
    count(cpu, row as u32, Cause::Elsewhere, ns - here_ns);
    let clock = field!(cpu.stint_end_ns).get();
    let from = clock.wrapping_sub(here_ns);
    match throttled(cpu, cgroup, throttled_ns, from, clock) {
        Throttled::No => drop(lagstop_attribute(row, cgroup, from, clock)),
        Throttled::Unknown => count(cpu, row as u32, Cause::Unknown, here_ns),
        Throttled::During(began, ended) => {
            count(cpu, row as u32, Cause::Throttled, ended - began);
            lagstop_attribute(row, cgroup, from, began);
            lagstop_attribute(row, cgroup, ended, clock);
        }
    }
    0
}

#[inline(always)]
fn count(cpu: Shared<CpuState>, row: u32, cause: Cause, ns: u64) {
    if ns > 0
        && let Some(details) = distributions::of(cpu, row)
    {
        distributions::add(field!(details.causes_ns[cause as usize]), ns);
    }
}

/// What is known of throttling during a wait.
enum Throttled {
    No,
    /// From when to when.
    During(u64, u64),
    /// It was throttled some time before now.
    Unknown,
}

/// Was `cgroup`, whose run queue is noted in `cpu`, throttled between `from` and `clock`?
///
/// Its `cfs_rq` adds the time up when it is let go on. Whichever of its tasks gets the CPU first after that finds out, and leaves
/// for the others when it was.
#[inline(always)]
fn throttled(cpu: Shared<CpuState>, cgroup: u64, throttled_ns: u64, from: u64, clock: u64) -> Throttled {
    if throttled_ns == 0 {
        return Throttled::No;
    }
    let queue = GroupQueue { cfs_rq: field!(cpu.cfs_rq).get(), cgroup };
    let Some(last) = THROTTLES.shared(queue) else {
        // Not asked before: how much of it is of now is not known.
        let _ = THROTTLES.insert(queue, Throttle { seen_ns: throttled_ns, end_ns: 0, length_ns: 0 }, 0);
        return Throttled::Unknown;
    };
    let seen_ns = field!(last.seen_ns).get();
    if throttled_ns > seen_ns {
        // A cgroup is throttled as it runs, or when it wakes up: not before the last of its tasks left this CPU.
        let length_ns = throttled_ns - seen_ns;
        let began = lagstop_left(cgroup, from);
        last.replace(Throttle { seen_ns: throttled_ns, end_ns: (began + length_ns).min(clock), length_ns });
    }
    let end = field!(last.end_ns).get();
    let began = end.saturating_sub(field!(last.length_ns).get()).max(from);
    let ended = end.min(clock);
    if began < ended { Throttled::During(began, ended) } else { Throttled::No }
}

/// When the last task of `cgroup` left this CPU after `from`, as far as a look at the last stints tells; or else `from`.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn lagstop_left(cgroup: u64, from: u64) -> u64 {
    let Some(log) = STINT_LOGS.shared(RECENT) else { return from };
    let newest = field!(log.logged).get().wrapping_sub(1);
    for back in 0..SHORT {
        let number = newest.wrapping_sub(back);
        let end_ns = end_of(log, number).get();
        if end_ns <= from {
            break;
        }
        if cgroup_in(log, number).get() == cgroup {
            return end_ns;
        }
    }
    from
}

/// Charges a wait of `cgroup`, which has `row`, from one time to another, to those who ran on this CPU.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn lagstop_attribute(row: u64, cgroup: u64, from: u64, to: u64) -> u64 {
    let (Some(cpu), Some(log)) = (this_cpu(), STINT_LOGS.shared(RECENT)) else { return 0 };
    if from >= to {
        return 0;
    }
    let length = to - from;
    let step = field!(cpu.step_bits).get() & MAX_STEP_BITS;
    if is_sampled(length, step) {
        return lagstop_sample(row, cgroup, from, length, step);
    }
    field!(cpu.block_charges).add_nonatomic(1);
    // Mostly one has run.
    if from >= field!(cpu.stint_begin_ns).get() {
        return lagstop_charge(row, cgroup, field!(cpu.stint_cgroup).get(), length);
    }
    let mut number = field!(log.logged).get().wrapping_sub(1);
    if end_of(log, number.wrapping_sub(SHORT)).get() > from {
        let half = length / 2;
        lagstop_draw(row, cgroup, from, half);
        lagstop_draw(row, cgroup, from + half, length - half);
        return 0;
    }
    for _ in 0..SHORT {
        if lagstop_overlap(row, cgroup, from, to, number) == 0 {
            break;
        }
        number = number.wrapping_sub(1);
    }
    0
}

/// A whole step in [`TaskState::sampled`].
const STEP: u64 = 1 << 32;
/// Its bits that hold how far it is to the next instant: fewer than two steps.
const TO_NEXT: u64 = 2 * STEP - 1;
/// Those above hold where in its step that instant is, in twice that unit.
const WITHIN_SHIFT: u32 = 33;

/// [`TaskState::sampled`] of a task that was born then: its first instant is anywhere in the first step.
#[inline(always)]
pub(crate) fn first_instant(born_ns: u64) -> u64 {
    let within = scatter(born_ns) >> 1;
    (within << WITHIN_SHIFT) | (2 * within)
}

/// Is a wait of `ns` sampled? Such a one is shorter than half a step, and has no more than two instants in it.
#[inline(always)]
fn is_sampled(ns: u64, step: u64) -> bool {
    (2 * ns) >> step == 0
}

/// The length of a sampled wait, as in [`TaskState::sampled`].
#[inline(always)]
fn in_steps(ns: u64, step: u64) -> u64 {
    (ns << 32) >> step
}

/// Charges a whole step, of 2 to the power of `step`, to whoever ran at each of the task's instants that this wait, which is
/// sampled, goes beyond.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn lagstop_sample(row: u64, cgroup: u64, from: u64, length: u64, step: u64) -> u64 {
    let Some(cpu) = this_cpu() else { return 0 };
    let (step, mut state) = (step & MAX_STEP_BITS, field!(cpu.sampled).get());
    let length = in_steps(length, step);
    let mut instant = state & TO_NEXT;
    for _ in 0..2 {
        if length <= instant {
            break;
        }
        field!(cpu.block_charges).add_nonatomic(1);
        lagstop_charge(row, cgroup, ran_at(cpu, from + ((instant << step) >> 32)), 1 << step);
        let (within, next) = (state >> WITHIN_SHIFT, random(cpu) >> 1);
        state = next << WITHIN_SHIFT;
        instant += STEP + 2 * next - 2 * within;
    }
    field!(cpu.sampled).set((state & !TO_NEXT) | (instant.wrapping_sub(length) & TO_NEXT));
    0
}

/// Charges what a wait and the stint with this `number` have in common. 0 when the wait began no earlier than the stint.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn lagstop_overlap(row: u64, cgroup: u64, from: u64, to: u64, number: u64) -> u64 {
    let Some(log) = STINT_LOGS.shared(RECENT) else { return 0 };
    let began = end_of(log, number.wrapping_sub(1)).get();
    let (first, last) = (began.max(from), end_of(log, number).get().min(to));
    if first < last {
        lagstop_charge(row, cgroup, cgroup_in(log, number).get(), last - first);
    }
    u64::from(began > from)
}

/// Charges a part of a wait that is `length` long to whoever ran at a random instant of it.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn lagstop_draw(row: u64, cgroup: u64, from: u64, length: u64) -> u64 {
    let Some(cpu) = this_cpu() else { return 0 };
    // To 18 minutes: longer waits are drawn from their beginning.
    let after = (random(cpu) * (length.min(1 << 40) >> 8)) >> 24;
    lagstop_charge(row, cgroup, ran_at(cpu, from + after), length)
}

/// Who ran at `instant`.
#[inline(always)]
fn ran_at(cpu: Shared<CpuState>, instant: u64) -> u64 {
    let recent = lagstop_find(u64::from(RECENT), instant);
    if recent != NOT_LOGGED {
        return recent;
    }
    // Not long ago, but so much has run since: of the block that is not closed.
    if instant >= field!(cpu.block_since_ns).get() {
        return field!(cpu.block_cgroup).get();
    }
    lagstop_find(u64::from(BLOCKS), instant)
}

/// In place of who ran: the instant is not in the log any more.
const NOT_LOGGED: u64 = RAN_UNKNOWN - 1;

/// Whose stint or block in a log has `instant` in it. [`NOT_LOGGED`] when that is not in it any more.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn lagstop_find(log: u64, instant: u64) -> u64 {
    let Some(log) = STINT_LOGS.shared(log as u32) else { return NOT_LOGGED };
    let next = field!(log.logged).get();
    // Back from the newest: on a crowded host every look is at cold memory.
    let mut width = 2 * SHORT;
    while width < STINTS as u64 && end_of(log, next.wrapping_sub(width)).get() > instant {
        width *= 2;
    }
    // All before the first ended at the instant or before it. No branches: the processor could not foretell them.
    let oldest = next.wrapping_sub(width);
    let mut first = oldest;
    let mut step = width / 2;
    while step > 0 {
        let end_ns = end_of(log, first.wrapping_add(step - 1)).get();
        let is_before = end_ns.wrapping_sub(instant).wrapping_sub(1) >> 63;
        first = first.wrapping_add(step * is_before);
        step /= 2;
    }
    // When the oldest began is not known.
    if first == oldest { NOT_LOGGED } else { cgroup_in(log, first).get() }
}

/// Charges `ns` of a wait of `victim`, which has `row`, to who `ran`.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn lagstop_charge(row: u64, victim: u64, ran: u64, ns: u64) -> u64 {
    if let Some(cpu) = this_cpu() {
        charge_to(cpu, row as u32, victim, ran, ns);
    }
    0
}

#[inline(always)]
fn charge_to(cpu: Shared<CpuState>, row: u32, victim: u64, ran: u64, ns: u64) {
    match ran {
        RAN_IDLE => count(cpu, row, Cause::Idle, ns),
        RAN_KERNEL => count(cpu, row, Cause::Kernel, ns),
        RAN_UNKNOWN | NOT_LOGGED => count(cpu, row, Cause::Unknown, ns),
        // Many cgroups are others.
        ran if ran == victim && ran != RAN_OTHER => count(cpu, row, Cause::Own, ns),
        ran => {
            count(cpu, row, Cause::Behind, ns);
            charge_pair(cpu, Pair { victim, culprit: ran }, ns);
        }
    }
}

#[inline(always)]
fn charge_pair(cpu: Shared<CpuState>, pair: Pair, ns: u64) {
    const E2BIG: i32 = 7;
    const EEXIST: i32 = 17;
    if let Some(time) = PAIRS.shared(pair) {
        time.add(ns);
        return;
    }
    if field!(cpu.pairs_full).get() == 0 {
        match PAIRS.insert(pair, ns, u64::from(aya_ebpf::bindings::BPF_NOEXIST)) {
            Ok(()) => return,
            Err(error) if error == -E2BIG => field!(cpu.pairs_full).set(1),
            // Another CPU was first.
            Err(error) if error == -EEXIST => {
                if let Some(time) = PAIRS.shared(pair) {
                    time.add(ns);
                    return;
                }
            }
            Err(_) => {}
        }
    }
    field!(cpu.totals.lost[Lost::Pairs as usize]).add_nonatomic(1);
}

const _: () = assert!(STINTS.is_power_of_two());
