//! Every map. Sizes in rows, tasks, and the CPUs' places, are set by user space at load.
//!
//! All of them are allocated when they are made: nothing here may allocate inside of a switch.

use aya_ebpf::{
    bindings::BPF_F_MMAPABLE,
    btf_maps::{Array, HashMap, LruHashMap, PerCpuArray, Stack},
    macros::btf_map,
};
use lagstop_ebpf::{
    AcceptTotals, Acceptor, CpuPlace, CpuState, DEFAULT_ROWS, DISPLACED, Distributions, GroupQueue, Lineage,
    ListenerKey, ListenerTotals, MAX_ACCEPTORS, MAX_CLAIMS, MAX_LISTENERS, MAX_PAIRS, MAX_PENDING, MAX_SHARDS,
    MAX_TASKS, MAX_THROTTLES, Marks, Pair, Pending, ROWS_A_LINE, RowTotals, StintLog, TaskState, Throttle,
};

use crate::{
    kernel::constant,
    shared::{Lookup, Shared, field},
};

const ROWS: usize = DEFAULT_ROWS as usize;

/// Cgroup id to row.
#[btf_map]
pub(crate) static ROW_OF: HashMap<u64, u32, ROWS> = HashMap::new();

/// Rows that no cgroup has. User space fills it, and gives back the rows of cgroups that are gone.
#[btf_map]
pub(crate) static FREE_ROWS: Stack<u32, ROWS> = Stack::new();

/// User space maps these into its memory: a reading is loads of what was touched. They begin on a page, so that values of cache
/// lines are lines.
const MMAPABLE: usize = BPF_F_MMAPABLE as usize;

/// Totals by CPU and row.
#[btf_map]
pub(crate) static ROW_TOTALS: Array<RowTotals, ROWS, MMAPABLE> = Array::new();

/// Which rows were touched when, by CPU and line of rows.
#[btf_map]
pub(crate) static MARKS: Array<Marks, { ROWS.div_ceil(ROWS_A_LINE as usize) }, MMAPABLE> = Array::new();

/// Distributions by row and shard: row · shards + shard.
#[btf_map]
pub(crate) static DISTRIBUTIONS: Array<Distributions, { ROWS * MAX_SHARDS as usize }, MMAPABLE> = Array::new();

/// Accepts by row.
#[btf_map]
pub(crate) static ACCEPTS: Array<AcceptTotals, ROWS, MMAPABLE> = Array::new();

/// Names by row, written when the row is given out.
#[btf_map]
pub(crate) static LINEAGES: Array<Lineage, ROWS> = Array::new();

/// One value a CPU.
#[btf_map]
static CPU: PerCpuArray<CpuState, 1> = PerCpuArray::new();

/// Where each CPU sits, by CPU number. User space fills it.
#[btf_map]
pub(crate) static PLACES: Array<CpuPlace, 8_192> = Array::new();

/// Connections that wait to be accepted, by the address of their `struct sock`.
#[btf_map]
pub(crate) static PENDING: HashMap<u64, Pending, { MAX_PENDING as usize }> = HashMap::new();

/// Totals by listening address.
#[btf_map]
pub(crate) static LISTENERS: HashMap<ListenerKey, ListenerTotals, { MAX_LISTENERS as usize }> = HashMap::new();

/// Threads that accept, by the address of their `task_struct`. Taken out when the task is freed.
#[btf_map]
pub(crate) static ACCEPTORS: HashMap<u64, Acceptor, { MAX_ACCEPTORS as usize }> = HashMap::new();

/// What is kept about each task, at a place that its address leads to: one look, at one cache line.
#[btf_map]
pub(crate) static TASKS: Array<TaskState, { MAX_TASKS as usize }, MMAPABLE> = Array::new();

/// Places in [`TASKS`] that are being taken at this moment: no more than there are CPUs.
#[btf_map]
pub(crate) static CLAIMS: HashMap<u32, u32, { MAX_CLAIMS as usize }> = HashMap::new();

/// What is kept about tasks whose place is another one's, by address.
#[btf_map]
pub(crate) static DISPLACED_TASKS: HashMap<u64, TaskState, { (MAX_TASKS / DISPLACED) as usize }> = HashMap::new();

/// This CPU's last stints, and behind them the blocks of older ones.
#[btf_map]
pub(crate) static STINT_LOGS: PerCpuArray<StintLog, 2> = PerCpuArray::new();

/// When cgroups were throttled last on each CPU. Whose turn was longest ago gives its place away.
#[btf_map]
pub(crate) static THROTTLES: LruHashMap<GroupQueue, Throttle, { MAX_THROTTLES as usize }> = LruHashMap::new();

/// Time that a cgroup's tasks waited while another one's ran. User space takes out what does not grow any more.
#[btf_map]
pub(crate) static PAIRS: HashMap<Pair, u64, { MAX_PAIRS as usize }> = HashMap::new();

/// Is nobody to read what is counted on this CPU?
#[inline(always)]
pub(crate) fn is_excluded(cpu: Shared<CpuState>) -> bool {
    constant!(SETTINGS.excludes_cpus) != 0 && field!(cpu.is_excluded).get() != 0
}

/// What is kept about this CPU. A program stays on the CPU that it began on.
#[inline(always)]
pub(crate) fn this_cpu() -> Option<Shared<CpuState>> {
    CPU.shared(0)
}
