//! A task is freed: it will not get the CPU again.

use super::tracepoint;
use crate::{acceptors, kernel::Arguments, tasks};

tracepoint!("sched_process_free": free, free_raw => freed);

/// `sched_process_free(struct task_struct *p)`
#[inline(always)]
fn freed(arguments: Arguments) {
    let task = arguments.task(0);
    tasks::forget(task);
    acceptors::forget(task);
}
