//! What is known of the host, a cgroup and a listener since their series began.

use std::sync::Arc;

use super::{Histogram, Labels};
use crate::{
    diagnosis::HostSample,
    model::{Cgroup, FileCounters, Host, Idle, Interval, Listener, ListenerTotals, Nanos, Totals},
};

/// A cgroup since it has series of its own, or the sum of those that have none while they had none.
#[derive(Clone, Debug, Default)]
pub struct CgroupSeries {
    /// What it is told by.
    pub labels: Arc<Labels>,
    /// What was counted. `None` before anything was.
    pub totals: Option<Totals>,
    pub runq_wait: Option<Histogram>,
    /// Accept waits; `None` before the first.
    pub accept_wait: Option<Histogram>,
    /// What its files count; of a quota nothing before the first throttled period of one without a quota of its own.
    pub files: FileCounters,
    /// CPU time in each second that it may use. `None` without a quota.
    pub quota: Option<Nanos>,
    /// Load Credit now, in tasks.
    pub load_credit: Option<f64>,
    /// Is it light? `None` where it was not runnable.
    pub is_light: Option<bool>,
    /// Tasks seen running in the last interval. `None` while nothing is measured.
    pub threads: Option<u64>,
}

impl CgroupSeries {
    /// One that nothing is known of yet.
    pub fn new(labels: Arc<Labels>) -> Self {
        Self { labels, ..Self::default() }
    }

    /// Adds what was counted in an interval.
    pub(super) fn add(&mut self, cgroup: &Cgroup) {
        match &mut self.totals {
            // `other` is fed with several cgroups of an interval, too: its number of tasks is counted apart.
            Some(totals) => totals.add_next(&cgroup.totals),
            None => self.totals = Some(cgroup.totals),
        }
        let totals = &cgroup.totals;
        if let Some((waits, time)) = cgroup.runq_wait.as_ref().zip(totals.runq_wait_ns) {
            self.runq_wait.get_or_insert_default().add(waits, time);
        }
        // Only cgroups that accept connections have this metric: for all others it would be a third of all output.
        if let Some((waits, time)) = cgroup.accept_wait.as_ref().zip(totals.accept_wait_ns)
            && (waits.count() > 0 || self.accept_wait.is_some())
        {
            self.accept_wait.get_or_insert_default().add(waits, time);
        }
        self.threads = Some(self.threads.unwrap_or(0).saturating_add(totals.threads));
    }

    /// The counters of its files that are served. For a cgroup without a quota of its own, those of quotas are only
    /// served from its first throttled period on.
    pub(super) fn served_files(&self, cgroup: &Cgroup) -> FileCounters {
        let files = &cgroup.files;
        let was_throttled = self.files.nr_throttled.is_some() || files.nr_throttled.unwrap_or_default() > 0;
        if was_throttled || cgroup.quota_ns.is_some() { *files } else { files.without_quota() }
    }

    /// Begins an interval in which the cgroup may be idle.
    pub(super) fn rest(&mut self, keep: f64) {
        self.load_credit = self.load_credit.map(|credit| if credit < FORGOTTEN { 0.0 } else { credit * keep });
        self.is_light = None;
        self.threads = Some(0);
    }

    /// Forgets the values of gauges, because nothing is measured now.
    pub(super) const fn forget_gauges(&mut self) {
        (self.load_credit, self.is_light, self.threads) = (None, None, None);
    }
}

/// A Load Credit below this, in tasks, counts as 0.
const FORGOTTEN: f64 = 1e-6;

/// How long a cgroup waited behind another one, since the pair has a series; or behind all those that have none with it.
#[derive(Clone, Debug, Default)]
pub struct CausedSeries {
    /// What both are told by.
    pub labels: Arc<Labels>,
    pub wait: Nanos,
}

/// The host since lagstop measures.
#[derive(Clone, Debug, Default)]
pub struct HostSeries {
    /// What was counted. `None` before anything was.
    pub sum: Option<Host>,
    /// Cgroups that ran in the last interval. `None` before one, and while nothing is measured.
    pub active: Option<u64>,
    /// Runnable tasks per CPU in the last interval.
    pub runnable_per_cpu: Option<f64>,
    /// Voluntary switches away from tasks other than idle.
    pub voluntary: u64,
    /// Involuntary ones.
    pub involuntary: u64,
    /// Run-queue waits of all cgroups.
    pub runq_wait: Option<Histogram>,
}

impl HostSeries {
    /// Adds what happened in an interval.
    pub(super) fn add(&mut self, interval: &Interval) {
        let host = &interval.host;
        match &mut self.sum {
            Some(sum) => sum.add(host),
            None => self.sum = Some(host.clone()),
        }
        self.active = Some(interval.cgroups.iter().filter(|cgroup| !cgroup.totals.is_zero()).count() as u64);
        self.runnable_per_cpu = runnable_per_cpu(host);
        for cgroup in &interval.cgroups {
            self.voluntary = self.voluntary.saturating_add(cgroup.totals.voluntary_switches);
            self.involuntary = self.involuntary.saturating_add(cgroup.totals.involuntary_switches);
            if let Some((waits, time)) = cgroup.runq_wait.as_ref().zip(cgroup.totals.runq_wait_ns) {
                self.runq_wait.get_or_insert_default().add(waits, time);
            }
        }
    }

    /// A scheduling cost, without the part of idle.
    pub(super) fn without_idle(
        &self,
        all: fn(&Totals) -> Option<Nanos>,
        idle: fn(&Idle) -> Option<Nanos>,
    ) -> Option<Nanos> {
        let sum = self.sum.as_ref()?;
        all(&sum.totals).zip(idle(&sum.idle)).map(|(all, idle)| all.saturating_sub(idle))
    }
}

/// Computed as in the diagnosis. `None` if waits are not measured.
fn runnable_per_cpu(host: &Host) -> Option<f64> {
    let sample = HostSample::from(host);
    sample.wait_ns.map(|_| sample.load_per_cpu())
}

/// A listening address since it has series.
#[derive(Clone, Debug, Default)]
pub struct ListenerSeries {
    /// What it is told by.
    pub labels: Arc<Labels>,
    /// What happened on it. `None` where TCP is not watched.
    pub totals: Option<ListenerTotals>,
    pub drops: Option<u64>,
    /// Connections in its accept queues now.
    pub backlog: Option<u64>,
    /// How many these take.
    pub backlog_capacity: Option<u64>,
}

impl ListenerSeries {
    /// Adds what happened in an interval.
    pub(super) fn add(&mut self, listener: &Listener) {
        if let Some(totals) = &listener.totals {
            self.totals.get_or_insert_default().add(totals);
        }
        if let Some(drops) = listener.drops {
            self.drops = Some(self.drops.unwrap_or(0).saturating_add(drops));
        }
        (self.backlog, self.backlog_capacity) = (listener.backlog, listener.backlog_capacity);
    }
}
