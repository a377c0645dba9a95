//! Start of `__schedule()`.

use aya_ebpf::{helpers::bpf_ktime_get_ns, macros::btf_tracepoint, programs::BtfTracePointContext};

use crate::maps::CPU;

/// Interrupts are still on here: this may only store, never add.
#[btf_tracepoint(function = "sched_entry_tp")]
pub(crate) fn entry(_: BtfTracePointContext) -> i32 {
    if let Some(cpu) = CPU.get_ptr_mut(0) {
        // SAFETY: this CPU's own value; preemption is off.
        let cpu = unsafe { &mut *cpu };
        cpu.switch_ns = 0;
        // SAFETY: takes no arguments. Last, so that what comes before is not measured.
        cpu.entry_ns = unsafe { bpf_ktime_get_ns() };
    }
    0
}
