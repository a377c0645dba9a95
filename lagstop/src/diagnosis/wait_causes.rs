//! Rule: whether those that wait are contended, throttled or stolen from, before a neighbour is blamed.

use super::{
    Advice, Figure, FigureDefinition, Finding, Limit, Observations, Rule, Severity, Subject, Thresholds,
    confidence::Basis,
    figure::{figures, sources::COUNTED},
    observations::{Observed, is_rated},
    shell,
};
use crate::{
    model::{CgroupId, Measure},
    units::{self, Unit},
};

figures! {
    behind_others: Tasks, "waiting behind other cgroups" = "runq_wait_ns / duration_ns − behind_itself − in_throttled − behind_unknown", COUNTED;
    behind_unknown: Tasks, "waiting behind whom is not known" = "Σ wait of a cgroup on CPUs that it does not crowd · its CPU time there / least busy time of a CPU / duration_ns", "an estimate: docs/diagnose.md";
    behind_itself: Tasks, "waiting behind their own" = "Σ wait of a cgroup on a CPU · its CPU time there / busy time there / duration_ns", "an estimate: docs/diagnose.md";
    in_throttled: Tasks, "waiting in throttled cgroups" = "Σ run-queue wait of throttled cgroups / duration_ns", COUNTED;
    steal: Share, "taken by a hypervisor" = "steal_ns / (capacity_ns + steal_ns)", COUNTED;
    throttled: Share, "throttled" = "nr_throttled / nr_periods of the cgroup", COUNTED;
    pressure: Share, "some task waits (PSI some)" = "pressure_some_ns / the time of the intervals in which it was read", COUNTED;
}

/// Cgroups that are named, of those that were throttled, and of those under pressure.
const TOP: usize = 5;
/// Throttled cgroups that a command is written out for.
const COMMANDS: usize = 3;

pub(super) fn judge(observations: &Observations, thresholds: &Thresholds) -> Finding {
    let causes = Causes::of(observations, thresholds);
    let (severity, verdict) = causes.verdict(observations, thresholds);
    Finding {
        rule: Rule::WaitCauses,
        severity,
        subject: Subject::Host,
        verdict,
        measured: causes.measured(observations),
        threshold: [
            Limit::contended_wait,
            Limit::throttled_warn,
            Limit::throttled_critical,
            Limit::steal_warn,
            Limit::steal_critical,
        ]
        .map(|limit| thresholds.state(limit))
        .into(),
        confidence: Basis {
            intervals: observations.span.intervals,
            samples: observations.host.as_ref().and_then(|host| host.totals.runq_waits).unwrap_or_default(),
            samples_are: "waits",
            agreeing: None,
            lost: observations.host.as_ref().map_or(0, |host| host.lost.task_states),
        }
        .confidence(),
        against: vec![
            "While a quota is used up tasks wait on a run queue that is stopped: how much of a throttled cgroup's wait that is \
             cannot be told."
                .to_owned(),
            "Who runs while a cgroup waits is estimated: on the CPUs that it crowds by its part of their busy time; elsewhere \
             it is behind itself for no more than all of its CPU time there could have been, which is what is not known."
                .to_owned(),
        ],
        advice: if severity >= Severity::Warning { causes.advice(observations, thresholds) } else { Vec::new() },
        cgroups: Vec::new(),
    }
}

/// What tasks wait for.
struct Causes<'a> {
    /// Tasks waiting on average: behind others, behind their own cgroup's, in cgroups that are throttled, and behind nobody
    /// knows whom. `None` where waits were not measured.
    waiting: Option<Waiting>,
    /// Share of the time of all CPUs that a hypervisor took. `None` where the kernel does not say.
    steal: Option<f64>,
    /// Cgroups that used their quota up often, the worst first, with the share of their periods.
    throttled: Vec<(CgroupId, &'a Observed, f64)>,
}

#[derive(Clone, Copy, Default)]
struct Waiting {
    others: f64,
    itself: f64,
    throttled: f64,
    unknown: f64,
}

impl Waiting {
    fn all(&self) -> f64 {
        self.others + self.itself + self.throttled + self.unknown
    }
}

impl<'a> Causes<'a> {
    fn of(observations: &'a Observations, thresholds: &Thresholds) -> Self {
        let is_throttled = |observed: &Observed| {
            observed
                .throttled_share()
                .filter(|&share| share >= thresholds.throttled_warn && observed.files.nr_throttled > Some(1))
        };
        let mut throttled: Vec<(CgroupId, &Observed, f64)> = observations
            .cgroups
            .iter()
            .filter(|(id, _)| is_rated(**id))
            .filter_map(|(&id, observed)| Some((id, observed, is_throttled(observed)?)))
            .collect();
        throttled.sort_by(|a, b| b.2.total_cmp(&a.2).then(a.0.cmp(&b.0)));

        let duration = observations.span.duration_ns.0 as f64;
        let mut waiting = Waiting::default();
        for observed in observations.cgroups.values() {
            let wait = observed.totals.runq_wait_ns.unwrap_or_default().0 as f64 / duration;
            if is_throttled(observed).is_some() {
                waiting.throttled += wait;
            } else {
                let (itself, unknown) = (wait * observed.self_inflicted(), wait * observed.of_unknown_cause());
                waiting.itself += itself;
                waiting.unknown += unknown;
                waiting.others += (wait - itself - unknown).max(0.0);
            }
        }
        let host = observations.host.as_ref();
        Self {
            waiting: host.and_then(|host| host.totals.runq_wait_ns).map(|_| waiting),
            steal: stolen(observations),
            throttled,
        }
    }

    fn verdict(&self, observations: &Observations, thresholds: &Thresholds) -> (Severity, String) {
        if let Some(too_short) = observations.too_short(thresholds) {
            return (Severity::NotEnoughData, format!("What tasks wait for cannot be said: {too_short}."));
        }
        let Some(waiting) = self.waiting else {
            let why = observations.session.why_not(Measure::RunqWait);
            return (Severity::NotEnoughData, format!("What tasks wait for cannot be said: run-queue wait is {why}."));
        };
        let mut severity = Severity::Ok;
        let mut parts = Vec::new();
        if let Some(steal) = self.steal.filter(|&steal| steal >= thresholds.steal_warn) {
            severity = if steal >= thresholds.steal_critical { Severity::Critical } else { Severity::Warning };
            parts.push(format!("a hypervisor took {} of the time of all CPUs", units::percent(steal)));
        }
        if let [(.., worst), ..] = self.throttled[..] {
            let step = if worst >= thresholds.throttled_critical { Severity::Critical } else { Severity::Warning };
            severity = severity.max(step);
            let count = self.throttled.len() as u64;
            parts.push(format!(
                "{} stopped by {} own quota in up to {} of the periods",
                if count == 1 { "1 cgroup was".to_owned() } else { format!("{} cgroups were", units::count(count)) },
                if count == 1 { "its" } else { "their" },
                units::percent(worst),
            ));
        }
        let per_cpu = waiting.all() / (observations.cpus() as f64).max(1.0);
        if per_cpu >= thresholds.contended_wait {
            severity = severity.max(Severity::Info);
            let share = |part: f64| units::percent(part / waiting.all());
            parts.push(format!(
                "of {} tasks waiting on average, {} wait behind other cgroups, {} behind their own, {} in throttled ones and \
                 {} behind whom is not known",
                units::number(waiting.all()),
                share(waiting.others),
                share(waiting.itself),
                share(waiting.throttled),
                share(waiting.unknown),
            ));
        }
        match parts.split_first() {
            None => (Severity::Ok, "Nobody waits for a CPU, is stopped by a quota, or is stolen from.".to_owned()),
            Some(_) => (severity, units::sentence(&parts.join("; "))),
        }
    }

    fn measured(&self, observations: &Observations) -> Vec<Figure> {
        let why = observations.session.why_not(Measure::RunqWait);
        let waiting =
            |figure: &FigureDefinition, part: fn(Waiting) -> f64| figure.measured(self.waiting.map(part), &why);
        let mut figures = vec![
            waiting(&figures::behind_others, |waiting| waiting.others),
            waiting(&figures::behind_itself, |waiting| waiting.itself),
            waiting(&figures::in_throttled, |waiting| waiting.throttled),
            waiting(&figures::behind_unknown, |waiting| waiting.unknown),
            figures::steal.measured(self.steal, "the kernel does not say").note("of the time of all CPUs"),
        ];
        figures.extend(self.throttled.iter().take(TOP).map(|&(id, observed, share)| {
            let quota = observed.quota_ns.map(|quota| format!(", quota {}", Unit::Cores.show(quota.seconds())));
            figures::throttled.is(share).of(observed.subject(id)).note(format!(
                "of {} periods{}",
                units::count(observed.files.nr_periods.unwrap_or_default()),
                quota.unwrap_or_default()
            ))
        }));
        figures.extend(pressed(observations));
        figures
    }

    fn advice(&self, observations: &Observations, thresholds: &Thresholds) -> Vec<Advice> {
        let session = &observations.session;
        let mut advice: Vec<Advice> = self
            .throttled
            .iter()
            .take(COMMANDS)
            .map(|&(id, observed, _)| {
                let text = format!(
                    "Raise the quota of {}, if it is to get more: no priority over its neighbours helps it. This doubles it.",
                    observed.subject(id)
                );
                match observed.quota_ns {
                    Some(quota) => {
                        Advice::new(text).command(shell::quota(session, id, &observed.path, quota.seconds() * 2.0))
                    }
                    None => Advice::new(text),
                }
            })
            .collect();
        if self.steal.is_some_and(|steal| steal >= thresholds.steal_warn) {
            advice.push(Advice::new(
                "What a hypervisor takes no scheduler here gives back: ask for CPUs that are not shared, or move to a host that \
                 is less full.",
            ));
        }
        advice
    }
}

/// Share of the time of all CPUs that a hypervisor took. `None` where the kernel does not say.
pub(super) fn stolen(observations: &Observations) -> Option<f64> {
    let steal = observations.host.as_ref()?.steal_ns?.0 as f64;
    Some(steal / (observations.whole().capacity_ns + steal).max(1.0))
}

/// The cgroups whose tasks, by the kernel's own figures, waited for most of the time.
fn pressed(observations: &Observations) -> Vec<Figure> {
    let rated = observations.cgroups.iter().filter(|(id, _)| is_rated(**id));
    let mut all: Vec<(CgroupId, &Observed, f64)> = rated
        .filter_map(|(&id, observed)| Some((id, observed, observed.pressure()?.0)))
        .filter(|(.., some)| *some > 0.0)
        .collect();
    all.sort_by(|a, b| b.2.total_cmp(&a.2).then(a.0.cmp(&b.0)));
    let figure = |(id, observed, some): (CgroupId, &Observed, f64)| {
        let note = match observed.pressure().and_then(|(_, full)| full) {
            Some(full) => format!("of the time; in {} of it some waited and none ran (PSI full)", units::percent(full)),
            None => "of the time".to_owned(),
        };
        figures::pressure.is(some).of(observed.subject(id)).note(note)
    };
    all.into_iter().take(TOP).map(figure).collect()
}

#[cfg(test)]
mod tests;
