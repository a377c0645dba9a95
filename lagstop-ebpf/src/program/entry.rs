//! Start of `__schedule()`, or of a function that calls it.

use aya_ebpf::{
    helpers::bpf_ktime_get_ns,
    macros::{fentry, kprobe},
    programs::{FEntryContext, ProbeContext},
};
use lagstop_ebpf::{COST_WHOLE, CpuState, Lost};

use super::tracepoint;
use crate::{
    atomic,
    kernel::{Arguments, constant},
    maps::CPU,
};

tracepoint!("sched_entry_tp": entry, entry_raw => entered_at_tracepoint);

#[inline(always)]
fn entered_at_tracepoint(_: Arguments) {
    entered();
}

/// `schedule()`
#[fentry(function = "schedule")]
pub(crate) fn schedule_entry(_: FEntryContext) -> i32 {
    entered();
    0
}

/// `schedule_idle()`, by which the idle task switches.
#[fentry(function = "schedule_idle")]
pub(crate) fn schedule_idle_entry(_: FEntryContext) -> i32 {
    entered();
    0
}

/// `preempt_schedule_irq()`, by which an interrupt takes the CPU from a task that is in the kernel.
#[fentry(function = "preempt_schedule_irq")]
pub(crate) fn preempt_entry(_: FEntryContext) -> i32 {
    entered();
    0
}

/// `do_task_dead()`, by which a task leaves for ever.
#[fentry(function = "do_task_dead")]
pub(crate) fn dead_entry(_: FEntryContext) -> i32 {
    entered();
    0
}

/// `do_task_dead()`
#[kprobe(function = "do_task_dead")]
pub(crate) fn dead_kprobe(_: ProbeContext) -> u32 {
    entered();
    0
}

/// `schedule()`
#[kprobe(function = "schedule")]
pub(crate) fn schedule_kprobe(_: ProbeContext) -> u32 {
    entered();
    0
}

/// `schedule_idle()`
#[kprobe(function = "schedule_idle")]
pub(crate) fn schedule_idle_kprobe(_: ProbeContext) -> u32 {
    entered();
    0
}

/// Interrupts are on here: this may only store, or add atomically.
#[inline(always)]
fn entered() {
    let Some(cpu) = CPU.get_ptr_mut(0) else { return };
    // SAFETY: this CPU's own value: a program stays on its CPU.
    let cpu = unsafe { &mut *cpu };
    if cpu.call == CpuState::CALL_SWITCHED && constant!(SETTINGS.switch_cost) == COST_WHOLE {
        atomic::add(&mut cpu.totals.lost[Lost::Exits as usize], 1);
    }
    cpu.call = CpuState::CALL_ENTERED;
    // SAFETY: takes no arguments. Last, so that what comes before is not measured.
    cpu.entry_ns = unsafe { bpf_ktime_get_ns() };
}
