//! The switch itself: `sched_switch`, in `__schedule()` after the next task was picked, with interrupts off.

use lagstop_ebpf::{COST_WHOLE, CpuState, Lost, ROW_IDLE};

use super::{hooks::hooks, timing::is_timed};
use crate::{
    blame,
    kernel::{self, Context, Task, constant},
    maps::this_cpu,
    rows::{Membership, totals_of},
    shared::{Shared, field},
    stints,
    waits::{self, Arrival},
};

hooks!(switched: tp_btf "sched_switch" => switch, raw_tp "sched_switch" => switch_raw);

/// `sched_switch(bool preempt, struct task_struct *prev, struct task_struct *next, …)`
#[inline(always)]
fn switched(context: Context) {
    let now = kernel::now();
    let Some(cpu) = this_cpu() else { return };
    if constant!(SETTINGS.clock_only) != 0 {
        field!(cpu.switch_ns).set(now);
        return;
    }
    let prev = context.task(1);
    let next = context.task(2);

    if field!(cpu.task).get() != prev.address() {
        stints::resync_at_switch(cpu, prev, context.number(0) != 0, now);
    }
    let left = Membership::of_running(cpu, prev);
    let is_timed = is_timed(cpu);
    if is_timed {
        note_pick(cpu, context.number(0) != 0, now);
    }
    field!(cpu.previous_row).set(u64::from(left.row));
    if let Some(totals) = totals_of(cpu, left.row) {
        stints::count_thread(cpu, totals, left.row, prev);
        let departure = stints::sched_out(cpu, totals, left.row, prev.seen(), now);
        waits::depart(cpu, prev, departure, now);
        if is_timed {
            field!(totals.pick_ns).add_nonatomic(field!(cpu.pick_ns).get());
        }
        let clock = rq_clock(prev, next);
        if constant!(SETTINGS.blame) != 0 {
            blame::log(cpu, blame::who_runs(prev, left), clock);
        }
        let taken = stints::sched_in(cpu, next, Arrival::Coming(clock), now, true);
        // A switch to or from idle is not cross-cgroup.
        let both_are_tasks = left.row != ROW_IDLE && taken.row != ROW_IDLE;
        let is_cross = both_are_tasks && left.cgroup != taken.cgroup;
        field!(totals.cross_cgroup_switches).add_nonatomic(u64::from(is_cross));
    }
    if is_timed {
        field!(cpu.call).set(CpuState::CALL_SWITCHED);
        // Read again, so that the time spent here is not in the swap cost.
        field!(cpu.switch_ns).set(kernel::now());
    } else if constant!(SETTINGS.samples_cost) != 0 {
        // Its exit may be the first that is timed.
        field!(cpu.call).set(CpuState::CALL_NONE);
    }
}

/// The clock of this CPU's run queue. The idle task's group may have no run queue.
#[inline(always)]
fn rq_clock(prev: Task, next: Task) -> u64 {
    if prev.is_idle() { next.rq_clock() } else { prev.rq_clock() }
}

/// Takes the time from entry to `now`, where the entry was seen: not that of an earlier call, which was preempted before
/// it could say so, or kept the running task unseen.
#[inline(always)]
fn note_pick(cpu: Shared<CpuState>, is_preemption: bool, now: u64) {
    let call = field!(cpu.call).get();
    if call == CpuState::CALL_SWITCHED && constant!(SETTINGS.switch_cost) == COST_WHOLE {
        field!(cpu.totals.lost[Lost::Exits as usize]).add_nonatomic(1);
    }
    // Where kept calls are not seen, a preemption bypasses the hooked functions: the entry on record may be that of an
    // earlier call, which kept the task.
    let may_be_of_a_kept_call = constant!(SETTINGS.sees_kept) == 0 && is_preemption;
    let entry_ns = field!(cpu.entry_ns).get();
    if call == CpuState::CALL_ENTERED && entry_ns >= field!(cpu.switch_ns).get() && !may_be_of_a_kept_call {
        let pick_ns = now.wrapping_sub(entry_ns);
        field!(cpu.pick_ns).set(pick_ns);
        field!(cpu.is_pick_known).set(1);
        field!(cpu.totals.pick_ns).add_nonatomic(pick_ns);
    } else {
        field!(cpu.pick_ns).set(0);
        field!(cpu.is_pick_known).set(0);
        field!(cpu.totals.lost[Lost::Entries as usize]).add_nonatomic(1);
    }
}
