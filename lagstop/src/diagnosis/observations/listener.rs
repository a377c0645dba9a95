//! A listening address over a recording.

use crate::model::{CgroupId, Listener, ListenerTotals, Nanos, Services};

/// A listening address, added up.
#[derive(Clone, Debug, Default)]
pub(in crate::diagnosis) struct ObservedListener {
    pub cgroup: Option<CgroupId>,
    /// `None` where TCP is not watched.
    pub totals: Option<ListenerTotals>,
    pub services: Option<Services>,
    /// The most connections that were waiting at the end of an interval.
    pub deepest: Option<u64>,
    /// Capacity of the queue, as last known.
    pub capacity: Option<u64>,
    pub drops: Option<u64>,
    /// Listening sockets, as last known.
    pub sockets: Option<u64>,
    /// Intervals at whose end the queue was known, and the connections that waited then, in all.
    pub listed: u64,
    pub backlogs: u64,
    arrivals: Arrivals,
}

impl ObservedListener {
    /// Adds the next interval.
    pub(super) fn add(&mut self, listener: &Listener, duration: Nanos) {
        self.cgroup = listener.cgroup.or(self.cgroup);
        self.capacity = listener.backlog_capacity.or(self.capacity);
        self.sockets = listener.sockets.or(self.sockets);
        self.drops = match (self.drops, listener.drops) {
            (Some(sum), Some(more)) => Some(sum.saturating_add(more)),
            (sum, more) => sum.or(more),
        };
        if let Some(backlog) = listener.backlog {
            self.deepest = self.deepest.max(Some(backlog));
            self.listed += 1;
            self.backlogs = self.backlogs.saturating_add(backlog);
        }
        let Some(totals) = &listener.totals else { return };
        let services = if self.totals.is_none() { Some(Services::NONE) } else { self.services };
        self.services = services.zip(listener.services).map(|(sum, next)| sum.then(&next));
        self.totals.get_or_insert_default().add(totals);
        self.arrivals.add(totals.established as f64, duration.seconds());
    }

    /// Mean of the connections waiting at the ends of intervals. `None` where they were never listed.
    pub(in crate::diagnosis) fn mean_backlog(&self) -> Option<f64> {
        (self.listed > 0).then(|| self.backlogs as f64 / self.listed as f64)
    }

    /// Connections that came in a second, and how unevenly. `None` where that was not measured.
    pub(in crate::diagnosis) fn arrivals(&self) -> Option<(f64, f64)> {
        self.arrivals.rate().zip(self.arrivals.dispersion())
    }

    /// The mean accept wait. `None` where none was accepted, or it was not measured.
    pub(in crate::diagnosis) fn mean_wait(&self) -> Option<Nanos> {
        let totals = self.totals?;
        totals.accept_wait_ns.mean(totals.accepts)
    }
}

/// How many came in each interval.
#[derive(Clone, Copy, Debug, Default)]
struct Arrivals {
    intervals: f64,
    seconds: f64,
    count: f64,
    /// Σ count² / seconds.
    squares: f64,
}

impl Arrivals {
    fn add(&mut self, count: f64, seconds: f64) {
        if seconds > 0.0 {
            self.intervals += 1.0;
            self.seconds += seconds;
            self.count += count;
            self.squares += count * count / seconds;
        }
    }

    fn rate(&self) -> Option<f64> {
        Some(self.count / self.seconds).filter(|rate| rate.is_finite() && *rate > 0.0)
    }

    /// Variance over mean of how many come in an interval: 1 where each comes by chance, more where they come in bursts. It
    /// is the squared coefficient of variation of the times between them, where these are independent.
    fn dispersion(&self) -> Option<f64> {
        let rate = self.rate()?;
        let variance = (self.squares - rate * rate * self.seconds) / self.intervals;
        Some((variance / rate).max(0.0)).filter(|dispersion| dispersion.is_finite())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Times;

    fn listener(backlog: u64, established: u64, accepts: u64) -> Listener {
        let totals = ListenerTotals {
            established,
            accepts,
            accept_wait_ns: Nanos(accepts * 1_000),
            ..ListenerTotals::default()
        };
        let all = Times { count: accepts, ..Times::default() };
        Listener {
            backlog: Some(backlog),
            backlog_capacity: Some(9),
            totals: Some(totals),
            services: Some(Services { threads: backlog, all, ..Services::NONE }),
            ..Listener::new(7, ([127, 0, 0, 1], 80).into())
        }
    }

    #[test]
    fn intervals_are_added_up() {
        let mut observed = ObservedListener::default();
        for (backlog, accepts) in [(0, 5), (4, 50), (8, 60), (2, 70), (0, 20)] {
            observed.add(&listener(backlog, 50, accepts), Nanos::SECOND);
        }
        let services = observed.services.unwrap();
        assert_eq!((services.threads, services.all.count), (8, 205), "the most threads, all services");
        assert_eq!((observed.deepest, observed.mean_backlog()), (Some(8), Some(2.8)));
        assert_eq!(observed.mean_wait(), Some(Nanos(1_000)));
        assert_eq!(observed.arrivals(), Some((50.0, 0.0)), "as even as can be");
    }

    #[test]
    fn bursts_show_in_the_dispersion_however_long_intervals_are() {
        for seconds in [0.5, 2.0] {
            let mut arrivals = Arrivals::default();
            (0..100).for_each(|n| arrivals.add(f64::from(n % 2) * 40.0, seconds));
            // Mean 20, variance 400.
            assert!((arrivals.dispersion().unwrap() - 20.0).abs() < 1e-9);
        }
        assert_eq!(Arrivals::default().dispersion(), None);
    }
}
