//! The switch itself: `sched_switch`, in `__schedule()` after the next task was picked, with interrupts off.

use aya_ebpf::helpers::bpf_ktime_get_ns;
use lagstop_ebpf::{COST_NONE, COST_WHOLE, CpuState, Lost, ROW_IDLE};

use super::tracepoint;
use crate::{
    kernel::{Arguments, constant},
    maps::CPU,
    rows::Membership,
    spells::{self, Arrival},
};

tracepoint!("sched_switch": switch, switch_raw => switched);

/// `sched_switch(bool preempt, struct task_struct *prev, struct task_struct *next, …)`
#[inline(always)]
fn switched(arguments: Arguments) {
    // SAFETY: takes no arguments.
    let now = unsafe { bpf_ktime_get_ns() };
    let Some(cpu) = CPU.get_ptr_mut(0) else { return };
    // SAFETY: this CPU's own value; interrupts are off.
    let cpu = unsafe { &mut *cpu };
    if constant!(SETTINGS.clock_only) != 0 {
        cpu.switch_ns = now;
        return;
    }
    let prev = arguments.task(1);
    let next = arguments.task(2);

    if cpu.task != prev.address() {
        spells::begin_late(cpu, prev, now);
    }
    let left = Membership::of_running(cpu, prev);
    if constant!(SETTINGS.switch_cost) != COST_NONE {
        note_pick(cpu, arguments.number(0) != 0, now);
    }
    cpu.previous_row = u64::from(left.row);
    if let Some(totals) = spells::totals_of(left.row) {
        spells::count_thread(cpu, totals, left.row, prev);
        let departure = spells::end(cpu, totals, left.row, prev.seen(), now);
        spells::note_departure(cpu, prev, departure, now);
        totals.pick_ns += cpu.pick_ns;
        let taken = spells::take_on(cpu, next, Arrival::Coming, now);
        // Going idle crosses nothing: nobody else's task comes.
        let both_are_tasks = left.row != ROW_IDLE && taken.row != ROW_IDLE;
        totals.cross_cgroup_switches += u64::from(both_are_tasks && left.cgroup != taken.cgroup);
    }
    if constant!(SETTINGS.switch_cost) != COST_NONE {
        cpu.call = CpuState::CALL_SWITCHED;
        // Read again, so that the time spent here is not in the swap cost.
        // SAFETY: takes no arguments.
        cpu.switch_ns = unsafe { bpf_ktime_get_ns() };
    }
}

/// Takes the time from entry to `now`, where the entry was seen: not that of an earlier call, which was preempted before
/// it could say so, or kept the running task unseen.
#[inline(always)]
fn note_pick(cpu: &mut CpuState, is_preemption: bool, now: u64) {
    if cpu.call == CpuState::CALL_SWITCHED && constant!(SETTINGS.switch_cost) == COST_WHOLE {
        cpu.totals.lost[Lost::Exits as usize] += 1;
    }
    // Preemption passes the functions by that are hooked where kept calls are not seen.
    let may_be_of_a_kept_call = constant!(SETTINGS.sees_kept) == 0 && is_preemption;
    if cpu.call == CpuState::CALL_ENTERED && cpu.entry_ns >= cpu.switch_ns && !may_be_of_a_kept_call {
        cpu.pick_ns = now.wrapping_sub(cpu.entry_ns);
        cpu.is_pick_known = 1;
        cpu.totals.pick_ns += cpu.pick_ns;
    } else {
        cpu.pick_ns = 0;
        cpu.is_pick_known = 0;
        cpu.totals.lost[Lost::Entries as usize] += 1;
    }
}
