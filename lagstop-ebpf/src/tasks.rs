//! What is kept about each task.
//!
//! A hash map, not task storage: the kernel has that for tracing programs only since 5.12, and before 6.4 creates it with
//! `kmalloc`, which may wake up a task and so must not happen inside of a switch.

use bytemuck::Zeroable;
use lagstop_ebpf::{CpuState, Lost, TaskState};

use crate::{kernel::Task, maps::TASKS};

/// The state of `task`, zeroed at first but for its birth. `None` when the table is full, which is counted.
///
/// Written by whoever switches to or from the task, or wakes it, under the lock of its run queue.
#[inline(always)]
pub(crate) fn state_of(cpu: &mut CpuState, task: Task) -> Option<&'static mut TaskState> {
    let address = task.address();
    let born_ns = task.start_time();
    if let Some(state) = TASKS.get_ptr_mut(address) {
        // SAFETY: a value of the map; see above.
        let state = unsafe { &mut *state };
        if born_ns > state.born_ns {
            // Its end was not seen, and another task has got its address.
            *state = TaskState { born_ns, ..TaskState::zeroed() };
        } else if born_ns < state.born_ns {
            // A thread that executes a program takes over the birth of its process' first thread.
            state.born_ns = born_ns;
        }
        return Some(state);
    }
    add(cpu, address, born_ns)
}

/// Makes room for a task. Not again and again where there is none: a search for a free element takes the locks of all
/// CPUs on older kernels.
#[inline(never)]
fn add(cpu: &mut CpuState, address: u64, born_ns: u64) -> Option<&'static mut TaskState> {
    const E2BIG: i32 = 7;
    if cpu.tasks_full == 0 {
        let new = TaskState { born_ns, ..TaskState::zeroed() };
        if TASKS.insert(address, new, 0) == Err(-E2BIG) {
            cpu.tasks_full = 1;
        } else if let Some(state) = TASKS.get_ptr_mut(address) {
            // SAFETY: as above.
            return Some(unsafe { &mut *state });
        }
    }
    cpu.totals.lost[Lost::Tasks as usize] += 1;
    None
}

/// Forgets `task`.
#[inline(always)]
pub(crate) fn forget(task: Task) {
    let _ = TASKS.remove(task.address());
}
