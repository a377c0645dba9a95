//! The function that picks the next task of the fair class: `pick_next_task_fair`, or `pick_task_fair`, to which user space
//! attaches the same programs where the kernel has only that. Called from `__schedule()` with interrupts off.

use super::hooks::hooks;
use crate::{
    kernel::{Context, Task, now},
    maps::this_cpu,
    rows::totals_of,
    shared::field,
};

hooks!(entered:
    fentry "pick_next_task_fair" => pick_entry,
    kprobe "pick_next_task_fair" => pick_kprobe,
);
hooks!(left:
    fexit "pick_next_task_fair" => pick_exit,
    kretprobe "pick_next_task_fair" => pick_kretprobe,
);

#[inline(always)]
fn entered(_: Context) {
    if let Some(cpu) = this_cpu() {
        field!(cpu.pick_function_entry_ns).set(now());
    }
}

#[inline(always)]
fn left(_: Context) {
    // First, so that what comes after is not measured.
    let now = now();
    let Some(cpu) = this_cpu() else { return };
    let entry_ns = field!(cpu.pick_function_entry_ns).get();
    field!(cpu.pick_function_entry_ns).set(0);
    if entry_ns == 0 {
        return;
    }
    field!(cpu.totals.pick_function_calls).add_nonatomic(1);
    // Else the row is another task's: the switch to this one was not shown.
    if field!(cpu.task).get() == Task::current().address()
        && let Some(totals) = totals_of(cpu, field!(cpu.row).get() as u32)
    {
        field!(totals.pick_function_ns).add_nonatomic(now.wrapping_sub(entry_ns));
    }
}
