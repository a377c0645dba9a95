//! The rules: intervals in, findings out. Pure: no I/O, no clock, no terminal. One file a rule.
//!
//! Each finding says what was measured, against what it was held, how sure that is, its caveats and what to
//! do. "No problem found" and "not enough data" are findings too.

mod alert;
mod asked;
mod backlog;
mod confidence;
mod cost_curve;
mod cpuset_plan;
mod density;
mod during;
mod explain;
mod figure;
mod finding;
#[cfg(test)]
pub(crate) mod fixture;
mod forecast;
mod growth;
mod history;
mod hosts;
mod lags_candidates;
mod loaded_sched_ext;
mod migrations;
mod noisy_neighbour;
mod observations;
mod outweighed;
mod overcommitted_threads;
mod overload;
mod pictures;
mod pinned;
mod planned;
mod priority;
pub mod queueing;
mod quota_without_cpuset;
mod rated;
mod report;
mod reweighting;
mod rules;
mod sample;
mod scheduling_overhead;
mod setting;
mod severity;
mod shares;
mod shell;
pub mod simulation;
mod single;
mod span;
mod starved;
mod steal;
mod subject;
mod thresholds;
mod throttled;
mod told;
mod utilisation;
mod verdict;
mod wait_causes;
mod waits;
mod weights_have_no_effect;
mod withheld;

pub use alert::{Alert, AlertKind, AlertSubject, alerts};
pub use confidence::{Confidence, ConfidenceLevel};
pub use cost_curve::CostCurve;
pub use cpuset_plan::{CpusetPlan, Request, Strictness};
pub use explain::{Explained, Explanation, Input};
pub use figure::{Figure, FigureDefinition};
pub use finding::{Advice, Candidate, CandidateClass, Finding, Rule};
pub use forecast::{
    Competitors, CompetitorsError, Forecast, ForecastFigure, Forecaster, Intervention, Predicted, Ranking, Unpredicted,
    tail_of_waits,
};
pub use growth::Growth;
pub use history::HistoryPiece;
pub use hosts::{DiagnosedHost, HostCosts, Hosts};
pub use loaded_sched_ext::LoadedSchedExt;
pub use observations::Observations;
pub(crate) use observations::is_inside;
pub use pictures::{Part, Pictures, VictimTime};
pub use planned::{Planned, PlannedCgroup};
pub use priority::{Priorities, Role, RoleKind};
pub(crate) use rated::credits;
pub use report::{MeasuringCost, Report};
pub use reweighting::weight_factor;
pub use sample::{Density, HostSample};
pub use severity::Severity;
pub use span::Span;
pub use subject::Subject;
pub use thresholds::{Limit, Threshold, ThresholdDefinition, ThresholdError, Thresholds};
pub(crate) use told::{Told, Verdicts};
pub use verdict::{Verdict, VerdictCause};
pub use waits::{Blamed, Wait};

use crate::model::{Interval, Session};

/// Applies all rules to `intervals`. To go through a recording that is too long to keep, feed [`Observations`] instead.
pub fn diagnose(session: &Session, intervals: &[Interval], thresholds: &Thresholds) -> Report {
    let mut observations = Observations::new(session.clone());
    for interval in intervals {
        observations.add(interval);
    }
    observations.diagnose(thresholds)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        model::{Nanos, Tasks, fixture},
        report::{json, text},
    };

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// Recordings come from elsewhere: any figure may be in them.
        #[test]
        fn no_recording_is_too_strange(figures in prop::collection::vec(prop_oneof![Just(0), Just(u64::MAX), any::<u64>()], 12)) {
            let mut intervals = fixture::overloaded(12);
            for (interval, &figure) in intervals.iter_mut().zip(&figures) {
                let some = Some(Nanos(figure));
                let host = &mut interval.host;
                match figure % 7 {
                    0 => (host.times.busy_ns, host.times.idle_ns) = (Nanos(figure), Nanos(figure)),
                    1 => (host.totals.switches, host.totals.pick_ns) = (figure, some),
                    2 => (host.idle.kept_ns, host.totals.kept_ns, host.cpus_online) = (some, some, figure),
                    3 => (interval.duration_ns, interval.seq) = (Nanos(figure), figure),
                    4 => (host.totals.swap_ns, host.times.steal_ns, host.lost.entries) = (some, None, figure),
                    5 => interval.cgroups[0].load_credit = Some(Tasks(f64::from_bits(figure))),
                    _ => (interval.cgroups[1].totals.cpu_ns, interval.cgroups[1].totals.runq_wait_ns) = (Nanos(figure), some),
                }
            }
            let report = diagnose(&fixture::session(), &intervals, &Thresholds::default());
            let written = text::render(&report, text::Depth::Verbose, text::PageOptions::default());
            prop_assert!(!written.contains("NaN") && !written.contains("inf "), "{written}");
            prop_assert!(json::render(&report).is_ok());
        }
    }

    #[test]
    fn an_empty_recording_has_not_enough_data() {
        let report = diagnose(&fixture::session(), &[], &Thresholds::default());
        assert!(!report.findings.is_empty());
        assert!(report.findings.iter().all(|f| f.severity == Severity::NotEnoughData), "{:#?}", report.findings);
    }

    #[test]
    fn nothing_is_concluded_from_nothing() {
        for intervals in fixture::without_content() {
            let report = diagnose(&fixture::session(), &intervals, &Thresholds::default());
            let written = text::render(&report, text::Depth::Verbose, text::PageOptions::default())
                + &json::render(&report).unwrap();
            for none in ["NaN", "inf "] {
                let line = written.lines().find(|line| line.contains(none));
                assert_eq!(line, None);
            }
            let single = |finding: &&Finding| finding.subject != Subject::Host && finding.severity >= Severity::Warning;
            let about: Vec<_> = report.findings.iter().filter(single).map(|finding| &finding.verdict).collect();
            assert!(about.is_empty(), "{about:?}");
        }
    }

    #[test]
    fn an_idle_host_has_no_problem() {
        let report = diagnose(&fixture::session(), &fixture::idle(60), &Thresholds::default());
        assert!(
            report.findings.iter().all(|f| matches!(f.severity, Severity::Ok | Severity::NotEnoughData)),
            "{:#?}",
            report.findings
        );
    }

    #[test]
    fn findings_come_worst_first_and_say_everything_they_must() {
        let report = diagnose(&fixture::session(), &fixture::overloaded(60), &Thresholds::default());
        assert!(report.findings.is_sorted_by_key(|f| std::cmp::Reverse(f.severity)));
        assert_eq!(report.worst(), Severity::Critical);
        for finding in &report.findings {
            assert!(finding.verdict.ends_with('.'), "{}", finding.verdict);
            assert!(!finding.measured.is_empty(), "{}", finding.verdict);
            assert!(!finding.confidence.why.is_empty(), "{}", finding.verdict);
            for figure in &finding.measured {
                assert!(figure.value.is_some() != figure.missing.is_some(), "{figure:?}");
            }
        }
    }
}
