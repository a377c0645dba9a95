//! Rule: cgroups whose tasks are moved from CPU to CPU too often.
//!
//! Thesis on accept backlogs and schedulers (§6): the same requests were served with 22 migrations a second by 2.5 workers
//! and with 58 by 17.5: too many workers multiply migrations, and each leaves a warm cache behind.

use super::{
    Advice, Finding, Limit, Observations, Rule, Severity, Thresholds,
    confidence::Basis,
    figure::{figures, sources::COUNTED},
    observations::Observed,
    overcommitted_threads::figures as pools,
    rated::is_rated,
    shell, single,
};
use crate::{
    model::{CgroupId, Measure, Totals},
    units,
};

figures! {
    [shared pools::threads, pools::runnable]
    migrations_per_cpu_second: PerSecond, "migrations per second of CPU time" = "migrations / cpu_ns", COUNTED;
    migration_rate = MIGRATION_RATE, COUNTED;
    migrations_per_wakeup: Factor, "migrations per wakeup" = "migrations / voluntary_switches", COUNTED;
    cross_llc: Share, "to another last-level cache" = "migrations_cross_llc / migrations", COUNTED;
    cross_numa: Share, "to another NUMA node" = "migrations_cross_numa / migrations", COUNTED;
}

/// From this share of moves to another last-level cache on, leaving a cache behind counts as their main effect. Chosen: such a
/// move leaves every warm cache behind.
const MOSTLY_ACROSS: f64 = 0.2;

pub(super) fn judge(observations: &Observations, thresholds: &Thresholds) -> Vec<Finding> {
    let found = observations.cgroups.iter().filter(|(id, _)| is_rated(**id)).filter_map(|(&id, observed)| {
        let moves = Moves::of(&observed.totals, thresholds)?;
        let is_bad = observations.span.intervals >= thresholds.min_intervals
            && moves.per_cpu_second >= thresholds.migrations_warn;
        is_bad.then(|| (moves.per_second(observations), finding(observations, thresholds, (id, observed), &moves)))
    });
    single::worst(found.collect(), thresholds, || healthy(observations, thresholds))
}

/// How often a cgroup's tasks are moved.
struct Moves {
    count: u64,
    /// In each second of its CPU time.
    per_cpu_second: f64,
    /// Migrations per time that one of its tasks fell asleep, and so was woken.
    per_wakeup: f64,
    /// Share of them to another last-level cache, and to another NUMA node.
    across: Option<(f64, f64)>,
}

impl Moves {
    /// `None` if there are too few to judge, or if they were not measured.
    fn of(totals: &Totals, thresholds: &Thresholds) -> Option<Self> {
        let count = totals.migrations.filter(|&count| count >= thresholds.min_switches)?;
        let share = |part: u64| part as f64 / count as f64;
        Some(Self {
            count,
            per_cpu_second: count as f64 / totals.cpu_ns.seconds(),
            per_wakeup: count as f64 / totals.voluntary_switches.max(1) as f64,
            across: totals
                .migrations_cross_llc
                .zip(totals.migrations_cross_numa)
                .map(|(llc, numa)| (share(llc), share(numa))),
        })
        .filter(|moves| moves.per_cpu_second.is_finite())
    }

    fn per_second(&self, observations: &Observations) -> f64 {
        self.count as f64 / observations.span.duration_ns.seconds()
    }
}

fn finding(
    observations: &Observations,
    thresholds: &Thresholds,
    (id, observed): (CgroupId, &Observed),
    moves: &Moves,
) -> Finding {
    let subject = observed.subject(id);
    let threads = observed.threads();
    let runnable = observed.runnable(observations);
    let across = moves.across.filter(|(llc, _)| *llc >= MOSTLY_ACROSS);
    let unmeasured = observations.session.why_not(Measure::Migrations);
    let numbers = observations.cpu_numbers();
    let cpus =
        (observed.totals.cpu_ns.cores(observations.span.duration_ns).0.ceil().max(1.0) as usize).min(numbers.len());
    let first = units::show_cpus(&numbers[..cpus]);
    Finding {
        rule: Rule::Migrations,
        culprits: Vec::new(),
        severity: Severity::Warning,
        verdict: format!(
            "{subject} moves tasks between CPUs {} per second of CPU time{}.",
            units::times(moves.per_cpu_second),
            across.map_or_else(String::new, |(llc, _)| format!(
                ", {} of them to another last-level cache",
                units::percent(llc)
            ))
        ),
        measured: vec![
            figures::migrations_per_cpu_second.is(moves.per_cpu_second),
            figures::migration_rate.is(moves.per_second(observations)),
            figures::migrations_per_wakeup.is(moves.per_wakeup).note("per voluntary switch"),
            figures::cross_llc.measured(moves.across.map(|(llc, _)| llc), &unmeasured),
            figures::cross_numa.measured(moves.across.map(|(_, numa)| numa), &unmeasured),
            pools::threads.is(threads).note("average per interval"),
            pools::runnable.is(runnable),
        ],
        threshold: vec![thresholds.state(Limit::migrations_warn)],
        confidence: basis(observations, moves.count).confidence(),
        caveats: vec![
            "Only the number of migrations is measured, not their cost: waking up on an idle CPU counts too, and is \
             often right."
                .to_owned(),
        ],
        advice: [Advice::new(format!(
            "Use fewer threads: {threads} ran, and {} were runnable on average. A pool of that size keeps tasks \
                 near their cached data.",
            units::number(runnable)
        ))]
        .into_iter()
        // Its use of the excluded CPUs is unknown.
        .chain(observations.session.excluded_cpus.is_empty().then(|| {
            Advice::new(format!(
                "Or limit it to a CPU set of {}, as many as it uses. Choose which ones.",
                units::plural(cpus as u64, "CPU")
            ))
            .command(shell::cpuset(&observations.session, id, &observed.path, &first))
        }))
        .collect(),
        subject,
        cgroups: Vec::new(),
    }
}

fn basis(observations: &Observations, migrations: u64) -> Basis {
    Basis {
        intervals: observations.span.intervals,
        samples: migrations,
        samples_are: "migrations",
        agreeing: None,
        lost: observations.host.as_ref().map_or(0, |host| host.lost.missed_runs),
    }
}

fn healthy(observations: &Observations, thresholds: &Thresholds) -> Finding {
    let totals = observations.tasks().unwrap_or_default();
    let per_cpu_second = totals.migrations.map(|count| count as f64 / totals.cpu_ns.seconds());
    let (severity, verdict) = match (observations.too_short(thresholds), totals.migrations) {
        (Some(too_short), _) => (Severity::NotEnoughData, format!("Cannot judge migrations: {too_short}.")),
        (None, None) => {
            let why = observations.session.why_not(Measure::Migrations);
            (Severity::NotEnoughData, format!("Cannot judge migrations: they are {why}."))
        }
        (None, Some(_)) => (Severity::Ok, "No cgroup moves its tasks between CPUs too often.".to_owned()),
    };
    single::healthy(
        Rule::Migrations,
        (severity, verdict),
        vec![
            figures::migrations_per_cpu_second
                .measured(per_cpu_second, &observations.session.why_not(Measure::Migrations))
                .note("of all cgroups"),
        ],
        thresholds.state(Limit::migrations_warn),
        basis(observations, totals.migrations.unwrap_or_default()).confidence(),
    )
}

#[cfg(test)]
mod tests;
