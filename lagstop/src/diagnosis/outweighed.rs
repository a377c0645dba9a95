//! Rule: cgroups that get what they are entitled to, and wait long because those beside them weigh more.
//!
//! Weights are compared among siblings only: what counts for a service is often not its own weight but that of the slice that
//! it is in, as of `system.slice` beside a `kubepods.slice` whose weight grows with the CPUs of the host.

use super::{
    Advice, Finding, Limit, Observations, Rule, Severity, Subject, Thresholds,
    confidence::Basis,
    figure::{figures, sources::COUNTED},
    shares::{KnownWaits, Shares, Whole},
    shell::{self, WeightSetting},
    single, starved,
};
use crate::units::{self, Unit};

figures! {
    [shared starved::figures::entitled_cpu, starved::figures::compared, starved::figures::active_cpu, starved::figures::active_wait_per_cpu]
    gain: Factor, "CPU time with equal weights / now" = "equal_cpu / max(entitled_cpu, active_cpu)", "docs/diagnose.md";
    equal_cpu: Cores, "entitled CPU, with equal weights" = "entitled_cpu, if all cgroups beside it had the default weight", "docs/measures.md";
    weight: Factor, "weight / default weight" = "cpu.weight / 100, or cpu.shares / 1024", COUNTED;
    competitor_weight: Factor, "rival weight / default weight" = "cpu.weight / 100, or cpu.shares / 1024", COUNTED;
}

/// The most competitors that are named.
const TOP: usize = 3;
/// From this share of the wanted weight on, what the file takes is as good. Chosen: files take whole numbers, and none above a
/// largest.
const AS_WANTED: f64 = 0.99;

pub(super) fn judge(observations: &Observations, shares: &Shares, thresholds: &Thresholds) -> Vec<Finding> {
    if let Some(why_not) = shares.why_not(observations, thresholds) {
        let verdict = format!("Cannot judge whether weights make a cgroup wait: {why_not}.");
        return vec![healthy(observations, shares, thresholds, (Severity::NotEnoughData, verdict))];
    }
    let found = shares.whole.iter().enumerate().filter_map(|(number, whole)| {
        let is_candidate = is_outweighed(observations, number, whole, thresholds);
        let rivals = if is_candidate { rivals(observations, shares, number) } else { Vec::new() };
        let waits = (!rivals.is_empty()).then(|| KnownWaits::of(observations, number))?;
        let is_bad = waits.matter(thresholds);
        is_bad.then(|| (gain(whole), finding(observations, shares, thresholds, (number, whole), (&rivals, waits))))
    });
    let found: Vec<(f64, Finding)> = found.collect();
    single::worst(found, thresholds, || {
        let verdict = "No cgroup waits long because of its weight.".to_owned();
        healthy(observations, shares, thresholds, (Severity::Ok, verdict))
    })
}

/// Its CPU time with equal weights / what it is entitled to or gets now, whichever is more.
fn gain(whole: &Whole) -> f64 {
    whole.equal / whole.entitled.max(whole.got)
}

fn is_outweighed(observations: &Observations, number: usize, whole: &Whole, thresholds: &Thresholds) -> bool {
    // A cgroup with `cpu.idle` is outweighed on purpose.
    whole.got > 0.0
        && !observations.asked.trace().groups[number].is_idle
        && whole.intervals >= thresholds.min_intervals
        && gain(whole) >= thresholds.outweighed_warn
        && whole.entitled <= thresholds.starved_warn * whole.got
        && whole.wait_per_cpu() >= thresholds.light_wait_per_cpu
}

/// Heavier cgroups in its queue that got the most, by their numbers.
fn rivals(observations: &Observations, shares: &Shares, number: usize) -> Vec<usize> {
    let asked = &observations.asked;
    let groups = &asked.trace().groups;
    let above = asked.queue_above(number);
    let mut rivals: Vec<usize> = (0..groups.len())
        .filter(|&other| {
            other != number
                && shares.whole[other].got > 0.0
                && groups[other].whole_weight() > groups[number].whole_weight()
                && asked.queue_above(other) == above
        })
        .collect();
    rivals.sort_by(|&a, &b| shares.whole[b].got.total_cmp(&shares.whole[a].got));
    rivals
}

fn finding(
    observations: &Observations,
    shares: &Shares,
    thresholds: &Thresholds,
    (number, whole): (usize, &Whole),
    (rivals, waits): (&[usize], KnownWaits),
) -> Finding {
    let asked = &observations.asked;
    let groups = &asked.trace().groups;
    let subject = observations.subject_of(number);
    let rate = |cpu: f64| Unit::Cores.show(cpu / whole.seconds);
    // All weights are in the unit of the advice, if that can express the weights in the files.
    let setting = WeightSetting::of(&observations.session, asked.path(number));
    let says = |number: usize| setting.is_exact(groups[number].whole_weight());
    let is_exact = says(number) && rivals.iter().take(TOP).all(|&rival| says(rival));
    let setting = if is_exact { setting } else { WeightSetting::file(&observations.session) };
    let weight = |number: usize| setting.written(groups[number].whole_weight());
    let file = setting.name;
    // Somebody gave it less than the default, maybe on purpose.
    let severity = if groups[number].weight < 1.0 {
        Severity::Info
    } else if gain(whole) >= thresholds.outweighed_critical {
        Severity::Critical
    } else {
        Severity::Warning
    };
    let place = match asked.queue_above(number) {
        Some(above) => format!(" in {}", units::quoted(asked.path(above))),
        None => String::new(),
    };
    let mut measured = vec![
        figures::gain.is(gain(whole)),
        starved::figures::active_cpu.is(whole.got / whole.seconds),
        starved::figures::entitled_cpu.is(whole.entitled / whole.seconds),
        figures::equal_cpu.is(whole.equal / whole.seconds),
        starved::figures::active_wait_per_cpu.is(whole.wait_per_cpu()),
        figures::weight.is(groups[number].whole_weight()).note(format!("{file} {}", weight(number))),
    ];
    measured.extend(rivals.iter().take(TOP).map(|&rival| {
        let got = rate(shares.whole[rival].got);
        figures::competitor_weight
            .is(groups[rival].whole_weight())
            .of(observations.subject_of(rival))
            .note(format!("{file} {}; gets {got}", weight(rival)))
    }));
    let mut caveats = shares.caveats();
    if severity == Severity::Info {
        caveats.insert(0, "Its weight is below the default, which may be intended.".to_owned());
    }
    Finding {
        rule: Rule::Outweighed,
        culprits: rivals.iter().take(TOP).map(|&rival| observations.subject_of(rival)).collect(),
        severity,
        verdict: format!(
            "{subject} waits {} of its runnable time because {} outweighs it{place} ({file} {} against {}). Its weight \
             guarantees it {}; equal weights would guarantee {}.",
            units::percent(whole.wait_per_cpu() / (1.0 + whole.wait_per_cpu())),
            observations.subject_of(rivals[0]),
            weight(number),
            weight(rivals[0]),
            rate(whole.entitled),
            rate(whole.equal),
        ),
        measured,
        threshold: [Limit::outweighed_warn, Limit::outweighed_critical].map(|limit| thresholds.state(limit)).into(),
        confidence: Basis {
            intervals: whole.intervals,
            samples: waits.count,
            samples_are: "waits",
            agreeing: None,
            lost: observations.host.as_ref().map_or(0, |host| host.lost.task_states),
        }
        .confidence(),
        caveats,
        advice: advice(observations, shares, (number, whole), &subject),
        subject,
        cgroups: Vec::new(),
    }
}

fn advice(
    observations: &Observations,
    shares: &Shares,
    (number, whole): (usize, &Whole),
    subject: &Subject,
) -> Vec<Advice> {
    let (session, path) = (&observations.session, observations.asked.path(number));
    if path.starts_with("/kubepods") {
        return vec![Advice::new(format!(
            "Raise the CPU request of {subject} if it should get more CPU time. The kubelet derives the weights of \
             pods from their requests and overwrites manual changes."
        ))];
    }
    let weight = weight_for(observations, shares, number, whole);
    let own = observations.asked.trace().groups[number].whole_weight();
    let setting = WeightSetting::of(session, path);
    let give = |weight| shell::give_weight(session, observations.asked.id(number), path, weight);
    let place = observations.asked.queue_above(number).map(|above| units::quoted(observations.asked.path(above)));
    let place = place.map_or_else(String::new, |place| format!(" in {place}"));
    // There is a largest weight.
    let gets = match setting.rounded(weight) < AS_WANTED * weight {
        true => String::new(),
        false => format!(": that guarantees it about {}", Unit::Cores.show(whole.equal / whole.seconds)),
    };
    let file = WeightSetting::file(session);
    // systemd's weights are coarser than shares.
    let before = match setting.is_exact(own) {
        true => String::new(),
        false => format!(" Its {} was {} before.", file.name, file.written(own)),
    };
    let text = format!(
        "Raise the {} of {subject} from {} to {} if it should get more CPU time{gets}. The cgroups beside it{place} then \
         get less while it wants to run.{before}",
        setting.name,
        setting.written(own),
        setting.written(weight),
    );
    vec![Advice::new(text).command_if(give(weight)).undo_if(give(own).filter(|_| setting.is_exact(own)))]
}

/// The weight with which it gets as much as if all siblings weighed the same.
fn weight_for(observations: &Observations, shares: &Shares, number: usize, whole: &Whole) -> f64 {
    let asked = &observations.asked;
    let groups = &asked.trace().groups;
    let above = asked.queue_above(number);
    let beside = || {
        (0..groups.len())
            .filter(move |&other| other != number && shares.whole[other].got > 0.0 && asked.queue_above(other) == above)
    };
    let others: f64 = beside().map(|other| groups[other].whole_weight() * shares.whole[other].times()).sum();
    let all = whole.got + beside().map(|other| shares.whole[other].got).sum::<f64>();
    let part = (whole.equal / all).clamp(0.0, 0.99);
    // At most as much as all siblings together.
    let most: f64 = beside().map(|other| groups[other].whole_weight()).sum();
    (others * part / (1.0 - part) / whole.times()).min(most).max(groups[number].whole_weight())
}

fn healthy(observations: &Observations, shares: &Shares, thresholds: &Thresholds, said: (Severity, String)) -> Finding {
    single::healthy(
        Rule::Outweighed,
        said,
        vec![starved::figures::compared.is(shares.compared())],
        thresholds.state(Limit::outweighed_warn),
        observations.basis_of_waits().confidence(),
    )
}

#[cfg(test)]
mod tests;
