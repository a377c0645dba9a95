//! Virtual time: CPU time by the share of who uses it, as in start-time fair queueing (Goyal, Vin, Cheng 1996). All cgroups that
//! always want to run are served at the same, so that each gets its share exactly, however long turns are. Who uses less than
//! its share is behind, by so much at most, and so goes first, the lightest before all others.

use lagstop_ebpf::shared::{Shared, field};
use lagstop_scheduler_ebpf::{Cpu, Group, ONE, Plan, RANK_PLACES, ROOT_GROUP};

use crate::{kernel::constant, maps};

/// In the last binary place of a turn: whose it is was not behind when it was queued.
pub(crate) const NOT_BEHIND: u64 = 1;
/// What is charged at once at most, so that no product overflows.
const MOST: u64 = 1 << 32;

/// That of a queue now.
#[inline(always)]
pub(crate) fn of_queue(queue: u32, now: u64) -> u64 {
    match maps::queue(queue) {
        Some(queue) => now.wrapping_add(field!(queue.ahead).get()),
        None => now,
    }
}

/// Says that what is served from `queue` now is at this turn. What is behind says nothing of how far the others are.
#[inline(always)]
pub(crate) fn serves(queue: u32, turn: u64, now: u64) {
    if turn & NOT_BEHIND == 0 {
        return;
    }
    if let Some(queue) = maps::queue(queue) {
        field!(queue.ahead).set(turn.wrapping_sub(now));
    }
}

/// That of a cgroup, within what it may be behind and ahead of its queue's.
#[inline(always)]
pub(crate) fn of_group(group: Shared<Group>, plan: Shared<Plan>, of_queue: u64) -> u64 {
    let (time, behind, ahead) = (field!(group.virtual_time).get(), field!(plan.behind).get(), field!(plan.ahead).get());
    let (least, most) = (of_queue.wrapping_sub(behind) as i64, (of_queue + ahead) as i64);
    let time = if time <= 0 { of_queue as i64 + time } else { time };
    let time = if time < least { least } else { time };
    (if time > most { most } else { time }) as u64
}

/// That of the last task of a cgroup that is at `time`, when those before it will have had their turns; within what it may be
/// ahead.
#[inline(always)]
pub(crate) fn behind_others(group: Shared<Group>, plan: Shared<Plan>, time: u64, of_queue: u64) -> u64 {
    /// Of more than these the limit is reached anyway, and no product overflows.
    const MOST_OTHERS: i64 = 1 << 16;
    // It is among them.
    let others = field!(group.runnable).get() - 1;
    let others = if others < 0 { 0 } else { others };
    let others = if others < MOST_OTHERS { others } else { MOST_OTHERS };
    let later = time + others as u64 * field!(plan.turn).get();
    let most = of_queue + field!(plan.ahead).get();
    if later < most {
        later
    } else if time < most {
        most
    } else {
        time
    }
}

/// How much all may go first.
#[inline(always)]
pub(crate) fn head_start(plan: Shared<Plan>) -> u64 {
    let rank = field!(plan.rank).get();
    if rank == 0 { 0 } else { (ONE << RANK_PLACES) / rank }
}

/// The credit of who is at `time`, with [`ONE`], where its queue is at `of_queue`.
#[inline(always)]
pub(crate) fn credit(plan: Shared<Plan>, time: u64, of_queue: u64) -> i64 {
    let rank = field!(plan.rank).get();
    let credit = ONE as i64 + (((time.wrapping_sub(of_queue) as i64) * rank as i64) >> RANK_PLACES);
    let most = constant!(SETTINGS.max_credit) as i64;
    let credit = if credit > most { most } else { credit };
    if credit < 0 { 0 } else { credit }
}

/// Books to the cgroup, or the task of the root, that runs on `cpu`, which is this one, what it used since the last time, and
/// ranks it again. Others write only its credit, when they preempt: if that is lost here, another one that wakes may choose the
/// same CPU.
#[inline(always)]
pub(crate) fn charge(cpu: Shared<Cpu>, now: u64) {
    let id = field!(cpu.group).get();
    let used = now.wrapping_sub(field!(cpu.charged).get());
    if (used as i64) <= 0 {
        return;
    }
    field!(cpu.charged).set(now);
    let group = maps::known_group(id);
    if let Some(group) = group {
        field!(group.used).add(used as i64);
    }
    // What is nobody's has one if it is a kernel thread that computes for long.
    let group = if id == ROOT_GROUP || id == 0 { maps::known_root_task(field!(cpu.task).get()) } else { group };
    let (Some(group), Some(plan)) = (group, maps::plan(if id == 0 { ROOT_GROUP } else { id })) else { return };
    if constant!(SETTINGS.by_load) != 0 {
        return;
    }
    let of_queue = of_queue(field!(cpu.queue).get(), now);
    let used = if used < MOST { used } else { MOST };
    let more = (used * field!(plan.factor).get()) >> 16;
    let time = of_group(group, plan, of_queue);
    let kept = field!(group.virtual_time);
    // Another CPU that runs this cgroup may book at the same moment: what it adds is lost only where one of both is at a limit.
    if time as i64 != kept.get() {
        kept.set(time as i64);
    }
    kept.add(more as i64);
    let most = of_queue + field!(plan.ahead).get();
    let time = if time + more < most {
        time + more
    } else {
        kept.set(most as i64);
        most
    };
    // Not that of one that is not to be preempted.
    let ranked = field!(cpu.credit);
    if ranked.get() >= 0 {
        ranked.set(credit(plan, time, of_queue));
    }
}
