//! Rule: what those that wait wait for: others, their own threads, their quotas, or a hypervisor.

use std::collections::BTreeMap;

use super::{
    Figure, FigureDefinition, Finding, Limit, Observations, Rule, Severity, Subject, Thresholds,
    confidence::Basis,
    figure::{figures, sources::COUNTED},
    observations::Observed,
    rated::is_rated,
    steal,
};
use crate::{
    model::{CgroupId, Measure, Nanos, WaitCause},
    units,
};

figures! {
    [shared steal::figures::steal]
    waiting = WAITING, COUNTED;
    behind_others: Share, (WaitCause::OtherCgroups.wait()) = "wait_behind_ns / runq_wait_ns", COUNTED;
    behind_worst: Share, "wait behind" = "Σ waits_behind of the cgroup / runq_wait_ns", COUNTED;
    behind_itself: Share, (WaitCause::OwnThreads.wait()) = "wait_self_ns / runq_wait_ns", COUNTED;
    behind_kernel: Share, (WaitCause::KernelThreads.wait()) = "wait_kernel_ns / runq_wait_ns", COUNTED;
    while_idle: Share, (WaitCause::IdleCpu.wait()) = "wait_idle_ns / runq_wait_ns", COUNTED;
    in_throttled: Share, (WaitCause::Throttled.wait()) = "wait_throttled_ns / runq_wait_ns", COUNTED;
    elsewhere: Share, (WaitCause::OtherCpu.wait()) = "wait_elsewhere_ns / runq_wait_ns", COUNTED;
    of_unknown_cause: Share, (WaitCause::Unknown.wait()) = "wait_unknown_ns / runq_wait_ns", COUNTED;
    pressure: Share, "CPU pressure (PSI some)" = "pressure_some_ns / the time of the intervals in which it was read", COUNTED;
}

const fn figure(cause: WaitCause) -> &'static FigureDefinition {
    match cause {
        WaitCause::OtherCgroups => &figures::behind_others,
        WaitCause::OwnThreads => &figures::behind_itself,
        WaitCause::KernelThreads => &figures::behind_kernel,
        WaitCause::IdleCpu => &figures::while_idle,
        WaitCause::Throttled => &figures::in_throttled,
        WaitCause::OtherCpu => &figures::elsewhere,
        WaitCause::Unknown => &figures::of_unknown_cause,
    }
}

/// The most cgroups that are named: of those that others wait behind, and of those under pressure.
const TOP: usize = 5;
/// From this share of all waits on, the verdict mentions a cause. Chosen: one part in a hundred.
const SPOKEN_OF: f64 = 0.01;

pub(super) fn judge(observations: &Observations, thresholds: &Thresholds) -> Finding {
    let causes = Causes::of(observations);
    let (severity, verdict) = causes.verdict(observations, thresholds);
    Finding {
        rule: Rule::WaitCauses,
        culprits: causes.worst.iter().map(|(subject, _)| subject.clone()).collect(),
        severity,
        subject: Subject::Host,
        verdict,
        measured: causes.measured(observations),
        threshold: [Limit::contended_wait].map(|limit| thresholds.state(limit)).into(),
        confidence: Basis {
            lost: observations.host.as_ref().map_or(0, |host| host.lost.task_states),
            ..observations.basis_of_waits()
        }
        .confidence(),
        caveats: causes.caveats(observations),
        advice: Vec::new(),
        cgroups: Vec::new(),
    }
}

/// What tasks wait for.
struct Causes {
    /// Tasks waiting on average. `None` where waits were not measured.
    waiting: Option<f64>,
    /// The part of the waits that each of [`WaitCause::ALL`] has. `None` where causes were not measured.
    shares: Option<[f64; WaitCause::ALL.len()]>,
    /// The cgroups that others wait behind most, the worst first, with their share of all waits.
    worst: Vec<(Subject, f64)>,
    /// Share of the time of all CPUs that a hypervisor took. `None` where the kernel does not say.
    steal: Option<f64>,
}

impl Causes {
    fn of(observations: &Observations) -> Self {
        let tasks = observations.tasks();
        let wait = tasks.and_then(|totals| totals.runq_wait_ns);
        let share = |time: Nanos| time.0 as f64 / wait.unwrap_or_default().0.max(1) as f64;
        let shares: Option<Vec<f64>> =
            WaitCause::ALL.iter().map(|cause| cause.of(tasks.as_ref()?).map(share)).collect();
        let shares = shares.and_then(|shares| shares.try_into().ok());
        Self {
            waiting: wait.map(|wait| wait.cores(observations.span.duration_ns).0),
            shares,
            worst: if shares.is_some() { worst(observations, share) } else { Vec::new() },
            steal: steal::stolen(observations),
        }
    }

    fn verdict(&self, observations: &Observations, thresholds: &Thresholds) -> (Severity, String) {
        if let Some(too_short) = observations.too_short(thresholds) {
            return (Severity::NotEnoughData, format!("Cannot judge what tasks wait for: {too_short}."));
        }
        let Some(waiting) = self.waiting else {
            let why = observations.session.why_not(Measure::RunqWait);
            return (Severity::NotEnoughData, format!("Cannot judge what tasks wait for: run-queue wait is {why}."));
        };
        let waits = format!("{} tasks wait for a CPU on average", units::number(waiting));
        if waiting / (observations.cpus() as f64).max(1.0) < thresholds.contended_wait {
            return (
                Severity::Ok,
                format!("Tasks hardly wait for a CPU: {} are waiting on average.", units::number(waiting)),
            );
        }
        (Severity::Info, units::sentence(&(waits + &self.by_cause(observations))))
    }

    /// Shares of the causes, the largest first.
    fn by_cause(&self, observations: &Observations) -> String {
        let Some(shares) = self.shares else {
            return format!(", but the cause is {}", observations.session.why_not(Measure::Blame));
        };
        let mut causes: Vec<(WaitCause, f64)> = WaitCause::ALL.into_iter().zip(shares).collect();
        causes.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        let spoken: Vec<String> = causes
            .into_iter()
            .filter(|(_, share)| *share >= SPOKEN_OF)
            .enumerate()
            .map(|(place, (cause, share))| {
                let of_the_wait = if place == 0 { " of the wait is" } else { "" };
                format!("{}{of_the_wait} {}", units::percent(share), cause.phrase())
            })
            .collect();
        if spoken.is_empty() { String::new() } else { format!(": {}", spoken.join(", ")) }
    }

    fn measured(&self, observations: &Observations) -> Vec<Figure> {
        let why = observations.session.why_not(Measure::RunqWait);
        let mut figures = vec![figures::waiting.measured(self.waiting, &why).note("on average")];
        let why = observations.session.why_not(Measure::Blame);
        for (place, cause) in WaitCause::ALL.into_iter().enumerate() {
            figures.push(figure(cause).measured(self.shares.map(|shares| shares[place]), &why));
            if cause == WaitCause::OtherCgroups {
                let worst = self.worst.iter();
                figures.extend(worst.map(|(whom, share)| figures::behind_worst.is(*share).of(whom.clone())));
            }
        }
        figures.push(steal::figures::steal.measured(self.steal, "not reported by the kernel").note("of all CPU time"));
        figures.extend(pressed(observations));
        figures
    }

    fn caveats(&self, observations: &Observations) -> Vec<String> {
        let stolen = self
            .steal
            .filter(|&steal| steal > 0.0 && self.shares.is_some())
            .map(|_| "Steal and interrupts while a task ran are charged to that task.".to_owned());
        let mut caveats: Vec<String> = stolen.into_iter().collect();
        if self.waiting.is_some() && self.shares.is_none() {
            let why = observations.session.why_not(Measure::Blame);
            caveats.push(format!(
                "The wait may be behind a neighbour, behind own threads or for a quota, because the cause is {why}."
            ));
        }
        caveats
    }
}

/// The cgroups that others wait behind most, the worst first.
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

/// The cgroups whose tasks waited for most of the time, by the kernel's own figures (PSI).
fn pressed(observations: &Observations) -> Vec<Figure> {
    let rated = observations.cgroups.iter().filter(|(id, _)| is_rated(**id));
    let mut all: Vec<(CgroupId, &Observed, f64)> = rated
        .filter_map(|(&id, observed)| Some((id, observed, observed.pressure()?.0)))
        .filter(|(.., some)| *some > 0.0)
        .collect();
    all.sort_by(|a, b| b.2.total_cmp(&a.2).then(a.0.cmp(&b.0)));
    let figure = |(id, observed, some): (CgroupId, &Observed, f64)| {
        let note = match observed.pressure().and_then(|(_, full)| full) {
            Some(full) => format!("of the time; {} with no task running (PSI full)", units::percent(full)),
            None => "of the time".to_owned(),
        };
        figures::pressure.is(some).of(observed.subject(id)).note(note)
    };
    all.into_iter().take(TOP).map(figure).collect()
}

#[cfg(test)]
mod tests;
