//! Rule: what those that wait wait for: others, their own threads, their quotas, or a hypervisor.

use std::collections::BTreeMap;

use super::{
    Advice, Figure, FigureDefinition, Finding, Limit, Observations, Rule, Severity, Subject, Thresholds,
    confidence::Basis,
    figure::{figures, sources::COUNTED},
    observations::Observed,
    rated::is_rated,
    shell,
};
use crate::{
    model::{CgroupId, Measure, Nanos, Totals},
    units::{self, Unit},
};

figures! {
    waiting: Tasks, "tasks waiting" = "runq_wait_ns / duration_ns", COUNTED;
    behind_others: Share, "wait behind other cgroups" = "wait_behind_ns / runq_wait_ns", COUNTED;
    behind_worst: Share, "wait behind" = "Σ waits_behind of the cgroup / runq_wait_ns", COUNTED;
    behind_itself: Share, "wait behind own threads" = "wait_self_ns / runq_wait_ns", COUNTED;
    behind_kernel: Share, "wait behind kernel threads" = "wait_kernel_ns / runq_wait_ns", COUNTED;
    in_throttled: Share, "wait while throttled" = "wait_throttled_ns / runq_wait_ns", COUNTED;
    elsewhere: Share, "wait before a migration" = "wait_elsewhere_ns / runq_wait_ns", COUNTED;
    while_idle: Share, "wait while the CPU was idle" = "wait_idle_ns / runq_wait_ns", COUNTED;
    of_unknown_cause: Share, "wait of unknown cause" = "wait_unknown_ns / runq_wait_ns", COUNTED;
    steal: Share, "taken by a hypervisor" = "steal_ns / (capacity_ns + steal_ns)", COUNTED;
    throttled: Share, "throttled" = "nr_throttled / nr_periods of the cgroup", COUNTED;
    pressure: Share, "some task waits (PSI some)" = "pressure_some_ns / the time of the intervals in which it was read", COUNTED;
}

/// A cause of waits: its figure, as a verdict says it, and its counter.
type Cause = (&'static FigureDefinition, &'static str, fn(&Totals) -> Option<Nanos>);

const CAUSES: [Cause; 7] = [
    (&figures::behind_others, "behind other cgroups", |totals| totals.wait_behind_ns),
    (&figures::behind_itself, "behind threads of the same cgroup", |totals| totals.wait_self_ns),
    (&figures::behind_kernel, "behind kernel threads", |totals| totals.wait_kernel_ns),
    (&figures::in_throttled, "throttled by a quota", |totals| totals.wait_throttled_ns),
    (&figures::elsewhere, "on another CPU before a migration", |totals| totals.wait_elsewhere_ns),
    (&figures::while_idle, "while the CPU was idle", |totals| totals.wait_idle_ns),
    (&figures::of_unknown_cause, "of unknown cause", |totals| totals.wait_unknown_ns),
];

/// Cgroups that are named, of those that others wait behind, that were throttled, and that are under pressure.
const TOP: usize = 5;
/// Throttled cgroups that a command is written out for.
const COMMANDS: usize = 3;
/// The part of all waits from which a verdict speaks of a cause.
const SPOKEN_OF: f64 = 0.01;

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
            lost: observations.host.as_ref().map_or(0, |host| host.lost.task_states),
            ..observations.basis_of_waits()
        }
        .confidence(),
        against: causes.against(observations),
        advice: if severity >= Severity::Warning { causes.advice(observations, thresholds) } else { Vec::new() },
        cgroups: Vec::new(),
    }
}

/// What tasks wait for.
struct Causes<'a> {
    /// Tasks waiting on average. `None` where waits were not measured.
    waiting: Option<f64>,
    /// The part of the waits that each of [`CAUSES`] has. `None` where causes were not measured.
    shares: Option<[f64; CAUSES.len()]>,
    /// Those behind whom others wait most, the worst first, with their part of all waits.
    worst: Vec<(Subject, f64)>,
    /// Share of the time of all CPUs that a hypervisor took. `None` where the kernel does not say.
    steal: Option<f64>,
    /// Cgroups that used their quota up often, the worst first, with the share of their periods.
    throttled: Vec<(CgroupId, &'a Observed, f64)>,
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
        let tasks = observations.tasks();
        let wait = tasks.and_then(|totals| totals.runq_wait_ns);
        let share = |time: Nanos| time.0 as f64 / wait.unwrap_or_default().0.max(1) as f64;
        let shares: Option<Vec<f64>> =
            CAUSES.iter().map(|(_, _, counter)| counter(tasks.as_ref()?).map(share)).collect();
        let shares = shares.and_then(|shares| shares.try_into().ok());
        Self {
            waiting: wait.map(|wait| wait.cores(observations.span.duration_ns).0),
            shares,
            worst: if shares.is_some() { worst(observations, share) } else { Vec::new() },
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
                "{} {} {} of its periods",
                units::plural(count, "cgroup"),
                if count == 1 {
                    "was throttled by its own quota in"
                } else {
                    "were throttled by their own quotas, the worst in"
                },
                units::percent(worst),
            ));
        }
        if waiting / (observations.cpus() as f64).max(1.0) >= thresholds.contended_wait {
            severity = severity.max(Severity::Info);
            parts.push(format!(
                "{} tasks wait for a CPU on average{}",
                units::number(waiting),
                self.by_cause(observations)
            ));
        }
        match parts.split_first() {
            None if self.steal.is_none() => {
                let verdict = "Waiting and throttling are below their thresholds. The kernel does not tell how much a hypervisor took.";
                (Severity::Ok, verdict.to_owned())
            }
            None => (Severity::Ok, "Waiting, throttling and steal are below their thresholds.".to_owned()),
            Some(_) => (severity, units::sentence(&parts.join("; "))),
        }
    }

    /// For what, the most first.
    fn by_cause(&self, observations: &Observations) -> String {
        let Some(shares) = self.shares else {
            return format!("; the cause of their waits is {}", observations.session.why_not(Measure::Blame));
        };
        let mut causes: Vec<(&str, f64)> = CAUSES.iter().map(|(_, name, _)| *name).zip(shares).collect();
        causes.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        let spoken: Vec<String> = causes
            .into_iter()
            .filter(|(_, share)| *share >= SPOKEN_OF)
            .map(|(name, share)| format!("{} {name}", units::percent(share)))
            .collect();
        if spoken.is_empty() { String::new() } else { format!(". Of their waiting time: {}", spoken.join(", ")) }
    }

    fn measured(&self, observations: &Observations) -> Vec<Figure> {
        let why = observations.session.why_not(Measure::RunqWait);
        let mut figures = vec![figures::waiting.measured(self.waiting, &why).note("on average")];
        let why = observations.session.why_not(Measure::Blame);
        for (place, (figure, ..)) in CAUSES.iter().enumerate() {
            figures.push(figure.measured(self.shares.map(|shares| shares[place]), &why));
            if place == 0 {
                let worst = self.worst.iter();
                figures.extend(worst.map(|(whom, share)| figures::behind_worst.is(*share).of(whom.clone())));
            }
        }
        figures.push(figures::steal.measured(self.steal, "the kernel does not say").note("of the time of all CPUs"));
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

    fn against(&self, observations: &Observations) -> Vec<String> {
        let stolen = self
            .steal
            .filter(|&steal| steal > 0.0 && self.shares.is_some())
            .map(|_| "Steal and interrupts while a task ran are charged to that task.".to_owned());
        let mut against: Vec<String> = stolen.into_iter().collect();
        if self.waiting.is_some() && self.shares.is_none() {
            let why = observations.session.why_not(Measure::Blame);
            against.push(format!(
                "What caused each wait is {why}. It may be a neighbour, the cgroup's own threads or its quota."
            ));
        }
        against
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

/// Those behind whom others wait most, the worst first.
fn worst(observations: &Observations, share: impl Fn(Nanos) -> f64) -> Vec<(Subject, f64)> {
    let mut behind: BTreeMap<CgroupId, Nanos> = BTreeMap::new();
    for (id, culprit) in observations.cgroups.values().flat_map(|victim| victim.behind.culprits()) {
        let sum = behind.entry(id).or_default();
        *sum = sum.saturating_add(culprit.wait_ns);
    }
    let mut worst: Vec<(CgroupId, Nanos)> = behind.into_iter().collect();
    worst.sort_by_key(|&(id, wait)| (std::cmp::Reverse(wait), id));
    let named = |(id, wait)| Some((observations.cgroups.get(&id)?.subject(id), share(wait)));
    worst.into_iter().filter_map(named).take(TOP).collect()
}

/// Share of the time of all CPUs that a hypervisor took. `None` where the kernel does not say.
pub(super) fn stolen(observations: &Observations) -> Option<f64> {
    let steal = observations.host.as_ref()?.times.steal_ns?.0 as f64;
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
