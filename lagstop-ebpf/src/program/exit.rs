//! End of `__schedule()`, or of a function that called it, run by the task that was switched to, or by the one that was
//! kept.

use lagstop_ebpf::CpuState;

use super::{hooks::hooks, timing::is_timed};
use crate::{
    distributions,
    kernel::{Context, Task, constant, now},
    maps::this_cpu,
    rows::totals_of,
    shared::{Shared, field},
    stints,
};

hooks!(left:
    // A task that was just forked comes here from `schedule_tail`: its switch was seen on this CPU like any other.
    tp_btf "sched_exit_tp" => exit,
    raw_tp "sched_exit_tp" => exit_raw,
    fexit "schedule" => schedule_exit,
    fexit "schedule_idle" => schedule_idle_exit,
    fexit "preempt_schedule_irq" => preempt_exit,
    // Where a new task begins.
    fexit "schedule_tail" => schedule_tail_exit,
    // The last step of every switch.
    kprobe "finish_task_switch" => finish_kprobe,
);

/// Interrupts are on: what a program in an interrupt adds to is added to atomically, or while `settle` stays away.
#[inline(always)]
fn left(_: Context) {
    // First, so that what comes after is not measured.
    let now = now();
    let Some(cpu) = this_cpu() else { return };
    if constant!(SETTINGS.clock_only) != 0 {
        field!(cpu.switch_ns).set(now);
        return;
    }
    // Asked each time, though `sched_exit_tp` says whether it was a switch: some are shown neither at entry nor at `sched_switch`,
    // and then the one on record is another one.
    let current = Task::current();
    if field!(cpu.task).get() != current.address() {
        // Where this can be preempted, the next switch resyncs. Where switches were not timed until a moment ago, that may have been
        // long ago, and the reading that is on its way resyncs.
        if constant!(SETTINGS.is_preemptible) == 0 && is_timed(cpu) {
            stints::resync_at_exit(cpu, current, now);
        }
    } else if let Some(totals) = totals_of(cpu, field!(cpu.row).get() as u32) {
        // Where this can be preempted, another call may have come and gone since `now` was read: its stamps are later.
        let call = field!(cpu.call).get();
        let switch_ns = field!(cpu.switch_ns).get();
        let entry_ns = field!(cpu.entry_ns).get();
        if call == CpuState::CALL_SWITCHED && switch_ns <= now {
            let swap = now - switch_ns;
            add(field!(totals.swap_ns), swap);
            add(field!(cpu.totals.swap_ns), swap);
            if field!(cpu.is_pick_known).get() != 0
                && let Some(distributions) = distributions::of(cpu, field!(cpu.previous_row).get() as u32)
            {
                distributions::count(field!(distributions.switch_cost), field!(cpu.pick_ns).get() + swap);
            }
        } else if call == CpuState::CALL_ENTERED && entry_ns <= now && is_timed(cpu) {
            let kept = now - entry_ns;
            add(field!(totals.kept_calls), 1);
            add(field!(totals.kept_ns), kept);
            add(field!(totals.pick_ns), kept);
            add(field!(cpu.totals.kept_calls), 1);
            add(field!(cpu.totals.pick_ns), kept);
        }
    }
    field!(cpu.call).set(CpuState::CALL_NONE);
}

/// Adds to what only this program adds to, or none that could interrupt it.
#[inline(always)]
fn add(figure: Shared<u64>, amount: u64) {
    if constant!(SETTINGS.is_preemptible) != 0 {
        figure.add(amount);
    } else {
        figure.add_nonatomic(amount);
    }
}
