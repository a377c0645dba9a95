//! Rule: siblings that always want to run and get the same, though one weighs much more than the other.

use std::collections::BTreeMap;

use super::{
    Advice, Finding, Limit, Observations, Rule, Severity, Thresholds,
    figure::{figures, sources::COUNTED},
    shares::{KnownWaits, Shares, Whole},
    shell::WeightSetting,
    single, starved,
};
use crate::units::{self, Unit};

figures! {
    [shared starved::figures::entitled_cpu, starved::figures::compared, starved::figures::active_cpu]
    weight_ratio: Factor, "weight / the other's weight" = "its weight / the weight of the one with less", COUNTED;
    cpu_ratio: Factor, "CPU time / the other's CPU time" = "active_cpu / lighter_cpu", COUNTED;
    lighter_cpu: Cores, "the other's CPU time" = "its CPU time / the time of the intervals in which it ran", COUNTED;
    lighter_entitled: Cores, "the other's entitled CPU time" = "as entitled_cpu", "docs/measures.md";
}

/// Up to this ratio, the CPU times of two cgroups count as the same. Chosen: the kernel keeps shares only roughly.
const SAME: f64 = 1.2;
/// From this much run-queue wait for each second of CPU time on, a cgroup wants more than it gets. Chosen.
const WANTS_MORE: f64 = 0.3;
/// The share of `weights_differ` by which entitlements must differ at least. Chosen: they are averages over intervals.
const ENTITLED: f64 = 0.9;
/// The most siblings that are compared: those with the most CPU time.
const MOST_SIBLINGS: usize = 100;

pub(super) fn judge(observations: &Observations, shares: &Shares, thresholds: &Thresholds) -> Vec<Finding> {
    if let Some(why_not) = shares.why_not(observations, thresholds) {
        let verdict = format!("Cannot judge whether weights take effect: {why_not}.");
        return vec![healthy(observations, shares, thresholds, (Severity::NotEnoughData, verdict))];
    }
    let found = families(observations, shares, thresholds).into_iter().filter_map(|family| {
        let pair = worst(observations, shares, thresholds, &family)?;
        Some((pair.weights(observations), finding(observations, shares, thresholds, &pair)))
    });
    let found: Vec<(f64, Finding)> = found.collect();
    single::worst(found, thresholds, || {
        let verdict = "Weights take effect: no two cgroups with clearly different weights that compete get the same \
                       CPU time."
            .to_owned();
        healthy(observations, shares, thresholds, (Severity::Ok, verdict))
    })
}

/// Two cgroups in one queue, the one heavier than the other.
#[derive(Clone, Copy, Debug)]
struct Pair {
    heavier: usize,
    lighter: usize,
}

impl Pair {
    /// The weight of the heavier one / that of the lighter one.
    fn weights(self, observations: &Observations) -> f64 {
        let groups = &observations.asked.trace().groups;
        groups[self.heavier].whole_weight() / groups[self.lighter].whole_weight()
    }
}

/// Groups of siblings that always want to run and do not get all that they want, by their numbers.
fn families(observations: &Observations, shares: &Shares, thresholds: &Thresholds) -> Vec<Vec<usize>> {
    let asked = &observations.asked;
    let competes = |&(number, whole): &(usize, &Whole)| {
        whole.got > 0.0
            && whole.intervals >= thresholds.min_intervals
            && whole.always_wants_to_run()
            && whole.wait_per_cpu() >= WANTS_MORE
            && !asked.trace().groups[number].is_idle
    };
    let mut families: BTreeMap<Option<usize>, Vec<usize>> = BTreeMap::new();
    for (number, _) in shares.whole.iter().enumerate().filter(competes) {
        families.entry(asked.queue_above(number)).or_default().push(number);
    }
    let mut families: Vec<Vec<usize>> = families.into_values().filter(|family| family.len() > 1).collect();
    for family in &mut families {
        family.sort_by(|&a, &b| shares.whole[b].got.total_cmp(&shares.whole[a].got));
        family.truncate(MOST_SIBLINGS);
    }
    families
}

/// The pair with the largest ratio of weights among those that get the same CPU time.
fn worst(observations: &Observations, shares: &Shares, thresholds: &Thresholds, family: &[usize]) -> Option<Pair> {
    let groups = &observations.asked.trace().groups;
    let rate = |number: usize, of: fn(&Whole) -> f64| of(&shares.whole[number]) / shares.whole[number].seconds;
    let is_wrong = |pair: &Pair| {
        let Pair { heavier, lighter } = *pair;
        let got = |number| rate(number, |whole| whole.got);
        let entitled = |number| rate(number, |whole| whole.entitled);
        pair.weights(observations) >= thresholds.weights_differ
            && got(heavier) <= SAME * got(lighter)
            // That they get the same must not come from CPU sets, quotas or a lack of tasks.
            && entitled(heavier) >= ENTITLED * thresholds.weights_differ * entitled(lighter)
            && entitled(heavier) >= SAME * got(heavier)
            && groups[heavier].cpus == groups[lighter].cpus
            && [heavier, lighter].iter().all(|&number| KnownWaits::of(observations, number).matter(thresholds))
    };
    let pairs = family.iter().flat_map(|&heavier| family.iter().map(move |&lighter| Pair { heavier, lighter }));
    let order = |a: &Pair, b: &Pair| a.weights(observations).total_cmp(&b.weights(observations));
    pairs.filter(is_wrong).max_by(order)
}

fn finding(observations: &Observations, shares: &Shares, thresholds: &Thresholds, pair: &Pair) -> Finding {
    let Pair { heavier, lighter } = *pair;
    let groups = &observations.asked.trace().groups;
    let rate = |number: usize, of: fn(&Whole) -> f64| of(&shares.whole[number]) / shares.whole[number].seconds;
    let (got, got_lighter) = (rate(heavier, |whole| whole.got), rate(lighter, |whole| whole.got));
    let setting = WeightSetting::file(&observations.session);
    let weight = |number: usize| setting.written(groups[number].whole_weight());
    let file = setting.name;
    let (subject, other) = (observations.subject_of(heavier), observations.subject_of(lighter));
    let mut caveats = shares.caveats();
    caveats.push("The kernel keeps shares only roughly if a cgroup has fewer tasks than there are CPUs.".to_owned());
    Finding {
        rule: Rule::WeightsHaveNoEffect,
        culprits: Vec::new(),
        severity: Severity::Warning,
        verdict: format!(
            "{subject} has {} the weight of {other} ({file} {} and {}) and both always want to run, but they get {} \
             and {}: weights seem to be ignored.",
            units::times(pair.weights(observations)),
            weight(heavier),
            weight(lighter),
            Unit::Cores.show(got),
            Unit::Cores.show(got_lighter),
        ),
        measured: vec![
            figures::weight_ratio.is(pair.weights(observations)),
            figures::cpu_ratio.is(got / got_lighter),
            starved::figures::active_cpu.is(got),
            starved::figures::entitled_cpu.is(rate(heavier, |whole| whole.entitled)),
            figures::lighter_cpu.is(got_lighter).of(other.clone()),
            figures::lighter_entitled.is(rate(lighter, |whole| whole.entitled)).of(other),
        ],
        threshold: vec![thresholds.state(Limit::weights_differ)],
        confidence: observations.basis_of_waits().confidence(),
        caveats,
        advice: vec![
            starved::scheduler(),
            Advice::new(
                "If none is loaded, suspect a kernel bug: check whether a newer kernel fixes group weights, and \
                 report it with this recording.",
            ),
        ],
        subject,
        cgroups: Vec::new(),
    }
}

fn healthy(observations: &Observations, shares: &Shares, thresholds: &Thresholds, said: (Severity, String)) -> Finding {
    single::healthy(
        Rule::WeightsHaveNoEffect,
        said,
        vec![starved::figures::compared.is(shares.compared())],
        thresholds.state(Limit::weights_differ),
        observations.basis_of_waits().confidence(),
    )
}

#[cfg(test)]
mod tests;
