//! When it is a task's turn.

use lagstop_ebpf::shared::field;
use lagstop_scheduler_ebpf::ROOT_GROUP;

use crate::{
    credit,
    kernel::{Task, constant},
    maps,
    virtual_time::{self, NOT_BEHIND},
};

/// Where a task stands among others.
#[derive(Clone, Copy)]
pub(crate) struct Standing {
    /// What it is ranked by, with `ONE`, or [`FIRST`].
    pub(crate) credit: i64,
    /// Its turn, if it waits from now on.
    pub(crate) turn: u64,
    /// How long it may run then.
    pub(crate) slice: u64,
    /// Its cgroup; 0 where its use is nobody's.
    pub(crate) group: u64,
}

/// Credit of those that are not ranked: nobody preempts them, and they preempt whoever has a credit above the margin.
pub(crate) const FIRST: i64 = -1;
/// Turns of kernel threads, and of lagstop, are before all others', and in the order in which they come, as equal turns are:
/// their time by this power of two, which stays below all others' for 146 years after boot.
const KERNEL_THREADS_FIRST: u64 = 30;
/// How long a turn of one of the root's tasks is that is behind or new: it goes on where nobody has an earlier one.
const BRIEF: u64 = 1_000_000;
/// Turns below are theirs: all others' are virtual times, which begin with the clock and so are above within seconds after
/// boot.
pub(crate) const FIRST_OF_OTHERS: u64 = 1 << 32;

/// Where `task` stands in `queue` now, if it is the first of its cgroup's.
#[inline(always)]
pub(crate) fn standing(task: Task, queue: u32, now: u64) -> Standing {
    behind(task, queue, now, false, false)
}

/// Where `task` stands in `queue` now, behind all others of its cgroup. As a turn does not move once it is given, a burst of a
/// hundred threads would else be served whole before anybody who comes later. Has it had a turn, and wants another one?
#[inline(always)]
pub(crate) fn last_standing(task: Task, queue: u32, now: u64, wants_more: bool) -> Standing {
    behind(task, queue, now, true, wants_more)
}

#[inline(always)]
fn behind(task: Task, queue: u32, now: u64, is_last: bool, wants_more: bool) -> Standing {
    let slice = constant!(SETTINGS.slice);
    let by_load = constant!(SETTINGS.by_load) != 0;
    let of_queue = if by_load { now } else { virtual_time::of_queue(queue, now) };
    let soon = of_queue & !NOT_BEHIND;
    // A turn of 0 would be none.
    let first = (now >> KERNEL_THREADS_FIRST) | 1;
    // They are nobody's load: RCU's threads and the watchdog's own worker would wait for their turn, and the kernel throws such
    // a scheduler out.
    if task.is_kernel_thread() {
        let turn = match wants_more {
            true if by_load => soon,
            true => of_long_one(task, of_queue),
            false => first,
        };
        return Standing { credit: FIRST, turn, slice, group: 0 };
    }
    let group = task.cgroup();
    let is_root = group == ROOT_GROUP;
    // What works out everybody's share must not wait for its own.
    if task.is_own() {
        return Standing { credit: FIRST, turn: first, slice, group: if is_root { 0 } else { group } };
    }
    let most = constant!(SETTINGS.max_credit) as i64;
    if is_root && by_load {
        return Standing { credit: FIRST, turn: soon, slice, group };
    }
    let state = if is_root { maps::root_task(task, of_queue) } else { maps::group(group, now) };
    let (Some(plan), Some(state)) = (maps::plan(group), state) else {
        return Standing { credit: FIRST, turn: soon, slice, group: 0 };
    };
    let slice = field!(plan.slice).get();
    if by_load {
        let credit = credit::at(state, now) >> 4;
        let credit = if credit > most { most } else { credit };
        let credit = if credit < 0 { 0 } else { credit };
        let later = ((credit as u64) * (field!(plan.behind).get() >> 10)) >> 6;
        return Standing { credit, turn: now + later, slice, group };
    }
    let time = virtual_time::of_group(state, plan, of_queue);
    let time = if is_last { virtual_time::behind_others(state, plan, time, of_queue) } else { time };
    // How many of the root's may wake or be new at once is not known.
    let is_behind = time < of_queue || is_root && time == of_queue;
    let turn = if is_behind { time & !NOT_BEHIND } else { time | NOT_BEHIND };
    let slice = if is_root && is_behind && slice > BRIEF { BRIEF } else { slice };
    Standing { credit: virtual_time::credit(plan, time, of_queue), turn, slice, group }
}

/// The turn of a kernel thread that computes for longer than one: it would starve those that run nowhere else, so from then on it has
/// a clock, as those of the root cgroup have.
#[inline(always)]
fn of_long_one(task: Task, of_queue: u64) -> u64 {
    let (Some(plan), Some(clock)) = (maps::plan(ROOT_GROUP), maps::root_task(task, of_queue)) else {
        return of_queue & !NOT_BEHIND;
    };
    let time = virtual_time::of_group(clock, plan, of_queue);
    if time < of_queue { time & !NOT_BEHIND } else { time | NOT_BEHIND }
}
