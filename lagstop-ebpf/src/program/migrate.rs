//! A task moves to another CPU's run queue: `sched_migrate_task`, in `set_task_cpu()`, interrupts off.

use super::hooks::hooks;
use crate::{
    kernel::Context,
    maps::{PLACES, this_cpu},
    rows::{row_of, totals_of},
    shared::{Lookup, field},
};

hooks!(migrates: tp_btf "sched_migrate_task" => migrate, raw_tp "sched_migrate_task" => migrate_raw);

/// `sched_migrate_task(struct task_struct *p, int dest_cpu)`
#[inline(always)]
fn migrates(context: Context) {
    let task = context.task(0);
    let destination = context.number(1) as u32;
    let origin = task.cpu();
    // It fires for moves to the same CPU as well, which the kernel does not count in `nr_migrations`.
    if origin == destination {
        return;
    }
    let Some(cpu) = this_cpu() else { return };
    let cgroup = task.group().cgroup();
    let row = row_of(cpu, cgroup, cgroup.id());
    let Some(totals) = totals_of(cpu, row) else { return };
    field!(totals.migrations).add_nonatomic(1);
    if let (Some(from), Some(to)) = (PLACES.shared(origin), PLACES.shared(destination)) {
        let is_cross_llc = field!(from.llc).get() != field!(to.llc).get();
        let is_cross_numa = field!(from.numa).get() != field!(to.numa).get();
        field!(totals.migrations_cross_llc).add_nonatomic(u64::from(is_cross_llc));
        field!(totals.migrations_cross_numa).add_nonatomic(u64::from(is_cross_numa));
    }
}
