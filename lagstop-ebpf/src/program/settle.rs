//! Books the time of the task that is running now. User space runs this on every CPU before it reads, so that a task
//! that has not been switched away for long is in the figures all the same.

use aya_ebpf::helpers::bpf_ktime_get_ns;

use crate::{kernel::Task, maps::CPU, rows::Membership, spells};

/// Never attached: run by `BPF_PROG_TEST_RUN` on one CPU, in an interrupt there. Arguments: the epoch that begins; 1 when
/// there are free rows; 1 when the CPU was not settled the last time, so that what is known of it is out of date. Gives
/// how many rows were given to cgroups there; where the epoch is 0, which never begins, the process id of the running task,
/// by which user space can tell whether the fields are where it thinks.
///
/// Declared by hand: aya's macro has raw tracepoints give 0.
#[unsafe(no_mangle)]
#[unsafe(link_section = "raw_tp/lagstop_settle")]
pub(crate) fn settle(arguments: *const u64) -> i32 {
    // SAFETY: takes no arguments.
    let now = unsafe { bpf_ktime_get_ns() };
    let Some(cpu) = CPU.get_ptr_mut(0) else { return 0 };
    // SAFETY: this CPU's own value; what else writes to the same fields has interrupts off.
    let cpu = unsafe { &mut *cpu };
    let current = Task::current();
    // SAFETY: user space passes them, and the verifier checks the bounds.
    let [epoch, has_free_rows, restart] = unsafe { [*arguments, *arguments.add(1), *arguments.add(2)] };
    if restart != 0 {
        cpu.task = 0;
    }
    if has_free_rows != 0 {
        cpu.rows_full = 0;
    }
    let is_known = cpu.task == current.address();
    if cpu.task == 0 || is_known {
        // Looked up anew, so that no address is trusted for longer than an interval.
        cpu.group = 0;
        let of = Membership::of_running(cpu, current);
        if !is_known {
            spells::begin(cpu, current, of, now);
        } else if let Some(totals) = spells::totals_of(of.row) {
            spells::count_thread(cpu, totals, of.row, current);
            spells::book(cpu, totals, of.row, current.seen().runtime_ns, now);
            spells::count_if_other(cpu, of.row);
            spells::belongs(cpu, of);
        }
    }
    // Else a switch that was not shown is not over yet, and will be taken up at its end.

    cpu.epoch = epoch;
    cpu.tasks_full = 0;
    if epoch == 0 { current.tgid() as i32 } else { cpu.claims as i32 }
}
