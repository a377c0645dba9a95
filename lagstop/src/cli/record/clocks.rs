//! Times that the clock of intervals does not count, and steps of the one on the wall.

use rustix::time::{ClockId, clock_gettime};

use crate::{model::Nanos, recording::Gap};

/// What the clocks are apart. CLOCK_MONOTONIC, by which intervals are measured, stops while the machine is suspended.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli) struct Clocks {
    /// Time suspended since boot.
    suspended: i128,
    /// The time on the wall, less that since boot.
    wall: i128,
}

/// Shorter ones are the time between reading one clock and the next.
const SHORTEST_SUSPENSION: i128 = 10_000_000;
/// What slows a clock down or speeds it up is no step.
const SHORTEST_STEP: i128 = 500_000_000;

impl Clocks {
    /// As they are now.
    pub(in crate::cli) fn read() -> Self {
        let [monotonic, boot, wall] = [ClockId::Monotonic, ClockId::Boottime, ClockId::Realtime].map(|clock| {
            let now = clock_gettime(clock);
            i128::from(now.tv_sec) * 1_000_000_000 + i128::from(now.tv_nsec)
        });
        Self { suspended: boot - monotonic, wall: wall - boot }
    }

    /// What happened since it was asked last; `at` is now on the clock of intervals.
    pub(in crate::cli) fn gap(&mut self, at: Nanos) -> Option<Gap> {
        let last = std::mem::replace(self, Self::read());
        self.gap_since(last, at)
    }

    fn gap_since(self, last: Self, at: Nanos) -> Option<Gap> {
        let suspended = self.suspended - last.suspended;
        let step = self.wall - last.wall;
        let has_slept = suspended >= SHORTEST_SUSPENSION;
        let has_stepped = step.abs() >= SHORTEST_STEP;
        let stepped = format!("the clock was set by {:+.3} s", step as f64 / 1e9);
        let reason = match (has_slept, has_stepped) {
            (false, false) => return None,
            (true, false) => "suspended".to_owned(),
            (false, true) => stepped,
            (true, true) => format!("suspended; {stepped}"),
        };
        let duration_ns = Nanos(u64::try_from(suspended.max(0)).unwrap_or(u64::MAX));
        Some(Gap { start_ns: at, duration_ns: if has_slept { duration_ns } else { Nanos::ZERO }, reason })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_goes_on_has_no_gap() {
        let mut clocks = Clocks::read();
        assert_eq!(clocks.gap(Nanos(5)), None);
    }

    #[test]
    fn suspensions_and_steps_are_gaps() {
        let last = Clocks { suspended: 0, wall: 0 };
        let gap = |suspended, wall| Clocks { suspended, wall }.gap_since(last, Nanos(5));
        let slept = gap(60_000_000_000, 0).unwrap();
        assert_eq!((slept.start_ns, slept.duration_ns, &*slept.reason), (Nanos(5), Nanos(60_000_000_000), "suspended"));
        let set = gap(0, -3_600_000_000_000).unwrap();
        assert_eq!((set.duration_ns, &*set.reason), (Nanos(0), "the clock was set by -3600.000 s"));
        assert_eq!(gap(100, 400_000_000), None);
    }
}
