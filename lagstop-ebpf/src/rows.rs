//! From a cgroup to its row.

use aya_ebpf::{bindings::BPF_NOEXIST, helpers::generated::bpf_probe_read_kernel_str};
use lagstop_ebpf::{Ancestor, CpuState, LINEAGE_DEPTH, NAME_LEN, ROW_IDLE, ROW_OTHER, TaskState};

use crate::{
    atomic,
    kernel::{Cgroup, Group, Pointer, Task, constant, probe_field, probe_read},
    maps::{FREE_ROWS, LINEAGES, ROW_OF},
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
    pub(crate) fn of_running(cpu: &mut CpuState, task: Task) -> Self {
        if task.is_idle() {
            return Self::IDLE;
        }
        let group = task.group();
        if group.address() == cpu.group {
            return Self { group: cpu.group, cgroup: cpu.cgroup, row: cpu.row as u32 };
        }
        Self::look_up(cpu, group)
    }

    /// Whose a task is that comes next, remembered in its `state` for the rest of the epoch: the walk to the cgroup's id
    /// and the look-up touch memory that is cold on a dense host. An address may come to mean another group only after
    /// the task has left the first; looking anew in each epoch keeps a row that changes hands from being remembered.
    #[inline(always)]
    pub(crate) fn of_next(cpu: &mut CpuState, task: Task, state: Option<&mut TaskState>) -> Self {
        let group = task.group();
        let Some(state) = state else { return Self::look_up(cpu, group) };
        if state.group == group.address() && state.group_epoch == cpu.epoch {
            return Self { group: state.group, cgroup: state.cgroup, row: state.row as u32 };
        }
        let found = Self::look_up(cpu, group);
        state.group = found.group;
        state.cgroup = found.cgroup;
        state.row = u64::from(found.row);
        state.group_epoch = cpu.epoch;
        found
    }

    #[inline(always)]
    fn look_up(cpu: &mut CpuState, group: Group) -> Self {
        let cgroup = group.cgroup();
        let id = cgroup.id();
        Self { group: group.address(), cgroup: id, row: find(cpu, cgroup, id) }
    }
}

/// The row of `cgroup`, looked up, or a new one.
#[inline(always)]
pub(crate) fn find(cpu: &mut CpuState, cgroup: Cgroup, id: u64) -> u32 {
    // SAFETY: the value is copied at once; user space removes a row's entry long before the row is given out again.
    match unsafe { ROW_OF.get(id) } {
        Some(&row) => row,
        None => claim(cpu, cgroup, id),
    }
}

/// Gives `cgroup` a free row, or `(other)` where none is left.
#[inline(never)]
fn claim(cpu: &mut CpuState, cgroup: Cgroup, id: u64) -> u32 {
    if cpu.rows_full != 0 {
        return ROW_OTHER;
    }
    let row = match FREE_ROWS.pop() {
        Ok(Some(row)) => row,
        Ok(None) => {
            cpu.rows_full = 1;
            return ROW_OTHER;
        }
        // Busy: the next switch asks again.
        Err(_) => return ROW_OTHER,
    };
    write_lineage(row, cgroup, id);
    if ROW_OF.insert(id, row, u64::from(BPF_NOEXIST)).is_ok() {
        // In this order: who sees the count finds the row.
        atomic::add(&mut cpu.claims, 1);
        return row;
    }
    // Another CPU was faster with the same cgroup, or the map refused.
    let _ = FREE_ROWS.push(row, 0);
    // SAFETY: as in `find`.
    match unsafe { ROW_OF.get(id) } {
        Some(&row) => row,
        None => ROW_OTHER,
    }
}

/// Keeps the names on the way from `cgroup` to the root, for when its directory is gone.
#[inline(always)]
fn write_lineage(row: u32, cgroup: Cgroup, id: u64) {
    let Some(lineage) = LINEAGES.get_ptr_mut(row) else { return };
    // SAFETY: the row was just taken off the free list: nobody else writes or reads it.
    let lineage = unsafe { &mut *lineage };
    let mut cgroup = cgroup.as_ptr();
    let mut id = id;
    for ancestor in &mut lineage.ancestors {
        ancestor.id = id;
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
fn copy_name(ancestor: &mut Ancestor, cgroup: Pointer) {
    let kn = probe_field(cgroup, constant!(OFFSETS.cgroup_kn));
    let name = probe_field(kn, constant!(OFFSETS.kn_name));
    // SAFETY: the helper checks the source, and the destination is `NAME_LEN` bytes of a map value.
    let length = unsafe { bpf_probe_read_kernel_str(ancestor.name.as_mut_ptr().cast(), NAME_LEN as u32, name.cast()) };
    if length <= 0 {
        ancestor.name[0] = 0;
    }
}

const _: () = assert!(LINEAGE_DEPTH <= 16, "the loop over the lineage is unrolled or bounded by the verifier");
