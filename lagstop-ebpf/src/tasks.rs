//! What is kept about each task.
//!
//! Not in task storage: it brings no more than a table of our own, and kernels before 6.4 create it with `kmalloc`, which may wake
//! up a task and so must not happen inside of a switch.

use aya_ebpf::bindings::BPF_NOEXIST;
use bytemuck::Zeroable;
use lagstop_ebpf::{CpuState, Lost, TaskState};

use crate::{
    blame,
    kernel::{Task, constant},
    maps::{CLAIMS, DISPLACED_TASKS, TASKS},
    shared::{Lookup, Shared, field},
};

/// The state of `task`, new at first. `None` when there is no room, which is counted.
///
/// Written by whoever switches to or from the task, or wakes it, under the lock of its run queue.
#[inline(always)]
pub(crate) fn state_of(cpu: Shared<CpuState>, task: Task) -> Option<Shared<TaskState>> {
    let address = task.address();
    let born_ns = task.start_time();
    let place = place_of(task);
    let state = TASKS.shared(place)?;
    let state = if field!(state.task).get() == address { state } else { displaced(cpu, place, address, born_ns)? };
    let known_ns = field!(state.born_ns).get();
    if born_ns > known_ns {
        // Its end was not seen, and another task has got its address.
        state.replace(new(address, born_ns));
    } else if born_ns < known_ns {
        // A thread that calls execve() takes over the start time of its process' first thread (`de_thread`, fs/exec.c).
        field!(state.born_ns).set(born_ns);
    }
    Some(state)
}

/// Where in the table a task belongs (Fibonacci hashing, Knuth 6.4).
#[inline(always)]
fn place_of(task: Task) -> u32 {
    (u64::from(task.low_address()).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
        & constant!(SETTINGS.task_places) as u32
}

/// The state of a task that has not got its place, or not yet.
#[inline(never)]
fn displaced(cpu: Shared<CpuState>, place: u32, address: u64, born_ns: u64) -> Option<Shared<TaskState>> {
    let displaced = DISPLACED_TASKS.shared(address);
    let Some(claimed) = claim(place, address, born_ns) else { return displaced.or_else(|| add(cpu, address, born_ns)) };
    if let Some(displaced) = displaced {
        // Its place has come free.
        claimed.replace(displaced.copy());
        let _ = DISPLACED_TASKS.remove(address);
    }
    Some(claimed)
}

/// Takes a place that nobody has, unless another CPU is about to. Kernels before 5.12 exchange nothing in one step but elements of
/// a hash map.
#[inline(always)]
fn claim(place: u32, address: u64, born_ns: u64) -> Option<Shared<TaskState>> {
    let state = TASKS.shared(place)?;
    if field!(state.task).get() != 0 || CLAIMS.insert(place, 0, u64::from(BPF_NOEXIST)).is_err() {
        return None;
    }
    // Another CPU may have taken it since, and be done.
    let is_free = field!(state.task).get() == 0;
    if is_free {
        state.replace(new(address, born_ns));
    }
    let _ = CLAIMS.remove(place);
    is_free.then_some(state)
}

/// Makes room for a task beside the table. Not again and again where there is none: a search for a free element takes the locks of
/// all CPUs on older kernels.
#[inline(always)]
fn add(cpu: Shared<CpuState>, address: u64, born_ns: u64) -> Option<Shared<TaskState>> {
    const E2BIG: i32 = 7;
    if field!(cpu.tasks_full).get() == 0 {
        if DISPLACED_TASKS.insert(address, new(address, born_ns), 0) == Err(-E2BIG) {
            field!(cpu.tasks_full).set(1);
        } else if let Some(state) = DISPLACED_TASKS.shared(address) {
            return Some(state);
        }
    }
    // A wake-up in an interrupt may count one at the same time.
    field!(cpu.totals.lost[Lost::Tasks as usize]).add(1);
    None
}

/// The state of a task that nothing is known of yet. Its first sample is anywhere in the first step.
#[inline(always)]
fn new(task: u64, born_ns: u64) -> TaskState {
    TaskState { task, born_ns, sampled: blame::first_instant(born_ns), ..TaskState::zeroed() }
}

/// Forgets `task`.
#[inline(always)]
pub(crate) fn forget(task: Task) {
    let (address, place) = (task.address(), place_of(task));
    match TASKS.shared(place) {
        Some(state) if field!(state.task).get() == address => field!(state.task).set(0),
        _ => drop(DISPLACED_TASKS.remove(address)),
    }
}
