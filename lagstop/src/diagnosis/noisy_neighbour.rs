//! Rule: who makes a cgroup wait, where it is one other that takes more CPU time than it is entitled to.
//!
//! Whoever runs while others wait is not to blame for it: where all want more CPU than there is, somebody has to wait. So a
//! neighbour is called noisy only for a victim whose waits matter, that does not wait for its own quota, where this one
//! neighbour causes a large part of the wait, and takes more than weights, quotas and CPU sets grant it, while the victim gets
//! less. One that sleeps and waits for its turn whenever it wakes up is not short of CPU time: what it leaves is there for others.

mod effect;

use effect::Effect;

use super::{
    Advice, Confidence, Figure, Finding, Limit, Observations, Rule, Severity, Subject, Thresholds,
    confidence::Basis,
    figure::{figures, sources::COUNTED},
    lags_candidates,
    observations::{Culprit, Observed},
    overload::{self, Load},
    rated::is_rated,
    reweighting::Simulations,
    shares::Shares,
    shell, single,
};
use crate::{
    model::{CgroupId, Measure, Nanos},
    units,
};

figures! {
    [shared overload::figures::waiting_long, lags_candidates::figures::light_waiting, lags_candidates::figures::heavy_time]
    waits: Share, "time waiting while runnable" = "runq_wait_ns / (cpu_ns + runq_wait_ns)", COUNTED;
    wait_per_cpu: Factor, "wait per CPU time" = "runq_wait_ns / cpu_ns", COUNTED;
    wait_p99: Ns, "p99 run-queue wait" = "99th percentile of its run-queue waits", COUNTED;
    behind: Share, "wait behind" = "Σ waits_behind of the neighbour / runq_wait_ns", COUNTED;
    behind_itself: Share, "wait behind own threads" = "wait_self_ns / runq_wait_ns", COUNTED;
    in_throttled: Share, "wait while throttled" = "wait_throttled_ns / runq_wait_ns", COUNTED;
    takes: Factor, "CPU time / fair share" = "CPU time of the neighbour / its entitlement, over the intervals in which that is known", "max-min fairness by weights, quotas and CPU sets: docs/measures.md";
    cpu: Cores, "CPU time" = "CPU time of the neighbour / duration_ns", COUNTED;
}

/// Neighbours that are shown.
const TOP: usize = 3;
/// From this part on it is most of the wait.
const MOST: f64 = 0.5;
/// Waits of a victim from which its shares are sure.
const MANY_WAITS: u64 = 1_000;

pub(super) fn judge(
    observations: &Observations,
    (shares, load): (&Shares, &Load),
    simulations: &Simulations<'_>,
    thresholds: &Thresholds,
) -> Vec<Finding> {
    let is_enough = observations.too_short(thresholds).is_none();
    let mut victims: Vec<Victim<'_>> =
        if is_enough { Victim::all(observations, shares, load, thresholds).collect() } else { Vec::new() };
    // So many effects are simulated, and those of the worst.
    victims.sort_by(|a, b| b.wait_per_cpu().total_cmp(&a.wait_per_cpu()).then(a.id.cmp(&b.id)));
    let found = victims.iter().filter_map(|victim| {
        let Cause::Neighbour(neighbour) = &victim.cause else { return None };
        let effect = Effect::of(observations, simulations, thresholds, victim, neighbour);
        Some((victim.wait, finding(observations, thresholds, (victim, neighbour), effect.as_ref())))
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
    /// Does it get less CPU time than it is entitled to at least, however its tasks came and went?
    is_short: bool,
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
    /// CPU time that it gets / what it is entitled to. `None` where that is not known.
    takes: Option<f64>,
}

impl<'a> Victim<'a> {
    fn all(
        observations: &'a Observations,
        shares: &Shares,
        load: &Load,
        thresholds: &Thresholds,
    ) -> impl Iterator<Item = Self> {
        let rated = observations.cgroups.iter().filter(|(id, _)| is_rated(**id));
        rated.filter_map(|(&id, observed)| {
            let wait = observed.totals.runq_wait_ns?.0 as f64;
            let p99 = observed.runq_wait.as_ref().and_then(|waits| waits.quantile(0.99));
            let own = observations.asked.number(id).map(|number| &shares.own[number]);
            let is_short = own.is_some_and(|own| own.got > 0.0 && own.slowdown() >= thresholds.neighbour_takes);
            let is_rival = load.fills_the_cpus(id);
            let cause = observed
                .waits_long(observations.span.duration_ns, thresholds)
                .then(|| Cause::of(observations, observed, (is_short, is_rival), thresholds))??;
            Some(Self { id, observed, wait, p99, is_short, cause })
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
    fn of(
        observations: &'a Observations,
        victim: &Observed,
        (is_short, is_rival): (bool, bool),
        thresholds: &Thresholds,
    ) -> Option<Self> {
        let quota = victim.part_of_wait(victim.totals.wait_throttled_ns)?;
        let itself = victim.self_inflicted()?;
        let mut neighbours = neighbours(observations, victim);
        neighbours.retain(|one| one.part >= thresholds.neighbour_wait && one.part >= quota);
        // Of those that fill the CPUs together each waits behind the others: only who takes too much is to blame for that.
        let is_noisy = |one: &Neighbour<'_>| is_short && one.takes_too_much(thresholds);
        if is_rival {
            neighbours.retain(is_noisy);
        }
        let noisy = neighbours.iter().position(is_noisy).unwrap_or(0);
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
    fn takes_too_much(&self, thresholds: &Thresholds) -> bool {
        self.takes.is_some_and(|takes| takes >= thresholds.neighbour_takes)
    }

    fn subject(&self) -> Subject {
        self.observed.subject(self.id)
    }
}

fn finding(
    observations: &Observations,
    thresholds: &Thresholds,
    (victim, neighbour): (&Victim<'_>, &Neighbour<'_>),
    effect: Option<&Effect>,
) -> Finding {
    let (severity, verdict) = verdict(thresholds, victim, neighbour);
    Finding {
        rule: Rule::NoisyNeighbour,
        severity,
        subject: victim.subject(),
        culprits: vec![neighbour.subject()],
        verdict,
        measured: measured(observations, victim, effect),
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
        caveats: effect.and_then(Effect::caveat).into_iter().chain(caveats(neighbour)).collect(),
        advice: advice(observations, thresholds, (victim, neighbour), effect),
        cgroups: Vec::new(),
    }
}

fn verdict(thresholds: &Thresholds, victim: &Victim<'_>, neighbour: &Neighbour<'_>) -> (Severity, String) {
    let (whom, who) = (victim.subject(), neighbour.subject());
    let mostly = if neighbour.part >= MOST { "mostly" } else { "in large part" };
    let (waits, part) = (units::percent(victim.waits()), units::percent(neighbour.part));
    let found = format!("{whom} waits {waits} of its runnable time, {mostly} behind {who} ({part} of the wait)");
    let severity = overload::harm(victim.wait_per_cpu(), thresholds);
    let takes = |takes: f64| format!("takes {} its share", units::times(takes));
    match neighbour.takes {
        None => (severity, format!("{found}, whose share is unknown.")),
        Some(times) if victim.is_short && neighbour.takes_too_much(thresholds) => {
            (severity.max(Severity::Warning), format!("{found}, which {}.", takes(times)))
        }
        Some(times) if neighbour.takes_too_much(thresholds) => {
            (severity, format!("{found}, which {}; {whom} still gets its own share.", takes(times)))
        }
        Some(_) => (severity, format!("{found}, which takes no more than its fair share.")),
    }
}

fn measured(observations: &Observations, victim: &Victim<'_>, effect: Option<&Effect>) -> Vec<Figure> {
    let observed = victim.observed;
    let why = observations.session.why_not(Measure::Blame);
    let part = |cause| observed.part_of_wait(cause);
    let mut measured =
        vec![figures::waits.is(victim.waits()), figures::wait_p99.measured(victim.p99, "no distribution was recorded")];
    let of_neighbour = |one: Neighbour<'_>| {
        let whom = one.subject();
        [
            figures::behind.is(one.part).of(whom.clone()),
            figures::takes.measured(one.takes, "weights were not recorded").of(whom.clone()),
            figures::cpu.is(one.observed.totals.cpu_ns.cores(observations.span.duration_ns).0).of(whom),
        ]
    };
    let mut neighbours = neighbours(observations, observed).into_iter().take(TOP).map(of_neighbour);
    measured.extend(neighbours.next().into_iter().flatten());
    measured.extend(effect.into_iter().flat_map(Effect::figures));
    measured.extend(neighbours.flatten());
    measured.extend([
        figures::wait_per_cpu.is(victim.wait_per_cpu()),
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

fn caveats(neighbour: &Neighbour<'_>) -> Vec<String> {
    let of_share = neighbour.takes.map(|_| {
        "The share is computed from weights, quotas and CPU sets; thread affinities, nice values and real-time tasks \
         are ignored."
            .to_owned()
    });
    let mut caveats: Vec<String> = of_share.into_iter().collect();
    caveats.push("Steal and interrupts while the neighbour ran are charged to the neighbour.".to_owned());
    caveats.push("Waits that had not ended when the measurement ended are not counted.".to_owned());
    caveats
}

fn advice(
    observations: &Observations,
    thresholds: &Thresholds,
    (victim, neighbour): (&Victim<'_>, &Neighbour<'_>),
    effect: Option<&Effect>,
) -> Vec<Advice> {
    let who = neighbour.subject();
    if !is_rated(neighbour.id) {
        let text = "Move the tasks of the root cgroup into a cgroup, so that weights apply between it and the others.";
        return vec![Advice::new(text)];
    }
    let mut advice = Vec::new();
    if let Some(effect) = effect.filter(|effect| !effect.is_small()) {
        let Effect { light, heavy, .. } = effect;
        let promise = effect.promise().map_or_else(String::new, |promise| format!(": {promise}"));
        let globs: Vec<&str> = light.path().and_then(shell::glob).into_iter().collect();
        let trial = Advice::new(format!(
            "Try more weight for {light} against {heavy}{promise}. For a minute the trial alternates between the old \
             weights and new ones. It shows the effect and restores the old weights, also when interrupted."
        ));
        advice.push(trial.command(shell::trial_of_weights(&globs)));
    }
    if let Some(cores) = neighbour.observed.entitled_cores()
        && victim.is_short
        && neighbour.takes_too_much(thresholds)
    {
        let text = format!(
            "Cap {who} at its share of {} cores with a quota. The cap also applies while CPUs are idle.",
            units::number(cores)
        );
        let command = shell::quota(&observations.session, neighbour.id, &neighbour.observed.path, cores);
        advice.push(Advice::new(text).command(command));
    }
    if neighbour.takes.is_some() && !neighbour.takes_too_much(thresholds) {
        advice.push(Advice::new(format!("Add CPUs, because {who} takes no more than its fair share.")));
    }
    if advice.is_empty() {
        advice.push(Advice::new(format!("Add CPUs, or move {who} to another host.")));
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
        Some(format!("the cause of each wait is {}", observations.session.why_not(Measure::Blame)))
    } else {
        None
    };
    let verdict = match cannot_be_said {
        Some(why) => (Severity::NotEnoughData, format!("Cannot judge noisy neighbours: {why}.")),
        None if victims.is_empty() => (Severity::Ok, "No cgroup waits long behind another.".to_owned()),
        None => (Severity::Info, shared(victims)),
    };
    let is_known = verdict.0 != Severity::NotEnoughData;
    single::healthy(
        Rule::NoisyNeighbour,
        verdict,
        vec![overload::figures::waiting_long.measured(is_known.then_some(victims.len() as u64), "not enough data")],
        thresholds.state(Limit::neighbour_wait),
        observations.basis_of_waits().confidence(),
    )
}

/// What those wait for of whom nobody waits for one neighbour.
fn shared(victims: &[Victim<'_>]) -> String {
    let count = |is: fn(&Cause<'_>) -> bool| victims.iter().filter(|victim| is(&victim.cause)).count() as u64;
    let of_many_causes = count(|cause| matches!(cause, Cause::Many));
    let parts = [
        (count(|cause| matches!(cause, Cause::Quota)), ["throttled by its own quota", "throttled by their own quotas"]),
        (count(|cause| matches!(cause, Cause::Itself)), ["behind its own threads", "behind their own threads"]),
        (of_many_causes, ["without a single main cause"; 2]),
    ];
    let some = parts.iter().filter(|(count, _)| *count > 0);
    let spoken: Vec<String> =
        some.map(|(count, [one, several])| format!("{count} {}", if *count == 1 { one } else { several })).collect();
    let end = if of_many_causes > 0 { " (see wait_causes)." } else { "." };
    let (all, wait) = (victims.len() as u64, if victims.len() == 1 { "waits" } else { "wait" });
    format!(
        "{} {wait} long, but not behind a noisy neighbour: {}{end}",
        units::plural(all, "cgroup"),
        spoken.join(", ")
    )
}

#[cfg(test)]
mod tests;
