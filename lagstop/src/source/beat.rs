//! Readings at a steady beat, made into intervals.

use std::{
    panic::{self, AssertUnwindSafe},
    sync::mpsc as blocking,
    time::{Duration, Instant},
};

use tokio::sync::mpsc;

use super::{Order, SourceError};
use crate::model::{Interval, LoadCredits, Nanos, Snapshot};

/// Intervals that may wait for a slow reader. When more do, the next ones get longer; none is lost.
pub(super) const WAITING: usize = 4;
/// What is left at the end is worth an interval of its own from this part of one on.
const WORTH_AN_INTERVAL: f64 = 0.01;

/// What can be read again and again.
pub(super) trait Readings {
    fn read(&mut self) -> Result<Snapshot, SourceError>;

    /// What was read the last time.
    fn last(&mut self) -> &mut Snapshot;

    /// The shortest interval that it should be read in.
    fn shortest(&self) -> Duration {
        Duration::ZERO
    }

    /// Asked after each interval: is there more to measure?
    fn goes_on(&mut self) -> Result<bool, SourceError> {
        Ok(true)
    }
}

impl Course {
    /// One whose clock began then.
    pub(super) fn since(origin: Nanos) -> Self {
        Self { seq: 0, origin: Some(origin) }
    }
}

/// How far a stream has come that is measured in pieces.
#[derive(Debug, Default)]
pub(super) struct Course {
    /// The number of the next interval.
    seq: u64,
    /// When the first one began, by the clock of snapshots.
    origin: Option<Nanos>,
}

/// When to read, and until when.
#[derive(Clone, Copy, Debug)]
pub(super) struct Beat {
    pub(super) interval: Duration,
    /// How long to go on; for ever where `None`.
    pub(super) duration: Option<Duration>,
    /// Time constant of Load Credit.
    pub(super) load_credit_time: Duration,
}

impl Beat {
    /// Measures until the time is up, somebody stops it, nobody listens, or there is no more to measure. Returns whether it ended
    /// for the last of these reasons.
    pub(super) fn run(
        self,
        mut readings: impl Readings,
        course: &mut Course,
        orders: &blocking::Receiver<Order>,
        intervals: &mpsc::Sender<Result<Interval, SourceError>>,
    ) -> bool {
        let mut credits = LoadCredits::new(Nanos::from(self.load_credit_time));
        let began = readings.last().at;
        let origin = *course.origin.get_or_insert(began);
        let started = Instant::now();
        let end = self.duration.map(|duration| started + duration);
        let mut next = started;
        loop {
            // From tick to tick, so that lateness does not add up; ticks that have passed already are left out.
            while next <= Instant::now() {
                next += self.interval.max(readings.shortest());
            }
            let until = end.map_or(next, |end| end.min(next));
            let stopping = match orders.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Err(blocking::RecvTimeoutError::Timeout) => end.is_some_and(|end| Instant::now() >= end),
                // The beat goes on from here: the interval after it is a whole one.
                Ok(Order::Read) => {
                    next = Instant::now();
                    false
                }
                Ok(Order::Stop) | Err(blocking::RecvTimeoutError::Disconnected) => true,
            };
            let interval = readings.read().map(|now| {
                let last = readings.last();
                let interval = Interval::between(course.seq, origin, last, &now, &mut credits);
                course.seq += 1;
                *last = now;
                interval
            });
            let failed = interval.is_err();
            let too_short = stopping
                && interval.as_ref().is_ok_and(|interval| {
                    interval.duration_ns.seconds() < self.interval.as_secs_f64() * WORTH_AN_INTERVAL
                });
            if !too_short && intervals.blocking_send(interval).is_err() || stopping || failed {
                return false;
            }
            match readings.goes_on() {
                Ok(true) => {}
                Ok(false) => return true,
                Err(error) => {
                    let _ = intervals.blocking_send(Err(error));
                    return false;
                }
            }
        }
    }
}

/// Runs what fills `intervals`. A fault of lagstop's own is told: else its readers would take the end of the stream for the end of
/// the measurement.
pub(super) fn guarded<T>(intervals: &mpsc::Sender<Result<Interval, SourceError>>, run: impl FnOnce() -> T) {
    if panic::catch_unwind(AssertUnwindSafe(run)).is_err() {
        let _ = intervals.blocking_send(Err(SourceError::Died));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes its time from the clock, and has nothing to say.
    struct Silent {
        since: Instant,
        last: Snapshot,
        shortest: Duration,
        fails_at: Option<Nanos>,
    }

    impl Readings for Silent {
        fn read(&mut self) -> Result<Snapshot, SourceError> {
            let at = Nanos::from(self.since.elapsed());
            match self.fails_at {
                Some(end) if at > end => panic!("a fault of lagstop's own, as the test wants it"),
                _ => Ok(Snapshot { at, ..Snapshot::default() }),
            }
        }

        fn last(&mut self) -> &mut Snapshot {
            &mut self.last
        }

        fn shortest(&self) -> Duration {
            self.shortest
        }
    }

    fn silent(shortest: u64) -> Silent {
        let shortest = Duration::from_millis(shortest);
        Silent { since: Instant::now(), last: Snapshot::default(), shortest, fails_at: None }
    }

    fn run(readings: Silent) -> Vec<Result<Interval, SourceError>> {
        let [interval, duration] = [20, 300].map(Duration::from_millis);
        let beat = Beat { interval, duration: Some(duration), load_credit_time: interval };
        let (sender, mut intervals) = mpsc::channel(100);
        let (_order, orders) = blocking::channel();
        guarded(&sender, || beat.run(readings, &mut Course::default(), &orders, &sender));
        drop(sender);
        std::iter::from_fn(|| intervals.blocking_recv()).collect()
    }

    #[test]
    fn intervals_are_lengthened_where_reading_takes_long() {
        let intervals: Vec<Interval> = run(silent(100)).into_iter().map(Result::unwrap).collect();
        assert!((1..=3).contains(&intervals.len()), "{intervals:?}");
        assert!(intervals[0].duration_ns >= Nanos(90_000_000), "{intervals:?}");
        let end = intervals.last().map(|last| last.start_ns.saturating_add(last.duration_ns)).unwrap();
        assert!(end >= Nanos(295_000_000), "nothing is left out: {end}");
    }

    #[test]
    fn an_interval_ends_when_it_is_asked_for() {
        let beat = Beat { interval: Duration::from_secs(60), duration: None, load_credit_time: Duration::from_secs(2) };
        let (sender, mut intervals) = mpsc::channel(100);
        let (order, orders) = blocking::channel();
        [Order::Read, Order::Read, Order::Stop].into_iter().for_each(|one| order.send(one).unwrap());
        let begun = Instant::now();
        beat.run(silent(0), &mut Course::default(), &orders, &sender);
        assert!(begun.elapsed() < Duration::from_secs(30), "nothing is waited for");
        drop(sender);
        let numbers: Vec<u64> = std::iter::from_fn(|| intervals.blocking_recv()).map(|one| one.unwrap().seq).collect();
        assert_eq!(numbers, [0, 1], "what is left at the end is too short");
    }

    #[test]
    fn a_fault_ends_the_stream_with_an_error() {
        let mut intervals = run(Silent { fails_at: Some(Nanos(50_000_000)), ..silent(0) });
        assert!(matches!(intervals.pop(), Some(Err(SourceError::Died))));
        assert!(intervals.iter().all(Result::is_ok));
    }
}
