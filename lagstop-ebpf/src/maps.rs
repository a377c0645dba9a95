//! Every map. Sizes in rows, and the CPUs' places, are set by user space at load.

use aya_ebpf::{
    bindings::{BPF_F_NO_PREALLOC, bpf_map_type::BPF_MAP_TYPE_TASK_STORAGE},
    btf_maps::{Array, HashMap, PerCpuArray, Stack},
    helpers::generated::bpf_task_storage_get,
    macros::btf_map,
};
use lagstop_ebpf::{
    AcceptTotals, CpuPlace, CpuState, DEFAULT_ROWS, Distributions, Lineage, ListenerKey, ListenerTotals, MAX_LISTENERS,
    MAX_PENDING, MAX_SHARDS, Pending, RowTotals, TaskState,
};

use crate::kernel::Task;

const ROWS: usize = DEFAULT_ROWS as usize;

/// Cgroup id to row.
#[btf_map]
pub(crate) static ROW_OF: HashMap<u64, u32, ROWS> = HashMap::new();

/// Rows that no cgroup has. User space fills it, and gives back the rows of cgroups that are gone.
#[btf_map]
pub(crate) static FREE_ROWS: Stack<u32, ROWS> = Stack::new();

/// Totals by row.
#[btf_map]
pub(crate) static ROW_TOTALS: PerCpuArray<RowTotals, ROWS> = PerCpuArray::new();

/// Distributions by row and shard: row · shards + shard.
#[btf_map]
pub(crate) static DISTRIBUTIONS: Array<Distributions, { ROWS * MAX_SHARDS as usize }> = Array::new();

/// Accepts by row.
#[btf_map]
pub(crate) static ACCEPTS: Array<AcceptTotals, ROWS> = Array::new();

/// Names by row, written when the row is given out.
#[btf_map]
pub(crate) static LINEAGES: Array<Lineage, ROWS> = Array::new();

/// One value a CPU.
#[btf_map]
pub(crate) static CPU: PerCpuArray<CpuState, 1> = PerCpuArray::new();

/// Where each CPU sits, by CPU number. User space fills it.
#[btf_map]
pub(crate) static PLACES: Array<CpuPlace, 8_192> = Array::new();

/// Connections that wait to be accepted, by the address of their `struct sock`.
#[btf_map]
pub(crate) static PENDING: HashMap<u64, Pending, { MAX_PENDING as usize }> = HashMap::new();

/// Totals by listening address.
#[btf_map]
pub(crate) static LISTENERS: HashMap<ListenerKey, ListenerTotals, { MAX_LISTENERS as usize }> = HashMap::new();

/// What is kept about each task; freed with it.
#[btf_map]
pub(crate) static TASKS: TaskStorage = TaskStorage::new();

/// A task-local storage map of [`TaskState`]: aya-ebpf 0.2 has no type for it.
#[repr(C)]
pub(crate) struct TaskStorage {
    r#type: *const [i32; BPF_MAP_TYPE_TASK_STORAGE as usize],
    key: *const i32,
    value: *const TaskState,
    max_entries: *const [i32; 0],
    map_flags: *const [i32; BPF_F_NO_PREALLOC as usize],
}

// SAFETY: the fields only carry types for the loader and are never read.
unsafe impl Sync for TaskStorage {}

impl TaskStorage {
    const fn new() -> Self {
        use core::ptr::null;
        Self { r#type: null(), key: null(), value: null(), max_entries: null(), map_flags: null() }
    }

    /// The state of `task`, zeroed at first. `None` when there is no memory, or when this interrupted another access to
    /// task storage on the same CPU.
    #[inline(always)]
    pub(crate) fn get(&self, task: Task) -> Option<&mut TaskState> {
        const CREATE: u64 = 1;
        // SAFETY: the helper takes the map, a task that the verifier trusts, and no initial value.
        let state = unsafe {
            bpf_task_storage_get(
                core::ptr::from_ref(self).cast_mut().cast(),
                task.as_ptr().cast_mut().cast(),
                core::ptr::null_mut(),
                CREATE,
            )
        };
        // SAFETY: null or a value of this map, which lives at least as long as the program runs.
        unsafe { state.cast::<TaskState>().as_mut() }
    }
}
