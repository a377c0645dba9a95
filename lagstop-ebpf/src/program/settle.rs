//! Books the time of the task that is running now. User space runs this on every CPU before it reads, so that a task
//! that has not been switched away for long is in the figures all the same.

use lagstop_ebpf::CpuState;

use super::timing;
use crate::{
    kernel::{Task, now},
    maps::this_cpu,
    rows::{Membership, totals_of},
    shared::field,
    stints,
};

/// Never attached: run by `BPF_PROG_TEST_RUN` on one CPU, in an interrupt there. Arguments: the epoch that begins; 1 when
/// there are free rows; 1 when the CPU was not settled the last time, so that what is known of it is out of date; 1 where
/// switches are timed from now on. Gives how many rows were given to cgroups there; where the epoch is 0, which never begins, the
/// process id of the running task, by which user space can tell whether the fields are where it thinks.
///
/// Declared by hand: aya's macro has raw tracepoints give 0.
#[unsafe(no_mangle)]
#[unsafe(link_section = "raw_tp/lagstop_settle")]
pub(crate) fn settle(arguments: *const u64) -> i32 {
    let now = now();
    let Some(cpu) = this_cpu() else { return 0 };
    let current = Task::current();
    // SAFETY: user space passes them, and the verifier checks the bounds.
    let [epoch, has_free_rows, restart, is_timed] =
        unsafe { [*arguments, *arguments.add(1), *arguments.add(2), *arguments.add(3)] };
    if restart != 0 {
        field!(cpu.task).set(0);
    }
    if has_free_rows != 0 {
        field!(cpu.rows_full).set(0);
    }
    let known = field!(cpu.task).get();
    let is_another = known != 0 && known != CpuState::IN_BETWEEN && known != current.address();
    if is_another && !timing::is_timed(cpu) {
        stints::resync_at_reading(cpu, current, now);
    }
    let known = field!(cpu.task).get();
    if known == 0 || known == current.address() {
        // Looked up anew, so that no address is trusted for longer than an interval.
        field!(cpu.group).set(0);
        let of = Membership::of_running(cpu, current);
        if known == 0 {
            stints::begin(cpu, current, of, now);
        } else if let Some(totals) = totals_of(cpu, of.row) {
            stints::count_thread(cpu, totals, of.row, current);
            stints::book(cpu, totals, of.row, current.seen().runtime_ns, now);
            stints::count_if_other(cpu, of.row);
            stints::set_membership(cpu, of);
        }
    }
    // Else a switch that was not shown is not over yet: its end resyncs.

    if epoch != 0 {
        field!(cpu.epoch).set(epoch);
        field!(cpu.is_timed).set(is_timed);
    }
    field!(cpu.tasks_full).set(0);
    field!(cpu.pairs_full).set(0);
    if epoch == 0 { current.tgid() as i32 } else { field!(cpu.rows_allocated).get() as i32 }
}
