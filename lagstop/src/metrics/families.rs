//! All metrics: name, meaning, and source in a snapshot. Metrics of counters are declared with the counters.
//! `docs/metrics.md` is generated from all of them.

mod cgroups;
mod host;
mod itself;
mod listeners;
mod samples;
mod sentinel;

use std::sync::LazyLock;

pub(super) use samples::{Part, Sample, Samples, Value};

use self::{
    cgroups::{CGROUP, CGROUP_FAMILIES},
    host::HOST,
    itself::ITSELF,
    listeners::{LISTENER, LISTENER_FAMILIES},
    samples::{counted, in_unit, of_host},
    sentinel::SENTINEL,
};
use super::MetricsSnapshot;
use crate::model::{Counter, FileCounters, HostTimes, ListenerTotals, OwnCost, Pressure, Reading, Totals};

/// A metric, and its samples in a snapshot.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// As Prometheus stores it.
    pub name: &'static str,
    /// What kind of metric it is.
    pub kind: Kind,
    /// Labels of its series.
    pub labels: &'static [&'static str],
    /// Its meaning, without a full stop.
    pub help: &'static str,
    /// Its source, as in docs/metrics.md.
    pub source: &'static str,
    of: Of,
}

/// Where its samples are.
#[derive(Clone, Copy, Debug)]
enum Of {
    MetricsSnapshot(for<'s> fn(&'s MetricsSnapshot) -> Samples<'s>),
    /// One of [`HostTimes::COUNTERS`].
    Times(usize),
    /// One of [`Pressure::COUNTERS`].
    Pressure(usize),
    /// One of [`OwnCost::COUNTERS`].
    OwnCost(usize),
    /// One of [`Totals::COUNTERS`].
    Totals(usize),
    /// One of [`FileCounters::COUNTERS`].
    Files(usize),
    /// One of [`ListenerTotals::COUNTERS`].
    Listener(usize),
}

/// What a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows; its name ends in `_total`.
    Counter,
    /// Goes up and down.
    Gauge,
    Histogram,
    /// 1, and labels that tell something; its name ends in `_info`.
    Info,
}

impl Kind {
    /// The type as written in the text format.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::Info => "info",
        }
    }
}

impl Family {
    /// Its name in OpenMetrics, without unit and without the suffix of its kind; and whether it is in seconds.
    pub(super) fn stem(&self) -> (&'static str, bool) {
        let name = match self.kind {
            Kind::Counter => self.name.strip_suffix("_total"),
            Kind::Info => self.name.strip_suffix("_info"),
            Kind::Gauge | Kind::Histogram => None,
        };
        let name = name.unwrap_or(self.name);
        name.strip_suffix("_seconds").map_or((name, false), |stem| (stem, true))
    }

    pub(super) fn samples<'s>(&self, snapshot: &'s MetricsSnapshot) -> Samples<'s> {
        match self.of {
            Of::MetricsSnapshot(samples) => samples(snapshot),
            Of::Times(n) => of_host(snapshot, &HostTimes::COUNTERS[n], |sum| sum.times.figures()[n]),
            Of::Pressure(n) => of_host(snapshot, &Pressure::COUNTERS[n], |sum| sum.pressure?.figures()[n]),
            Of::OwnCost(n) => of_host(snapshot, &OwnCost::COUNTERS[n], |sum| sum.own_cost.figures()[n]),
            Of::Totals(n) => {
                let unit = Totals::COUNTERS[n].unit;
                counted(&snapshot.cgroups, |it| &it.labels, move |it| in_unit(unit, it.totals.as_ref()?.figures()[n]))
            }
            Of::Files(n) => {
                let unit = FileCounters::COUNTERS[n].unit;
                counted(&snapshot.cgroups, |it| &it.labels, move |it| in_unit(unit, it.files.figures()[n]))
            }
            Of::Listener(n) => {
                let unit = ListenerTotals::COUNTERS[n].unit;
                counted(&snapshot.listeners, |it| &it.labels, move |it| in_unit(unit, it.totals?.figures()[n]))
            }
        }
    }

    /// The metric of what is read.
    const fn of_reading(
        reading: Reading,
        kind: Kind,
        labels: &'static [&'static str],
        samples: for<'s> fn(&'s MetricsSnapshot) -> Samples<'s>,
    ) -> Self {
        let Reading { metric: name, meaning: help, source, .. } = reading;
        Self { name, kind, labels, help, source, of: Of::MetricsSnapshot(samples) }
    }

    /// Metrics of counters that have a metric of their own.
    fn of_counters(
        counters: &'static [Counter],
        labels: &'static [&'static str],
        of: fn(usize) -> Of,
    ) -> impl Iterator<Item = Self> {
        let family = move |(n, counter): (usize, &'static Counter)| {
            let help = counter.meaning.trim_end_matches('.');
            Some(Self { name: counter.metric?, kind: Kind::Counter, labels, help, source: counter.source, of: of(n) })
        };
        counters.iter().enumerate().filter_map(family)
    }
}

/// Metrics about one thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    Host,
    Cgroups,
    Listeners,
    Itself,
}

/// All about one thing, in the order in which they are written.
pub fn families_about(about: About) -> Vec<Family> {
    let named = match about {
        About::Host => HOST,
        About::Cgroups => CGROUP_FAMILIES,
        About::Listeners => LISTENER_FAMILIES,
        About::Itself => ITSELF,
    };
    let mut all = named.to_vec();
    match about {
        About::Cgroups => {
            all.extend(Family::of_counters(&Totals::COUNTERS, CGROUP, Of::Totals));
            all.extend(Family::of_counters(&FileCounters::COUNTERS, CGROUP, Of::Files));
        }
        About::Listeners => all.extend(Family::of_counters(&ListenerTotals::COUNTERS, LISTENER, Of::Listener)),
        About::Host => {
            all.extend(Family::of_counters(&HostTimes::COUNTERS, &[], Of::Times));
            all.extend(Family::of_counters(&Pressure::COUNTERS, &[], Of::Pressure));
        }
        About::Itself => {
            all.extend_from_slice(SENTINEL);
            all.extend(Family::of_counters(&OwnCost::COUNTERS, &[], Of::OwnCost));
        }
    }
    all
}

/// All of them, in the order in which they are written.
pub fn families() -> &'static [Family] {
    static ALL: LazyLock<Vec<Family>> = LazyLock::new(|| {
        [About::Itself, About::Host, About::Cgroups, About::Listeners].into_iter().flat_map(families_about).collect()
    });
    &ALL
}
