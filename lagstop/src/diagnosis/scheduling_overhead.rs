//! Rule: what scheduling itself costs, which cgroups contribute most, and what made it grow.
//!
//! CFS-LAGS paper (arXiv 2508.15703, §3): overhead is the time in the core scheduler as a share of CPU time.

use super::{
    Advice, Figure, Finding, HostSample, Limit, Observations, Rule, Severity, Subject, Thresholds,
    confidence::Basis,
    figure::{
        figures,
        sources::{COUNTED, LAGS, LMDI},
    },
    growth::{Growth, NoQuiet, quarters},
    shell,
};
use crate::{
    model::{CgroupId, Measure, Nanos, Totals, kernel_version},
    units::{self, MOSTLY, Unit},
};

figures! {
    overhead = OVERHEAD, LAGS;
    mean_switch_cost = MEAN_SWITCH_COST, LAGS;
    switch_rate = SWITCH_RATE, COUNTED;
    kept_running: Share, "scheduler calls without a switch" = "kept_ns / capacity_ns", COUNTED;
    cross_cgroup = CROSS_CGROUP, COUNTED;
    involuntary = INVOLUNTARY, COUNTED;
    quiet_overhead: Share, "overhead, quietest quarter" = "overhead in the quarter of the intervals with the least (busy_ns + runq_wait_ns) / capacity_ns", COUNTED;
    busy_overhead: Share, "overhead, busiest quarter" = "overhead in the quarter with the most", COUNTED;
    quiet_mean_switch_cost: Ns, "mean switch cost, quietest quarter" = "mean_switch_cost in the quiet quarter", COUNTED;
    busy_mean_switch_cost: Ns, "mean switch cost, busiest quarter" = "mean_switch_cost in the busy quarter", COUNTED;
    growth_by_rate: SharePoints, "growth by more switches" = "L · ln(r1 / r0), L = (O1 − O0) / ln(O1 / O0), O = r · c, of quiet (0) and busy (1) quarter", LMDI;
    growth_by_cost: SharePoints, "growth by costlier switches" = "L · ln(c1 / c0)", LMDI;
    growth_by_kept: SharePoints, "growth by calls without a switch" = "kept_running in the busy quarter − in the quiet one", LMDI;
    growth_factor: Factor, "growth of total switch cost" = "O1 / O0", LMDI;
    payer: Share, "share of switch cost" = "switch cost of the cgroup / switch cost of all cgroups", COUNTED;
}

/// The most contributors that are named.
const TOP: usize = 5;
/// From this share of all switch cost on, the verdict names a contributor. Chosen: a fifth.
const NOTABLE_PART: f64 = 0.2;
/// From this share of the growth on, one factor is named as its cause. Chosen: clearly more than half.
const ONE_FACTOR: f64 = 0.6;

pub(super) fn judge(observations: &Observations, thresholds: &Thresholds) -> Finding {
    let whole = observations.whole();
    let why_not = observations.session.why_not(Measure::SwitchCost);
    let growth =
        quarters(&observations.samples, thresholds).map(|(quiet, busy)| (quiet, busy, Growth::between(&quiet, &busy)));
    let severity = severity(observations, &whole, thresholds);
    let verdict = match (severity, whole.overhead()) {
        (Severity::NotEnoughData, None) if observations.span.intervals > 0 => {
            format!("Cannot judge scheduling overhead: switch cost is {why_not}.")
        }
        (Severity::NotEnoughData, _) | (_, None) => too_little(observations, &whole, thresholds),
        (_, Some(overhead)) => verdict(observations, severity, overhead, &whole, growth.as_ref().ok(), thresholds),
    };
    let tasks = observations.tasks().unwrap_or_default();
    let mut measured = costs(observations, &whole, &tasks, &why_not);
    if let Ok((quiet, busy, growth)) = &growth {
        measured.extend(compared(quiet, busy, growth.as_ref()));
    }
    measured.extend(payers(observations));
    let limits = [
        Limit::overhead_warn,
        Limit::overhead_critical,
        Limit::mean_switch_cost_warn,
        Limit::mean_switch_cost_critical,
    ];
    let agreeing = (severity != Severity::NotEnoughData).then(|| agreeing(observations, severity, thresholds));
    Finding {
        rule: Rule::SchedulingOverhead,
        culprits: payers(observations).into_iter().filter_map(|figure| figure.of).collect(),
        severity,
        subject: Subject::Host,
        verdict,
        measured,
        threshold: limits.map(|limit| thresholds.state(limit)).into(),
        confidence: Basis {
            intervals: observations.span.intervals,
            samples: whole.switches,
            samples_are: "switches",
            agreeing,
            lost: observations.lost_switches(),
        }
        .confidence(),
        caveats: caveats(observations, &whole, &growth, thresholds),
        advice: if severity >= Severity::Info {
            advice(observations, &tasks, growth.ok().and_then(|(_, _, growth)| growth), thresholds)
        } else {
            Vec::new()
        },
        cgroups: Vec::new(),
    }
}

fn severity(observations: &Observations, whole: &HostSample, thresholds: &Thresholds) -> Severity {
    let enough = observations.span.intervals >= thresholds.min_intervals && whole.switches >= thresholds.min_switches;
    match whole.overhead() {
        Some(overhead) if enough && whole.capacity_ns > 0.0 => thresholds.overhead_severity(overhead, mean_cost(whole)),
        _ => Severity::NotEnoughData,
    }
}

fn mean_cost(sample: &HostSample) -> Option<Nanos> {
    sample.mean_cost_ns().map(|cost| Nanos(cost as u64))
}

/// The number of intervals that alone would support the verdict.
fn agreeing(observations: &Observations, severity: Severity, thresholds: &Thresholds) -> (u64, u64) {
    let says = |s: &&HostSample| {
        s.overhead().is_some_and(|o| severity.is_supported_by(thresholds.overhead_severity(o, mean_cost(s))))
    };
    (observations.samples.iter().filter(says).count() as u64, observations.span.intervals)
}

fn too_little(observations: &Observations, whole: &HostSample, thresholds: &Thresholds) -> String {
    format!(
        "Cannot judge scheduling overhead: this needs at least {} and {} switches (measured: {} and {}).",
        units::plural(thresholds.min_intervals, "interval"),
        units::count(thresholds.min_switches),
        observations.span.intervals,
        units::count(whole.switches)
    )
}

fn verdict(
    observations: &Observations,
    severity: Severity,
    overhead: f64,
    whole: &HostSample,
    compared: Option<&(HostSample, HostSample, Option<Growth>)>,
    thresholds: &Thresholds,
) -> String {
    let share = format!(
        "{} of its CPU time ({} of {} cores)",
        units::percent(overhead),
        units::number(overhead * observations.cpus() as f64),
        observations.cpus()
    );
    if severity == Severity::Ok {
        return format!("The host spends only {share} on scheduling.");
    }
    if severity == Severity::Info {
        let cost = mean_cost(whole).unwrap_or_default();
        return format!("The host has expensive switches ({cost} each), but spends only {share} on scheduling.");
    }
    let grown = compared.and_then(|(_, _, growth)| growth.as_ref()).filter(|growth| growth.is_notable(thresholds));
    let grown = grown.map(|growth| {
        format!(", {} as much when busy as when quiet, {}", units::times(growth.factor), because(growth))
    });
    let (contributors, all) = contributors(observations);
    let top = contributors.first().and_then(|&(id, cost)| {
        let part = cost.0 as f64 / all;
        let name = observations.cgroups.get(&id)?.subject(id);
        (part >= NOTABLE_PART).then(|| format!("; top contributor: {name} ({})", units::percent(part)))
    });
    format!("The host spends {share} on scheduling{}{}.", grown.unwrap_or_default(), top.unwrap_or_default())
}

/// Explains what made overhead grow.
fn because(growth: &Growth) -> String {
    let share = growth.rate_share().unwrap_or(0.5);
    match share {
        s if s > 1.0 => "because of more switches, although each got cheaper".to_owned(),
        s if s < 0.0 => "because each switch costs more, although there are fewer".to_owned(),
        s if s >= ONE_FACTOR => format!("mostly because of more switches ({} of the growth)", units::percent(s)),
        s if s <= 1.0 - ONE_FACTOR => {
            format!("mostly because each switch costs more ({} of the growth)", units::percent(1.0 - s))
        }
        s => format!(
            "because of more switches ({} of the growth) and costlier ones ({})",
            units::percent(s),
            units::percent(1.0 - s)
        ),
    }
}

fn costs(observations: &Observations, whole: &HostSample, tasks: &Totals, why_not: &str) -> Vec<Figure> {
    let seconds = observations.span.duration_ns.seconds();
    let cross = tasks.cross_cgroup_switches.map(|cross| cross as f64 / tasks.switches as f64);
    let involuntary = tasks.involuntary_switches as f64 / tasks.switches as f64;
    vec![
        figures::overhead.measured(whole.overhead(), why_not).note("of all CPU time"),
        figures::mean_switch_cost.measured(mean_cost(whole), why_not).note("pick + swap, per switch"),
        figures::switch_rate
            .is(whole.switches as f64 / seconds)
            .note(format!("{} per CPU", Unit::PerSecond.show(whole.rate()))),
        figures::kept_running.measured(whole.kept(), why_not).note("included in the overhead"),
        figures::cross_cgroup.measured(cross, why_not).note("of all switches"),
        figures::involuntary.is(involuntary).note("of all switches"),
    ]
}

fn compared(quiet: &HostSample, busy: &HostSample, growth: Option<&Growth>) -> Vec<Figure> {
    let nothing = "too little was measured";
    let described = |sample: &HostSample| {
        format!(
            "{} runnable per CPU; {} switches per CPU, {} each",
            Unit::Tasks.show(sample.load_per_cpu()),
            Unit::PerSecond.show(sample.rate()),
            mean_cost(sample).unwrap_or_default()
        )
    };
    let mut figures = vec![
        figures::quiet_overhead.measured(quiet.overhead(), nothing).note(described(quiet)),
        figures::busy_overhead.measured(busy.overhead(), nothing).note(described(busy)),
        figures::quiet_mean_switch_cost.measured(mean_cost(quiet), nothing),
        figures::busy_mean_switch_cost.measured(mean_cost(busy), nothing),
    ];
    if let Some(growth) = growth {
        let times = |factor: f64, what: &str| format!("{}x {what}", units::number(factor));
        figures.extend([
            figures::growth_by_rate.is(growth.by_rate).note(times(growth.rate_factor, "as many switches")),
            figures::growth_by_cost.is(growth.by_cost).note(times(growth.cost_factor, "the cost")),
            figures::growth_by_kept.is(growth.by_kept),
            figures::growth_factor.is(growth.factor).note("product of both factors"),
        ]);
    }
    figures
}

/// The cgroups with any switch cost, the top contributor first, and the cost of all.
fn contributors(observations: &Observations) -> (Vec<(CgroupId, Nanos)>, f64) {
    let mut contributors: Vec<(CgroupId, Nanos)> = observations
        .cgroups
        .iter()
        .filter_map(|(&id, observed)| Some((id, observed.totals.switch_cost()?)))
        .filter(|&(_, cost)| cost > Nanos::ZERO)
        .collect();
    let all: f64 = contributors.iter().map(|(_, cost)| cost.0 as f64).sum();
    contributors.sort_by_key(|&(id, cost)| (std::cmp::Reverse(cost), id));
    (contributors, all)
}

/// The cgroups that contribute most.
fn payers(observations: &Observations) -> Vec<Figure> {
    let (contributors, all) = contributors(observations);
    let figure = |&(id, cost): &(CgroupId, Nanos)| {
        let observed = observations.cgroups.get(&id)?;
        let share = cost.0 as f64 / all;
        let each = observed.totals.mean_switch_cost().map(|cost| format!(", {cost} each")).unwrap_or_default();
        let note = format!(
            "{}; {} switches{each}",
            Unit::Cores.show(cost.cores(observations.span.duration_ns).0),
            Unit::PerSecond.show(observed.totals.switches as f64 / observations.span.duration_ns.seconds())
        );
        Some(figures::payer.is(share).of(observed.subject(id)).note(note))
    };
    contributors.iter().take(TOP).filter_map(figure).collect()
}

fn caveats(
    observations: &Observations,
    whole: &HostSample,
    growth: &Result<(HostSample, HostSample, Option<Growth>), NoQuiet>,
    thresholds: &Thresholds,
) -> Vec<String> {
    let of_growth = match growth {
        Err(NoQuiet::TooFew(intervals)) => Some(format!(
            "There is no quiet time to compare with, because {} with switches are too few to split by load.",
            units::plural(*intervals as u64, "interval")
        )),
        Err(NoQuiet::FewSwitches(switches)) => Some(format!(
            "There is no quiet time to compare with, because the quietest quarter has only {} switches.",
            units::count(*switches)
        )),
        Err(NoQuiet::Steady(low, high)) => Some(format!(
            "There is no quiet time to compare with, because load hardly varied ({} to {} runnable tasks per CPU).",
            units::number(*low),
            units::number(*high)
        )),
        Ok((_, _, None)) => {
            Some("Quiet and busy times cannot be compared, because too little was measured.".to_owned())
        }
        Ok((quiet, ..)) if quiet.load_per_cpu() >= 1.0 => Some(format!(
            "The growth is understated, because even the quietest quarter had {} runnable tasks per CPU.",
            units::number(quiet.load_per_cpu())
        )),
        Ok((_, _, Some(growth))) if !growth.is_notable(thresholds) => Some(format!(
            "Load does not explain the overhead, because switching costs {} as much when busy as when quiet.",
            units::times(growth.factor)
        )),
        Ok(_) => None,
    };
    let mut caveats: Vec<String> = of_growth.into_iter().collect();
    caveats.extend(observations.common_caveats());
    if whole.wait_ns.is_none() && whole.capacity_ns > 0.0 {
        caveats.push(format!(
            "Quiet and busy times are chosen by CPU time alone, because run-queue wait is {}.",
            observations.session.why_not(Measure::RunqWait)
        ));
    }
    let probe = observations.host.as_ref().and_then(|host| host.own_cost.self_probe_ns).unwrap_or_default().0 as f64;
    let overhead_ns = whole.switching_ns.zip(whole.kept_ns).map_or(0.0, |(switching, kept)| switching + kept);
    if probe > 0.0 && overhead_ns > 0.0 {
        caveats.push(format!(
            "lagstop's own programs ran for {}, part of which is included in the {} of scheduling time.",
            Nanos(probe as u64),
            Nanos(overhead_ns as u64)
        ));
    }
    caveats.push(
        "The thresholds are starting points, because the paper's percentages cannot be reproduced from its raw data; \
         compare with this host's quiet times."
            .to_owned(),
    );
    caveats
}

fn advice(observations: &Observations, tasks: &Totals, growth: Option<Growth>, thresholds: &Thresholds) -> Vec<Advice> {
    let notable = growth.filter(|growth| growth.is_notable(thresholds));
    let by_rate = notable.and_then(|growth| growth.rate_share());
    let are_preemptions = tasks.involuntary_switches as f64 >= MOSTLY * tasks.switches as f64;
    let loaded = observations.schedulers.at_end().filter(|name| !name.is_empty());
    let fewer = if let Some(name) = loaded.filter(|_| are_preemptions) {
        Advice::new(format!(
            "Use longer time slices, because most switches are preemptions: see the options of the loaded sched_ext scheduler {}, \
             which ignores the kernel's base slice.",
            units::quoted(name)
        ))
    } else if are_preemptions {
        let (file, what) = slice_file(&observations.session.kernel);
        Advice::new(format!(
            "Use longer time slices, because most switches are preemptions. This doubles {what}. Tasks then wait \
             longer for a CPU. To undo it, halve the value."
        ))
        .command(format!("sudo sh -c 'n=$(cat {file}) && echo $((2 * n)) > {file}'"))
    } else {
        Advice::new(
            "Use fewer threads and workers, or larger batches, in the top contributors. Most switches are voluntary: \
             tasks wait for each other or for I/O, so longer time slices do not help.",
        )
    };
    let cheaper = Advice::new(
        "Spread the top contributors over more hosts or CPUs: fewer runnable cgroups per CPU make switches cheaper. \
         Disable the cpu controller below cgroups that need no weights or limits inside, because each level adds a \
         run queue to every switch. This lists the levels:",
    )
    .command(shell::list_levels(&observations.session));
    match by_rate {
        Some(share) if share >= ONE_FACTOR => vec![fewer, cheaper],
        Some(share) if share <= 1.0 - ONE_FACTOR => vec![cheaper, fewer],
        _ => vec![fewer, cheaper],
    }
}

/// Where this kernel keeps the length of a time slice: `kernel/sched/debug.c`, `sched_init_debug()`. It moved from a
/// sysctl to debugfs in 5.13 and was renamed with EEVDF in 6.6.
fn slice_file(release: &str) -> (&'static str, &'static str) {
    match kernel_version(release).unwrap_or_default() {
        version if version >= (6, 6) => ("/sys/kernel/debug/sched/base_slice_ns", "the base slice"),
        version if version >= (5, 13) => ("/sys/kernel/debug/sched/min_granularity_ns", "the least time slice"),
        _ => ("/proc/sys/kernel/sched_min_granularity_ns", "the least time slice"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{diagnosis::diagnose, model::fixture};

    fn judged(intervals: &[crate::model::Interval]) -> Finding {
        let report = diagnose(&fixture::session(), intervals, &Thresholds::default());
        report.findings.into_iter().find(|f| f.rule == Rule::SchedulingOverhead).unwrap()
    }

    fn value(finding: &Finding, name: &str) -> f64 {
        finding.measured.iter().find(|f| f.name == name).and_then(|f| f.value).unwrap().as_f64()
    }

    #[test]
    fn growth_is_split_and_its_parts_add_up() {
        let finding = judged(&fixture::overloaded(40));
        assert_eq!(finding.severity, Severity::Critical);
        let parts = ["growth_by_rate", "growth_by_cost", "growth_by_kept"].map(|name| value(&finding, name));
        let grown = value(&finding, "busy_overhead") - value(&finding, "quiet_overhead");
        assert!((parts.iter().sum::<f64>() - grown).abs() < 1e-12, "{parts:?} of {grown}");
        assert!(finding.advice[0].command.is_some() || finding.advice[1].command.is_some());
    }

    #[test]
    fn payers_are_named_with_their_share() {
        let finding = judged(&fixture::overloaded(40));
        let payers: Vec<&Figure> = finding.measured.iter().filter(|f| f.name == "payer").collect();
        assert!(!payers.is_empty() && payers.len() <= TOP);
        assert!(payers.is_sorted_by(|a, b| a.value.unwrap().as_f64() >= b.value.unwrap().as_f64()));
        assert!(payers.iter().all(|f| f.of.is_some()));
    }

    #[test]
    fn too_little_says_what_it_takes() {
        let finding = judged(&fixture::overloaded(4));
        assert_eq!(finding.severity, Severity::NotEnoughData);
        assert!(finding.verdict.contains("5 intervals"), "{}", finding.verdict);
    }

    #[test]
    fn a_steady_load_has_no_quiet_time() {
        let one = fixture::overloaded(40).pop().unwrap();
        let steady: Vec<_> = (0..40).map(|seq| crate::model::Interval { seq, ..one.clone() }).collect();
        let finding = judged(&steady);
        assert!(finding.caveats.iter().any(|a| a.contains("load hardly varied")), "{:?}", finding.caveats);
    }

    #[test]
    fn the_kernels_slice_is_not_advised_under_another_scheduler() {
        let advised = |loaded: &str| {
            let session = crate::model::Session { sched_ext: Some(loaded.to_owned()), ..fixture::session() };
            let report = diagnose(&session, &fixture::overloaded(40), &Thresholds::default());
            let finding = report.findings.into_iter().find(|f| f.rule == Rule::SchedulingOverhead).unwrap();
            finding.advice.into_iter().find(|advice| advice.text.starts_with("Use longer time slices")).unwrap()
        };
        assert!(advised("").command.unwrap().contains("base_slice_ns"));
        let loaded = advised("lags");
        assert!(loaded.command.is_none() && loaded.text.contains("scheduler “lags”"), "{}", loaded.text);
    }

    #[test]
    fn the_slice_is_where_this_kernel_keeps_it() {
        for (release, file) in [
            ("6.12.1-amd64", "base_slice_ns"),
            ("6.6.0", "base_slice_ns"),
            ("6.5.13", "debug/sched/min_granularity_ns"),
            ("5.4.0-42", "sched_min_granularity_ns"),
            ("", "sched_min_granularity_ns"),
        ] {
            assert!(slice_file(release).0.ends_with(file), "{release}");
        }
    }
}
