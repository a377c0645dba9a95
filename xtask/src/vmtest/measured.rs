//! How a kernel's measures are taken, and whether that is the truth.

use super::{
    live_tests::truths_of,
    results::{GuestReport, Outcome},
};

/// One measure on one kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Measured {
    /// In this way, and every live test that compares it with the truth has passed.
    Proven(String),
    /// In this way, and these tests have not passed.
    Wrong { way: String, tests: Vec<&'static str> },
    /// In this way; not all of the tests have run.
    Untested(String),
    /// It is not, for this reason.
    Absent(String),
    /// lagstop did not say.
    Unknown,
}

impl Measured {
    /// By what `lagstop check` and the tests said in the guest.
    pub(super) fn of(measure: &str, report: &GuestReport) -> Self {
        let measures = report.check.as_ref().and_then(|check| check["measures"].as_array());
        let Some(found) = measures.and_then(|all| all.iter().find(|found| found["measure"] == measure)) else {
            return Self::Unknown;
        };
        let text = |field: &str| found[field].as_str().map(str::to_owned);
        let Some(way) = text("way") else {
            return Self::Absent(text("detail").unwrap_or_default());
        };
        let outcomes = || truths_of(measure).map(|test| (test.name, report.outcome(test.name)));
        let not_passed = |outcome| matches!(outcome, Some(Outcome::Failed | Outcome::Ignored));
        let tests: Vec<_> = outcomes().filter(|(_, outcome)| not_passed(*outcome)).map(|(name, _)| name).collect();
        if !tests.is_empty() {
            Self::Wrong { way, tests }
        } else if outcomes().any(|(_, outcome)| outcome.is_none()) {
            Self::Untested(way)
        } else {
            Self::Proven(way)
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::vmtest::{
        live_tests::LIVE_TESTS,
        results::{End, TestRun},
    };

    /// A report in which every live test passed but `failed`.
    pub(crate) fn report(ways: &[(&str, Option<&str>, &str)], failed: &[&str]) -> GuestReport {
        let measures: Vec<_> = ways
            .iter()
            .map(|(measure, way, detail)| serde_json::json!({"measure": measure, "way": way, "detail": detail}))
            .collect();
        let run = |name: &str| TestRun {
            name: name.to_owned(),
            outcome: if failed.contains(&name) { Outcome::Failed } else { Outcome::Passed },
            seconds: 1.0,
            output: String::new(),
        };
        GuestReport {
            release: Some("6.12.1-test".to_owned()),
            check: Some(serde_json::json!({"verdict": "full", "measures": measures, "facts": {"release": "6.12.1"}})),
            tests: LIVE_TESTS.iter().map(|test| run(test.name)).collect(),
            end: End::Finished,
        }
    }

    #[test]
    fn a_measure_is_proven_when_all_tests_of_it_have_passed() {
        const TEST: &str = "every_way_to_pick_function_costs_stays_below_the_pick_cost";
        let ways = [("pick", Some("fentry"), ""), ("accept", None, "no"), ("migrations", Some("tracepoint"), "")];
        let mut report = report(&ways, &[TEST]);
        let of = |measure, report: &GuestReport| Measured::of(measure, report);
        assert_eq!(of("pick", &report), Measured::Wrong { way: "fentry".to_owned(), tests: vec![TEST] });
        assert_eq!(of("accept", &report), Measured::Absent("no".to_owned()));
        assert_eq!(of("migrations", &report), Measured::Proven("tracepoint".to_owned()));
        report.tests.clear();
        assert_eq!(of("migrations", &report), Measured::Untested("tracepoint".to_owned()));
        report.check = None;
        assert_eq!(of("migrations", &report), Measured::Unknown);
    }
}
