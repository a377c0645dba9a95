//! The function that picks the next task of the fair class: `pick_next_task_fair`, or `pick_task_fair`. Called from
//! `__schedule()` with interrupts off.

use aya_ebpf::{
    helpers::bpf_ktime_get_ns,
    macros::{fentry, fexit, kprobe, kretprobe},
    programs::{FEntryContext, FExitContext, ProbeContext, RetProbeContext},
};

use crate::{kernel::Task, maps::CPU, spells};

/// Its entry.
#[fentry(function = "pick_next_task_fair")]
pub(crate) fn pick_entry(_: FEntryContext) -> i32 {
    entered();
    0
}

/// Its exit.
#[fexit(function = "pick_next_task_fair")]
pub(crate) fn pick_exit(_: FExitContext) -> i32 {
    left();
    0
}

/// Its entry.
#[kprobe(function = "pick_next_task_fair")]
pub(crate) fn pick_kprobe(_: ProbeContext) -> u32 {
    entered();
    0
}

/// Its exit.
#[kretprobe(function = "pick_next_task_fair")]
pub(crate) fn pick_kretprobe(_: RetProbeContext) -> u32 {
    left();
    0
}

#[inline(always)]
fn entered() {
    if let Some(cpu) = CPU.get_ptr_mut(0) {
        // SAFETY: this CPU's own value; interrupts are off, and it takes no arguments.
        unsafe { (*cpu).pick_function_entry_ns = bpf_ktime_get_ns() };
    }
}

#[inline(always)]
fn left() {
    // SAFETY: takes no arguments. First, so that what comes after is not measured.
    let now = unsafe { bpf_ktime_get_ns() };
    let Some(cpu) = CPU.get_ptr_mut(0) else { return };
    // SAFETY: this CPU's own value; interrupts are off.
    let cpu = unsafe { &mut *cpu };
    let entry_ns = core::mem::replace(&mut cpu.pick_function_entry_ns, 0);
    if entry_ns == 0 {
        return;
    }
    cpu.totals.pick_function_calls += 1;
    // Else the row is another task's: the switch to this one was not shown.
    if cpu.task == Task::current().address()
        && let Some(totals) = spells::totals_of(cpu.row as u32)
    {
        totals.pick_function_ns += now.wrapping_sub(entry_ns);
    }
}
