//! Start of `__schedule()`, or of a function that calls it.

use lagstop_ebpf::{COST_WHOLE, CpuState, Lost};

use super::hooks::hooks;
use crate::{
    kernel::{Context, constant, now},
    maps::this_cpu,
    shared::field,
};

hooks!(entered:
    tp_btf "sched_entry_tp" => entry,
    raw_tp "sched_entry_tp" => entry_raw,
    fentry "schedule" => schedule_entry,
    kprobe "schedule" => schedule_kprobe,
    // The idle task switches by this one.
    fentry "schedule_idle" => schedule_idle_entry,
    kprobe "schedule_idle" => schedule_idle_kprobe,
    // By this one an interrupt takes the CPU from a task that is in the kernel.
    fentry "preempt_schedule_irq" => preempt_entry,
    // By this one a task leaves for ever.
    fentry "do_task_dead" => dead_entry,
    kprobe "do_task_dead" => dead_kprobe,
);

/// Interrupts are on here: this may only store, or add atomically.
#[inline(always)]
fn entered(_: Context) {
    let Some(cpu) = this_cpu() else { return };
    if field!(cpu.call).get() == CpuState::CALL_SWITCHED && constant!(SETTINGS.switch_cost) == COST_WHOLE {
        field!(cpu.totals.lost[Lost::Exits as usize]).add(1);
    }
    field!(cpu.call).set(CpuState::CALL_ENTERED);
    // Last, so that what comes before is not measured.
    field!(cpu.entry_ns).set(now());
}
