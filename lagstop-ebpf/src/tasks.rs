//! What is kept about each task.
//!
//! A hash map, not task storage: the kernel has that for tracing programs only since 5.12, and before 6.4 creates it with
//! `kmalloc`, which may wake up a task and so must not happen inside of a switch.

use bytemuck::Zeroable;
use lagstop_ebpf::{CpuState, Lost, TaskState};

use crate::{
    blame,
    kernel::Task,
    maps::TASKS,
    shared::{Lookup, Shared, field},
};

/// The state of `task`, new at first. `None` when the table is full, which is counted.
///
/// Written by whoever switches to or from the task, or wakes it, under the lock of its run queue.
#[inline(always)]
pub(crate) fn state_of(cpu: Shared<CpuState>, task: Task) -> Option<Shared<TaskState>> {
    let address = task.address();
    let born_ns = task.start_time();
    let Some(state) = TASKS.shared(address) else { return add(cpu, address, born_ns) };
    let known_ns = field!(state.born_ns).get();
    if born_ns > known_ns {
        // Its end was not seen, and another task has got its address.
        state.replace(new(born_ns));
    } else if born_ns < known_ns {
        // A thread that calls execve() takes over the start time of its process' first thread (`de_thread`, fs/exec.c).
        field!(state.born_ns).set(born_ns);
    }
    Some(state)
}

/// Makes room for a task. Not again and again where there is none: a search for a free element takes the locks of all
/// CPUs on older kernels.
#[inline(never)]
fn add(cpu: Shared<CpuState>, address: u64, born_ns: u64) -> Option<Shared<TaskState>> {
    const E2BIG: i32 = 7;
    if field!(cpu.tasks_full).get() == 0 {
        if TASKS.insert(address, new(born_ns), 0) == Err(-E2BIG) {
            field!(cpu.tasks_full).set(1);
        } else if let Some(state) = TASKS.shared(address) {
            return Some(state);
        }
    }
    // A wake-up in an interrupt may count one at the same time.
    field!(cpu.totals.lost[Lost::Tasks as usize]).add(1);
    None
}

/// The state of a task that nothing is known of yet. Its first sample is anywhere in the first step.
#[inline(always)]
fn new(born_ns: u64) -> TaskState {
    TaskState { born_ns, sampled: blame::first_instant(born_ns), ..TaskState::zeroed() }
}

/// Forgets `task`.
#[inline(always)]
pub(crate) fn forget(task: Task) {
    let _ = TASKS.remove(task.address());
}
