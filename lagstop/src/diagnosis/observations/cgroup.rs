//! A cgroup over a recording.

use std::sync::Arc;

use super::{behind::Behind, crowded::Crowded};
use crate::{
    diagnosis::{Observations, Subject, Thresholds},
    model::{Cgroup, CgroupId, Distribution, FileCounters, Level, Nanos, Totals},
};

/// One cgroup, added up.
#[derive(Clone, Debug)]
pub(in crate::diagnosis) struct Observed {
    pub path: Arc<str>,
    pub name: Arc<str>,
    pub totals: Totals,
    pub runq_wait: Option<Distribution>,
    /// Time of the intervals in which it had a Load Credit.
    pub rated_ns: f64,
    /// Of that, in which the credit was below its fair share.
    pub light_ns: f64,
    /// Integral of its credit, in tasks × ns.
    pub credit_ns: f64,
    pub files: FileCounters,
    /// Time of the intervals in which its pressure was read.
    pub pressed_ns: Nanos,
    /// CPU time that it may use in each second, as last known.
    pub quota_ns: Option<Nanos>,
    /// What it and each cgroup above it are entitled to, as last known: see [`Cgroup::levels`].
    pub levels: Option<Arc<[Level]>>,
    /// The CPUs that it may run on, as last known: see [`Cgroup::cpus`].
    pub cpus: Option<Arc<str>>,
    /// The number of its tasks that were seen running, summed over the intervals in which there were any, and the
    /// number of these intervals.
    threads: (u64, u64),
    /// Which cgroups it waited behind.
    pub behind: Behind,
    /// Its waits on full CPUs while others were idle.
    pub crowded: Crowded,
    /// Entitled CPU time by weights, quotas and CPU sets, in nanoseconds, and the CPU time that it got, in the
    /// intervals in which both are known.
    pub entitled_ns: f64,
    pub entitled_cpu_ns: f64,
    /// The time of these intervals.
    pub entitled_during_ns: f64,
}

impl Observed {
    pub(super) fn new(cgroup: &Cgroup) -> Self {
        Self {
            path: Arc::clone(&cgroup.path),
            name: Arc::clone(&cgroup.name),
            totals: cgroup.totals,
            runq_wait: cgroup.runq_wait.clone(),
            rated_ns: 0.0,
            light_ns: 0.0,
            credit_ns: 0.0,
            files: FileCounters::default(),
            pressed_ns: Nanos::ZERO,
            quota_ns: None,
            levels: None,
            cpus: None,
            threads: (0, 0),
            behind: Behind::default(),
            crowded: Crowded::default(),
            entitled_ns: 0.0,
            entitled_cpu_ns: 0.0,
            entitled_during_ns: 0.0,
        }
    }

    /// From this share of its periods on, a quota explains a part of its waits. Chosen: one in a hundred is worth a caveat.
    pub(in crate::diagnosis) const THROTTLED_MATTERS: f64 = 0.01;

    /// Shares of the time in which some of its tasks waited for a CPU, and in which some did and none ran. `None` where its
    /// `cpu.pressure` was not read.
    pub(in crate::diagnosis) fn pressure(&self) -> Option<(f64, Option<f64>)> {
        let share = |time: Nanos| time.0 as f64 / self.pressed_ns.0 as f64;
        let some = self.files.pressure_some_ns.filter(|_| self.pressed_ns > Nanos::ZERO)?;
        Some((share(some), self.files.pressure_full_ns.map(share)))
    }

    /// The part of its wait that was behind its own tasks: 0 where it did not wait. `None` where causes were not measured.
    pub(in crate::diagnosis) fn self_inflicted(&self) -> Option<f64> {
        self.part_of_wait(self.totals.wait_self_ns)
    }

    /// The share of its wait that has this cause.
    pub(in crate::diagnosis) fn part_of_wait(&self, cause: Option<Nanos>) -> Option<f64> {
        let wait = self.totals.runq_wait_ns?.0 as f64;
        let cause = cause?.0 as f64;
        Some(if wait > 0.0 { (cause / wait).min(1.0) } else { 0.0 })
    }

    /// What it was entitled to while it ran, in cores. `None` where weights were not recorded.
    pub(in crate::diagnosis) fn entitled_cores(&self) -> Option<f64> {
        Some(self.entitled_ns / self.entitled_during_ns).filter(|cores| cores.is_finite())
    }

    /// CPU time that it got / what it was entitled to. `None` where weights were not recorded.
    pub(in crate::diagnosis) fn got_of_entitled(&self) -> Option<f64> {
        Some(self.entitled_cpu_ns / self.entitled_ns).filter(|factor| factor.is_finite())
    }

    /// Time in which its tasks wanted to run: CPU time, and run-queue wait but for its quota. `None` where waits were not measured.
    pub(in crate::diagnosis) fn asked_ns(&self) -> Option<Nanos> {
        let throttled = self.totals.wait_throttled_ns.unwrap_or_default();
        let wait = self.totals.runq_wait_ns?.saturating_sub(throttled);
        Some(self.totals.cpu_ns.saturating_add(wait))
    }

    /// Does it wait as long as it runs, or now and then so long that users notice?
    pub(in crate::diagnosis) fn waits_long(&self, during: Nanos, thresholds: &Thresholds) -> bool {
        let wait = self.totals.runq_wait_ns.unwrap_or_default().0 as f64;
        let p99 = self.runq_wait.as_ref().and_then(|waits| waits.quantile(0.99));
        let is_long = wait >= thresholds.wait_per_cpu_warn * self.totals.cpu_ns.0 as f64
            || p99.is_some_and(|p99| p99 >= thresholds.light_wait_p99);
        wait > 0.0 && is_long && thresholds.are_enough(self.totals.runq_waits.unwrap_or_default(), during)
    }

    /// Adds the next interval that it is in.
    pub(super) fn add(&mut self, cgroup: &Cgroup) {
        self.totals.add_next(&cgroup.totals);
        match (&mut self.runq_wait, &cgroup.runq_wait) {
            (Some(mine), Some(theirs)) => mine.merge(theirs),
            // In an interval without waits, the distribution may be missing.
            (mine @ None, Some(theirs)) => *mine = Some(theirs.clone()),
            (_, None) => {}
        }
        // Names are found out late: the last one known is the best.
        if !cgroup.name.is_empty() {
            self.name = Arc::clone(&cgroup.name);
        }
    }

    /// Adds what its files say in an interval, and which cgroups it waited behind.
    pub(super) fn limit(&mut self, cgroup: &Cgroup, duration: Nanos) {
        self.files.add_known(&cgroup.files);
        if cgroup.files.pressure_some_ns.is_some() {
            self.pressed_ns = self.pressed_ns.saturating_add(duration);
        }
        self.quota_ns = cgroup.quota_ns;
        self.levels = cgroup.levels.clone().or_else(|| self.levels.take());
        self.cpus = cgroup.cpus.clone().or_else(|| self.cpus.take());
        self.behind.add(cgroup);
        let (sum, intervals) = self.threads;
        let ran = cgroup.totals.threads;
        self.threads = (sum.saturating_add(ran), intervals + u64::from(ran > 0));
    }

    /// Mean number of its tasks that run in an interval. The maximum would count tasks that come and go.
    pub(in crate::diagnosis) fn threads(&self) -> u64 {
        let (sum, intervals) = self.threads;
        (sum as f64 / intervals.max(1) as f64).round() as u64
    }

    /// Tasks that were runnable on average over all of the recording; running ones alone where waits were not measured.
    pub(in crate::diagnosis) fn runnable(&self, observations: &Observations) -> f64 {
        let duration = observations.span.duration_ns;
        self.totals.runnable_load(duration).map_or_else(|| self.totals.cpu_ns.cores(duration).0, |load| load.0)
    }

    /// The subject of a finding about it.
    pub(in crate::diagnosis) fn subject(&self, id: CgroupId) -> Subject {
        Subject::Cgroup { id: Some(id), path: Arc::clone(&self.path), name: Arc::clone(&self.name) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_is_entitled_to_is_as_last_known() {
        let with = |weight: Option<f64>, cpus: Option<&str>| Cgroup {
            levels: weight.map(|weight| [Level { weight: Some(weight), ..Level::DEFAULT }].into()),
            cpus: cpus.map(Into::into),
            ..Cgroup::default()
        };
        let mut observed = Observed::new(&Cgroup::default());
        for cgroup in [with(Some(1.0), Some("0")), with(Some(2.0), None), with(None, None)] {
            observed.limit(&cgroup, Nanos::SECOND);
        }
        let weights = observed.levels.map(|levels| levels.iter().map(|level| level.weight).collect::<Vec<_>>());
        assert_eq!((weights, observed.cpus.as_deref()), (Some(vec![Some(2.0)]), Some("0")));
    }
}
