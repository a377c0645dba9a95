//! The programs' clock, read from here.

use crate::model::Nanos;

/// CLOCK_MONOTONIC, which the programs' clock is too.
pub(super) fn now() -> Nanos {
    rustix::time::clock_gettime(rustix::time::ClockId::Monotonic).into()
}
