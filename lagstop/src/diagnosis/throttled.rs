//! Rule: cgroups that wait because of their own quota.
//!
//! No priority helps them, and no neighbour is to blame. How much quota would end it is what their tasks ask for: the CPU time
//! that they got, and the time in which they were stopped.

use super::{
    Advice, Figure, Finding, Limit, Observations, Rule, Severity, Subject, Thresholds,
    confidence::Basis,
    figure::{figures, sources::COUNTED},
    observations::Observed,
    overcommitted_threads::figures as pools,
    quota_without_cpuset::{MANY_PERIODS, figures as limits},
    rated::is_rated,
    shell, single,
};
use crate::{
    model::{CgroupId, Level, Measure},
    units,
};

figures! {
    [shared pools::throttled, pools::quota, limits::cpu, limits::quotas]
    throttled_while_runnable: Share, "time throttled while runnable" = "wait_throttled_ns / (cpu_ns + runq_wait_ns)", COUNTED;
    needed: Cores, "CPUs that it asks for" = "min((cpu_ns + wait_throttled_ns) / duration_ns, cpus_online, threads)", COUNTED;
}

/// Recommended quota / mean demand. Chosen: more than 1, because demand varies.
const HEADROOM: f64 = 1.2;

pub(super) fn judge(observations: &Observations, thresholds: &Thresholds) -> Vec<Finding> {
    let is_enough = observations.too_short(thresholds).is_none();
    let rated = observations.cgroups.iter().filter(|(id, _)| is_enough && is_rated(**id));
    let found = rated.filter_map(|(&id, observed)| {
        let throttled = Throttled::of(observations, observed)?;
        let severity = throttled.severity(thresholds)?;
        Some((throttled.harm(), finding(observations, thresholds, (id, observed), &throttled, severity)))
    });
    single::worst(found.collect(), thresholds, || healthy(observations, thresholds))
}

/// How a quota is used up.
struct Throttled {
    /// Share of its periods in which it was used up. `None` if the quota is not its own.
    share: Option<f64>,
    periods: u64,
    /// Share of the time in which it wants to run that it was stopped. `None` if not measured.
    waits: Option<f64>,
    /// In cores. `None` where it was not recorded.
    quota: Option<f64>,
    /// The cgroup above it that has the quota.
    above: Option<String>,
    /// Settings of the cgroup that has the quota. `None` if not recorded.
    level: Option<Level>,
    cpu: f64,
    /// CPU time that it asks for, in cores. `None` like `waits`.
    needed: Option<f64>,
}

impl Throttled {
    /// `None` if it was not stopped.
    fn of(observations: &Observations, observed: &Observed) -> Option<Self> {
        let (totals, duration) = (&observed.totals, observations.span.duration_ns);
        let share = observed.files.throttled().filter(|_| observed.files.nr_throttled > Some(1));
        let stopped = totals.wait_throttled_ns;
        let wants = totals.runq_wait_ns.map(|wait| totals.cpu_ns.saturating_add(wait).0 as f64);
        let above = if share.is_none() { quota_above(observed) } else { None };
        let level = match &above {
            Some((_, level)) => Some(*level),
            None => observed.levels.as_ref().and_then(|levels| levels.last().copied()),
        };
        let of_above = above.as_ref().and_then(|(_, level)| cores(level));
        let above = above.map(|(path, _)| path);
        // Threads that were stopped together would not run on more CPUs than there are.
        let most = (observations.cpus() as f64).min(observed.threads().max(1) as f64);
        Some(Self {
            share,
            periods: observed.files.nr_periods.unwrap_or_default(),
            waits: stopped.zip(wants).map(|(stopped, wants)| stopped.0 as f64 / wants.max(1.0)),
            quota: of_above.or_else(|| observed.quota_ns.map(|quota| quota.seconds())),
            above,
            level,
            cpu: totals.cpu_ns.cores(duration).0,
            needed: stopped
                .filter(|_| observations.session.excluded_cpus.is_empty())
                .map(|stopped| totals.cpu_ns.saturating_add(stopped).cores(duration).0.min(most)),
        })
        .filter(|it| it.share.is_some() || it.above.is_some())
    }

    /// By its effect on tasks, if measured, and by the periods. `None` if it does not matter.
    fn severity(&self, thresholds: &Thresholds) -> Option<Severity> {
        let of = |share: f64, critical: f64| match share {
            share if share >= critical => Some(Severity::Critical),
            share if share >= thresholds.throttled_warn => Some(Severity::Warning),
            _ => None,
        };
        let by_periods = self.share.map(|share| of(share, thresholds.throttled_critical));
        let by_waits = self.waits.map(|waits| of(waits, thresholds.throttled_wait_critical));
        match (by_periods, by_waits) {
            (Some(periods), Some(waits)) => periods.min(waits),
            (periods, waits) => periods.or(waits)?,
        }
    }

    /// For ranking: the number of stopped tasks on average, or the share of the periods.
    fn harm(&self) -> f64 {
        self.needed.map_or(self.share.unwrap_or_default(), |needed| needed - self.cpu)
    }
}

/// The quota of a level, in cores.
fn cores(level: &Level) -> Option<f64> {
    let (quota, period) = level.quota_ns.zip(level.period_ns)?;
    Some(quota.0 as f64 / period.0 as f64).filter(|cores| cores.is_finite())
}

/// The nearest ancestor that has a quota: its path and its settings.
fn quota_above(observed: &Observed) -> Option<(String, Level)> {
    let (_, levels) = observed.levels.as_ref()?.split_last()?;
    let place = levels.iter().rposition(|level| level.quota_ns.is_some())?;
    let path =
        observed.path.split('/').skip(1).take(place + 1).fold(String::new(), |path, part| format!("{path}/{part}"));
    Some((path, levels[place])).filter(|(_, level)| cores(level).is_some())
}

fn finding(
    observations: &Observations,
    thresholds: &Thresholds,
    (id, observed): (CgroupId, &Observed),
    throttled: &Throttled,
    severity: Severity,
) -> Finding {
    let subject = observed.subject(id);
    let of = throttled.quota.map_or_else(String::new, |quota| format!(" of {}", units::cpus(quota)));
    let quota = match &throttled.above {
        Some(above) => format!("the quota{of} of {above}"),
        None => format!("its own quota{of}"),
    };
    let used_up = match throttled.share {
        Some(share) => format!("{quota} is used up in {} of its periods", units::percent(share)),
        None => format!("{quota} is used up"),
    };
    let verdict = match (throttled.waits, throttled.needed) {
        (Some(waits), Some(needed)) => {
            let share = units::percent(waits);
            // It uses the quota up in bursts that it does not need on average.
            let remedy = match throttled.quota {
                Some(quota) if needed <= quota => String::new(),
                // Others share this quota.
                _ if throttled.above.is_some() => String::new(),
                _ => format!(" A quota of about {} would end it.", units::cpus(roomy(observations, needed))),
            };
            format!("{subject} is throttled {share} of its runnable time: {used_up}.{remedy}")
        }
        _ => format!("{subject} stops until the next period begins: {used_up}."),
    };
    Finding {
        rule: Rule::Throttled,
        severity,
        culprits: vec![throttled.above.as_ref().map_or_else(|| subject.clone(), |above| named(above))],
        verdict,
        measured: measured(observations, throttled),
        threshold: [Limit::throttled_warn, Limit::throttled_critical, Limit::throttled_wait_critical]
            .map(|limit| thresholds.state(limit))
            .into(),
        confidence: Basis {
            intervals: observations.span.intervals,
            samples: throttled.periods,
            samples_are: "periods",
            agreeing: None,
            lost: 0,
        }
        .confidence_from(MANY_PERIODS),
        caveats: vec![
            "With more quota it may wait for other cgroups instead, and they for it.".to_owned(),
            "The quota may be set on purpose. Then use fewer threads instead of more quota.".to_owned(),
        ],
        advice: advice(observations, (id, observed), throttled),
        subject,
        cgroups: Vec::new(),
    }
}

/// The demand plus headroom, in cores.
fn roomy(observations: &Observations, needed: f64) -> f64 {
    (needed * HEADROOM).min(observations.cpus() as f64)
}

/// A cgroup without a row of its own.
fn named(path: &str) -> Subject {
    Subject::Cgroup { id: None, path: path.into(), name: path.into() }
}

fn measured(observations: &Observations, throttled: &Throttled) -> Vec<Figure> {
    let why = observations.session.why_not(Measure::Blame);
    vec![
        pools::throttled
            .measured(throttled.share, "the quota is not its own")
            .note(format!("of {}", units::count(throttled.periods))),
        figures::throttled_while_runnable.measured(throttled.waits, &why),
        pools::quota.measured(throttled.quota, "it was not recorded"),
        limits::cpu.is(throttled.cpu),
        figures::needed.measured(throttled.needed, &why),
    ]
}

fn advice(observations: &Observations, (id, observed): (CgroupId, &Observed), throttled: &Throttled) -> Vec<Advice> {
    let subject = observed.subject(id);
    let most = observations.cpus() as f64;
    // Doubled if the demand of it, or of others that share the quota, is unknown.
    let doubled = throttled.quota.map(|quota| quota * 2.0);
    let asked = throttled.needed.map(|needed| roomy(observations, needed)).filter(|_| throttled.above.is_none());
    let to = asked.or(doubled);
    let raised = to.filter(|to| throttled.quota.is_none_or(|quota| *to > quota)).map(|to| {
        let all = if to >= most { ", all of this host," } else { "" };
        let from = throttled.quota.map_or_else(String::new, |quota| format!(" from {}", units::number(quota)));
        let whose =
            throttled.above.as_ref().map_or_else(|| "its quota".to_owned(), |above| format!("the quota of {above}"));
        let give = |cores| match &throttled.above {
            Some(above) => shell::quota(&observations.session, CgroupId::default(), above, cores),
            None => shell::quota(&observations.session, id, &observed.path, cores),
        };
        Advice::new(format!("Raise {whose}{from} to {}{all} if it should get more CPU time.", units::cpus(to)))
            .command(give(to))
            .undo_if(throttled.level.and_then(|level| match &throttled.above {
                Some(above) => shell::same_quota(&observations.session, None, above, &level),
                None => shell::same_quota(&observations.session, Some(id), &observed.path, &level),
            }))
    });
    let mut advice: Vec<Advice> = raised.into_iter().collect();
    let or = if advice.is_empty() { "Run" } else { "Or run" };
    advice.push(Advice::new(format!(
        "{or} fewer threads in {subject}: together they use the quota up early in each period."
    )));
    advice
}

fn healthy(observations: &Observations, thresholds: &Thresholds) -> Finding {
    let quotas = observations.cgroups.values().filter(|observed| observed.quota_ns.is_some()).count() as u64;
    let verdict = match observations.too_short(thresholds) {
        Some(why) => (Severity::NotEnoughData, format!("Cannot judge whether a quota makes a cgroup wait: {why}.")),
        None if quotas == 0 => (Severity::Ok, "No cgroup that ran has a quota of its own.".to_owned()),
        None => (Severity::Ok, format!("{} with a quota, and none waits for it.", units::plural(quotas, "cgroup"))),
    };
    single::healthy(
        Rule::Throttled,
        verdict,
        vec![limits::quotas.is(quotas)],
        thresholds.state(Limit::throttled_warn),
        observations.basis_of_waits().confidence(),
    )
}

#[cfg(test)]
mod tests;
