//! A task can run from now on. For kernels that do not keep `sched_info`.

use super::hooks::hooks;
use crate::{
    kernel::{Context, now},
    maps::this_cpu,
    shared::field,
    tasks::state_of,
};

hooks!(wakes:
    tp_btf "sched_wakeup" => wakeup,
    raw_tp "sched_wakeup" => wakeup_raw,
    tp_btf "sched_wakeup_new" => wakeup_new,
    raw_tp "sched_wakeup_new" => wakeup_new_raw,
);

/// `sched_wakeup(struct task_struct *p)`, under the lock of its run queue. It also fires for a task that has not left the
/// CPU yet: what is noted then is taken back when it does.
#[inline(always)]
fn wakes(context: Context) {
    let Some(cpu) = this_cpu() else { return };
    if let Some(state) = state_of(cpu, context.task(0))
        && field!(state.wait_from_ns).get() == 0
    {
        field!(state.wait_from_ns).set(now());
    }
}
