//! When it is a task's turn.

use lagstop_ebpf::shared::{Shared, field};
use lagstop_scheduler_ebpf::{Cpu, Group, Plan, ROOT_GROUP};

use crate::{
    credit,
    kernel::{Task, constant},
    maps::{self, count},
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
/// Turns below are theirs: all others' are virtual times, which begin with the clock and so are above within seconds after
/// boot.
pub(crate) const FIRST_OF_OTHERS: u64 = 1 << 32;

/// Where `task` stands in `queue` now, if it is the first of its cgroup's.
#[inline(always)]
pub(crate) fn standing(task: Task, queue: u32, now: u64) -> Standing {
    at(task, queue, now, Place::First)
}

/// Where `task` stands in `queue` now, behind all others of its cgroup. As a turn does not move once it is given, a burst of a
/// hundred threads would else be served whole before anybody who comes later.
#[inline(always)]
pub(crate) fn last_standing(task: Task, queue: u32, now: u64, has_woken: bool) -> Standing {
    at(task, queue, now, Place::Last { has_woken })
}

/// Is `task`, which ran on `cpu` last, to go on as if it woke now? It was served on time after it woke, and was preempted.
#[inline(always)]
pub(crate) fn goes_on(task: Task, cpu: Shared<Cpu>, now: u64) -> bool {
    let turn = task.turn();
    turn != 0 && turn & NOT_BEHIND == 0 && now.wrapping_sub(field!(cpu.since).get()) < constant!(SETTINGS.slice)
}

/// A place among the tasks of a cgroup.
#[derive(Clone, Copy)]
enum Place {
    First,
    Last {
        /// It slept until now, or goes on as if it had.
        has_woken: bool,
    },
}

impl Place {
    #[inline(always)]
    const fn has_woken(self) -> bool {
        matches!(self, Self::Last { has_woken: true })
    }
}

#[inline(always)]
fn at(task: Task, queue: u32, now: u64, place: Place) -> Standing {
    let slice = constant!(SETTINGS.slice);
    // A turn of 0 would be none.
    let first = (now >> KERNEL_THREADS_FIRST) | 1;
    // They are nobody's load: RCU's threads and the watchdog's own worker would wait behind the root cgroup's credit, and the
    // kernel throws such a scheduler out.
    if task.is_kernel_thread() {
        return Standing { credit: FIRST, turn: first, slice, group: 0 };
    }
    let group = task.cgroup();
    // What works out everybody's share must not wait for its own.
    if task.is_own() {
        return Standing { credit: FIRST, turn: first, slice, group };
    }
    let by_load = constant!(SETTINGS.by_load) != 0;
    let of_queue = if by_load { now } else { virtual_time::of_queue(queue, now) };
    let most = constant!(SETTINGS.max_credit) as i64;
    let soon = of_queue & !NOT_BEHIND;
    let (Some(plan), Some(state)) = (maps::plan(group), maps::group(group, now)) else {
        count!(unknown);
        return Standing { credit: FIRST, turn: soon, slice, group: 0 };
    };
    let slice = field!(plan.slice).get();
    if group == ROOT_GROUP {
        if by_load {
            return Standing { credit: FIRST, turn: soon, slice, group };
        }
        let (credit, turn) = of_root(state, plan, of_queue, place);
        return Standing { credit, turn, slice, group };
    }
    if by_load {
        let credit = credit::at(state, now) >> 4;
        let credit = if credit > most { most } else { credit };
        let credit = if credit < 0 { 0 } else { credit };
        let later = ((credit as u64) * (field!(plan.behind).get() >> 10)) >> 6;
        return Standing { credit, turn: now + later, slice, group };
    }
    let time = virtual_time::of_group(state, plan, of_queue);
    let time = match place {
        Place::First => time,
        Place::Last { .. } => virtual_time::behind_others(state, plan, time, of_queue),
    };
    let turn = if time < of_queue { time & !NOT_BEHIND } else { time | NOT_BEHIND };
    Standing { credit: virtual_time::credit(plan, time, of_queue), turn, slice, group }
}

/// Credit and turn of one of the host's own. What never sleeps, or is new, has the turns that the share of all of them allows.
/// What has slept does not wait for that: it preempts and is on time, unless all of them are further ahead than any cgroup may be
/// behind.
#[inline(always)]
fn of_root(state: Shared<Group>, plan: Shared<Plan>, of_queue: u64, place: Place) -> (i64, u64) {
    let time = virtual_time::of_group(state, plan, of_queue);
    let credit = virtual_time::credit(plan, time, of_queue);
    let later = match place {
        Place::First | Place::Last { has_woken: false } => virtual_time::behind_others(state, plan, time, of_queue),
        Place::Last { has_woken: true } => time - field!(plan.behind).get(),
    };
    if later > of_queue {
        (credit, later | NOT_BEHIND)
    } else {
        (if place.has_woken() { FIRST } else { credit }, of_queue & !NOT_BEHIND)
    }
}
