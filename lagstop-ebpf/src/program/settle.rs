//! Books the time of the task that is running now. User space runs this on every CPU before it reads, so that a task
//! that has not been switched away for long is in the figures all the same.

use aya_ebpf::{EbpfContext, helpers::bpf_ktime_get_ns, macros::raw_tracepoint, programs::RawTracePointContext};

use crate::{kernel::Task, maps::CPU, rows::Membership, spells};

/// Never attached: run by `BPF_PROG_TEST_RUN` on one CPU, in an interrupt there. Arguments: the epoch that begins; 1 when
/// there may be free rows again.
#[raw_tracepoint(tracepoint = "lagstop_settle")]
pub(crate) fn settle(ctx: RawTracePointContext) -> i32 {
    // SAFETY: takes no arguments.
    let now = unsafe { bpf_ktime_get_ns() };
    let Some(cpu) = CPU.get_ptr_mut(0) else { return 0 };
    // SAFETY: this CPU's own value; what else writes to the same fields has interrupts off.
    let cpu = unsafe { &mut *cpu };
    let current = Task::current();
    let known = cpu.task == current.as_ptr() as u64;
    if !known {
        // What it knows of the group is another task's, who may be gone.
        cpu.group = 0;
    }
    let of = Membership::of_running(cpu, current);
    if !known {
        // The first time here; or a switch that was not shown is not over yet, and will be taken up at its end.
        if cpu.task == 0 {
            spells::begin(cpu, current, of, now);
        }
    } else if let Some(totals) = spells::totals_of(of.row) {
        spells::count_thread(cpu, totals, of.row, current);
        spells::book(cpu, totals, of.row, current.seen().runtime_ns, now);
        spells::belongs(cpu, of);
    }

    let arguments = ctx.as_ptr().cast::<u64>();
    // SAFETY: user space passes the arguments, and the verifier checks the bounds.
    unsafe {
        cpu.epoch = *arguments;
        if *arguments.add(1) != 0 {
            cpu.rows_full = 0;
        }
    }
    0
}
