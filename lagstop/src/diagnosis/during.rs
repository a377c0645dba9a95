//! When something happened, if that was only a part of the time.

use crate::{
    model::Nanos,
    units::{Unit, plural},
};

/// The intervals in which something happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct During {
    pub(super) time: Nanos,
    pub(super) intervals: u64,
    /// When the first began and the last ended, in measured time since the recording began.
    from: Nanos,
    to: Nanos,
    /// How many separate times it happened.
    times: u64,
}

/// From this share of the time on, it counts as always. Chosen: single intervals are missing by chance.
const ALL: f64 = 0.9;
/// From this share of the time on, or from this length on, a part of the time is reported. Chosen: a minute matters in however
/// long a recording.
const MATTERS: f64 = 0.1;
const LONG: Nanos = Nanos(60 * Nanos::SECOND.0);
/// The fewest intervals: a single one may be an outlier.
const FEWEST: u64 = 2;

impl During {
    /// Adds an interval that began at `start`. They come in the order of time.
    pub(super) fn add(&mut self, start: Nanos, duration: Nanos) {
        if self.intervals == 0 {
            self.from = start;
        }
        // Sums of rounded lengths may differ a little.
        let is_next = self.intervals > 0 && start.saturating_sub(self.to) < Nanos(duration.0 / 2);
        self.times += u64::from(!is_next);
        self.intervals += 1;
        self.time = self.time.saturating_add(duration);
        self.to = start.saturating_add(duration);
    }

    /// Its share of the time `all`.
    pub(super) fn part(&self, all: Nanos) -> f64 {
        if all > Nanos::ZERO { self.time.0 as f64 / all.0 as f64 } else { 0.0 }
    }

    /// Is it only a part of the time, and long enough to be reported?
    pub(super) fn is_part(&self, all: Nanos) -> bool {
        let part = self.part(all);
        self.intervals >= FEWEST && part < ALL && (part >= MATTERS || self.time >= LONG)
    }

    /// "20.0 s of 60.0 s".
    pub(super) fn how_long(&self, all: Nanos) -> String {
        format!("{} of {}", seconds(self.time), seconds(all))
    }

    /// "of 60.0 s: from 10.0 s to 30.0 s of the recording", or how often it was in between.
    pub(super) fn when(&self, all: Nanos) -> String {
        let (all, from, to) = (seconds(all), seconds(self.from), seconds(self.to));
        match self.times {
            0 | 1 => format!("of {all}: from {from} to {to} of the recording"),
            times => format!("of {all}: {} between {from} and {to} of the recording", plural(times, "time")),
        }
    }
}

fn seconds(time: Nanos) -> String {
    Unit::Seconds.show(time.seconds())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(seconds: u64) -> Nanos {
        Nanos(seconds * Nanos::SECOND.0)
    }

    fn of(starts: impl IntoIterator<Item = u64>) -> During {
        let mut during = During::default();
        starts.into_iter().for_each(|start| during.add(s(start), s(1)));
        during
    }

    #[test]
    fn it_says_for_how_long_and_when() {
        let once = of(10..30);
        assert_eq!(once.how_long(s(60)), "20.0 s of 60.0 s");
        assert_eq!(once.when(s(60)), "of 60.0 s: from 10.0 s to 30.0 s of the recording");
        let twice = of((10..20).chain(40..45));
        assert_eq!(twice.when(s(60)), "of 60.0 s: 2 times between 10.0 s and 45.0 s of the recording");
    }

    #[test]
    fn nearly_all_of_the_time_is_all_of_it_and_hardly_any_is_none() {
        assert!(of(0..20).is_part(s(60)) && of(0..6).is_part(s(60)));
        assert!(!of(0..54).is_part(s(60)), "all but a few intervals");
        assert!(!of(0..5).is_part(s(60)), "a twelfth");
        assert!(of(0..60).is_part(s(3_600)), "a minute of an hour");
        assert!(!of(0..1).is_part(s(5)), "one interval");
        assert!(!During::default().is_part(s(60)) && !During::default().is_part(Nanos::ZERO));
    }
}
