//! All that is exposed at one moment.

use std::sync::Arc;

use super::{CausedSeries, CgroupSeries, HostSeries, Labels, ListenerSeries};
use crate::model::Nanos;

/// All that is exposed at one moment, in the order in which it is written.
#[derive(Clone, Debug, Default)]
pub struct MetricsSnapshot {
    /// The version of lagstop.
    pub build: Arc<Labels>,
    /// How each thing is measured, or why it is not.
    pub hooks: Arc<Vec<Labels>>,
    pub host: HostSeries,
    /// The sum of the cgroups without series of their own, then those with, by path.
    pub cgroups: Vec<Arc<CgroupSeries>>,
    /// Who made whom wait, by victim.
    pub caused: Vec<Arc<CausedSeries>>,
    pub listeners: Vec<Arc<ListenerSeries>>,
    /// Network namespaces, with connections that found a queue full.
    pub overflows: Vec<(Arc<Labels>, u64)>,
    /// Intervals that were taken in.
    pub intervals: u64,
    /// When the last of them was, in Unix time.
    pub taken_in: Nanos,
    /// Cgroups with series of their own.
    pub exported: u64,
    /// Cgroups that ran in the last interval and have none.
    pub in_other: u64,
    /// Listeners with traffic that have none.
    pub listeners_left_out: u64,
}
