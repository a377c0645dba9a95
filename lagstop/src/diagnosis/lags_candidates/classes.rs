//! Who is light and who is heavy.

use crate::{
    diagnosis::{Observations, Thresholds, observations::Observed},
    model::{CgroupId, Nanos},
};

/// A cgroup with its class.
#[derive(Clone, Copy, Debug)]
pub(super) struct Classed<'a> {
    pub(super) id: CgroupId,
    pub(super) observed: &'a Observed,
    /// Mean Load Credit over the intervals in which it was runnable, in tasks.
    pub(super) credit: f64,
    /// Share of that time in which it was light.
    pub(super) light: f64,
    /// CPU time, in nanoseconds.
    pub(super) cpu: f64,
    /// Run-queue wait, in nanoseconds.
    pub(super) wait: f64,
}

impl<'a> Classed<'a> {
    /// All that can be classed.
    pub(super) fn all(observations: &'a Observations) -> Vec<Self> {
        observations.cgroups.iter().filter_map(Self::of).collect()
    }

    fn of((&id, observed): (&CgroupId, &'a Observed)) -> Option<Self> {
        (observed.rated_ns > 0.0).then_some(())?;
        Some(Self {
            id,
            observed,
            credit: observed.credit_ns / observed.rated_ns,
            light: observed.light_ns / observed.rated_ns,
            cpu: observed.totals.cpu_ns.0 as f64,
            wait: observed.totals.runq_wait_ns?.0 as f64,
        })
    }

    pub(super) fn is_light(&self) -> bool {
        self.light > 0.5
    }

    pub(super) fn wait_per_cpu(&self) -> f64 {
        self.wait / self.cpu
    }

    pub(super) fn p99(&self) -> Option<Nanos> {
        self.observed.runq_wait.as_ref()?.quantile(0.99)
    }

    pub(super) fn waits(&self) -> u64 {
        self.observed.totals.runq_waits.unwrap_or_default()
    }

    /// Much lighter than the heavy cgroups, whose mean Load Credit is `heavy_credit`, and waits long compared with its own
    /// service, for longer than anybody should notice, and mostly for others: neither for itself nor for its quota.
    pub(super) fn waits_long(&self, heavy_credit: f64, thresholds: &Thresholds) -> bool {
        let tail = self.p99().or_else(|| self.observed.totals.mean_runq_wait());
        self.is_light()
            && self.credit <= thresholds.light_credit * heavy_credit
            && self.waits() >= thresholds.min_waits
            && self.wait >= thresholds.light_wait_per_cpu * self.cpu
            && tail.is_some_and(|tail| tail >= thresholds.light_wait_p99)
            && self.observed.self_inflicted() < 0.5
            && self.observed.throttled_share().is_none_or(|share| share < thresholds.throttled_warn)
    }
}

/// A class added up.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Class {
    pub(super) size: u64,
    credits: f64,
    /// CPU time and run-queue wait, in nanoseconds.
    pub(super) cpu: f64,
    pub(super) wait: f64,
    pub(super) waits: u64,
}

impl Class {
    pub(super) fn of<'a>(members: impl Iterator<Item = &'a Classed<'a>>) -> Self {
        members.fold(Self::default(), |sum, member| Self {
            size: sum.size + 1,
            credits: sum.credits + member.credit,
            cpu: sum.cpu + member.cpu,
            wait: sum.wait + member.wait,
            waits: sum.waits.saturating_add(member.waits()),
        })
    }

    /// Mean Load Credit of its members; 0 of none.
    pub(super) fn credit(&self) -> f64 {
        if self.size > 0 { self.credits / self.size as f64 } else { 0.0 }
    }
}
