//! End of `__schedule()`, run by the task that was switched to, or by the one that was kept. Interrupts are on again.

use aya_ebpf::{helpers::bpf_ktime_get_ns, macros::btf_tracepoint, programs::BtfTracePointContext};

use crate::{
    kernel::{Task, constant},
    maps::CPU,
    spells, spread,
};

/// A task that was just forked comes here from `schedule_tail`: its switch was seen on this CPU like any other.
#[btf_tracepoint(function = "sched_exit_tp")]
pub(crate) fn exit(_: BtfTracePointContext) -> i32 {
    // SAFETY: takes no arguments. First, so that what comes after is not measured.
    let now = unsafe { bpf_ktime_get_ns() };
    let Some(cpu) = CPU.get_ptr_mut(0) else { return 0 };
    // SAFETY: this CPU's own value; preemption is off, and interrupts write to other fields.
    let cpu = unsafe { &mut *cpu };
    if constant!(SETTINGS.clock_only) != 0 {
        cpu.switch_ns = now;
        return 0;
    }
    let current = Task::current();

    if cpu.task != current.as_ptr() as u64 {
        spells::take_up(cpu, current, now);
    } else if let Some(totals) = spells::totals_of(cpu.row as u32) {
        if cpu.switch_ns != 0 {
            let swap = now.wrapping_sub(cpu.switch_ns);
            totals.swap_ns += swap;
            cpu.totals.swap_ns += swap;
            if cpu.entry_ns != 0
                && let Some(distributions) = spread::of(cpu, cpu.previous_row as u32)
            {
                spread::count(&mut distributions.switch_cost, cpu.pick_ns + swap);
            }
        } else if cpu.entry_ns != 0 {
            let kept = now.wrapping_sub(cpu.entry_ns);
            totals.kept_calls += 1;
            totals.kept_ns += kept;
            totals.pick_ns += kept;
            cpu.totals.kept_calls += 1;
            cpu.totals.pick_ns += kept;
        }
    }
    cpu.entry_ns = 0;
    cpu.switch_ns = 0;
    0
}
