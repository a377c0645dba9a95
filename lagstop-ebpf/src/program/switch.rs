//! The switch itself: `sched_switch`, in `__schedule()` after the next task was picked, with interrupts off.

use aya_ebpf::{helpers::bpf_ktime_get_ns, macros::btf_tracepoint, programs::BtfTracePointContext};
use lagstop_ebpf::{Lost, ROW_IDLE};

use crate::{
    kernel::{Task, constant},
    maps::CPU,
    rows::Membership,
    spells::{self, Arrival},
};

/// `sched_switch(bool preempt, struct task_struct *prev, struct task_struct *next, …)`
#[btf_tracepoint(function = "sched_switch")]
pub(crate) fn switch(ctx: BtfTracePointContext) -> i32 {
    // SAFETY: takes no arguments.
    let now = unsafe { bpf_ktime_get_ns() };
    let Some(cpu) = CPU.get_ptr_mut(0) else { return 0 };
    // SAFETY: this CPU's own value; interrupts are off.
    let cpu = unsafe { &mut *cpu };
    if constant!(SETTINGS.clock_only) != 0 {
        cpu.switch_ns = now;
        return 0;
    }
    let prev = Task::new(ctx.arg(1));
    let next = Task::new(ctx.arg(2));

    if cpu.task != prev.as_ptr() as u64 {
        spells::begin_late(cpu, prev, now);
    }
    let left = Membership::of_running(cpu, prev);
    let pick_ns = if cpu.entry_ns == 0 {
        cpu.totals.lost[Lost::Entries as usize] += 1;
        0
    } else {
        now.wrapping_sub(cpu.entry_ns)
    };
    cpu.pick_ns = pick_ns;
    cpu.totals.pick_ns += pick_ns;
    cpu.previous_row = u64::from(left.row);
    if let Some(totals) = spells::totals_of(left.row) {
        spells::count_thread(cpu, totals, left.row, prev);
        spells::end(cpu, totals, left.row, prev.seen(), now);
        totals.pick_ns += pick_ns;
        let taken = spells::take_on(cpu, next, Arrival::Coming, now);
        // Going idle crosses nothing: nobody else's task comes.
        let both_are_tasks = left.row != ROW_IDLE && taken.row != ROW_IDLE;
        totals.cross_cgroup_switches += u64::from(both_are_tasks && left.cgroup != taken.cgroup);
    }
    // Read again, so that the time spent here is not in the swap cost.
    // SAFETY: takes no arguments.
    cpu.switch_ns = unsafe { bpf_ktime_get_ns() };
    0
}
