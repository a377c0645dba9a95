//! Waits on the run queue: until the switch to the task, from when it could run.

use lagstop_ebpf::{CpuState, Lost, RowTotals, TaskState, WAITS_SCHED_INFO, WAITS_WAKEUPS};

use crate::{
    blame::Wait,
    distributions,
    kernel::{Task, constant},
    shared::{Shared, field},
    tasks::state_of,
};

/// Whether the kernel has yet to book the wait of a task that gets the CPU.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// It is about to: at `sched_switch`, when the run queue's clock says this, `sched_info_arrive` is still to come.
    Coming(u64),
    /// It has, and the task has run for this long since.
    Done(u64),
}

/// How a task left the CPU.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Departure {
    /// To wait for something.
    Voluntary,
    /// It could have gone on.
    Involuntary,
}

/// Notes that `task`, which leaves the CPU, waits for it from now on, or for something else.
#[inline(always)]
pub(crate) fn depart(cpu: Shared<CpuState>, task: Task, departure: Departure, now: u64) {
    if constant!(SETTINGS.runq_wait) != WAITS_WAKEUPS || task.is_idle() {
        return;
    }
    if let Some(state) = state_of(cpu, task) {
        field!(state.wait_from_ns).set(match departure {
            Departure::Involuntary if task.is_runnable() => now,
            Departure::Involuntary => TaskState::PREEMPTED_NOT_RUNNABLE,
            Departure::Voluntary => 0,
        });
    }
}

/// How long `task`, which gets the CPU, has waited for it. `None` if it has not, or that is not known.
#[inline(always)]
pub(crate) fn arrive(
    cpu: Shared<CpuState>,
    task: Task,
    state: Option<Shared<TaskState>>,
    arrival: Arrival,
    now: u64,
) -> Option<Wait> {
    match constant!(SETTINGS.runq_wait) {
        WAITS_SCHED_INFO => by_sched_info(task, state, arrival),
        WAITS_WAKEUPS => {
            let ran = if let Arrival::Done(ran) = arrival { ran } else { 0 };
            by_the_clock(cpu, state, now.wrapping_sub(ran)).map(|ns| Wait { ns, here_ns: ns })
        }
        _ => None,
    }
}

/// Books a wait to its task's row, and to the CPU.
#[inline(always)]
pub(crate) fn book(cpu: Shared<CpuState>, totals: Shared<RowTotals>, row: u32, wait: u64) {
    field!(totals.runq_waits).add_nonatomic(1);
    field!(totals.runq_wait_ns).add_nonatomic(wait);
    field!(cpu.totals.runq_waits).add_nonatomic(1);
    field!(cpu.totals.runq_wait_ns).add_nonatomic(wait);
    if let Some(distributions) = distributions::of(cpu, row) {
        distributions::count(field!(distributions.runq_wait), wait);
    }
}

/// The wait of `task`, which gets the CPU.
///
/// The kernel adds `rq->clock − last_queued` to `run_delay` when a task gets the CPU (`sched_info_arrive`). A task moved
/// to another CPU while it waits has had the first part added by `sched_info_dequeue`. So the wait is all that
/// `run_delay` grows by between two arrivals.
#[inline(always)]
fn by_sched_info(task: Task, state: Option<Shared<TaskState>>, arrival: Arrival) -> Option<Wait> {
    let mut delay = task.run_delay();
    let (mut wait, mut here_ns) = (0, 0);
    // A task that was never queued has not waited: it was preempted in a state other than running.
    let mut waited = false;
    let mut ran = 0;
    match arrival {
        Arrival::Coming(clock) => {
            let queued = task.last_queued();
            waited = queued != 0;
            if waited {
                here_ns = clock.wrapping_sub(queued);
                wait = here_ns;
                delay += wait;
            }
        }
        Arrival::Done(since) => ran = since,
    }
    if let Some(state) = state {
        let is_known = field!(state.epoch).get() != 0;
        // Born after the load, it has had no other waits. Those of older tasks are not ours, and those of one that has run while
        // nothing could be kept of it are counted.
        let is_first = !is_known
            && field!(state.born_ns).get() > constant!(SETTINGS.loaded_at_ns)
            && task.seen().runtime_ns == ran;
        if is_known {
            wait = delay.wrapping_sub(field!(state.wait_from_ns).get());
        } else if is_first {
            wait = delay;
        }
        if let Arrival::Done(_) = arrival {
            waited = is_known || is_first;
        }
        if waited || !is_known {
            field!(state.wait_from_ns).set(delay);
        }
    }
    waited.then_some(Wait { ns: wait, here_ns })
}

/// The time until `now` since the task was noted to wait.
#[inline(always)]
fn by_the_clock(cpu: Shared<CpuState>, state: Option<Shared<TaskState>>, now: u64) -> Option<u64> {
    let state = state?;
    let queued_ns = field!(state.wait_from_ns).get();
    field!(state.wait_from_ns).set(0);
    match queued_ns {
        TaskState::PREEMPTED_NOT_RUNNABLE => None,
        0 => {
            // Not seen before, it may have been woken before there was anybody to see it.
            if field!(state.epoch).get() != 0 {
                field!(cpu.totals.lost[Lost::Wakeups as usize]).add_nonatomic(1);
            }
            None
        }
        // It may have been woken while it ran.
        since_ns => now.checked_sub(since_ns),
    }
}
