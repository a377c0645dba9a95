//! A task is freed: it will not get the CPU again.

use super::hooks::hooks;
use crate::{acceptors, kernel::Context, tasks};

hooks!(freed: tp_btf "sched_process_free" => free, raw_tp "sched_process_free" => free_raw);

/// `sched_process_free(struct task_struct *p)`
#[inline(always)]
fn freed(context: Context) {
    let task = context.task(0);
    tasks::forget(task);
    acceptors::forget(task);
}
