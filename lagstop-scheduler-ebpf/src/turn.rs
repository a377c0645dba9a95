//! When it is a task's turn.

use core::ptr::read_volatile;

use lagstop_scheduler_ebpf::ROOT_GROUP;

use crate::{
    credit,
    kernel::{Task, constant},
    maps::{self, count},
};

/// Where a task stands among others.
#[derive(Clone, Copy)]
pub(crate) struct Standing {
    /// What it is ranked by, with `ONE`; 0 of those that never wait behind credits.
    pub(crate) credit: i64,
    /// Its turn, if it waits from now on.
    pub(crate) turn: u64,
    /// How long it may run then.
    pub(crate) slice: u64,
    /// Its cgroup; 0 where its use is nobody's.
    pub(crate) group: u64,
}

/// Turns of kernel threads, and of lagstop, are before all others', and in the order in which they come: their time by this power of two.
const KERNEL_THREADS_FIRST: u64 = 24;
/// Turns below are theirs: all others' are times, which on this clock are above within seconds after boot.
pub(crate) const FIRST_OF_OTHERS: u64 = 1 << 32;

/// Where `task` stands now.
#[inline(always)]
pub(crate) fn standing(task: Task, now: u64) -> Standing {
    let slice = constant!(SETTINGS.slice);
    // They are nobody's load: RCU's threads and the watchdog's own worker would wait behind the root cgroup's credit, and the
    // kernel throws such a scheduler out.
    if task.is_kernel_thread() {
        return Standing { credit: 0, turn: now >> KERNEL_THREADS_FIRST, slice, group: 0 };
    }
    let group = task.cgroup();
    // What works out everybody's share must not wait for its own.
    if task.is_own() {
        return Standing { credit: 0, turn: now >> KERNEL_THREADS_FIRST, slice, group };
    }
    // The host's own: whoever forks here must not make all of it heavy.
    if group == ROOT_GROUP {
        return Standing { credit: 0, turn: now, slice, group };
    }
    let (Some(plan), Some(state)) = (maps::plan(group), maps::group(group, now)) else {
        count!(unknown);
        return Standing { credit: 0, turn: now, slice, group: 0 };
    };
    // SAFETY: values of maps. User space may change a plan meanwhile: each number is old or new.
    let (factor, delay, slice, fixed, used) = unsafe {
        (
            read_volatile(&raw const (*plan).factor),
            read_volatile(&raw const (*plan).delay),
            read_volatile(&raw const (*plan).slice),
            read_volatile(&raw const (*plan).fixed),
            credit::at(state, now),
        )
    };
    let by_use = ((used >> 4) * factor as i64) >> 16;
    let credit = if fixed >= 0 { fixed } else { by_use };
    let most = constant!(SETTINGS.max_credit) as i64;
    let credit = if credit > most { most } else { credit };
    let credit = if credit < 0 { 0 } else { credit };
    let later = ((credit as u64) * (delay >> 10)) >> 6;
    Standing { credit, turn: now + later, slice, group }
}
