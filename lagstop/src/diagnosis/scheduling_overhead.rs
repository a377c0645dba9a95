//! Rule: what scheduling itself costs, who pays, and what made it grow.
//!
//! CFS-LAGS paper (arXiv 2508.15703, §3): overhead is the time in the core scheduler as a share of CPU time.

use super::{
    Advice, Figure, Finding, Limit, Observations, Rule, Sample, Severity, Subject, Thresholds,
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
    units::{self, Unit},
};

figures! {
    overhead: Share, "scheduling overhead" = "(switching_ns + kept_ns) / capacity_ns", LAGS;
    mean_switch_cost: Ns, "mean switch cost" = "switching_ns / switches", LAGS;
    switch_rate: PerSecond, "switches" = "switches / duration_ns", COUNTED;
    kept_running: Share, "calls that kept the task" = "kept_ns / capacity_ns", COUNTED;
    cross_cgroup: Share, "switches between cgroups" = "cross_cgroup_switches / switches", COUNTED;
    involuntary: Share, "involuntary switches" = "involuntary_switches / switches", COUNTED;
    quiet_overhead: Share, "overhead, quietest quarter" = "overhead in the quarter of the intervals with the least (busy_ns + runq_wait_ns) / capacity_ns", COUNTED;
    busy_overhead: Share, "overhead, busiest quarter" = "overhead in the quarter with the most", COUNTED;
    quiet_mean_switch_cost: Ns, "quiet mean switch cost" = "mean_switch_cost in the quiet quarter", COUNTED;
    busy_mean_switch_cost: Ns, "busy mean switch cost" = "mean_switch_cost in the busy quarter", COUNTED;
    growth_by_rate: SharePoints, "growth by more switches" = "L · ln(r1 / r0), L = (O1 − O0) / ln(O1 / O0), O = r · c, of quiet (0) and busy (1) quarter", LMDI;
    growth_by_cost: SharePoints, "growth by dearer switches" = "L · ln(c1 / c0)", LMDI;
    growth_by_kept: SharePoints, "growth by calls that kept" = "kept_running in the busy quarter − in the quiet one", LMDI;
    growth_factor: Factor, "growth of switch cost" = "O1 / O0", LMDI;
    payer: Share, "pays" = "switch cost of the cgroup / switch cost of all cgroups", COUNTED;
}

/// Payers that are named.
const TOP: usize = 5;
/// From this share of it on, one factor is what made overhead grow.
const MOSTLY: f64 = 0.6;
/// From this share of switches on, preemption is what makes them.
const MOSTLY_INVOLUNTARY: f64 = 0.5;

pub(super) fn judge(observations: &Observations, thresholds: &Thresholds) -> Finding {
    let whole = observations.whole();
    let why_not = observations.session.why_not(Measure::SwitchCost);
    let growth =
        quarters(&observations.samples, thresholds).map(|(quiet, busy)| (quiet, busy, Growth::between(&quiet, &busy)));
    let severity = severity(observations, &whole, thresholds);
    let verdict = match (severity, whole.overhead()) {
        (Severity::NotEnoughData, None) if observations.span.intervals > 0 => {
            format!("What scheduling costs cannot be said: switch cost is {why_not}.")
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
        against: against(observations, &whole, &growth, thresholds),
        advice: if severity >= Severity::Info {
            advice(observations, &tasks, growth.ok().and_then(|(_, _, growth)| growth), thresholds)
        } else {
            Vec::new()
        },
        cgroups: Vec::new(),
    }
}

fn severity(observations: &Observations, whole: &Sample, thresholds: &Thresholds) -> Severity {
    let enough = observations.span.intervals >= thresholds.min_intervals && whole.switches >= thresholds.min_switches;
    match whole.overhead() {
        Some(overhead) if enough && whole.capacity_ns > 0.0 => thresholds.overhead_severity(overhead, mean_cost(whole)),
        _ => Severity::NotEnoughData,
    }
}

fn mean_cost(sample: &Sample) -> Option<Nanos> {
    sample.mean_cost_ns().map(|cost| Nanos(cost as u64))
}

/// Intervals that alone support it.
fn agreeing(observations: &Observations, severity: Severity, thresholds: &Thresholds) -> (u64, u64) {
    let says = |s: &&Sample| {
        s.overhead().is_some_and(|o| severity.is_supported_by(thresholds.overhead_severity(o, mean_cost(s))))
    };
    (observations.samples.iter().filter(says).count() as u64, observations.span.intervals)
}

fn too_little(observations: &Observations, whole: &Sample, thresholds: &Thresholds) -> String {
    format!(
        "What scheduling costs cannot be said: it takes {} and {} switches at least, and there are {} and {}.",
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
    whole: &Sample,
    compared: Option<&(Sample, Sample, Option<Growth>)>,
    thresholds: &Thresholds,
) -> String {
    let took = format!(
        "scheduling took {} of the time of all CPUs ({} of {} cores)",
        units::percent(overhead),
        units::number(overhead * observations.cpus() as f64),
        observations.cpus()
    );
    if severity == Severity::Ok {
        return format!("No problem found: {took}.");
    }
    if severity == Severity::Info {
        let cost = mean_cost(whole).unwrap_or_default();
        return format!("Switches are dear, {cost} each, but few enough: {took}.");
    }
    let took = took.replacen('s', "S", 1);
    let grown = compared.and_then(|(_, _, growth)| growth.as_ref()).filter(|growth| growth.is_notable(thresholds));
    match grown {
        Some(growth) => format!(
            "{took}, in its busy times {} times what it takes when quiet, {}.",
            units::number(growth.factor),
            because(growth)
        ),
        None => format!("{took}."),
    }
}

/// What made it grow.
fn because(growth: &Growth) -> String {
    let share = growth.rate_share().unwrap_or(0.5);
    match share {
        s if s > 1.0 => "because there were more switches, although each got cheaper".to_owned(),
        s if s < 0.0 => "because each switch got dearer, although there were fewer".to_owned(),
        s if s >= MOSTLY => format!("mostly because there were more switches ({} of the growth)", units::percent(s)),
        s if s <= 1.0 - MOSTLY => {
            format!("mostly because each switch got dearer ({} of the growth)", units::percent(1.0 - s))
        }
        s => format!(
            "because there were more switches ({} of the growth) and each got dearer ({})",
            units::percent(s),
            units::percent(1.0 - s)
        ),
    }
}

fn costs(observations: &Observations, whole: &Sample, tasks: &Totals, why_not: &str) -> Vec<Figure> {
    let seconds = observations.span.duration_ns.seconds();
    let cross = tasks.cross_cgroup_switches.map(|cross| cross as f64 / tasks.switches as f64);
    let involuntary = tasks.involuntary_switches as f64 / tasks.switches as f64;
    vec![
        figures::overhead.measured(whole.overhead(), why_not).note("of the time of all CPUs"),
        figures::mean_switch_cost.measured(mean_cost(whole), why_not).note("pick + swap, calls that switched"),
        figures::switch_rate
            .is(whole.switches as f64 / seconds)
            .note(format!("{} per CPU", Unit::PerSecond.show(whole.rate()))),
        figures::kept_running.measured(whole.kept(), why_not).note("part of the overhead"),
        figures::cross_cgroup.measured(cross, why_not).note("of all switches"),
        figures::involuntary.is(involuntary).note("of all switches"),
    ]
}

fn compared(quiet: &Sample, busy: &Sample, growth: Option<&Growth>) -> Vec<Figure> {
    let nothing = "too little was measured in it";
    let described = |sample: &Sample| {
        format!(
            "at {} runnable per CPU: {} per CPU, {} each",
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
        let times = |factor: f64, what: &str| format!("{} {what}", Unit::Factor.show(factor));
        figures.extend([
            figures::growth_by_rate.is(growth.by_rate).note(times(growth.rate_factor, "as many")),
            figures::growth_by_cost.is(growth.by_cost).note(times(growth.cost_factor, "as dear")),
            figures::growth_by_kept.is(growth.by_kept),
            figures::growth_factor.is(growth.factor).note("the product of the two"),
        ]);
    }
    figures
}

/// The cgroups that pay most.
fn payers(observations: &Observations) -> Vec<Figure> {
    let mut payers: Vec<(CgroupId, Nanos)> = observations
        .cgroups
        .iter()
        .filter_map(|(&id, observed)| Some((id, observed.totals.switch_cost()?)))
        .filter(|&(_, cost)| cost > Nanos::ZERO)
        .collect();
    let all: f64 = payers.iter().map(|(_, cost)| cost.0 as f64).sum();
    payers.sort_by_key(|&(id, cost)| (std::cmp::Reverse(cost), id));
    let figure = |&(id, cost): &(CgroupId, Nanos)| {
        let observed = observations.cgroups.get(&id)?;
        let share = cost.0 as f64 / all;
        let each = observed.totals.mean_switch_cost().map(|cost| format!(", {cost} each")).unwrap_or_default();
        let note = format!(
            "{} of it by {}{each}",
            Unit::Cores.show(cost.cores(observations.span.duration_ns).0),
            Unit::PerSecond.show(observed.totals.switches as f64 / observations.span.duration_ns.seconds())
        );
        Some(figures::payer.is(share).of(observed.subject(id)).note(note))
    };
    payers.iter().take(TOP).filter_map(figure).collect()
}

fn against(
    observations: &Observations,
    whole: &Sample,
    growth: &Result<(Sample, Sample, Option<Growth>), NoQuiet>,
    thresholds: &Thresholds,
) -> Vec<String> {
    let mut against = vec![
        "The paper's percentages cannot be reproduced from its own raw data, so the thresholds are starting points: \
         this host's own quiet cost is the better measure."
            .to_owned(),
    ];
    against.extend(match growth {
        Err(NoQuiet::TooFew(intervals)) => Some(format!(
            "No quiet time to compare with: {} with switches are too few to split by load.",
            units::plural(*intervals as u64, "interval")
        )),
        Err(NoQuiet::FewSwitches(switches)) => Some(format!(
            "No quiet time to compare with: its quarter has {} switches, too few for a mean.",
            units::count(*switches)
        )),
        Err(NoQuiet::Steady(low, high)) => Some(format!(
            "No quiet time to compare with: load hardly varied, from {} to {} runnable tasks per CPU.",
            units::number(*low),
            units::number(*high)
        )),
        Ok((_, _, None)) => Some("Quiet and busy times cannot be compared: too little was measured.".to_owned()),
        Ok((quiet, ..)) if quiet.load_per_cpu() >= 1.0 => Some(format!(
            "The quietest quarter was not quiet, with {} runnable tasks per CPU: growth is at least what is shown.",
            units::number(quiet.load_per_cpu())
        )),
        Ok((_, _, Some(growth))) if !growth.is_notable(thresholds) => Some(format!(
            "Load is not what makes it: what switches cost when busy is {} of what they cost when quiet.",
            Unit::Factor.show(growth.factor)
        )),
        Ok(_) => None,
    });
    if whole.wait_ns.is_none() && whole.capacity_ns > 0.0 {
        against.push(format!(
            "Quiet and busy go by CPU time alone, for run-queue wait is {}.",
            observations.session.why_not(Measure::RunqWait)
        ));
    }
    let probe = observations.host.as_ref().and_then(|host| host.own_cost.self_probe_ns).unwrap_or_default().0 as f64;
    let overhead_ns = whole.switching_ns.zip(whole.kept_ns).map_or(0.0, |(switching, kept)| switching + kept);
    if probe > 0.0 && overhead_ns > 0.0 {
        against.push(format!(
            "lagstop's own programs ran for {}, part of it within the {} that are called overhead.",
            Nanos(probe as u64),
            Nanos(overhead_ns as u64)
        ));
    }
    against.extend(observations.common_doubts());
    against
}

fn advice(observations: &Observations, tasks: &Totals, growth: Option<Growth>, thresholds: &Thresholds) -> Vec<Advice> {
    let notable = growth.filter(|growth| growth.is_notable(thresholds));
    let by_rate = notable.and_then(|growth| growth.rate_share());
    let fewer = if tasks.involuntary_switches as f64 >= MOSTLY_INVOLUNTARY * tasks.switches as f64 {
        let (file, what) = slice_file(&observations.session.kernel);
        Advice::new(format!(
            "Fewer switches: most are preemptions, so longer time slices help. This doubles {what}; tasks that wait for a \
             CPU then wait longer. Halve it again to undo."
        ))
        .command(format!("sudo sh -c 'n=$(cat {file}) && echo $((2 * n)) > {file}'"))
    } else {
        Advice::new(
            "Fewer switches: most are voluntary, tasks that wait for each other or for I/O. Fewer threads and workers in \
             the cgroups that pay most, and larger batches, help; time slices do not.",
        )
    };
    let cheaper = Advice::new(
        "Cheaper switches: fewer runnable cgroups per CPU, or fewer levels of them. Spread the cgroups that pay most over \
         more hosts or CPUs, and turn the cpu controller off below cgroups that need no weights or limits inside: \
         each level with it is one more run queue to put back and pick from. See which levels there are:",
    )
    .command(shell::list_levels(&observations.session));
    match by_rate {
        Some(share) if share >= MOSTLY => vec![fewer, cheaper],
        Some(share) if share <= 1.0 - MOSTLY => vec![cheaper, fewer],
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
        assert!(finding.against.iter().any(|a| a.contains("load hardly varied")), "{:?}", finding.against);
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
