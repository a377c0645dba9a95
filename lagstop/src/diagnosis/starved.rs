//! Rule: cgroups that get clearly less CPU time than weights, quotas and CPU sets entitle them to.
//!
//! Sharing can be fair and waits long all the same: one that sleeps at times is entitled to its share while it wants to run,
//! not to the time in which it slept. So each is held against the least that it was entitled to, over all intervals.

use super::{
    Advice, Finding, Limit, Observations, Rule, Severity, Thresholds,
    confidence::Basis,
    figure::{figures, sources::COUNTED},
    observations::NOTABLE,
    rated::is_rated,
    shares::{KnownWaits, Own, Shares},
    single,
};
use crate::{
    model::Derived,
    units::{self, Unit},
};

figures! {
    entitlement_ratio: Factor, "slowdown of its work" = "least_cpu / active_cpu", "docs/diagnose.md";
    active_cpu: Cores, "CPU time" = "CPU time / time of the intervals in which it ran", COUNTED;
    entitled_cpu: Cores, "entitled CPU time, at most" = Derived::ENTITLED_CPU.formula, "docs/measures.md";
    least_cpu: Cores, "entitled CPU time, at least" = "max(entitled_cpu · tasks that ran or waited long / threads, min(entitled_cpu, tasks that never slept))", "docs/diagnose.md";
    active_wait_per_cpu: Factor, "wait per CPU time" = "run-queue wait / CPU time, over the intervals in which it ran", COUNTED;
    above: Cores, "CPU time above its share" = "active_cpu − entitled_cpu", "docs/measures.md";
    compared: Count, "cgroups compared" = "cgroups that ran and whose weights are known", COUNTED;
}

/// The most cgroups that are named among those that got more.
const TOP: usize = 3;

pub(super) fn judge(observations: &Observations, shares: &Shares, thresholds: &Thresholds) -> Vec<Finding> {
    if let Some(why_not) = shares.why_not(observations, thresholds) {
        let verdict = format!("Cannot judge whether a cgroup gets its share of CPU time: {why_not}.");
        return vec![healthy(observations, shares, thresholds, (Severity::NotEnoughData, verdict))];
    }
    let found = shares.own.iter().enumerate().filter(|(number, own)| is_short(observations, *number, own, thresholds));
    let found = found.filter_map(|(number, own)| {
        let waits = KnownWaits::of(observations, number);
        let is_bad = waits.matter(thresholds);
        is_bad.then(|| (own.slowdown(), finding(observations, shares, thresholds, (number, own), waits)))
    });
    let found: Vec<(f64, Finding)> = found.collect();
    single::worst(found, thresholds, || {
        let verdict = "No cgroup gets clearly less CPU time than it is entitled to.".to_owned();
        healthy(observations, shares, thresholds, (Severity::Ok, verdict))
    })
}

/// Did the tasks in this cgroup get clearly less than they were entitled to?
pub(super) fn is_short(observations: &Observations, number: usize, own: &Own, thresholds: &Thresholds) -> bool {
    own.got > 0.0
        && own.slowdown() >= thresholds.starved_warn
        && own.least - own.got >= NOTABLE * own.seconds
        && own.intervals >= thresholds.min_intervals
        && 2 * own.short >= own.intervals
        && observations.asked.id(number).is_some_and(is_rated)
}

fn finding(
    observations: &Observations,
    shares: &Shares,
    thresholds: &Thresholds,
    (number, own): (usize, &Own),
    waits: KnownWaits,
) -> Finding {
    let subject = observations.subject_of(number);
    let rate = |cpu: f64| cpu / own.seconds;
    let severity = if own.slowdown() >= thresholds.starved_critical { Severity::Critical } else { Severity::Warning };
    let mut measured = vec![
        figures::entitlement_ratio.is(own.slowdown()),
        figures::active_cpu.is(rate(own.got)),
        figures::entitled_cpu.is(rate(own.entitled)),
        figures::least_cpu.is(rate(own.least)),
        figures::active_wait_per_cpu.is(own.waited / own.got),
    ];
    let mut above: Vec<(usize, f64)> = shares
        .own
        .iter()
        .map(|it| (it.got - it.entitled) / own.seconds)
        .enumerate()
        .filter(|it| it.1 >= NOTABLE)
        .collect();
    above.sort_by(|a, b| b.1.total_cmp(&a.1));
    measured.extend(
        above.into_iter().take(TOP).map(|(other, more)| figures::above.is(more).of(observations.subject_of(other))),
    );
    let mut caveats = shares.caveats();
    caveats.push("The share is computed for the whole host, but the kernel balances CPUs only roughly.".to_owned());
    Finding {
        rule: Rule::Starved,
        culprits: Vec::new(),
        severity,
        verdict: format!(
            "{subject} gets {} of the at least {} it is entitled to, so its work takes {} as long as it should.",
            Unit::Cores.show(rate(own.got)),
            Unit::Cores.show(rate(own.least)),
            units::times(own.slowdown()),
        ),
        measured,
        threshold: [Limit::starved_warn, Limit::starved_critical].map(|limit| thresholds.state(limit)).into(),
        confidence: Basis {
            intervals: own.intervals,
            samples: waits.count,
            samples_are: "waits",
            agreeing: Some((own.short, own.intervals)),
            lost: observations.host.as_ref().map_or(0, |host| host.lost.task_states),
        }
        .confidence(),
        caveats,
        advice: vec![
            Advice::new(
                "Check for threads pinned to a crowded CPU: compare the CPUs its threads may use with those of the \
                 cgroup. More weight alone may not help, because it does not even get the share of its present weight.",
            ),
            scheduler(),
        ],
        subject,
        cgroups: Vec::new(),
    }
}

/// Advice on how to find out which scheduler interprets the weights.
pub(super) fn scheduler() -> Advice {
    Advice::new(
        "Check whether a sched_ext scheduler is loaded, because it may ignore weights. This prints its name, or fails \
         if none is loaded:",
    )
    .command("cat /sys/kernel/sched_ext/root/ops")
}

fn healthy(observations: &Observations, shares: &Shares, thresholds: &Thresholds, said: (Severity, String)) -> Finding {
    single::healthy(
        Rule::Starved,
        said,
        vec![figures::compared.is(shares.compared())],
        thresholds.state(Limit::starved_warn),
        observations.basis_of_waits().confidence(),
    )
}

#[cfg(test)]
mod tests;
