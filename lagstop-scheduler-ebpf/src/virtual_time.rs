//! Virtual time: CPU time by the share of who uses it, as in start-time fair queueing (Goyal, Vin, Cheng 1996). All cgroups that
//! always want to run are served at the same, so that each gets its share exactly, however long turns are. Who uses less than
//! its share is behind, by so much at most, and so goes first, the lightest before all others.

use core::ptr::{read_volatile, write_volatile};

use lagstop_scheduler_ebpf::{Cpu, Group, ONE, Plan, RANK_PLACES};

use crate::{
    kernel::constant,
    maps::{self, add},
};

/// In the last binary place of a turn: whose it is was not behind when it was queued.
pub(crate) const NOT_BEHIND: u64 = 1;
/// What is charged at once at most, so that no product overflows.
const MOST: u64 = 1 << 32;

/// That of a queue now.
#[inline(always)]
pub(crate) fn of_queue(queue: u32, now: u64) -> u64 {
    let Some(queue) = maps::queue(queue) else { return now };
    // SAFETY: a value of a map. Between two writes of another CPU both numbers are a moment apart at most.
    let (time, at) =
        unsafe { (read_volatile(&raw const (*queue).virtual_time), read_volatile(&raw const (*queue).at)) };
    let elapsed = now.wrapping_sub(at);
    if at == 0 {
        now
    } else if (elapsed as i64) > 0 {
        time + elapsed
    } else {
        time
    }
}

/// Says that what is served from `queue` now is at this turn. What is behind says nothing of how far the others are.
#[inline(always)]
pub(crate) fn serves(queue: u32, turn: u64, now: u64) {
    if turn & NOT_BEHIND == 0 {
        return;
    }
    if let Some(queue) = maps::queue(queue) {
        // SAFETY: a value of a map.
        unsafe {
            write_volatile(&raw mut (*queue).virtual_time, turn);
            write_volatile(&raw mut (*queue).at, now);
        }
    }
}

/// That of a cgroup, within what it may be behind and ahead of its queue's.
///
/// # Safety
/// `group` and `plan` are values of maps.
#[inline(always)]
pub(crate) unsafe fn of_group(group: *mut Group, plan: *const Plan, of_queue: u64) -> u64 {
    // SAFETY: the caller vouches for it.
    let (time, behind, ahead) = unsafe {
        (
            read_volatile(&raw const (*group).virtual_time),
            read_volatile(&raw const (*plan).behind),
            read_volatile(&raw const (*plan).ahead),
        )
    };
    let (least, most) = (of_queue.wrapping_sub(behind) as i64, (of_queue + ahead) as i64);
    let time = if time <= 0 { of_queue as i64 + time } else { time };
    let time = if time < least { least } else { time };
    (if time > most { most } else { time }) as u64
}

/// The credit of who is at `time`, with [`ONE`], where its queue is at `of_queue`.
///
/// # Safety
/// `plan` is a value of a map.
#[inline(always)]
pub(crate) unsafe fn credit(plan: *const Plan, time: u64, of_queue: u64) -> i64 {
    // SAFETY: the caller vouches for it.
    let rank = unsafe { read_volatile(&raw const (*plan).rank) };
    let credit = ONE as i64 + (((time.wrapping_sub(of_queue) as i64) * rank as i64) >> RANK_PLACES);
    let most = constant!(SETTINGS.max_credit) as i64;
    let credit = if credit > most { most } else { credit };
    if credit < 0 { 0 } else { credit }
}

/// Books to the cgroup that runs on `cpu` what it used since the last time, and ranks it anew.
///
/// # Safety
/// `cpu` is a value of a map, of which this CPU writes these numbers alone.
#[inline(always)]
pub(crate) unsafe fn charge(cpu: *mut Cpu, now: u64) {
    let by_load = constant!(SETTINGS.by_load) != 0;
    // SAFETY: the caller vouches for it, and the others are values of maps too.
    unsafe {
        let id = read_volatile(&raw const (*cpu).group);
        if id == 0 {
            return;
        }
        let used = now.wrapping_sub(read_volatile(&raw const (*cpu).charged));
        if (used as i64) <= 0 {
            return;
        }
        write_volatile(&raw mut (*cpu).charged, now);
        let (Some(group), Some(plan)) = (maps::known_group(id), maps::plan(id)) else { return };
        add(&raw mut (*group).used, used as i64);
        if by_load {
            return;
        }
        let of_queue = of_queue(read_volatile(&raw const (*cpu).queue), now);
        let used = if used < MOST { used } else { MOST };
        let more = (used * read_volatile(&raw const (*plan).factor)) >> 16;
        let time = of_group(group, plan, of_queue);
        let kept = &raw mut (*group).virtual_time;
        // Another CPU that runs this cgroup may book at the same moment: what it adds is lost only where one of both is at a
        // limit.
        if time as i64 != read_volatile(kept) {
            write_volatile(kept, time as i64);
        }
        add(kept, more as i64);
        let most = of_queue + read_volatile(&raw const (*plan).ahead);
        let time = if time + more < most {
            time + more
        } else {
            write_volatile(kept, most as i64);
            most
        };
        // Not that of one that is not to be preempted.
        if read_volatile(&raw const (*cpu).credit) >= 0 {
            write_volatile(&raw mut (*cpu).credit, credit(plan, time, of_queue));
        }
    }
}
