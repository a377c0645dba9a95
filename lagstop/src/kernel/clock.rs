//! The programs' clock, read from here.

use crate::model::Nanos;

/// CLOCK_MONOTONIC, which the programs' clock is too.
pub(super) fn now() -> Nanos {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Nanos(time.tv_sec.unsigned_abs() * Nanos::SECOND.0 + time.tv_nsec.unsigned_abs())
}
