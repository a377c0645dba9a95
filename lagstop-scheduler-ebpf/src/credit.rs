//! The paper's Load Credit (§4.1): runnable tasks, decaying. Those who wait grow heavy by waiting: what starts behind others
//! stays there. So it is for comparison only.
//!
//! Between changes it is exact, however long that is: `c(t) = n + (c(0) − n) · 2^(−t / half-life)`.

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

/// Its credit now, with [`CORE`].
///
/// # Safety
/// `group` is a value of a map.
#[inline(always)]
pub(crate) unsafe fn at(group: *mut Group, now: u64) -> i64 {
    // SAFETY: the caller vouches for it. Other CPUs write meanwhile: the parts of two such writes are a moment apart at most.
    let (credit, at, runnable) = unsafe {
        (
            read_volatile(&raw const (*group).credit),
            read_volatile(&raw const (*group).at),
            read_volatile(&raw const (*group).runnable),
        )
    };
    let elapsed = now.wrapping_sub(at);
    // User space, which has another clock, leaves what it seeds without a time. Another CPU's clock may be ahead.
    if at == 0 || (elapsed as i64) <= 0 {
        return credit;
    }
    let runnable = if runnable > 0 { runnable * CORE as i64 } else { 0 };
    runnable + (((credit - runnable) * faded(elapsed / constant!(SETTINGS.half_life))) >> 16)
}

/// One task more, or fewer, runs or wants to. What was until now is booked before.
///
/// # Safety
/// `group` is a value of a map.
#[inline(always)]
pub(crate) unsafe fn runnable(group: *mut Group, now: u64, change: i64) {
    let by_load = constant!(SETTINGS.by_load) != 0;
    // SAFETY: the caller vouches for it.
    unsafe {
        if by_load {
            let credit = at(group, now);
            write_volatile(&raw mut (*group).credit, credit);
            if (now.wrapping_sub(read_volatile(&raw const (*group).at)) as i64) > 0 {
                write_volatile(&raw mut (*group).at, now);
            }
        }
        add(&raw mut (*group).runnable, change);
    }
}
