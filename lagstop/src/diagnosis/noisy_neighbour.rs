//! Rule: who makes a cgroup wait, where it is one other that takes more CPU time than it is entitled to.
//!
//! Whoever runs while others wait is not to blame for it: where all want more CPU than there is, somebody has to wait. So a
//! neighbour is called noisy only for a victim whose waits matter, that does not wait for its own quota, where this one
//! neighbour causes a large part of the wait, and takes more than weights, quotas and CPU sets grant it.

use super::{
    Advice, Confidence, Figure, Finding, Limit, Observations, Rule, Severity, Subject, Thresholds,
    confidence::Basis,
    figure::{figures, sources::COUNTED},
    observations::{Culprit, Observed},
    rated::is_rated,
    shell, single,
};
use crate::{
    model::{CgroupId, Level, Measure, Nanos},
    units,
};

figures! {
    waits: Share, "waiting, of the time in which it wants to run" = "runq_wait_ns / (cpu_ns + runq_wait_ns)", COUNTED;
    wait_per_cpu: Factor, "wait per CPU time" = "runq_wait_ns / cpu_ns", COUNTED;
    wait_p99: Ns, "p99 of its waits" = "99th percentile of its run-queue waits", COUNTED;
    behind: Share, "of the wait: behind" = "Σ waits_behind of the neighbour / runq_wait_ns", COUNTED;
    behind_itself: Share, "of the wait: behind its own threads" = "wait_self_ns / runq_wait_ns", COUNTED;
    in_throttled: Share, "of the wait: for its quota" = "wait_throttled_ns / runq_wait_ns", COUNTED;
    takes: Factor, "CPU time beside what it is entitled to" = "CPU time of the neighbour / its entitlement, over the intervals in which that is known", "max-min fairness by weights, quotas and CPU sets: docs/measures.md";
    cpu: Cores, "CPU time" = "CPU time of the neighbour / duration_ns", COUNTED;
    waiting_long: Count, "cgroups that wait long" = "cgroups with min_waits waits or more, a long p99 or a long wait per CPU time", COUNTED;
}

/// Neighbours that are shown.
const TOP: usize = 3;
/// From this part on it is most of the wait.
const MOST: f64 = 0.5;
/// Waits of a victim from which its shares are sure.
const MANY_WAITS: u64 = 1_000;

pub(super) fn judge(observations: &Observations, thresholds: &Thresholds) -> Vec<Finding> {
    let is_enough = observations.too_short(thresholds).is_none();
    let victims: Vec<Victim<'_>> = if is_enough { Victim::all(observations, thresholds).collect() } else { Vec::new() };
    let found = victims.iter().filter_map(|victim| {
        let Cause::Neighbour(neighbour) = &victim.cause else { return None };
        Some((victim.observed.totals.runq_wait_ns?.0 as f64, finding(observations, thresholds, victim, neighbour)))
    });
    single::worst(found.collect(), thresholds, || nobody(observations, thresholds, &victims))
}

/// A cgroup whose waits matter.
struct Victim<'a> {
    id: CgroupId,
    observed: &'a Observed,
    /// In nanoseconds.
    wait: f64,
    p99: Option<Nanos>,
    cause: Cause<'a>,
}

/// What most of a victim's wait is for.
enum Cause<'a> {
    Neighbour(Neighbour<'a>),
    Quota,
    Itself,
    /// Others, of whom nobody stands out.
    Many,
}

/// One that causes a large part of a victim's wait.
struct Neighbour<'a> {
    id: CgroupId,
    observed: &'a Observed,
    /// Its part of the victim's wait.
    part: f64,
    worst_in: u64,
    /// CPU time that it gets beside what it is entitled to. `None` where that is not known.
    takes: Option<f64>,
}

impl<'a> Victim<'a> {
    fn all(observations: &'a Observations, thresholds: &Thresholds) -> impl Iterator<Item = Self> {
        let rated = observations.cgroups.iter().filter(|(id, _)| is_rated(**id));
        rated.filter_map(|(&id, observed)| {
            let wait = observed.totals.runq_wait_ns?.0 as f64;
            let p99 = observed.runq_wait.as_ref().and_then(|waits| waits.quantile(0.99));
            let is_long = wait >= thresholds.wait_per_cpu_warn * observed.totals.cpu_ns.0 as f64
                || p99.is_some_and(|p99| p99 >= thresholds.light_wait_p99);
            let matters = wait > 0.0 && is_long && observed.totals.runq_waits? >= thresholds.min_waits;
            let cause = matters.then(|| Cause::of(observations, observed, thresholds))??;
            Some(Self { id, observed, wait, p99, cause })
        })
    }

    fn wait_per_cpu(&self) -> f64 {
        self.wait / self.observed.totals.cpu_ns.0 as f64
    }

    fn subject(&self) -> Subject {
        self.observed.subject(self.id)
    }

    /// The part of the time in which it wants to run that it waits.
    fn waits(&self) -> f64 {
        self.wait / (self.wait + self.observed.totals.cpu_ns.0 as f64)
    }
}

impl<'a> Cause<'a> {
    /// `None` where causes were not measured.
    fn of(observations: &'a Observations, victim: &Observed, thresholds: &Thresholds) -> Option<Self> {
        let quota = victim.part_of_wait(victim.totals.wait_throttled_ns)?;
        let itself = victim.self_inflicted()?;
        let mut neighbours = neighbours(observations, victim);
        neighbours.retain(|one| one.part >= thresholds.neighbour_wait && one.part >= quota);
        let noisy = neighbours.iter().position(|one| one.is_noisy(thresholds)).unwrap_or(0);
        Some(if noisy < neighbours.len() {
            Self::Neighbour(neighbours.swap_remove(noisy))
        } else if quota >= thresholds.neighbour_wait {
            Self::Quota
        } else if itself >= MOST {
            Self::Itself
        } else {
            Self::Many
        })
    }
}

/// Those behind whom a victim waits, the worst first.
fn neighbours<'a>(observations: &'a Observations, victim: &Observed) -> Vec<Neighbour<'a>> {
    let neighbour = |(id, Culprit { wait_ns, worst_in }): (CgroupId, Culprit)| {
        let observed = observations.cgroups.get(&id)?;
        let part = victim.part_of_wait(Some(wait_ns))?;
        Some(Neighbour { id, observed, part, worst_in, takes: observed.got_of_entitled() })
    };
    // The row of many cgroups is not one neighbour.
    let single = victim.behind.culprits().filter(|(id, _)| *id != CgroupId::OTHER);
    let mut all: Vec<Neighbour<'a>> = single.filter_map(neighbour).collect();
    all.sort_by(|a, b| b.part.total_cmp(&a.part).then(a.id.cmp(&b.id)));
    all
}

impl Neighbour<'_> {
    fn is_noisy(&self, thresholds: &Thresholds) -> bool {
        self.takes.is_some_and(|takes| takes >= thresholds.neighbour_takes)
    }

    fn subject(&self) -> Subject {
        self.observed.subject(self.id)
    }

    /// Its weight, where it has one of its own.
    fn weight(&self) -> Option<f64> {
        self.observed.levels.as_deref().and_then(<[Level]>::last).and_then(|level| level.weight)
    }
}

fn finding(
    observations: &Observations,
    thresholds: &Thresholds,
    victim: &Victim<'_>,
    neighbour: &Neighbour<'_>,
) -> Finding {
    let (severity, verdict) = verdict(thresholds, victim, neighbour);
    Finding {
        rule: Rule::NoisyNeighbour,
        severity,
        subject: victim.subject(),
        verdict,
        measured: measured(observations, victim),
        threshold: [
            Limit::wait_per_cpu_warn,
            Limit::wait_per_cpu_critical,
            Limit::light_wait_p99,
            Limit::neighbour_wait,
            Limit::neighbour_takes,
        ]
        .map(|limit| thresholds.state(limit))
        .into(),
        confidence: confidence(observations, victim, neighbour),
        against: against(neighbour),
        advice: advice(observations, thresholds, victim, neighbour),
        cgroups: Vec::new(),
    }
}

fn verdict(thresholds: &Thresholds, victim: &Victim<'_>, neighbour: &Neighbour<'_>) -> (Severity, String) {
    let (whom, who) = (victim.subject(), neighbour.subject());
    let mostly = if neighbour.part >= MOST { "mostly" } else { "to a large part" };
    let (waits, part) = (units::percent(victim.waits()), units::percent(neighbour.part));
    let found = format!("{whom} waits {waits} of its time, {mostly} behind {who} ({part})");
    match neighbour.takes {
        None => (
            Severity::Info,
            format!("{found}. Whether that takes more than its share is not known: its weights were not recorded."),
        ),
        Some(takes) if neighbour.is_noisy(thresholds) => {
            let is_critical = victim.wait_per_cpu() >= thresholds.wait_per_cpu_critical;
            let severity = if is_critical { Severity::Critical } else { Severity::Warning };
            (severity, format!("{found}, which takes {} times its share.", units::number(takes)))
        }
        Some(_) => {
            let weight = neighbour.weight().map_or_else(String::new, |weight| {
                format!(" by its weight ({}; {} is usual)", units::number(weight), units::number(Level::DEFAULT_WEIGHT))
            });
            let verdict = format!(
                "{found}, which is entitled to what it takes{weight}: more weight for {whom}, less for {who}, or more CPUs would \
                 change that."
            );
            (Severity::Info, verdict)
        }
    }
}

fn measured(observations: &Observations, victim: &Victim<'_>) -> Vec<Figure> {
    let observed = victim.observed;
    let why = observations.session.why_not(Measure::Blame);
    let part = |cause| observed.part_of_wait(cause);
    let mut measured = vec![
        figures::waits.is(victim.waits()),
        figures::wait_per_cpu.is(victim.wait_per_cpu()),
        figures::wait_p99.measured(victim.p99, "there is no distribution of its waits"),
    ];
    for one in neighbours(observations, observed).into_iter().take(TOP) {
        let whom = one.subject();
        measured.extend([
            figures::behind.is(one.part).of(whom.clone()),
            figures::takes.measured(one.takes, "its weights were not recorded").of(whom.clone()),
            figures::cpu.is(one.observed.totals.cpu_ns.cores(observations.span.duration_ns).0).of(whom),
        ]);
    }
    measured.extend([
        figures::behind_itself.measured(observed.self_inflicted(), &why),
        figures::in_throttled.measured(part(observed.totals.wait_throttled_ns), &why),
    ]);
    measured
}

/// Is it always the same one?
fn confidence(observations: &Observations, victim: &Victim<'_>, neighbour: &Neighbour<'_>) -> Confidence {
    let basis = Basis {
        intervals: observations.span.intervals,
        samples: victim.observed.totals.runq_waits.unwrap_or_default(),
        samples_are: "waits",
        agreeing: Some((neighbour.worst_in, victim.observed.behind.intervals)),
        lost: observations.host.as_ref().map_or(0, |host| host.lost.task_states),
    };
    basis.confidence_from(MANY_WAITS)
}

fn against(neighbour: &Neighbour<'_>) -> Vec<String> {
    let mut against = vec![
        "What a hypervisor or an interrupt took while the neighbour ran counts as its time.".to_owned(),
        "A wait is booked where it ends: of a task that still waits at the end nothing is known yet.".to_owned(),
    ];
    if neighbour.takes.is_some() {
        against.push(
            "The share is by weights, quotas and CPU sets over all CPUs: affinities of single threads, nice values and real-time \
             tasks are not in it."
                .to_owned(),
        );
    }
    against
}

fn advice(
    observations: &Observations,
    thresholds: &Thresholds,
    victim: &Victim<'_>,
    neighbour: &Neighbour<'_>,
) -> Vec<Advice> {
    let (whom, who) = (victim.subject(), neighbour.subject());
    let light: Vec<&str> = shell::glob(&victim.observed.path).into_iter().collect();
    let trial = Advice::new(format!(
        "Try it first, with more weight for {whom} and less for those beside it that use most. The trial takes turns with and \
         without the new weights, shows what changed, and undoes all of it."
    ));
    let mut advice = vec![trial.command(shell::trial_of_weights(&light))];
    if neighbour.is_noisy(thresholds) && is_rated(neighbour.id) {
        let duration = observations.span.duration_ns.0 as f64;
        let cores = neighbour.observed.entitled_ns / duration;
        advice.push(
            Advice::new(format!(
                "Or limit {who} to its share, {} cores, by a quota: it then leaves CPUs idle that nobody else wants.",
                units::number(cores)
            ))
            .command(shell::quota(&observations.session, neighbour.id, &neighbour.observed.path, cores)),
        );
    }
    advice
}

/// That there is no such neighbour, or that it cannot be said.
fn nobody(observations: &Observations, thresholds: &Thresholds, victims: &[Victim<'_>]) -> Finding {
    let tasks = observations.tasks().unwrap_or_default();
    let cannot_be_said = if let Some(too_short) = observations.too_short(thresholds) {
        Some(too_short)
    } else if tasks.runq_wait_ns.is_none() {
        Some(format!("run-queue wait is {}", observations.session.why_not(Measure::RunqWait)))
    } else if tasks.wait_behind_ns.is_none() && victims.is_empty() {
        Some(format!("what caused each wait is {}", observations.session.why_not(Measure::Blame)))
    } else {
        None
    };
    let verdict = match cannot_be_said {
        Some(why) => (Severity::NotEnoughData, format!("Whether a neighbour makes others wait cannot be said: {why}.")),
        None if victims.is_empty() => (Severity::Ok, "No cgroup waits long for others.".to_owned()),
        None => (Severity::Info, shared(victims)),
    };
    let is_known = verdict.0 != Severity::NotEnoughData;
    single::healthy(
        Rule::NoisyNeighbour,
        verdict,
        vec![figures::waiting_long.measured(is_known.then_some(victims.len() as u64), "it cannot be said")],
        thresholds.state(Limit::neighbour_wait),
        Basis {
            intervals: observations.span.intervals,
            samples: observations.host.as_ref().and_then(|host| host.totals.runq_waits).unwrap_or_default(),
            samples_are: "waits",
            agreeing: None,
            lost: 0,
        }
        .confidence(),
    )
}

/// What those wait for of whom nobody waits for one neighbour.
fn shared(victims: &[Victim<'_>]) -> String {
    let count = |is: fn(&Cause<'_>) -> bool| victims.iter().filter(|victim| is(&victim.cause)).count() as u64;
    let behind_many = count(|cause| matches!(cause, Cause::Many));
    let parts = [
        (count(|cause| matches!(cause, Cause::Quota)), ["for its own quota", "for their own quotas"]),
        (count(|cause| matches!(cause, Cause::Itself)), ["behind its own threads", "behind their own threads"]),
        (behind_many, ["behind many others"; 2]),
    ];
    let some = parts.iter().filter(|(count, _)| *count > 0);
    let spoken: Vec<String> =
        some.map(|(count, [one, several])| format!("{count} {}", if *count == 1 { one } else { several })).collect();
    let end = if behind_many > 0 {
        ". Of these others nobody stands out: all share the host fairly, and there is too little CPU for them."
    } else {
        "."
    };
    let (all, wait) = (victims.len() as u64, if victims.len() == 1 { "waits" } else { "wait" });
    format!("{} {wait} long: {}{end}", units::plural(all, "cgroup"), spoken.join(", "))
}

#[cfg(test)]
mod tests;
