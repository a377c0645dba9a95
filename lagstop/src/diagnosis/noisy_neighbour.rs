//! Rule: who makes a cgroup wait, where it is one other that takes more CPU time than it is entitled to.
//!
//! Whoever runs while others wait is not to blame for it: where all want more CPU than there is, somebody has to wait. So a
//! neighbour is called noisy only for a victim whose waits matter, that does not wait for its own quota, where this one
//! neighbour causes a large part of the wait, and takes more than weights, quotas and CPU sets grant it, while the victim gets
//! less. One that sleeps and waits for its turn whenever it wakes up is not short of CPU time: what it leaves is there for others.
//!
//! A neighbour that was active for a part of the time is judged by that part, and the finding says which: the quiet rest would hide
//! what it did.

mod effect;

use effect::Effect;

use super::{
    Advice, Confidence, Figure, Finding, Limit, Observations, Rule, Severity, Subject, Thresholds,
    confidence::Basis,
    figure::{
        figures,
        sources::{COUNTED, SIMULATED},
    },
    lags_candidates,
    observations::{Long, Observed},
    overload::{self, Load},
    rated::is_rated,
    reweighting::Simulations,
    shares::Shares,
    shell, single, wait_causes,
};
use crate::{
    model::{CgroupId, Measure, Nanos},
    units::{self, MOSTLY},
};

figures! {
    [shared overload::figures::waiting_long, lags_candidates::figures::heavy_time, wait_causes::figures::behind_itself,
        wait_causes::figures::in_throttled]
    waiting_while_runnable: Share, "time waiting while runnable" = "runq_wait_ns / (cpu_ns + runq_wait_ns)", COUNTED;
    wait_per_cpu = WAIT_PER_CPU, COUNTED;
    wait_p99 = WAIT_P99, COUNTED;
    behind: Share, "wait behind" = "Σ waits_behind of the neighbour / runq_wait_ns", COUNTED;
    takes: Factor, "CPU time / fair share" = "CPU time of the neighbour / its entitlement, over the intervals in which that is known", "max-min fairness by weights, quotas and CPU sets: docs/measures.md";
    neighbour_cpu: Cores, "CPU time" = "CPU time of the neighbour / duration_ns", COUNTED;
    victim_waiting: Share, "predicted wait" = "wait of the cgroup, simulated with more weight / without − 1", SIMULATED;
    victim_p99: Ns, "predicted p99 run-queue wait" = "wait_p99 · 99th percentile of its waits, simulated with more weight / without", SIMULATED;
    contended: Seconds, "time of these waits" = "Σ duration_ns of the intervals in which wait_per_cpu and behind reach the defaults of wait_per_cpu_warn and neighbour_wait, where these are a part of the time: the other figures are of them", COUNTED;
}

/// The most neighbours that are shown.
const TOP: usize = 3;
/// From this number of waits of a victim on, its shares are sure: a share of waits that are alike has a standard error of less
/// than 2 points then (of 1/2: √(1/4 / 1000)).
const MANY_WAITS: u64 = 1_000;
/// Waits count as temporary if those in the rest of the time are at most this share of what counts as long. Chosen: a victim at
/// the border would else come and go with single intervals.
const CALM: f64 = 0.5;

pub(super) fn judge(
    observations: &Observations,
    (shares, load): (&Shares, &Load),
    simulations: &Simulations<'_>,
    thresholds: &Thresholds,
) -> Vec<Finding> {
    let is_enough = observations.too_short(thresholds).is_none();
    let mut victims: Vec<Victim<'_>> =
        if is_enough { Victim::all(observations, shares, load, thresholds).collect() } else { Vec::new() };
    // Only some effects are simulated: those of the worst victims.
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
    /// In nanoseconds, with its CPU time.
    wait: f64,
    cpu: f64,
    waits: u64,
    p99: Option<Nanos>,
    /// The part of the time that all of this is about. `None` where it is all of it.
    part: Option<&'a Long>,
    /// Does it get less CPU time than the least that it is entitled to, however its tasks came and went?
    is_short: bool,
    cause: Cause<'a>,
}

/// What most of a victim's wait is for.
enum Cause<'a> {
    Neighbour(Neighbour<'a>),
    Quota,
    Itself,
    /// Several others, none of which stands out.
    Many,
}

/// A cgroup that causes a large part of a victim's wait.
struct Neighbour<'a> {
    id: CgroupId,
    observed: &'a Observed,
    /// Its part of the victim's wait.
    part: f64,
    worst_in: u64,
    /// CPU time that it gets, in cores.
    cpu: f64,
    /// CPU time / entitled CPU time, and the latter, in cores. `None` if unknown.
    takes: Option<f64>,
    entitled: Option<f64>,
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
            let own = observations.asked.number(id).map(|number| &shares.own[number]);
            let is_rival = load.fills_the_cpus(id);
            let is_long = |slowdown: f64| slowdown >= thresholds.neighbour_takes;
            if let Some((culprit, long)) = part_of_the_time(observations, observed, thresholds)
                && let Some(neighbour) = Neighbour::of_part(observations, culprit, long)
            {
                let is_short = own.is_some_and(|own| is_long(own.slowdown_in_long()));
                let is_noisy = is_short && neighbour.takes_too_much(thresholds);
                let quota = observed.part_of_wait(observed.totals.wait_throttled_ns).unwrap_or(0.0);
                if (!is_rival || is_noisy) && neighbour.part >= quota {
                    return Some(Self {
                        id,
                        observed,
                        wait: long.wait_ns.0 as f64,
                        cpu: long.cpu_ns.0 as f64,
                        waits: long.waits,
                        p99: long.wait_p99(),
                        part: Some(long),
                        is_short,
                        cause: Cause::Neighbour(neighbour),
                    });
                }
            }
            let is_short = own.is_some_and(|own| own.got > 0.0 && is_long(own.slowdown()));
            let cause = observed
                .waits_long(observations.span.duration_ns, thresholds)
                .then(|| Cause::of(observations, observed, (is_short, is_rival), thresholds))??;
            Some(Self {
                id,
                observed,
                wait: observed.totals.runq_wait_ns?.0 as f64,
                cpu: observed.totals.cpu_ns.0 as f64,
                waits: observed.totals.runq_waits.unwrap_or_default(),
                p99: observed.runq_wait.as_ref().and_then(|waits| waits.quantile(0.99)),
                part: None,
                is_short,
                cause,
            })
        })
    }

    fn wait_per_cpu(&self) -> f64 {
        self.wait / self.cpu
    }

    fn subject(&self) -> Subject {
        self.observed.subject(self.id)
    }

    /// The share of the time in which it wants to run that it waits.
    fn waits(&self) -> f64 {
        self.wait / (self.wait + self.cpu)
    }
}

impl<'a> Cause<'a> {
    /// `None` if causes were not measured.
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
        // If several fill the CPUs together, each waits behind the others. Only one that takes too much is to blame for
        // that.
        let is_noisy = |one: &Neighbour<'_>| is_short && one.takes_too_much(thresholds);
        if is_rival {
            neighbours.retain(is_noisy);
        }
        let noisy = neighbours.iter().position(is_noisy).unwrap_or(0);
        Some(if noisy < neighbours.len() {
            Self::Neighbour(neighbours.swap_remove(noisy))
        } else if quota >= thresholds.neighbour_wait {
            Self::Quota
        } else if itself >= MOSTLY {
            Self::Itself
        } else {
            Self::Many
        })
    }
}

/// The cgroups that a victim waits behind, the worst first.
fn neighbours<'a>(observations: &'a Observations, victim: &Observed) -> Vec<Neighbour<'a>> {
    let duration = observations.span.duration_ns;
    // The row `(other)` stands for many cgroups, so it is not one neighbour.
    let single = victim.behind.culprits().filter(|(id, _)| *id != CgroupId::OTHER);
    let neighbours = single.filter_map(|(id, culprit)| {
        let observed = observations.cgroups.get(&id)?;
        Some(Neighbour {
            id,
            observed,
            part: victim.part_of_wait(Some(culprit.wait_ns))?,
            worst_in: culprit.worst_in,
            cpu: observed.totals.cpu_ns.cores(duration).0,
            takes: observed.got_of_entitled(),
            entitled: observed.entitled_cores(),
        })
    });
    let mut all: Vec<Neighbour<'a>> = neighbours.collect();
    all.sort_by(|a, b| b.part.total_cmp(&a.part).then(a.id.cmp(&b.id)));
    all
}

/// The cgroup behind which a victim waited for only a part of the time, and when, if it hardly waits in the rest of it.
fn part_of_the_time<'a>(
    observations: &Observations,
    victim: &'a Observed,
    thresholds: &Thresholds,
) -> Option<(CgroupId, &'a Long)> {
    let wait = victim.totals.runq_wait_ns?;
    let is_one = |long: &&Long| {
        let rest = wait.saturating_sub(long.wait_ns).0 as f64;
        let rest_cpu = victim.totals.cpu_ns.saturating_sub(long.cpu_ns).0 as f64;
        long.during.is_part(observations.span.duration_ns)
            && long.part() >= thresholds.neighbour_wait
            && long.wait_ns.0 as f64 >= thresholds.wait_per_cpu_warn * long.cpu_ns.0 as f64
            && long.cpu_ns > Nanos::ZERO
            && thresholds.are_enough(long.waits, long.during.time)
            && rest <= CALM * thresholds.wait_per_cpu_warn * rest_cpu
    };
    let single = victim.behind.culprits().filter(|(id, _)| *id != CgroupId::OTHER);
    let long = single.filter_map(|(id, culprit)| Some((id, culprit.long.as_deref().filter(is_one)?)));
    long.max_by_key(|(id, long)| (long.behind_ns, std::cmp::Reverse(*id)))
}

impl<'a> Neighbour<'a> {
    /// In the part of the time in which a victim waits long for it.
    fn of_part(observations: &'a Observations, id: CgroupId, long: &Long) -> Option<Self> {
        Some(Self {
            id,
            observed: observations.cgroups.get(&id)?,
            part: long.part(),
            worst_in: long.during.intervals,
            cpu: long.culprit_cores(),
            takes: long.got_of_entitled(),
            entitled: long.entitled_cores(),
        })
    }
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
    let (severity, verdict) = verdict(observations, thresholds, victim, neighbour);
    Finding {
        rule: Rule::NoisyNeighbour,
        severity,
        subject: victim.subject(),
        culprits: vec![neighbour.subject()],
        verdict,
        measured: measured(observations, victim, neighbour, effect),
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

fn verdict(
    observations: &Observations,
    thresholds: &Thresholds,
    victim: &Victim<'_>,
    neighbour: &Neighbour<'_>,
) -> (Severity, String) {
    let (whom, who) = (victim.subject(), neighbour.subject());
    let mostly = if neighbour.part >= MOSTLY { "mostly" } else { "in large part" };
    let (waits, part) = (units::percent(victim.waits()), units::percent(neighbour.part));
    let when = victim.part.map(|part| observations.how_long(&part.during)).unwrap_or_default();
    let found = format!("{whom} waits {waits} of its runnable time{when}, {mostly} behind {who} ({part} of the wait)");
    let severity = overload::harm(victim.wait_per_cpu(), thresholds);
    // What it took in that part of the time is not in any other figure.
    let then = |does: String| match victim.part {
        Some(_) => format!("which then uses {} CPUs and {does}", units::number(neighbour.cpu)),
        None => format!("which {does}"),
    };
    let takes = |times: f64| then(format!("takes {} its share", units::times(times)));
    match neighbour.takes {
        None if victim.part.is_some() => (
            severity,
            format!("{found}, which then uses {} CPUs (its share is unknown).", units::number(neighbour.cpu)),
        ),
        None => (severity, format!("{found}, whose share is unknown.")),
        Some(times) if victim.is_short && neighbour.takes_too_much(thresholds) => {
            (severity.max(Severity::Warning), format!("{found}, {}.", takes(times)))
        }
        Some(times) if neighbour.takes_too_much(thresholds) => {
            (severity, format!("{found}, {}; {whom} still gets its own share.", takes(times)))
        }
        Some(_) => (
            severity,
            format!("{found}, {}.", then("takes no more than its fair share: no hog, but a competitor".to_owned())),
        ),
    }
}

fn measured(
    observations: &Observations,
    victim: &Victim<'_>,
    neighbour: &Neighbour<'_>,
    effect: Option<&Effect>,
) -> Vec<Figure> {
    let observed = victim.observed;
    let why = observations.session.why_not(Measure::Blame);
    let part = |cause| observed.part_of_wait(cause);
    let mut measured = vec![
        figures::waiting_while_runnable.is(victim.waits()),
        figures::wait_p99.measured(victim.p99, "no distribution was recorded"),
    ];
    let of_neighbour = |one: &Neighbour<'_>| {
        let whom = one.subject();
        [
            figures::behind.is(one.part).of(whom.clone()),
            figures::takes.measured(one.takes, "weights were not recorded").of(whom.clone()),
            figures::neighbour_cpu.is(one.cpu).of(whom),
        ]
    };
    let all = observations.span.duration_ns;
    measured
        .extend(victim.part.map(|part| figures::contended.is(part.during.time.seconds()).note(part.during.when(all))));
    measured.extend(of_neighbour(neighbour));
    measured.extend(effect.into_iter().flat_map(Effect::figures));
    // For the others, only values over the whole time are known.
    if victim.part.is_none() {
        let others = neighbours(observations, observed).into_iter().filter(|one| one.id != neighbour.id).take(TOP - 1);
        measured.extend(others.flat_map(|one| of_neighbour(&one)));
    }
    measured.push(figures::wait_per_cpu.is(victim.wait_per_cpu()));
    if victim.part.is_none() {
        measured.extend([
            wait_causes::figures::behind_itself.measured(observed.self_inflicted(), &why),
            wait_causes::figures::in_throttled.measured(part(observed.totals.wait_throttled_ns), &why),
        ]);
    }
    measured
}

/// Is it always the same one?
fn confidence(observations: &Observations, victim: &Victim<'_>, neighbour: &Neighbour<'_>) -> Confidence {
    let basis = Basis {
        intervals: victim.part.map_or(observations.span.intervals, |part| part.during.intervals),
        samples: victim.waits,
        samples_are: "waits",
        // A part of the time only consists of intervals that agree.
        agreeing: victim.part.is_none().then_some((neighbour.worst_in, victim.observed.behind.intervals)),
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
             weights and new ones. It shows the effect, then restores the old weights, also when interrupted: --apply \
             keeps nothing."
        ));
        advice.push(trial.command(shell::trial_of_weights(&globs)));
    }
    if let Some(cores) = neighbour.entitled
        && victim.is_short
        && neighbour.takes_too_much(thresholds)
    {
        let text = format!(
            "Cap {who} at its share of {} cores with a quota. The cap also applies while CPUs are idle.",
            units::number(cores)
        );
        let (session, path) = (&observations.session, &neighbour.observed.path);
        let before = neighbour.observed.levels.as_ref().and_then(|levels| levels.last());
        let undo = before.and_then(|level| shell::same_quota(session, Some(neighbour.id), path, level));
        advice.push(Advice::new(text).command(shell::quota(session, neighbour.id, path, cores)).undo_if(undo));
    }
    if neighbour.takes.is_some() && !neighbour.takes_too_much(thresholds) {
        advice.push(Advice::new(format!("Add CPUs, because {who} takes no more than its fair share.")));
    }
    if advice.is_empty() {
        advice.push(Advice::new(format!("Add CPUs, or move {who} to another host.")));
    }
    advice
}

/// The finding that there is no such neighbour, or that this is unknown.
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

/// What the victims without a noisy neighbour wait for.
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
    let end = if of_many_causes > 0 { " (--verbose shows what they wait for)." } else { "." };
    let (all, wait) = (victims.len() as u64, if victims.len() == 1 { "waits" } else { "wait" });
    format!(
        "{} {wait} long, but not behind a noisy neighbour: {}{end}",
        units::plural(all, "cgroup"),
        spoken.join(", ")
    )
}

#[cfg(test)]
mod tests;
