//! Gaps in a recording: times that the clock of intervals does not count, steps of the wall clock, and missing
//! intervals.

use rustix::time::{ClockId, clock_gettime};

use crate::{
    model::{Interval, Nanos},
    recording::Gap,
};

/// Finds gaps.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli) enum Clocks {
    /// Of this host.
    Here(Apart),
    /// Of another host, whose clocks are unknown here. Holds the end of its last interval.
    There(Option<Nanos>),
}

impl Clocks {
    /// As they are now.
    pub(in crate::cli) fn read() -> Self {
        Self::Here(Apart::read())
    }

    pub(super) const fn of_another_host() -> Self {
        Self::There(None)
    }

    /// What is unknown about the time since the previous interval.
    pub(in crate::cli) fn gap(&mut self, interval: &Interval) -> Option<Gap> {
        let end = interval.start_ns.saturating_add(interval.duration_ns);
        match self {
            Self::Here(apart) => apart.gap(end),
            Self::There(last) => {
                let start_ns = last.replace(end)?;
                let duration_ns = interval.start_ns.saturating_sub(start_ns);
                let reason = "not received".to_owned();
                (duration_ns > Nanos::ZERO).then_some(Gap { start_ns, duration_ns, reason })
            }
        }
    }
}

/// Offsets between the clocks. CLOCK_MONOTONIC, which measures intervals, stops while the machine is suspended.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli) struct Apart {
    /// Time suspended since boot.
    suspended: i128,
    /// The wall clock minus the time since boot.
    wall: i128,
}

/// Shorter differences come from reading the clocks one after the other.
const SHORTEST_SUSPENSION: i128 = 10_000_000;
/// Smaller differences come from slewing of the clock, not from a step.
const SHORTEST_STEP: i128 = 500_000_000;

impl Apart {
    /// As they are now. Where something else ran between two of the clocks, its time would pass for a suspension: of a few readings the
    /// quickest counts.
    fn read() -> Self {
        let now = |clock| {
            let now = clock_gettime(clock);
            i128::from(now.tv_sec) * 1_000_000_000 + i128::from(now.tv_nsec)
        };
        let reading = || {
            let monotonic = now(ClockId::Monotonic);
            let (boot, wall) = (now(ClockId::Boottime), now(ClockId::Realtime));
            (now(ClockId::Monotonic) - monotonic, Self { suspended: boot - monotonic, wall: wall - boot })
        };
        let (mut took, mut apart) = reading();
        for _ in 0..3 {
            let (time, other) = reading();
            if time < took {
                (took, apart) = (time, other);
            }
        }
        apart
    }

    /// The gap since the last call. `at` is the current time on the clock of intervals.
    fn gap(&mut self, at: Nanos) -> Option<Gap> {
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
        let mut clocks = Apart::read();
        assert_eq!(clocks.gap(Nanos(5)), None);
    }

    #[test]
    fn suspensions_and_steps_are_gaps() {
        let last = Apart { suspended: 0, wall: 0 };
        let gap = |suspended, wall| Apart { suspended, wall }.gap_since(last, Nanos(5));
        let slept = gap(60_000_000_000, 0).unwrap();
        assert_eq!((slept.start_ns, slept.duration_ns, &*slept.reason), (Nanos(5), Nanos(60_000_000_000), "suspended"));
        let set = gap(0, -3_600_000_000_000).unwrap();
        assert_eq!((set.duration_ns, &*set.reason), (Nanos(0), "the clock was set by -3600.000 s"));
        assert_eq!(gap(100, 400_000_000), None);
    }

    #[test]
    fn intervals_that_did_not_come_are_a_gap() {
        let mut clocks = Clocks::of_another_host();
        let mut gap = |start: u64| {
            clocks.gap(&Interval { start_ns: Nanos(start), duration_ns: Nanos(10), ..Interval::default() })
        };
        assert_eq!([gap(5), gap(15)], [None, None]);
        let missing = gap(40).unwrap();
        assert_eq!((missing.start_ns, missing.duration_ns, &*missing.reason), (Nanos(25), Nanos(15), "not received"));
        assert_eq!(gap(50), None);
    }
}
