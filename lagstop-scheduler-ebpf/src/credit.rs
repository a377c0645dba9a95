//! Load Credit: what a cgroup used lately, or wanted to use, decaying.
//!
//! Between changes of what counts it is exact, however long that is: `c(t) = n + (c(0) − n) · 2^(−t / half-life)`.
//!
//! By default CPU time counts that was used. The paper counts who is runnable (§4.1), so that those who wait grow heavy by
//! waiting: what starts behind others stays there.

use core::ptr::{read_volatile, write_volatile};

use lagstop_scheduler_ebpf::{CORE, Group};

use crate::{kernel::constant, maps::add};

/// 2^-x for x in half-lives with 16 binary places, with 16 binary places, by the series of `exp`: wrong by less than 0.2 %.
#[inline(always)]
fn faded(x: u64) -> i64 {
    let whole = x >> 16;
    if whole >= 16 {
        return 0;
    }
    let f = (x & 0xffff) as i64;
    // 1 - f·ln2 · (1 - f·ln2/2 · (1 - f·ln2/3 · (1 - f·ln2/4)))
    let y = 65_536 - ((f * 11_356) >> 16);
    let y = 65_536 - ((((f * 15_142) >> 16) * y) >> 16);
    let y = 65_536 - ((((f * 22_713) >> 16) * y) >> 16);
    let y = 65_536 - ((((f * 45_426) >> 16) * y) >> 16);
    y >> whole
}

/// Its credit now, with [`CORE`]. That of a cgroup which was first seen lately is an average over the time since: what is heavy
/// is known at once, and not only when as much time as is remembered has passed.
///
/// # Safety
/// `group` is a value of a map.
#[inline(always)]
pub(crate) unsafe fn at(group: *mut Group, now: u64) -> i64 {
    /// A tenth: what runs for a moment at first is not heavy yet.
    const LEAST: u64 = (1 << 16) / 10;
    // SAFETY: the caller vouches for it.
    let (credit, born) = unsafe { (booked(group, now), read_volatile(&raw const (*group).born)) };
    let age = now.wrapping_sub(born);
    if born == 0 || (age as i64) <= 0 || credit <= 0 {
        return credit;
    }
    let known = (1 << 16) - faded(age / constant!(SETTINGS.half_life)) as u64;
    let known = if known < LEAST { LEAST } else { known };
    (((credit as u64) << 16) / known) as i64
}

/// The same as it is kept: as if it had used nothing before it was first seen.
///
/// # Safety
/// `group` is a value of a map.
#[inline(always)]
unsafe fn booked(group: *mut Group, now: u64) -> i64 {
    // SAFETY: the caller vouches for it. Other CPUs write meanwhile: the parts of two such writes are a moment apart at most.
    let (credit, at, running, runnable) = unsafe {
        (
            read_volatile(&raw const (*group).credit),
            read_volatile(&raw const (*group).at),
            read_volatile(&raw const (*group).running),
            read_volatile(&raw const (*group).runnable),
        )
    };
    let elapsed = now.wrapping_sub(at);
    // User space, which has another clock, leaves what it seeds without a time. Another CPU's clock may be ahead.
    if at == 0 || (elapsed as i64) <= 0 {
        return credit;
    }
    let counted = if constant!(SETTINGS.by_load) != 0 { runnable } else { running };
    let counted = if counted > 0 { counted * CORE as i64 } else { 0 };
    counted + (((credit - counted) * faded(elapsed / constant!(SETTINGS.half_life))) >> 16)
}

/// Books its credit until now, before what counts changes.
///
/// # Safety
/// `group` is a value of a map.
#[inline(always)]
unsafe fn settle(group: *mut Group, now: u64) {
    // SAFETY: the caller vouches for it.
    unsafe {
        let credit = booked(group, now);
        write_volatile(&raw mut (*group).credit, credit);
        if (now.wrapping_sub(read_volatile(&raw const (*group).at)) as i64) > 0 {
            write_volatile(&raw mut (*group).at, now);
        }
    }
}

/// One task more, or fewer, runs.
///
/// # Safety
/// `group` is a value of a map.
#[inline(always)]
pub(crate) unsafe fn running(group: *mut Group, now: u64, change: i64) {
    let by_load = constant!(SETTINGS.by_load) != 0;
    // SAFETY: the caller vouches for it.
    unsafe {
        if !by_load {
            settle(group, now);
        }
        add(&raw mut (*group).running, change);
    }
}

/// One task more, or fewer, runs or wants to.
///
/// # Safety
/// `group` is a value of a map.
#[inline(always)]
pub(crate) unsafe fn runnable(group: *mut Group, now: u64, change: i64) {
    let by_load = constant!(SETTINGS.by_load) != 0;
    // SAFETY: the caller vouches for it.
    unsafe {
        if by_load {
            settle(group, now);
        }
        add(&raw mut (*group).runnable, change);
    }
}
