//! The paper's Load Credit (§4.1): runnable tasks, decaying. Those who wait grow heavy by waiting: what starts behind others
//! stays there. So it is for comparison only.
//!
//! Between changes it is exact, however long that is: `c(t) = n + (c(0) − n) · 2^(−t / half-life)`.

use lagstop_ebpf::shared::{Shared, field};
use lagstop_scheduler_ebpf::{CORE, Group};

use crate::kernel::constant;

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
#[inline(always)]
pub(crate) fn at(group: Shared<Group>, now: u64) -> i64 {
    // Other CPUs write meanwhile: the parts of two such writes are a moment apart at most.
    let (credit, at, runnable) = (field!(group.credit).get(), field!(group.at).get(), field!(group.runnable).get());
    let elapsed = now.wrapping_sub(at);
    // User space, which has another clock, leaves what it seeds without a time. Another CPU's clock may be ahead.
    if at == 0 || (elapsed as i64) <= 0 {
        return credit;
    }
    let runnable = if runnable > 0 { runnable * CORE as i64 } else { 0 };
    runnable + (((credit - runnable) * faded(elapsed / constant!(SETTINGS.half_life))) >> 16)
}

/// One task more, or fewer, runs or wants to. What was until now is booked before.
#[inline(always)]
pub(crate) fn runnable(group: Shared<Group>, now: u64, change: i64) {
    if constant!(SETTINGS.by_load) != 0 {
        field!(group.credit).set(at(group, now));
        if (now.wrapping_sub(field!(group.at).get()) as i64) > 0 {
            field!(group.at).set(now);
        }
    }
    field!(group.runnable).add(change);
}
