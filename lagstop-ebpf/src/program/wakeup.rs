//! A task can run from now on. For kernels that do not keep `sched_info`.

use aya_ebpf::helpers::bpf_ktime_get_ns;

use super::tracepoint;
use crate::{kernel::Arguments, maps::CPU, tasks::state_of};

tracepoint!("sched_wakeup": wakeup, wakeup_raw => wakes);
tracepoint!("sched_wakeup_new": wakeup_new, wakeup_new_raw => wakes);

/// `sched_wakeup(struct task_struct *p)`, under the lock of its run queue. It also fires for a task that has not left the
/// CPU yet: what is noted then is taken back when it does.
#[inline(always)]
fn wakes(arguments: Arguments) {
    let Some(cpu) = CPU.get_ptr_mut(0) else { return };
    // SAFETY: this CPU's own value; interrupts are off.
    if let Some(state) = state_of(unsafe { &mut *cpu }, arguments.task(0))
        && state.queued_ns == 0
    {
        // SAFETY: takes no arguments.
        state.queued_ns = unsafe { bpf_ktime_get_ns() };
    }
}
