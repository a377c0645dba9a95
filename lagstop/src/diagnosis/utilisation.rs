//! Rule: how much of the CPU time that other tools show as used goes to switching.
//!
//! The CFS-LAGS paper (arXiv 2508.15703, §5.1) saw a cluster whose functions needed 60 cores use 120 under CFS. That is CPU time
//! used against needed, by whatever cause; this is the cost of switches alone, and the smaller of the two.

use super::{
    Advice, Finding, Limit, Observations, Rule, Severity, Subject, Thresholds,
    confidence::Basis,
    figure::{
        figures,
        sources::{COUNTED, LAGS},
    },
};
use crate::{model::Measure, units};

figures! {
    cpu_utilisation = CPU_UTILISATION, LAGS;
    effective_utilisation = EFFECTIVE_UTILISATION, LAGS;
    cores_lost: Cores, "lost to switching" = "(switching_ns + kept_ns) / capacity_ns · cpus_online", LAGS;
    share_of_used: Share, "switching, share of used CPU time" = "(switching_ns + kept_ns) / busy_ns", LAGS;
    gap: Share, "switching time / work time" = "(switching_ns + kept_ns) / (busy_ns − switching_ns − kept_ns)", COUNTED;
}

pub(super) fn judge(observations: &Observations, thresholds: &Thresholds) -> Finding {
    let whole = observations.whole();
    let cpus = observations.cpus() as f64;
    let why_not = observations.session.why_not(Measure::SwitchCost);
    let utilisation = whole.utilisation();
    let overhead = whole.overhead();
    let effective = whole.effective_utilisation();
    let gap = overhead.zip(effective).map(|(overhead, effective)| overhead / effective);
    let enough = observations.span.intervals >= thresholds.min_intervals && whole.capacity_ns > 0.0;

    let same = |severity: Severity| {
        let says = |s: &&super::HostSample| {
            let measured = s.overhead().zip(s.effective_utilisation()).filter(|_| s.capacity_ns > 0.0);
            measured.is_some_and(|(overhead, effective)| {
                let gap = overhead / effective.max(f64::MIN_POSITIVE);
                severity.is_supported_by(thresholds.utilisation_severity(gap, s.utilisation()))
            })
        };
        Some((observations.samples.iter().filter(says).count() as u64, observations.span.intervals))
    };

    let (severity, verdict) = match (overhead, effective, gap) {
        (Some(overhead), Some(effective), Some(gap)) if enough => {
            // A host that is only busy with scheduling divides by zero. The gap then counts as infinite, or as 0 for
            // 0/0.
            let gap = if gap.is_nan() { 0.0 } else { gap };
            let severity = thresholds.utilisation_severity(gap, utilisation);
            let share = units::percent(if utilisation > 0.0 { overhead / utilisation } else { 0.0 });
            let verdict = match severity {
                Severity::Ok => format!("Switching takes {share} of the used CPU time."),
                _ => format!(
                    "Switching takes {share} of the used CPU time ({} cores): the CPUs are {} used with it and {} \
                     without.",
                    units::number(overhead * cpus),
                    units::percent(utilisation),
                    units::percent(effective)
                ),
            };
            (severity, verdict)
        }
        (None, ..) if observations.span.intervals > 0 => {
            (Severity::NotEnoughData, format!("Cannot judge the CPU time lost to switching: switch cost is {why_not}."))
        }
        _ => (
            Severity::NotEnoughData,
            format!(
                "Cannot judge the CPU time lost to switching: this needs at least {} (measured: {}).",
                units::plural(thresholds.min_intervals, "interval"),
                observations.span.intervals
            ),
        ),
    };

    let lost_cores = overhead.map(|overhead| overhead * cpus);
    let of_used = overhead.filter(|_| utilisation > 0.0).map(|overhead| overhead / utilisation);
    let mut caveats = vec![
        "The true cost is higher, because wakeups, the tick, load balancing and cold caches count as the tasks' own \
         time."
            .to_owned(),
    ];
    caveats.extend(observations.common_caveats());
    caveats.push(
        "Interrupts and lagstop's own programs count as work or as scheduling, depending on where they occur."
            .to_owned(),
    );
    if utilisation < thresholds.full_utilisation && severity == Severity::Info {
        caveats.insert(
            0,
            format!("The host is only {} used, so these cores are not needed now.", units::percent(utilisation)),
        );
    }
    let advice = if severity >= Severity::Warning {
        vec![Advice::new(format!(
            "Reduce switching before adding CPUs: this frees up to {} cores. The advice on the cost of scheduling shows \
             how.",
            lost_cores.map_or_else(|| "some".to_owned(), units::number)
        ))]
    } else {
        Vec::new()
    };
    Finding {
        rule: Rule::Utilisation,
        culprits: Vec::new(),
        severity,
        subject: Subject::Host,
        verdict,
        measured: vec![
            figures::cpu_utilisation.is(utilisation).note("of all CPU time, as other tools show it"),
            figures::effective_utilisation.measured(effective, &why_not).note("of all CPU time"),
            figures::cores_lost
                .measured(lost_cores, &why_not)
                .note(format!("of {}", units::plural(observations.cpus(), "core"))),
            figures::share_of_used.measured(of_used, if overhead.is_none() { &why_not } else { "the CPUs were idle" }),
            figures::gap
                .measured(
                    gap.filter(|gap| gap.is_finite()),
                    if overhead.is_none() { &why_not } else { "there was no work" },
                )
                .note("100 % means as much switching as work"),
        ],
        threshold: [Limit::utilisation_gap_warn, Limit::utilisation_gap_critical, Limit::full_utilisation]
            .map(|limit| thresholds.state(limit))
            .into(),
        confidence: Basis {
            intervals: observations.span.intervals,
            samples: whole.switches,
            samples_are: "switches",
            agreeing: (severity != Severity::NotEnoughData).then(|| same(severity)).flatten(),
            lost: observations.lost_switches(),
        }
        .confidence(),
        caveats,
        advice,
        cgroups: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{diagnosis::diagnose, model::fixture};

    fn judged(intervals: &[crate::model::Interval], session: &crate::model::Session) -> Finding {
        let report = diagnose(session, intervals, &Thresholds::default());
        report.findings.into_iter().find(|f| f.rule == Rule::Utilisation).unwrap()
    }

    #[test]
    fn cores_lost_are_named() {
        let finding = judged(&fixture::overloaded(40), &fixture::session());
        assert!(finding.severity >= Severity::Warning, "{}", finding.verdict);
        assert!(finding.verdict.contains("cores") && !finding.advice.is_empty(), "{}", finding.verdict);
    }

    #[test]
    fn without_its_hook_it_says_which() {
        let finding = judged(&fixture::without_cost(20), &fixture::session_without_cost());
        assert_eq!(finding.severity, Severity::NotEnoughData);
        assert!(finding.verdict.contains("switch-cost (kernel 6.8.0"), "{}", finding.verdict);
    }
}
