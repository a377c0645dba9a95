//! Rule: more tasks want to run than there are CPUs.
//!
//! Where the CPUs are full, somebody has to wait, however fairly they are shared. Whether one cgroup is the reason depends on
//! what would be left without it: those cgroups *fill the CPUs* without which the others had room.

mod load;

pub(super) use load::Load;

use super::{
    Advice, Figure, Finding, Limit, Observations, Rule, Severity, Subject, Thresholds,
    figure::{figures, sources::COUNTED},
    rated::is_rated,
    utilisation,
};
use crate::{
    model::{CgroupId, Measure},
    units::{self, Unit, Value},
};

figures! {
    [shared utilisation::figures::cpu_utilisation]
    asked_cpus: Tasks, "CPUs that tasks ask for" = "(cpu_ns + runq_wait_ns − wait_throttled_ns) / duration_ns", COUNTED;
    slowdown: Factor, "slowdown of work by waits" = "(cpu_ns + runq_wait_ns − wait_throttled_ns) / cpu_ns", COUNTED;
    waiting_long: Count, "cgroups that wait long" = "cgroups with enough waits (min_waits in 20 s or more, else in proportion), and a long p99 or a long wait per CPU time", COUNTED;
    filling: Count, "cgroups that fill the CPUs" = "the fewest cgroups without which what the others ask for at least fits on the CPUs; and all with half the load of the least of these", "docs/diagnose.md";
    overloaded: Seconds, "time with too few CPUs" = "Σ duration_ns of the intervals in which tasks used full_cpus of the CPUs and asked for more, where these are a part of the time: the other figures are of them", COUNTED;
    filler: Tasks, "asks for" = "asked_cpus of the cgroup", COUNTED;
}

/// The most cgroups that are named: those that ask for the most. So many that only wait for
/// each other do not overload the host. Chosen: what a sentence can name.
const TOP: usize = 3;
/// From this share of the CPUs on, tasks outside of single cgroups may take more than their share. Chosen.
const OUTSIDE_MATTERS: f64 = 0.1;

pub(super) fn judge(observations: &Observations, load: &Load, thresholds: &Thresholds) -> Finding {
    let (severity, verdict) = verdict(observations, load, thresholds);
    Finding {
        rule: Rule::Overload,
        severity,
        subject: Subject::Host,
        culprits: named(observations, load).map(|(subject, _)| subject).collect(),
        verdict,
        measured: measured(observations, load, thresholds),
        threshold: [Limit::full_cpus, Limit::wait_per_cpu_warn, Limit::wait_per_cpu_critical]
            .map(|limit| thresholds.state(limit))
            .into(),
        confidence: observations.basis_of_waits().confidence(),
        caveats: vec![
            "With that many CPUs these tasks would not wait, but work that never ends keeps any number of CPUs busy."
                .to_owned(),
            "This is an average: short bursts may be worse.".to_owned(),
            "The share that a cgroup gets is computed without thread affinities and nice values.".to_owned(),
        ],
        advice: advice(observations, load, severity),
        cgroups: Vec::new(),
    }
}

/// Does what `finding` is about slow work down so much that users feel it, whoever the work belongs to?
pub(super) fn is_felt(finding: &Finding, thresholds: &Thresholds) -> bool {
    let slowdown = finding.value(&figures::slowdown).map_or(1.0, Value::as_f64);
    harm(slowdown - 1.0, thresholds) >= Severity::Warning
}

fn verdict(observations: &Observations, load: &Load, thresholds: &Thresholds) -> (Severity, String) {
    if let Some(too_short) = observations.too_short(thresholds) {
        return (Severity::NotEnoughData, format!("Cannot judge whether the CPUs suffice: {too_short}."));
    }
    let Some(asked) = load.asked else {
        let why = observations.session.why_not(Measure::RunqWait);
        return (Severity::NotEnoughData, format!("Cannot judge whether the CPUs suffice: run-queue wait is {why}."));
    };
    let cpus = observations.cpus();
    let when = load.part.map(|part| observations.how_long(&part)).unwrap_or_default();
    let then = if load.part.is_some() { "then " } else { "" };
    let asks = format!("tasks {then}ask for {} CPUs and there {}", units::number(asked), there_are(cpus));
    let (full, long) = (load.fillers.len() as u64, waiting(observations, load, thresholds, |_| true));
    let severity = harm(load.slowdown.unwrap_or(1.0) - 1.0, thresholds);
    let others = waiting(observations, load, thresholds, |id| !load.fillers.contains(&id));
    let slow =
        load.slowdown.map(|times| format!(", so CPU work takes {} as long", units::times(times))).unwrap_or_default();
    match load.by_cgroup.first() {
        _ if load.is_outside(cpus) => {
            let outside = units::number(load.outside);
            let verdict = format!(
                "Tasks in the root cgroup or in cgroups without a row of their own fill the CPUs{when}: they {then}ask for \
                 {outside} CPUs and there {}.",
                there_are(cpus)
            );
            (if others > 0 { severity } else { severity.min(Severity::Info) }, verdict)
        }
        _ if full == 0 && load.is_full => {
            let used = units::percent(observations.whole().utilisation());
            let severity = if others > 0 { severity.min(Severity::Info) } else { Severity::Ok };
            (severity, format!("The CPUs are {used} busy, and tasks ask for no more than there is."))
        }
        _ if full == 0 => {
            let used = units::percent(observations.whole().utilisation());
            (Severity::Ok, format!("The CPUs have room: tasks use {used} of them."))
        }
        Some(&(id, most)) if full == 1 => {
            let who = observations.name_of(id);
            let most = units::number(most);
            // What it does to itself is its own business. What it does to others has findings of its own.
            (severity.min(Severity::Info), format!("{who} fills the CPUs{when}: {asks}, {most} of them for {who}."))
        }
        // What a few cgroups do to themselves is their own business, too.
        _ if full <= TOP as u64 && others == 0 && full < observations.active() => {
            let names = names(named(observations, load).map(|(subject, _)| subject), full);
            let verdict =
                format!("{names} fill the CPUs{when} and wait for each other: {asks}. No other cgroup waits long.");
            (severity.min(Severity::Info), verdict)
        }
        _ => {
            let who = match observations.active().saturating_sub(long) {
                _ if long == 0 && load.part.is_some() => return (severity, format!("Overloaded{when}: {asks}{slow}.")),
                _ if long == 0 => "No single cgroup waits long".to_owned(),
                0 => format!("All {long} cgroups wait long"),
                _ => format!("{long} of {} cgroups wait long", observations.active()),
            };
            let whose = if 2 * full <= long {
                format!("; {} fill the CPUs", names(named(observations, load).map(|(subject, _)| subject), full))
            } else if load.part.is_none()
                && load.outside < OUTSIDE_MATTERS * cpus as f64
                && takes_too_much(observations, load, thresholds) == Some(false)
            {
                "; none gets more than its share".to_owned()
            } else {
                String::new()
            };
            (severity, format!("Overloaded{when}: {asks}{slow}. {who}{whose}."))
        }
    }
}

/// "a, b and 3 more", of `all`.
pub(super) fn names(named: impl Iterator<Item = Subject>, all: u64) -> String {
    let mut names: Vec<String> = named.map(|subject| subject.to_string()).collect();
    let more = all.saturating_sub(names.len() as u64);
    let last = if more > 0 { Some(format!("{} more", units::count(more))) } else { names.pop() };
    match (names.is_empty(), last) {
        (false, Some(last)) => format!("{} and {last}", names.join(", ")),
        (_, last) => last.unwrap_or_default(),
    }
}

fn there_are(count: u64) -> String {
    format!("{} {count}", if count == 1 { "is" } else { "are" })
}

/// Does a cgroup that fills the CPUs get clearly more than its share? `None` if unknown.
fn takes_too_much(observations: &Observations, load: &Load, thresholds: &Thresholds) -> Option<bool> {
    let takes = load.fillers.iter().map(|id| observations.cgroups.get(id)?.got_of_entitled());
    let takes: Option<Vec<f64>> = takes.collect();
    takes.map(|all| all.iter().any(|takes| *takes >= thresholds.neighbour_takes))
}

/// How bad this much wait per second of CPU time is for users.
pub(super) fn harm(wait_per_cpu: f64, thresholds: &Thresholds) -> Severity {
    if wait_per_cpu >= thresholds.wait_per_cpu_critical {
        Severity::Critical
    } else if wait_per_cpu >= thresholds.wait_per_cpu_warn {
        Severity::Warning
    } else {
        Severity::Info
    }
}

/// The number of cgroups that wait long, among those that `of` selects.
pub(super) fn waiting_long(observations: &Observations, thresholds: &Thresholds, of: impl Fn(CgroupId) -> bool) -> u64 {
    let rated = observations.cgroups.iter().filter(|(id, _)| is_rated(**id) && of(**id));
    rated.filter(|(_, observed)| observed.waits_long(observations.span.duration_ns, thresholds)).count() as u64
}

/// The same, for waits over the whole time, or in the part of it that `load` is about.
fn waiting(observations: &Observations, load: &Load, thresholds: &Thresholds, of: impl Fn(CgroupId) -> bool) -> u64 {
    let only_then = load.waiting_then.iter().filter(|id| {
        let observed = observations.cgroups.get(id);
        of(**id) && observed.is_some_and(|it| !it.waits_long(observations.span.duration_ns, thresholds))
    });
    only_then.count() as u64 + waiting_long(observations, thresholds, &of)
}

/// The cgroups that fill the CPUs: [`TOP`] at most, those that ask for the most first.
fn named(observations: &Observations, load: &Load) -> impl Iterator<Item = (Subject, f64)> {
    let full = load.by_cgroup.iter().filter(|(id, _)| load.fillers.contains(id));
    full.take(TOP).filter_map(|&(id, asks)| Some((observations.cgroups.get(&id)?.subject(id), asks)))
}

fn measured(observations: &Observations, load: &Load, thresholds: &Thresholds) -> Vec<Figure> {
    let why = observations.session.why_not(Measure::RunqWait);
    let mut measured = vec![
        figures::asked_cpus.measured(load.asked, &why).note(format!(
            "of {}{}",
            units::plural(observations.cpus(), "CPU"),
            if load.part.is_some() { ", while they were full" } else { "" }
        )),
        utilisation::figures::cpu_utilisation.is(observations.whole().utilisation()).note("of all CPUs"),
        figures::slowdown.measured(load.slowdown, &why),
        figures::waiting_long
            .measured(load.asked.map(|_| waiting(observations, load, thresholds, |_| true)), &why)
            .note(format!("of {}", observations.active())),
        figures::filling.is(load.fillers.len() as u64),
    ];
    if let Some(part) = load.part {
        let when = part.when(observations.span.duration_ns);
        measured.insert(1, figures::overloaded.is(part.time.seconds()).note(when));
    }
    measured.extend(named(observations, load).map(|(subject, asks)| {
        // This is only known for the whole time.
        let takes = subject
            .id()
            .filter(|_| load.part.is_none())
            .and_then(|id| observations.cgroups.get(&id)?.got_of_entitled());
        let note = takes.map_or_else(String::new, |takes| format!("gets {} its share", Unit::Factor.show(takes)));
        figures::filler.is(asks).of(subject).note(note)
    }));
    measured
}

fn advice(observations: &Observations, load: &Load, severity: Severity) -> Vec<Advice> {
    match severity {
        Severity::Warning | Severity::Critical => vec![Advice::new("Move work to other hosts, or add CPUs.")],
        Severity::Info if load.is_outside(observations.cpus()) => vec![Advice::new(
            "Find out whose these tasks are, for example with ps. In cgroups of their own they could be told apart.",
        )],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests;
