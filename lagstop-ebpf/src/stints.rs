//! Stints on the CPU: from the switch to a task until the switch away from it.

use lagstop_ebpf::{CpuState, Lost, ROW_IDLE, ROW_OTHER, RowTotals, TaskState, WAITS_SCHED_INFO};

use crate::{
    blame,
    kernel::{Seen, Task, constant},
    rows::{Membership, totals_of},
    shared::{Shared, field},
    tasks::state_of,
    waits::{self, Arrival, Departure},
};

/// Ends the stint of the task that `cpu` knows to run, of `row`, and counts the switch away from it.
#[inline(always)]
pub(crate) fn sched_out(cpu: Shared<CpuState>, totals: Shared<RowTotals>, row: u32, seen: Seen, now: u64) -> Departure {
    book(cpu, totals, row, seen.runtime_ns, now);
    // The kernel has just added this switch to `nvcsw` or `nivcsw`: ask it which.
    let departure = if seen.nvcsw != field!(cpu.nvcsw).get() {
        field!(totals.voluntary_switches).add_nonatomic(1);
        Departure::Voluntary
    } else {
        field!(totals.involuntary_switches).add_nonatomic(1);
        Departure::Involuntary
    };
    field!(cpu.totals.switches).add_nonatomic(1);
    count_if_other(cpu, row);
    departure
}

/// Counts what was booked under `(other)`, and would have had a row of its own.
#[inline(always)]
pub(crate) fn count_if_other(cpu: Shared<CpuState>, row: u32) {
    if row == ROW_OTHER {
        field!(cpu.totals.lost[Lost::Rows as usize]).add_nonatomic(1);
    }
}

/// Books the time since the last booking: to the row as the kernel booked it to the task, to the CPU by the clock.
#[inline(always)]
pub(crate) fn book(cpu: Shared<CpuState>, totals: Shared<RowTotals>, row: u32, runtime_ns: u64, now: u64) {
    let elapsed = now.wrapping_sub(field!(cpu.booked_ns).get());
    field!(cpu.booked_ns).set(now);
    if row == ROW_IDLE {
        field!(cpu.totals.idle_ns).add_nonatomic(elapsed);
    } else {
        field!(cpu.totals.busy_ns).add_nonatomic(elapsed);
        field!(totals.cpu_ns).add_nonatomic(runtime_ns.wrapping_sub(field!(cpu.runtime_ns).get()));
    }
    field!(cpu.runtime_ns).set(runtime_ns);
}

/// Begins the stint of `task`.
#[inline(always)]
pub(crate) fn begin(cpu: Shared<CpuState>, task: Task, of: Membership, now: u64) {
    let seen = task.seen();
    set_membership(cpu, of);
    field!(cpu.nvcsw).set(seen.nvcsw);
    field!(cpu.runtime_ns).set(seen.runtime_ns);
    field!(cpu.booked_ns).set(now);
    field!(cpu.counted_epoch).set(field!(cpu.epoch).get());
    // Last, for `settle` in an interrupt.
    field!(cpu.task).set(task.address());
}

/// Notes whose the running task is.
#[inline(always)]
pub(crate) fn set_membership(cpu: Shared<CpuState>, of: Membership) {
    field!(cpu.group).set(of.group);
    field!(cpu.cgroup).set(of.cgroup);
    field!(cpu.row).set(u64::from(of.row));
}

/// `next` gets the CPU: finds out whose it is, books its wait on the run queue, which has ended, and begins its stint.
/// `is_logged` says that the stint before it is in the log.
#[inline(always)]
pub(crate) fn sched_in(cpu: Shared<CpuState>, next: Task, arrival: Arrival, now: u64, is_logged: bool) -> Membership {
    let of = if next.is_idle() {
        Membership::IDLE
    } else {
        let state = state_of(cpu, next);
        let of = Membership::of_next(cpu, next, state);
        if let Some(totals) = totals_of(cpu, of.row) {
            let wait = waits::arrive(cpu, next, state, arrival, now);
            if let Some(state) = state {
                count_once(cpu, totals, state);
            }
            if let Some(wait) = wait {
                waits::book(cpu, totals, of.row, wait.ns);
                if constant!(SETTINGS.blame) != 0 {
                    blame::charge(cpu, next, state, of, wait, is_logged);
                }
            }
        }
        of
    };
    begin(cpu, next, of, now);
    of
}

/// Counts `task`, which is running or just ran, in `threads`.
#[inline(always)]
pub(crate) fn count_thread(cpu: Shared<CpuState>, totals: Shared<RowTotals>, row: u32, task: Task) {
    if row == ROW_IDLE || field!(cpu.counted_epoch).get() == field!(cpu.epoch).get() {
        return;
    }
    field!(cpu.counted_epoch).set(field!(cpu.epoch).get());
    if let Some(state) = state_of(cpu, task) {
        // First seen while it runs: its waits so far are booked, and not ours.
        if field!(state.epoch).get() == 0 && constant!(SETTINGS.runq_wait) == WAITS_SCHED_INFO {
            field!(state.wait_from_ns).set(task.run_delay());
        }
        count_once(cpu, totals, state);
    }
}

/// Counts the task of `state` in `threads`, unless it was counted in this epoch.
#[inline(always)]
fn count_once(cpu: Shared<CpuState>, totals: Shared<RowTotals>, state: Shared<TaskState>) {
    let epoch = field!(cpu.epoch).get() as u32;
    if field!(state.epoch).get() < epoch {
        field!(state.epoch).set(epoch);
        field!(totals.threads).add_nonatomic(1);
    }
}

/// Resyncs with `current`, found at the end of `__schedule()` when another task was known to run: the kernel did not show
/// the switch between them. The other task cannot have been freed yet: preemption has been off since it ran.
#[inline(never)]
pub(crate) fn resync_at_exit(cpu: Shared<CpuState>, current: Task, now: u64) {
    let before = field!(cpu.task).get();
    // Interrupts are on, and `settle` comes in one: it leaves a CPU alone that is in between. Nothing else that could come
    // writes to what is added to here, so that no addition needs to be atomic.
    field!(cpu.task).set(CpuState::IN_BETWEEN);
    field!(cpu.is_stint_mixed).set(1);
    if before != 0 {
        field!(cpu.totals.lost[Lost::Switches as usize]).add_nonatomic(1);
        let row = field!(cpu.row).get() as u32;
        if let (Some(seen), Some(totals)) = (Seen::probe(before), totals_of(cpu, row)) {
            sched_out(cpu, totals, row, seen, now);
        }
    }
    sched_in(cpu, current, Arrival::Done(0), now, false);
}

/// Resyncs with `prev`, which is about to be switched away from, when another task was known to run: neither the switch
/// between them nor its end was shown.
#[inline(never)]
pub(crate) fn resync_at_switch(cpu: Shared<CpuState>, prev: Task, is_preemption: bool, now: u64) {
    resync(cpu, prev, now);
    // The kernel has counted this switch already: as voluntary also where a signal then keeps it from sleeping, which is not seen.
    let is_voluntary = !is_preemption && !prev.is_runnable();
    field!(cpu.nvcsw).set(field!(cpu.nvcsw).get().wrapping_sub(u64::from(is_voluntary)));
}

/// The same with `current`, which goes on.
#[inline(never)]
pub(crate) fn resync_at_reading(cpu: Shared<CpuState>, current: Task, now: u64) {
    resync(cpu, current, now);
}

/// Resyncs with the `running` task, whose arrival was not seen. The one that was known to run may be gone: of the time that it had
/// left, only the CPU's own is known.
#[inline(always)]
fn resync(cpu: Shared<CpuState>, running: Task, now: u64) {
    field!(cpu.is_stint_mixed).set(1);
    if field!(cpu.task).get() == 0 {
        // What it knows of the group is another task's, who may be gone.
        field!(cpu.group).set(0);
        return begin(cpu, running, Membership::of_running(cpu, running), now);
    }
    field!(cpu.totals.lost[Lost::Switches as usize]).add_nonatomic(1);
    let elapsed = now.wrapping_sub(field!(cpu.booked_ns).get());
    let is_idle = running.is_idle();
    let ran = if is_idle { 0 } else { running.ran_since_arrival().min(elapsed) };
    let idle = match field!(cpu.row).get() as u32 {
        _ if is_idle => elapsed,
        ROW_IDLE => elapsed - ran,
        _ => 0,
    };
    field!(cpu.totals.idle_ns).add_nonatomic(idle);
    field!(cpu.totals.busy_ns).add_nonatomic(elapsed - idle);
    sched_in(cpu, running, Arrival::Done(ran), now, false);
    // Booked when it leaves, or at the next reading.
    field!(cpu.runtime_ns).set(field!(cpu.runtime_ns).get().wrapping_sub(ran));
}
