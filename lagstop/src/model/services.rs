//! Service times: how long connections occupy the threads that accept them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Nanos;

/// Sums of measured durations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Times {
    /// Number of durations.
    pub count: u64,
    /// Sum of the durations.
    pub time_ns: Nanos,
    /// Sum of the squared durations, in square microseconds.
    pub squares_us2: u64,
}

impl Times {
    const NONE: Self = Self { count: 0, time_ns: Nanos::ZERO, squares_us2: 0 };

    const fn since(&self, earlier: &Self) -> Self {
        Self {
            count: self.count.saturating_sub(earlier.count),
            time_ns: self.time_ns.saturating_sub(earlier.time_ns),
            squares_us2: self.squares_us2.saturating_sub(earlier.squares_us2),
        }
    }

    const fn saturating_add(&self, other: &Self) -> Self {
        Self {
            count: self.count.saturating_add(other.count),
            time_ns: self.time_ns.saturating_add(other.time_ns),
            squares_us2: self.squares_us2.saturating_add(other.squares_us2),
        }
    }

    /// The mean, in seconds. `None` where none was timed, or all took no time.
    pub fn mean(&self) -> Option<f64> {
        Some(self.time_ns.seconds() / self.count as f64).filter(|mean| mean.is_finite() && *mean > 0.0)
    }

    /// Squared coefficient of variation: variance / mean², 1 of an exponential distribution.
    pub fn variation(&self) -> Option<f64> {
        let mean = self.mean()?;
        Some((self.squares_us2 as f64 * 1e-12 / self.count as f64 / (mean * mean) - 1.0).max(0.0))
    }
}

/// Service times of a listening address: time from accepting a connection until the accepting thread asks for the next
/// one. In a snapshot, they count from when the address was first seen. In an interval, they cover those that ended in
/// it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Services {
    /// Live threads whose last accept was on this address, at the end of the interval. For merged intervals, the
    /// maximum.
    pub threads: u64,
    /// Connections accepted by threads whose previous connection came from another port.
    pub strayed: u64,
    /// Timed connections after which the thread found no connection when it asked for the next one. The thread waits in
    /// its accept call.
    pub found_none: u64,
    /// All timed connections. They include the thread's waiting time if its request for a connection was not seen, or
    /// if it waits elsewhere before the request, such as in `poll(2)`.
    pub all: Times,
    /// Timed connections during which the next connection was waiting all the time: the thread was busy.
    pub kept_waiting: Times,
}

impl Services {
    /// Nobody accepts.
    pub const NONE: Self = Self { threads: 0, strayed: 0, found_none: 0, all: Times::NONE, kept_waiting: Times::NONE };

    /// What came on top of `earlier`.
    #[must_use]
    pub const fn since(&self, earlier: &Self) -> Self {
        Self {
            threads: self.threads,
            strayed: self.strayed.saturating_sub(earlier.strayed),
            found_none: self.found_none.saturating_sub(earlier.found_none),
            all: self.all.since(&earlier.all),
            kept_waiting: self.kept_waiting.since(&earlier.kept_waiting),
        }
    }

    /// Together with what happened next.
    #[must_use]
    pub fn then(&self, next: &Self) -> Self {
        Self { threads: self.threads.max(next.threads), ..self.join(next) }
    }

    /// Together with what happened at the same time on another address.
    #[must_use]
    pub const fn join(&self, other: &Self) -> Self {
        Self {
            threads: self.threads.saturating_add(other.threads),
            strayed: self.strayed.saturating_add(other.strayed),
            found_none: self.found_none.saturating_add(other.found_none),
            all: self.all.saturating_add(&other.all),
            kept_waiting: self.kept_waiting.saturating_add(&other.kept_waiting),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_mean_and_a_variation() {
        // 1 ms and 3 ms: mean 2, variance 1.
        let times = Times { count: 2, time_ns: Nanos(4_000_000), squares_us2: 10_000_000 };
        assert!((times.mean().unwrap() - 0.002).abs() < 1e-12);
        assert!((times.variation().unwrap() - 0.25).abs() < 1e-12);
        assert_eq!((Times::NONE.mean(), Times::NONE.variation()), (None, None));
    }

    #[test]
    fn threads_are_no_sum_over_time() {
        let of = |threads, count| Services { threads, all: Times { count, ..Times::NONE }, ..Services::NONE };
        let at = |services: Services| (services.threads, services.all.count);
        assert_eq!(at(of(3, 9).since(&of(5, 4))), (3, 5));
        assert_eq!(at(of(3, 9).then(&of(2, 4))), (3, 13));
        assert_eq!(at(of(3, 9).join(&of(2, 4))), (5, 13));
    }
}
