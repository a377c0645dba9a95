//! From a cgroup to its row, and the totals of that.

use aya_ebpf::{bindings::BPF_NOEXIST, helpers::generated::bpf_probe_read_kernel_str};
use lagstop_ebpf::{
    Ancestor, CpuState, LINEAGE_DEPTH, NAME_LEN, ROW_IDLE, ROW_OTHER, ROWS_A_LINE, RowTotals, TaskState,
};

use crate::{
    kernel::{Cgroup, Group, Pointer, Task, constant, probe_field, probe_read},
    maps::{FREE_ROWS, LINEAGES, MARKS, ROW_OF, ROW_TOTALS},
    shared::{Lookup, Shared, field},
};

/// Whose a task is.
#[derive(Clone, Copy)]
pub(crate) struct Membership {
    /// Address of what groups it; 0 for idle.
    pub(crate) group: u64,
    /// Id of its cgroup; 0 for idle: ids are inode numbers.
    pub(crate) cgroup: u64,
    /// Its row.
    pub(crate) row: u32,
}

impl Membership {
    pub(crate) const IDLE: Self = Self { group: 0, cgroup: 0, row: ROW_IDLE };

    /// Whose the running task is. `cpu` knows it unless the task has been moved to another cgroup: it keeps its group
    /// alive, so the address tells.
    #[inline(always)]
    pub(crate) fn of_running(cpu: Shared<CpuState>, task: Task) -> Self {
        if task.is_idle() {
            return Self::IDLE;
        }
        let group = task.group();
        if group.address() == field!(cpu.group).get() {
            let (cgroup, row) = (field!(cpu.cgroup).get(), field!(cpu.row).get() as u32);
            return Self { group: group.address(), cgroup, row };
        }
        Self::look_up(cpu, group)
    }

    /// Whose a task is that comes next, remembered in its `state` for the rest of the epoch: the walk to the cgroup's id
    /// and the look-up touch memory that is cold on a dense host. An address may come to mean another group only after
    /// the task has left the first; looking anew in each epoch keeps a row that changes hands from being remembered.
    #[inline(always)]
    pub(crate) fn of_next(cpu: Shared<CpuState>, task: Task, state: Option<Shared<TaskState>>) -> Self {
        let group = task.group();
        let Some(state) = state else { return Self::look_up(cpu, group) };
        if field!(state.group).get() == group.address()
            && field!(state.group_epoch).get() == field!(cpu.epoch).get() as u32
        {
            let (cgroup, row) = (field!(state.cgroup).get(), field!(state.row).get());
            return Self { group: group.address(), cgroup, row };
        }
        let found = Self::look_up(cpu, group);
        field!(state.group).set(found.group);
        field!(state.cgroup).set(found.cgroup);
        field!(state.row).set(found.row);
        field!(state.group_epoch).set(field!(cpu.epoch).get() as u32);
        found
    }

    #[inline(always)]
    fn look_up(cpu: Shared<CpuState>, group: Group) -> Self {
        let cgroup = group.cgroup();
        let id = cgroup.id();
        Self { group: group.address(), cgroup: id, row: row_of(cpu, cgroup, id) }
    }
}

/// The row of `cgroup`, looked up, or a new one.
#[inline(always)]
pub(crate) fn row_of(cpu: Shared<CpuState>, cgroup: Cgroup, id: u64) -> u32 {
    // User space removes a row's entry long before the row is given out again.
    match ROW_OF.shared(id) {
        Some(row) => row.get(),
        None => allocate(cpu, cgroup, id),
    }
}

/// The totals of `row` on this CPU, which are about to be added to.
///
/// Every caller runs with interrupts off, or writes to fields that no interrupt does.
#[inline(always)]
pub(crate) fn totals_of(cpu: Shared<CpuState>, row: u32) -> Option<Shared<RowTotals>> {
    let totals = ROW_TOTALS.shared(field!(cpu.first_totals).get() as u32 + row)?;
    let epoch = field!(cpu.epoch).get();
    if field!(totals.touched).get() != epoch {
        mark(cpu, row, epoch);
        // In this order: what comes in between finds that it is not marked yet.
        field!(totals.touched).set(epoch);
    }
    Some(totals)
}

/// Notes that `row` is touched in `epoch`. A byte of its own each: an interrupt may mark another one meanwhile.
#[inline(always)]
fn mark(cpu: Shared<CpuState>, row: u32, epoch: u64) {
    if let Some(marks) = MARKS.shared(field!(cpu.first_marks).get() as u32 + row / ROWS_A_LINE) {
        // Keeps the null check before the pointer arithmetic, as the verifier requires.
        let marks = core::hint::black_box(marks);
        field!(marks.rows[(row % ROWS_A_LINE) as usize]).set(epoch as u8);
    }
}

/// Gives `cgroup` a free row, or `(other)` where none is left.
#[inline(never)]
fn allocate(cpu: Shared<CpuState>, cgroup: Cgroup, id: u64) -> u32 {
    if field!(cpu.rows_full).get() != 0 {
        return ROW_OTHER;
    }
    let row = match FREE_ROWS.pop() {
        Ok(Some(row)) => row,
        Ok(None) => {
            field!(cpu.rows_full).set(1);
            return ROW_OTHER;
        }
        // Busy: the next switch asks again.
        Err(_) => return ROW_OTHER,
    };
    write_lineage(row, cgroup, id);
    if ROW_OF.insert(id, row, u64::from(BPF_NOEXIST)).is_ok() {
        // In this order: who sees the count finds the row.
        field!(cpu.rows_allocated).add(1);
        return row;
    }
    // Another CPU was faster with the same cgroup, or the map refused.
    let _ = FREE_ROWS.push(row, 0);
    ROW_OF.shared(id).map_or(ROW_OTHER, Shared::get)
}

/// Keeps the names on the way from `cgroup` to the root, for when its directory is gone.
#[inline(always)]
fn write_lineage(row: u32, cgroup: Cgroup, id: u64) {
    let Some(lineage) = LINEAGES.shared(row) else { return };
    let mut cgroup = cgroup.as_ptr();
    let mut id = id;
    for n in 0..LINEAGE_DEPTH {
        let ancestor = field!(lineage.ancestors[n]);
        field!(ancestor.id).set(id);
        if id == 0 {
            break;
        }
        copy_name(ancestor, cgroup);
        (cgroup, id) = parent(cgroup);
    }
}

/// The parent of `cgroup` and its id; 0 above the root.
#[inline(always)]
fn parent(cgroup: Pointer) -> (Pointer, u64) {
    let css = probe_field(cgroup, constant!(OFFSETS.cgroup_parent_css));
    if css.is_null() {
        return (css, 0);
    }
    let cgroup = probe_field(css, constant!(OFFSETS.css_cgroup));
    let kn = probe_field(cgroup, constant!(OFFSETS.cgroup_kn));
    (cgroup, probe_read(kn.wrapping_add(constant!(OFFSETS.kn_id) as usize)).unwrap_or(0))
}

#[inline(always)]
fn copy_name(ancestor: Shared<Ancestor>, cgroup: Pointer) {
    let kn = probe_field(cgroup, constant!(OFFSETS.cgroup_kn));
    let name = probe_field(kn, constant!(OFFSETS.kn_name));
    let copy = field!(ancestor.name);
    // SAFETY: the helper checks the source, and the destination is `NAME_LEN` bytes of a map value.
    let length = unsafe { bpf_probe_read_kernel_str(copy.as_ptr().cast(), NAME_LEN as u32, name.cast()) };
    if length <= 0 {
        field!(ancestor.name[0]).replace(0);
    }
}

const _: () = assert!(LINEAGE_DEPTH <= 16, "the loop over the lineage is unrolled or bounded by the verifier");
