//! All that is exposed at one moment.

use std::sync::Arc;

use super::{CausedSeries, CgroupSeries, HostSeries, Labels, ListenerSeries};
use crate::{model::Nanos, source::SentinelState};

/// All exposed series at one moment, in the order in which they are written.
#[derive(Clone, Debug, Default)]
pub struct MetricsSnapshot {
    /// The version of lagstop.
    pub build: Arc<Labels>,
    /// Method of each measure, or why it is not measured.
    pub hooks: Arc<Vec<Labels>>,
    pub host: HostSeries,
    /// The sum of the cgroups without series of their own, then those with, by path.
    pub cgroups: Vec<Arc<CgroupSeries>>,
    /// Waits of victims behind culprits, by victim.
    pub caused: Vec<Arc<CausedSeries>>,
    pub listeners: Vec<Arc<ListenerSeries>>,
    /// Network namespaces, with connections that found a queue full.
    pub overflows: Vec<(Arc<Labels>, u64)>,
    /// Number of processed intervals.
    pub intervals: u64,
    /// What a sentinel does and sees, where there is one.
    pub sentinel: Option<SentinelState>,
    /// Those in which switches were timed, where not all are.
    pub timed_intervals: Option<u64>,
    /// The standard error of the host's mean switch cost, as a share of it, where not all are.
    pub switch_cost_error: Option<f64>,
    /// Unix time at which the last interval was processed.
    pub taken_in: Nanos,
    /// Cgroups with series of their own.
    pub exported: u64,
    /// Cgroups that ran in the last interval and have no series of their own.
    pub in_other: u64,
    /// Listeners with traffic that have no series.
    pub listeners_left_out: u64,
}
