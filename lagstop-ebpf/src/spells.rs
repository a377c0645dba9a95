//! Spells on the CPU: from a switch to a task until the switch away from it.

use lagstop_ebpf::{
    CpuState, Lost, ROW_IDLE, ROW_OTHER, ROWS_A_PAGE, RowTotals, TaskState, WAITS_SCHED_INFO, WAITS_WAKEUPS,
};

use crate::{
    kernel::{Seen, Task, constant},
    maps::ROW_TOTALS,
    rows::Membership,
    spread,
    tasks::state_of,
};

/// Whether the kernel has yet to book the wait of a task that gets the CPU.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// It is about to: at `sched_switch`, `sched_info_arrive` is still to come.
    Coming,
    /// It has.
    Done,
}

/// The totals of `row` on this CPU.
///
/// Every caller runs with interrupts off, or writes to fields that no interrupt does.
#[inline(always)]
pub(crate) fn totals_of(row: u32) -> Option<&'static mut RowTotals> {
    // Or the compiler would go on to the row before it asks whether there is a page, which the verifier forbids.
    let page = core::hint::black_box(ROW_TOTALS.get_ptr_mut(row / ROWS_A_PAGE)?);
    // SAFETY: this CPU's own value.
    Some(unsafe { &mut (*page).rows[(row % ROWS_A_PAGE) as usize] })
}

/// How a task left the CPU.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Departure {
    /// To wait for something.
    Voluntary,
    /// It could have gone on.
    Involuntary,
}

/// Ends the spell of the task that `cpu` knows to run, of `row`, and counts the switch away from it.
#[inline(always)]
pub(crate) fn end(cpu: &mut CpuState, totals: &mut RowTotals, row: u32, seen: Seen, now: u64) -> Departure {
    book(cpu, totals, row, seen.runtime_ns, now);
    // The kernel has just added this switch to `nvcsw` or `nivcsw`: ask it which.
    let departure = if seen.nvcsw != cpu.nvcsw {
        totals.voluntary_switches += 1;
        Departure::Voluntary
    } else {
        totals.involuntary_switches += 1;
        Departure::Involuntary
    };
    cpu.totals.switches += 1;
    count_if_other(cpu, row);
    departure
}

/// Counts what was booked under `(other)`, and would have had a row of its own.
#[inline(always)]
pub(crate) fn count_if_other(cpu: &mut CpuState, row: u32) {
    if row == ROW_OTHER {
        cpu.totals.lost[Lost::Rows as usize] += 1;
    }
}

/// Books the time since the last booking: to the row as the kernel booked it to the task, to the CPU by the clock.
#[inline(always)]
pub(crate) fn book(cpu: &mut CpuState, totals: &mut RowTotals, row: u32, runtime_ns: u64, now: u64) {
    let spell = now.wrapping_sub(cpu.booked_ns);
    cpu.booked_ns = now;
    if row == ROW_IDLE {
        cpu.totals.idle_ns += spell;
    } else {
        cpu.totals.busy_ns += spell;
        totals.cpu_ns += runtime_ns.wrapping_sub(cpu.runtime_ns);
    }
    cpu.runtime_ns = runtime_ns;
}

/// Begins the spell of `task`.
#[inline(always)]
pub(crate) fn begin(cpu: &mut CpuState, task: Task, of: Membership, now: u64) {
    let seen = task.seen();
    belongs(cpu, of);
    cpu.nvcsw = seen.nvcsw;
    cpu.runtime_ns = seen.runtime_ns;
    cpu.booked_ns = now;
    cpu.counted_epoch = cpu.epoch;
    set_task(cpu, task.address());
}

/// Notes whose the running task is.
#[inline(always)]
pub(crate) fn belongs(cpu: &mut CpuState, of: Membership) {
    cpu.group = of.group;
    cpu.cgroup = of.cgroup;
    cpu.row = u64::from(of.row);
}

/// `next` gets the CPU: finds out whose it is, books its wait on the run queue, which has ended, and begins its spell.
#[inline(always)]
pub(crate) fn take_on(cpu: &mut CpuState, next: Task, arrival: Arrival, now: u64) -> Membership {
    let of = if next.is_idle() {
        Membership::IDLE
    } else {
        let mut state = state_of(cpu, next);
        let of = Membership::of_next(cpu, next, state.as_deref_mut());
        if let Some(totals) = totals_of(of.row) {
            arrive(cpu, totals, next, of.row, state, arrival, now);
        }
        of
    };
    begin(cpu, next, of, now);
    of
}

/// Books the wait of `task` on the run queue, if it has waited.
#[inline(always)]
fn arrive(
    cpu: &mut CpuState,
    totals: &mut RowTotals,
    task: Task,
    row: u32,
    mut state: Option<&mut TaskState>,
    arrival: Arrival,
    now: u64,
) {
    let wait = match constant!(SETTINGS.runq_wait) {
        WAITS_SCHED_INFO => wait_by_sched_info(task, state.as_deref_mut(), arrival),
        WAITS_WAKEUPS => wait_by_the_clock(cpu, state.as_deref_mut(), now),
        _ => None,
    };
    if let Some(state) = state
        && state.epoch < cpu.epoch
    {
        state.epoch = cpu.epoch;
        totals.threads += 1;
    }
    let Some(wait) = wait else { return };
    totals.runq_waits += 1;
    totals.runq_wait_ns += wait;
    cpu.totals.runq_waits += 1;
    cpu.totals.runq_wait_ns += wait;
    if let Some(distributions) = spread::of(cpu, row) {
        spread::count(&mut distributions.runq_wait, wait);
    }
}

/// The wait of `task`, which gets the CPU.
///
/// The kernel adds `rq->clock − last_queued` to `run_delay` when a task gets the CPU (`sched_info_arrive`). A task moved
/// to another CPU while it waits has had the first part added by `sched_info_dequeue`. So the wait is all that
/// `run_delay` grows by between two arrivals.
#[inline(always)]
fn wait_by_sched_info(task: Task, state: Option<&mut TaskState>, arrival: Arrival) -> Option<u64> {
    let mut delay = task.run_delay();
    let mut wait = 0;
    // A task that was never queued has not waited: it was preempted in a state other than running.
    let mut waited = arrival == Arrival::Done;
    let queued = task.last_queued();
    if arrival == Arrival::Coming && queued != 0 {
        waited = true;
        wait = task.rq_clock().wrapping_sub(queued);
        delay += wait;
    }
    if let Some(state) = state {
        let is_known = state.epoch != 0;
        if is_known {
            wait = delay.wrapping_sub(state.run_delay_ns);
        } else if state.born_ns > constant!(SETTINGS.loaded_at_ns) {
            // Born after the load, it has had no other waits. Those of older tasks are not ours.
            wait = delay;
        }
        if waited || !is_known {
            state.run_delay_ns = delay;
        }
    }
    waited.then_some(wait)
}

/// The time since the task was noted to wait.
#[inline(always)]
fn wait_by_the_clock(cpu: &mut CpuState, state: Option<&mut TaskState>, now: u64) -> Option<u64> {
    let state = state?;
    match core::mem::replace(&mut state.queued_ns, 0) {
        TaskState::STAYED => None,
        0 => {
            // Not seen before, it may have been woken before there was anybody to see it.
            if state.epoch != 0 {
                cpu.totals.lost[Lost::Wakeups as usize] += 1;
            }
            None
        }
        queued => Some(now.wrapping_sub(queued)),
    }
}

/// Notes that `task`, which leaves the CPU, waits for it from now on, or for something else.
#[inline(always)]
pub(crate) fn note_departure(cpu: &mut CpuState, task: Task, departure: Departure, now: u64) {
    if constant!(SETTINGS.runq_wait) != WAITS_WAKEUPS || task.is_idle() {
        return;
    }
    if let Some(state) = state_of(cpu, task) {
        state.queued_ns = match departure {
            Departure::Involuntary if task.is_runnable() => now,
            Departure::Involuntary => TaskState::STAYED,
            Departure::Voluntary => 0,
        };
    }
}

/// Counts `task`, which is running or just ran, in `threads`, unless it was counted in this epoch.
#[inline(always)]
pub(crate) fn count_thread(cpu: &mut CpuState, totals: &mut RowTotals, row: u32, task: Task) {
    if row == ROW_IDLE || cpu.counted_epoch == cpu.epoch {
        return;
    }
    cpu.counted_epoch = cpu.epoch;
    if let Some(state) = state_of(cpu, task)
        && state.epoch < cpu.epoch
    {
        // First seen while it runs: its waits so far are booked, and not ours.
        if state.epoch == 0 && constant!(SETTINGS.runq_wait) == WAITS_SCHED_INFO {
            state.run_delay_ns = task.run_delay();
        }
        state.epoch = cpu.epoch;
        totals.threads += 1;
    }
}

/// Takes up with `current`, found at the end of `__schedule()` when another task was known to run: the kernel did not show
/// the switch between them. The other task cannot have been freed yet: preemption has been off since it ran.
#[inline(never)]
pub(crate) fn take_up(cpu: &mut CpuState, current: Task, now: u64) {
    let before = cpu.task;
    if before != 0 {
        // `settle` may come in an interrupt: it leaves a CPU alone of which it does not know who runs.
        set_task(cpu, CpuState::IN_BETWEEN);
        cpu.totals.lost[Lost::Switches as usize] += 1;
        let row = cpu.row as u32;
        if let (Some(seen), Some(totals)) = (Seen::probe(before), totals_of(row)) {
            end(cpu, totals, row, seen, now);
        }
    }
    take_on(cpu, current, Arrival::Done, now);
}

/// Begins with `prev`, which is about to be switched away from, when another task was known to run: neither the switch
/// between them nor its end was shown. Of the time since, only the CPU's own is known.
#[inline(never)]
pub(crate) fn begin_late(cpu: &mut CpuState, prev: Task, now: u64) {
    if cpu.task != 0 {
        cpu.totals.lost[Lost::Switches as usize] += 1;
        let spell = now.wrapping_sub(cpu.booked_ns);
        if cpu.row as u32 == ROW_IDLE {
            cpu.totals.idle_ns += spell;
        } else {
            cpu.totals.busy_ns += spell;
        }
    }
    // What it knows of the group is another task's, who may be gone.
    cpu.group = 0;
    let of = Membership::of_running(cpu, prev);
    begin(cpu, prev, of, now);
}

/// Notes who runs, for `settle` in an interrupt: what was written before is written.
#[inline(always)]
fn set_task(cpu: &mut CpuState, task: u64) {
    // SAFETY: no instruction at all; it keeps the compiler from moving stores to the other side.
    unsafe { core::arch::asm!("") };
    // SAFETY: a valid, aligned field.
    unsafe { core::ptr::write_volatile(&mut cpu.task, task) };
    // SAFETY: as above.
    unsafe { core::arch::asm!("") };
}
