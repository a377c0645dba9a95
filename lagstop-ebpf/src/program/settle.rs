//! Books the time of the task that is running now. User space runs this on every CPU before it reads, so that a task
//! that has not been switched away for long is in the figures all the same.

use aya_ebpf::{EbpfContext, helpers::bpf_ktime_get_ns, macros::raw_tracepoint, programs::RawTracePointContext};

use crate::{kernel::Task, maps::CPU, rows::Membership, spells};

/// Never attached: run by `BPF_PROG_TEST_RUN` on one CPU, in an interrupt there. Arguments: the epoch that begins; 1 when
/// there are free rows; 1 when the CPU was not settled the last time, so that what is known of it is out of date.
#[raw_tracepoint(tracepoint = "lagstop_settle")]
pub(crate) fn settle(ctx: RawTracePointContext) -> i32 {
    // SAFETY: takes no arguments.
    let now = unsafe { bpf_ktime_get_ns() };
    let Some(cpu) = CPU.get_ptr_mut(0) else { return 0 };
    // SAFETY: this CPU's own value; what else writes to the same fields has interrupts off.
    let cpu = unsafe { &mut *cpu };
    let current = Task::current();
    let arguments = ctx.as_ptr().cast::<u64>();
    // SAFETY: user space passes them, and the verifier checks the bounds.
    let [epoch, has_free_rows, restart] = unsafe { [*arguments, *arguments.add(1), *arguments.add(2)] };
    if restart != 0 {
        cpu.task = 0;
    }
    let is_known = cpu.task == current.as_ptr() as u64;
    if cpu.task == 0 || is_known {
        // Looked up anew, so that no address is trusted for longer than an interval.
        cpu.group = 0;
        let of = Membership::of_running(cpu, current);
        if !is_known {
            spells::begin(cpu, current, of, now);
        } else if let Some(totals) = spells::totals_of(of.row) {
            spells::count_thread(cpu, totals, of.row, current);
            spells::book(cpu, totals, of.row, current.seen().runtime_ns, now);
            spells::belongs(cpu, of);
        }
    }
    // Else a switch that was not shown is not over yet, and will be taken up at its end.

    cpu.epoch = epoch;
    if has_free_rows != 0 {
        cpu.rows_full = 0;
    }
    0
}
