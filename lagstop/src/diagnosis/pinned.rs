//! Rule: cgroups that wait on full CPUs while other CPUs are idle.
//!
//! More CPUs do not help them: something keeps their tasks where they are, a CPU set or an affinity, or balancing fails. Those of a
//! full CPU set are told together, by the set.

mod cpu_set;

use cpu_set::CpuSet;

use super::{
    Advice, Finding, Limit, Observations, Rule, Severity, Subject, Thresholds,
    confidence::Basis,
    figure::{figures, sources::COUNTED},
    noisy_neighbour,
    observations::{Crowded, Observed},
    overload,
    rated::is_rated,
    shell, single,
};
use crate::{
    model::{CgroupId, Group, Measure, Nanos},
    units::{self, MOSTLY},
};

figures! {
    [shared noisy_neighbour::figures::wait_p99, overload::figures::waiting_long]
    waiting_unthrottled: Share, "time waiting while runnable" = "(runq_wait_ns − wait_throttled_ns) / (cpu_ns + runq_wait_ns − wait_throttled_ns)", COUNTED;
    on_full_cpus: Share, "wait while other CPUs were idle" = "runq_wait_ns on CPUs that were busy for 95 % of the interval while one CPU or more (half of one, of two) was idle, − wait_throttled_ns / (runq_wait_ns − wait_throttled_ns)", COUNTED;
    set_asked: Tasks, "CPUs that its cgroups ask for" = "CPU time and run-queue wait of the cgroups with this CPU set, but for waits for quotas / duration_ns", COUNTED;
    set_waits: Share, "time they wait while runnable" = "run-queue wait / (CPU time + run-queue wait) of those that wait long, without waits for quotas", COUNTED;
    set_waiting: Count, "cgroups in it that wait long" = "those that wait long, most of it while all CPUs of the set were full together", COUNTED;
    idle_cpus: Cores, "CPUs idle at that time" = "idle time of the CPUs that were not full / duration_ns, over these intervals", COUNTED;
}

pub(super) fn judge(observations: &Observations, thresholds: &Thresholds) -> Vec<Finding> {
    let is_enough = observations.too_short(thresholds).is_none();
    let rated = observations.cgroups.iter().filter(|(id, _)| is_enough && is_rated(**id));
    let online = observations.cpu_numbers();
    let is_of_set = |observed: &Observed| {
        observed.cpus.as_deref().is_some_and(|cpus| is_narrow(cpus, &online))
            && CpuSet::has_made_wait(observations, observed, thresholds)
    };
    let alone = rated.filter(|(_, observed)| !is_of_set(observed)).filter_map(|(&id, observed)| {
        let part = on_full_cpus(observed)?;
        (observed.waits_long(observations.span.duration_ns, thresholds) && part >= MOSTLY).then(|| {
            (
                observed.totals.runq_wait_ns.unwrap_or_default().0 as f64,
                finding(observations, thresholds, (id, observed), part),
            )
        })
    });
    let sets = if is_enough { CpuSet::all(observations, thresholds) } else { Vec::new() };
    let found = sets.iter().map(|set| (set.wait(), set.finding(observations, thresholds))).chain(alone);
    single::worst(found.collect(), thresholds, || healthy(observations, thresholds))
}

/// Its wait without the wait for its quota, which has nothing to do with CPUs.
fn wait_for_cpus(observed: &Observed) -> Nanos {
    let throttled = observed.totals.wait_throttled_ns.unwrap_or_default();
    observed.totals.runq_wait_ns.unwrap_or_default().saturating_sub(throttled)
}

/// The share of that wait that was on full CPUs while others were idle. `None` if it did not wait, or if this is
/// unknown.
fn on_full_cpus(observed: &Observed) -> Option<f64> {
    let wait = Some(wait_for_cpus(observed)).filter(|wait| *wait > Nanos::ZERO)?;
    // A wait for a quota is counted on some CPU, too.
    let throttled = observed.totals.wait_throttled_ns.unwrap_or_default();
    let crowded = observed.crowded.wait_ns.saturating_sub(throttled);
    Some((crowded.0 as f64 / wait.0 as f64).min(1.0))
}

fn finding(
    observations: &Observations,
    thresholds: &Thresholds,
    (id, observed): (CgroupId, &Observed),
    part: f64,
) -> Finding {
    let subject = observed.subject(id);
    let wait = wait_for_cpus(observed).0 as f64;
    let cpu = observed.totals.cpu_ns.0 as f64;
    let waits = wait / (wait + cpu);
    let idle = observed.crowded.idle_cores();
    let full: Vec<String> = observed.crowded.cpus().map(|cpu| cpu.to_string()).collect();
    let where_it_waits = match &full[..] {
        [one] => format!("CPU {one}, which is full"),
        few if few.len() <= 4 => format!("CPUs {}, which are full", few.join(", ")),
        many if many.len() >= Crowded::MOST_CPUS => format!("{} or more full CPUs", many.len()),
        many => format!("{} full CPUs", many.len()),
    };
    let culprits = worst_behind(observations, id, observed);
    let behind = match culprits.first() {
        _ if worst_part(observed) < MOSTLY => String::new(),
        Some(worst) if *worst == subject => ", mainly behind its own threads,".to_owned(),
        Some(worst) => format!(", mainly behind {worst},"),
        None => String::new(),
    };
    let verdict = format!(
        "{subject} waits {} of its runnable time{behind} on {where_it_waits}, while {} of {} are idle: its threads seem to be \
         pinned.",
        units::percent(waits),
        units::number(idle),
        units::plural(observations.cpus(), "CPU"),
    );
    let (restricted, mut advice) =
        match observed.cpus.as_deref().filter(|cpus| is_narrow(cpus, &observations.cpu_numbers())) {
            Some(cpus) => (
                Some(format!("Its CPU set allows CPUs {cpus}.")),
                vec![Advice::new(format!(
                    "Widen the CPU set of {subject}, or its threads' affinity: other CPUs are idle."
                ))],
            ),
            None => (
                None,
                vec![
                Advice::new(format!(
                    "List the CPUs that the threads of {subject} may use, with this command. Then allow the idle ones: with \
                     taskset -apc CPUS PID, or where its service sets them."
                ))
                .command(shell::affinities(&observations.session, id, &observed.path)),
            ],
            ),
        };
    advice.push(Advice::new(
        "If no affinity is set, check whether the CPUs are isolated (isolcpus, nohz_full) or balancing is off.",
    ));
    Finding {
        rule: Rule::Pinned,
        severity: overload::harm(wait / cpu.max(1.0), thresholds),
        culprits,
        verdict,
        measured: vec![
            figures::waiting_unthrottled.is(waits),
            figures::on_full_cpus.is(part),
            figures::idle_cpus.is(idle).note(format!("of {}", units::plural(observations.cpus(), "CPU"))),
            noisy_neighbour::figures::wait_p99.measured(
                observed.runq_wait.as_ref().and_then(|waits| waits.quantile(0.99)),
                "there is no distribution of its waits",
            ),
        ],
        threshold: [Limit::wait_per_cpu_warn, Limit::wait_per_cpu_critical, Limit::light_wait_p99]
            .map(|limit| thresholds.state(limit))
            .into(),
        confidence: Basis {
            intervals: observations.span.intervals,
            samples: observed.totals.runq_waits.unwrap_or_default(),
            samples_are: "waits",
            agreeing: Some((observed.crowded.intervals, observations.span.intervals)),
            lost: 0,
        }
        .confidence_from(thresholds.min_waits),
        caveats: restricted
            .into_iter()
            .chain(["lagstop sees on which CPU a task waits, not why it is not moved.".to_owned()])
            .collect(),
        advice,
        subject,
        cgroups: Vec::new(),
    }
}

/// Does a list of CPUs leave out some of the online ones?
fn is_narrow(list: &str, online: &[u32]) -> bool {
    !Group::allowed(list, online).is_empty()
}

/// The largest part of its wait behind one cgroup, itself included.
fn worst_part(observed: &Observed) -> f64 {
    let itself = observed.totals.wait_self_ns.unwrap_or_default();
    let worst = observed.behind.culprits().map(|(_, culprit)| culprit.wait_ns).chain([itself]).max();
    observed.part_of_wait(worst).unwrap_or(0.0)
}

fn worst_behind(observations: &Observations, id: CgroupId, observed: &Observed) -> Vec<Subject> {
    let itself = (id, observed.totals.wait_self_ns.unwrap_or_default());
    let others = observed.behind.culprits().map(|(id, culprit)| (id, culprit.wait_ns));
    let worst = others.chain([itself]).max_by_key(|&(id, wait)| (wait, std::cmp::Reverse(id)));
    worst
        .filter(|(_, wait)| *wait > Nanos::ZERO)
        .and_then(|(id, _)| Some(observations.cgroups.get(&id)?.subject(id)))
        .into_iter()
        .collect()
}

fn healthy(observations: &Observations, thresholds: &Thresholds) -> Finding {
    let long = overload::waiting_long(observations, thresholds, |_| true);
    let waits = observations.host.as_ref().and_then(|host| host.totals.runq_wait_ns);
    let verdict = match (observations.too_short(thresholds), waits) {
        (Some(why), _) => {
            (Severity::NotEnoughData, format!("Cannot judge whether tasks wait while CPUs are idle: {why}."))
        }
        (None, None) => {
            let why = observations.session.why_not(Measure::RunqWait);
            (
                Severity::NotEnoughData,
                format!("Cannot judge whether tasks wait while CPUs are idle: run-queue wait is {why}."),
            )
        }
        _ if !observations.has_cpus() => (
            Severity::NotEnoughData,
            "Cannot judge whether tasks wait while CPUs are idle: the recording has no rows of CPUs.".to_owned(),
        ),
        _ => (Severity::Ok, "No cgroup waits long on full CPUs while others are idle.".to_owned()),
    };
    single::healthy(
        Rule::Pinned,
        verdict,
        vec![overload::figures::waiting_long.is(long)],
        thresholds.state(Limit::wait_per_cpu_warn),
        observations.basis_of_waits().confidence(),
    )
}

#[cfg(test)]
mod tests;
