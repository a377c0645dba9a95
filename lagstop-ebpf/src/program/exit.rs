//! End of `__schedule()`, or of a function that called it, run by the task that was switched to, or by the one that was
//! kept.

use aya_ebpf::{
    helpers::bpf_ktime_get_ns,
    macros::{fexit, kprobe},
    programs::{FExitContext, ProbeContext},
};
use lagstop_ebpf::CpuState;

use super::tracepoint;
use crate::{
    atomic,
    kernel::{Arguments, Task, constant},
    maps::CPU,
    spells, spread,
};

// A task that was just forked comes here from `schedule_tail`: its switch was seen on this CPU like any other.
tracepoint!("sched_exit_tp": exit, exit_raw => left_at_tracepoint);

#[inline(always)]
fn left_at_tracepoint(_: Arguments) {
    left();
}

/// `schedule()`
#[fexit(function = "schedule")]
pub(crate) fn schedule_exit(_: FExitContext) -> i32 {
    left();
    0
}

/// `schedule_idle()`
#[fexit(function = "schedule_idle")]
pub(crate) fn schedule_idle_exit(_: FExitContext) -> i32 {
    left();
    0
}

/// `preempt_schedule_irq()`
#[fexit(function = "preempt_schedule_irq")]
pub(crate) fn preempt_exit(_: FExitContext) -> i32 {
    left();
    0
}

/// `schedule_tail()`, where a new task begins.
#[fexit(function = "schedule_tail")]
pub(crate) fn schedule_tail_exit(_: FExitContext) -> i32 {
    left();
    0
}

/// `finish_task_switch()`, the last step of every switch.
#[kprobe(function = "finish_task_switch")]
pub(crate) fn finish_kprobe(_: ProbeContext) -> u32 {
    left();
    0
}

/// Interrupts are on: another program's fields may not be touched but atomically.
#[inline(always)]
fn left() {
    // SAFETY: takes no arguments. First, so that what comes after is not measured.
    let now = unsafe { bpf_ktime_get_ns() };
    let Some(cpu) = CPU.get_ptr_mut(0) else { return };
    // SAFETY: this CPU's own value: a program stays on its CPU.
    let cpu = unsafe { &mut *cpu };
    if constant!(SETTINGS.clock_only) != 0 {
        cpu.switch_ns = now;
        return;
    }
    let current = Task::current();
    if cpu.task != current.address() {
        // Where this can be preempted, whoever comes next takes up.
        if constant!(SETTINGS.is_preemptible) == 0 {
            spells::take_up(cpu, current, now);
        }
    } else if let Some(totals) = spells::totals_of(cpu.row as u32) {
        // Where this can be preempted, another call may have come and gone since `now` was read: its stamps are later.
        let (call, switch_ns, entry_ns) = (cpu.call, cpu.switch_ns, cpu.entry_ns);
        if call == CpuState::CALL_SWITCHED && switch_ns <= now {
            let swap = now - switch_ns;
            add(&mut totals.swap_ns, swap);
            add(&mut cpu.totals.swap_ns, swap);
            if cpu.is_pick_known != 0
                && let Some(distributions) = spread::of(cpu, cpu.previous_row as u32)
            {
                spread::count(&mut distributions.switch_cost, cpu.pick_ns + swap);
            }
        } else if call == CpuState::CALL_ENTERED && entry_ns <= now {
            let kept = now - entry_ns;
            add(&mut totals.kept_calls, 1);
            add(&mut totals.kept_ns, kept);
            add(&mut totals.pick_ns, kept);
            add(&mut cpu.totals.kept_calls, 1);
            add(&mut cpu.totals.pick_ns, kept);
        }
    }
    cpu.call = CpuState::CALL_NONE;
}

/// Adds to what only this program adds to, or none that could interrupt it.
#[inline(always)]
fn add(figure: &mut u64, amount: u64) {
    if constant!(SETTINGS.is_preemptible) != 0 {
        atomic::add(figure, amount);
    } else {
        *figure += amount;
    }
}
