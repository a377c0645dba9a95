//! Rule: how much of the CPU time that looks used goes to switching.
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
    perceived_utilisation: Share, "perceived utilisation" = "busy_ns / capacity_ns", LAGS;
    effective_utilisation: Share, "effective utilisation" = "(busy_ns − switching_ns − kept_ns) / capacity_ns", LAGS;
    cores_lost: Cores, "lost to switching" = "(switching_ns + kept_ns) / capacity_ns · cpus_online", LAGS;
    share_of_used: Share, "share of what looks used" = "(switching_ns + kept_ns) / busy_ns", LAGS;
    gap: Share, "gap: switching per work" = "(switching_ns + kept_ns) / (busy_ns − switching_ns − kept_ns)", COUNTED;
}

pub(super) fn judge(observations: &Observations, thresholds: &Thresholds) -> Finding {
    let whole = observations.whole();
    let cpus = observations.cpus() as f64;
    let why_not = observations.session.why_not(Measure::SwitchCost);
    let share = |ns: f64| if whole.capacity_ns > 0.0 { ns / whole.capacity_ns } else { 0.0 };
    let perceived = share(whole.busy_ns);
    let overhead = whole.overhead();
    let effective = overhead.map(|overhead| (perceived - overhead).max(0.0));
    let gap = overhead.zip(effective).map(|(overhead, effective)| overhead / effective);
    let enough = observations.span.intervals >= thresholds.min_intervals && whole.capacity_ns > 0.0;

    let same = |severity: Severity| {
        let says = |s: &&super::Sample| {
            let (Some(overhead), true) = (s.overhead(), s.capacity_ns > 0.0) else { return false };
            let perceived = s.busy_ns / s.capacity_ns;
            let gap = overhead / (perceived - overhead).max(f64::MIN_POSITIVE);
            severity.is_supported_by(thresholds.utilisation_severity(gap, perceived))
        };
        Some((observations.samples.iter().filter(says).count() as u64, observations.span.intervals))
    };

    let (severity, verdict) = match (overhead, effective, gap) {
        (Some(overhead), Some(effective), Some(gap)) if enough => {
            // Busy with nothing but scheduling divides by zero: that is as wide as a gap gets.
            let gap = if gap.is_nan() { 0.0 } else { gap };
            let severity = thresholds.utilisation_severity(gap, perceived);
            let sizes = format!(
                "the CPUs look {} used, and {} without switching",
                units::percent(perceived),
                units::percent(effective)
            );
            let verdict = match severity {
                Severity::Ok => format!("No problem found: {sizes}."),
                _ => format!(
                    "{} of the CPU time that looks used, {} cores, is switching: {sizes}.",
                    units::percent(if perceived > 0.0 { overhead / perceived } else { 0.0 }),
                    units::number(overhead * cpus)
                ),
            };
            (severity, verdict)
        }
        (None, ..) if observations.span.intervals > 0 => (
            Severity::NotEnoughData,
            format!("How much of the used CPU time is work cannot be said: switch cost is {why_not}."),
        ),
        _ => (
            Severity::NotEnoughData,
            format!(
                "How much of the used CPU time is work cannot be said: it takes {} at least, and there {} {}.",
                units::plural(thresholds.min_intervals, "interval"),
                if observations.span.intervals == 1 { "is" } else { "are" },
                observations.span.intervals
            ),
        ),
    };

    let lost_cores = overhead.map(|overhead| overhead * cpus);
    let of_used = overhead.filter(|_| perceived > 0.0).map(|overhead| overhead / perceived);
    let mut against = vec![
        "Scheduling outside of a switch counts as the tasks' time: queueing a task that wakes up (try_to_wake_up), the tick, \
         load balancing in softirq, and caches and TLBs that a switch left cold. The true gap is wider."
            .to_owned(),
        "Interrupts, and lagstop's own programs in the kernel, count as work or as scheduling by where they struck."
            .to_owned(),
    ];
    if perceived < thresholds.full_utilisation && severity == Severity::Info {
        against
            .insert(0, format!("The host is only {} used: nobody needs these cores now.", units::percent(perceived)));
    }
    against.extend(observations.common_doubts());
    let advice = if severity >= Severity::Warning {
        vec![Advice::new(format!(
            "Do not add work because other tools show room, and do not buy CPUs because they show none: {} cores come \
             back when switching is brought down. See the finding scheduling_overhead for how.",
            lost_cores.map_or_else(|| "these".to_owned(), units::number)
        ))]
    } else {
        Vec::new()
    };
    Finding {
        rule: Rule::Utilisation,
        severity,
        subject: Subject::Host,
        verdict,
        measured: vec![
            figures::perceived_utilisation
                .is(perceived)
                .note("of the time of all CPUs that was not idle: what other tools show"),
            figures::effective_utilisation.measured(effective, &why_not).note("the same without the cost of switches"),
            figures::cores_lost
                .measured(lost_cores, &why_not)
                .note(format!("of {}", units::plural(observations.cpus(), "core"))),
            figures::share_of_used.measured(of_used, if overhead.is_none() { &why_not } else { "nothing was used" }),
            figures::gap
                .measured(
                    gap.filter(|gap| gap.is_finite()),
                    if overhead.is_none() { &why_not } else { "there was no work" },
                )
                .note("100 % is twice as much used as worked"),
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
        against,
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
