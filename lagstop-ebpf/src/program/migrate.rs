//! A task moves to another CPU's run queue: `sched_migrate_task`, in `set_task_cpu()`, interrupts off.

use super::tracepoint;
use crate::{
    kernel::Arguments,
    maps::{CPU, PLACES},
    rows::find,
    spells::totals_of,
};

tracepoint!("sched_migrate_task": migrate, migrate_raw => migrates);

/// `sched_migrate_task(struct task_struct *p, int dest_cpu)`
#[inline(always)]
fn migrates(arguments: Arguments) {
    let task = arguments.task(0);
    let destination = arguments.number(1) as u32;
    let origin = task.cpu();
    // It fires for moves to the same CPU as well, which the kernel does not count in `nr_migrations`.
    if origin == destination {
        return;
    }
    let Some(cpu) = CPU.get_ptr_mut(0) else { return };
    // SAFETY: this CPU's own value; interrupts are off.
    let cpu = unsafe { &mut *cpu };
    let cgroup = task.group().cgroup();
    let row = find(cpu, cgroup, cgroup.id());
    let Some(totals) = totals_of(row) else { return };
    totals.migrations += 1;
    if let (Some(from), Some(to)) = (PLACES.get(origin), PLACES.get(destination)) {
        totals.migrations_cross_llc += u64::from(from.llc != to.llc);
        totals.migrations_cross_numa += u64::from(from.numa != to.numa);
    }
}
