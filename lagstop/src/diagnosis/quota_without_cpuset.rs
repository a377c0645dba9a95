//! Rule: cgroups whose quota is less than the CPUs that they see, and who run into it for that.
//!
//! WYSIWYG paper (003): a runtime sizes its pools by the CPUs that it sees. Where a quota gives it fewer, its threads use the
//! quota up early in each period, and all of them stop until the next. Such a cgroup is of class C1: it is better off with a
//! CPU set of its own size.

use super::{
    Advice, Finding, Limit, Observations, Rule, Severity, Thresholds,
    confidence::Basis,
    figure::{figures, sources::COUNTED},
    observations::Observed,
    overcommitted_threads::figures as pools,
    rated::is_rated,
    single,
};
use crate::{
    model::CgroupId,
    units::{self, Unit},
};

figures! {
    [shared pools::throttled, pools::quota, pools::threads, pools::runnable]
    cpus: Count, "CPUs it sees" = "cpus_online", COUNTED;
    cpu = CPU, COUNTED;
    quotas: Count, "cgroups with a quota" = "cgroups with a quota of their own", COUNTED;
}

/// From this number of periods on, a share of them is sure. Chosen: half a minute of the usual 100 ms
/// (Documentation/scheduler/sched-bwc.rst).
pub(super) const MANY_PERIODS: u64 = 300;

pub(super) fn judge(observations: &Observations, thresholds: &Thresholds) -> Vec<Finding> {
    let found = violations(observations, thresholds).into_iter().map(|(id, observed, violation)| {
        (violation.throttled, finding(observations, thresholds, (id, observed), &violation))
    });
    single::worst(found.collect(), thresholds, || healthy(observations, thresholds))
}

/// The cgroups of class C1.
pub(super) fn violations<'a>(
    observations: &'a Observations,
    thresholds: &Thresholds,
) -> Vec<(CgroupId, &'a Observed, Violation)> {
    if observations.too_short(thresholds).is_some() {
        return Vec::new();
    }
    let rated = observations.cgroups.iter().filter(|(id, _)| is_rated(**id));
    rated
        .filter_map(|(&id, observed)| {
            let violation = Violation::of(observations, observed)?;
            violation.is_one(observations, thresholds).then_some((id, observed, violation))
        })
        .collect()
}

/// A quota and how it is used.
#[derive(Clone, Copy, Debug)]
pub(super) struct Violation {
    /// In cores.
    pub(super) quota: f64,
    /// Share of the periods in which it was used up.
    throttled: f64,
    periods: u64,
    /// Its own threads, runnable on average, and how many run in an interval.
    runnable: f64,
    threads: u64,
}

impl Violation {
    /// `None` without a quota that was enforced.
    fn of(observations: &Observations, observed: &Observed) -> Option<Self> {
        Some(Self {
            quota: observed.quota_ns?.seconds(),
            throttled: observed.files.throttled()?,
            periods: observed.files.nr_periods.unwrap_or_default(),
            runnable: observed.runnable(observations),
            threads: observed.threads(),
        })
    }

    fn is_one(&self, observations: &Observations, thresholds: &Thresholds) -> bool {
        self.throttled >= thresholds.throttled_warn
            && self.quota <= observations.cpus() as f64 * (1.0 - thresholds.quota_gap)
            && self.threads as f64 > self.quota
            && self.threads > 1
    }
}

fn finding(
    observations: &Observations,
    thresholds: &Thresholds,
    (id, observed): (CgroupId, &Observed),
    violation: &Violation,
) -> Finding {
    let subject = observed.subject(id);
    let cpus = observations.cpus();
    let cores = violation.quota.ceil().max(1.0) as u64;
    let severity =
        if violation.throttled >= thresholds.throttled_critical { Severity::Critical } else { Severity::Warning };
    Finding {
        rule: Rule::QuotaWithoutCpuset,
        culprits: vec![subject.clone()],
        severity,
        verdict: format!(
            "{subject} has a quota of {} but sees {cpus} CPUs: its {} threads use up the quota in {} of its periods \
             and then stop.",
            Unit::Cores.show(violation.quota),
            violation.threads,
            units::percent(violation.throttled),
        ),
        measured: vec![
            pools::throttled.is(violation.throttled).note(format!("of {}", units::count(violation.periods))),
            pools::quota.is(violation.quota),
            figures::cpus.is(cpus).note("CPUs of the host; its own CPU set is not recorded"),
            pools::threads.is(violation.threads).note("average per interval"),
            pools::runnable.is(violation.runnable),
            figures::cpu.is(observed.totals.cpu_ns.cores(observations.span.duration_ns).0),
        ],
        threshold: [Limit::throttled_warn, Limit::throttled_critical, Limit::quota_gap]
            .map(|limit| thresholds.state(limit))
            .into(),
        confidence: basis(observations, violation.periods).confidence_from(MANY_PERIODS),
        caveats: vec![
            "A CPU set prevents it from using CPUs that others leave idle, while a quota allows bursts.".to_owned(),
            "If its threads sleep most of the time, a larger quota alone is enough.".to_owned(),
        ],
        advice: vec![
            Advice::new(format!(
                "Give it a CPU set of {}, so that it sees what it gets and sizes its pools by it. This plans CPU sets \
                 for all such cgroups of the host:",
                units::plural(cores, "CPU")
            ))
            .command("sudo lagstop diagnose --plan cpuset"),
            Advice::new(format!(
                "Or tell its runtime that it has {}, with GOMAXPROCS, -XX:ActiveProcessorCount, OMP_NUM_THREADS or \
                 similar.",
                units::plural(cores, "CPU")
            )),
        ],
        subject,
        cgroups: Vec::new(),
    }
}

fn basis(observations: &Observations, periods: u64) -> Basis {
    Basis { intervals: observations.span.intervals, samples: periods, samples_are: "periods", agreeing: None, lost: 0 }
}

fn healthy(observations: &Observations, thresholds: &Thresholds) -> Finding {
    let quotas = observations.cgroups.values().filter(|observed| observed.quota_ns.is_some()).count() as u64;
    let periods = observations
        .cgroups
        .values()
        .map(|observed| observed.files.nr_periods.unwrap_or_default())
        .fold(0, u64::saturating_add);
    let (severity, verdict) = match observations.too_short(thresholds) {
        Some(too_short) => (Severity::NotEnoughData, format!("Cannot judge quotas: {too_short}.")),
        None if quotas == 0 => (Severity::Ok, "No cgroup with a quota of its own ran.".to_owned()),
        None => (
            Severity::Ok,
            format!(
                "No cgroup is throttled because of too many threads ({} with a quota).",
                units::plural(quotas, "cgroup")
            ),
        ),
    };
    single::healthy(
        Rule::QuotaWithoutCpuset,
        (severity, verdict),
        vec![figures::quotas.is(quotas)],
        thresholds.state(Limit::throttled_warn),
        basis(observations, periods).confidence_from(MANY_PERIODS),
    )
}

#[cfg(test)]
mod tests;
