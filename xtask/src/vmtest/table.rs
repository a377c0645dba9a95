//! What came of each kernel, as a table at the end of a run.

use std::fmt::Write as _;

use super::{
    live_tests::{MEASURES, unclaimed},
    matrix::Layout,
    measured::Measured,
    results::{COMMAND, End, GuestReport, Outcome},
};

/// One kernel that was to be tried.
#[derive(Debug)]
pub(super) struct Tried {
    pub(super) id: String,
    pub(super) version: String,
    pub(super) layout: Layout,
    pub(super) seconds: u64,
    pub(super) verdict: Verdict,
}

/// What came of it.
#[derive(Debug)]
pub(super) enum Verdict {
    /// It could not be had or started.
    NotTried(String),
    Ran {
        report: GuestReport,
        /// The end of what its console showed.
        last_words: String,
    },
}

impl Tried {
    pub(super) fn passed(&self) -> bool {
        matches!(&self.verdict, Verdict::Ran { report, .. } if report.passed())
    }

    /// In a few words.
    fn result(&self) -> String {
        let report = match &self.verdict {
            Verdict::NotTried(why) => return format!("NOT PASSED: not tried: {}", why.lines().next().unwrap_or("")),
            Verdict::Ran { report, .. } => report,
        };
        if report.passed() {
            return "passed".to_owned();
        }
        let (failed, ignored) = (report.count(Outcome::Failed), report.count(Outcome::Ignored));
        let mut why: Vec<String> = [(failed, "failed"), (ignored, "ignored")]
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        match &report.end {
            End::Finished if report.tests.is_empty() => why.push("no test was run".to_owned()),
            End::Finished if report.check.is_none() => why.push("`lagstop check` gave no answer".to_owned()),
            End::Finished => {}
            End::Broken(reason) => why.push(format!("the guest gave up: {reason}")),
            End::TimedOut => why.push("the time was over".to_owned()),
            End::Silent => why.push("the guest ended without a word".to_owned()),
        }
        format!("NOT PASSED: {}", why.join(", "))
    }
}

/// The table, and below it what else there is to know about those that did not pass.
pub(super) fn table(tried: &[Tried]) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ =
        writeln!(text, "\n{:<12} {:<20} {:<7} {:>7} {:>7}  result", "kernel", "package", "cgroup", "passed", "time");
    for one in tried {
        let passed = match &one.verdict {
            Verdict::NotTried(_) => "-".to_owned(),
            Verdict::Ran { report, .. } => format!("{}/{}", report.count(Outcome::Passed), report.tests.len()),
        };
        let Tried { id, version, layout, seconds, .. } = one;
        let result = one.result();
        let _ = writeln!(text, "{id:<12} {version:<20} {:<7} {passed:>7} {seconds:>5} s  {result}", layout.name());
    }
    for one in tried {
        let Verdict::Ran { report, .. } = &one.verdict else { continue };
        if report.tests.iter().any(|test| test.name == COMMAND) {
            continue;
        }
        let _ = writeln!(text, "{:<12} {}", one.id, measures(report));
        for name in unclaimed(report.tests.iter().map(|test| test.name.as_str())) {
            let _ = writeln!(text, "{}: {name}: which measure is it about? See xtask/src/vmtest/live_tests.rs", one.id);
        }
    }
    for one in tried {
        let Verdict::Ran { report, last_words } = &one.verdict else { continue };
        for test in report.tests.iter().filter(|test| test.outcome != Outcome::Passed) {
            let _ = writeln!(text, "{}: {}: {:?}", one.id, test.name, test.outcome);
        }
        if report.end != End::Finished {
            let _ = writeln!(text, "{}: the last lines of its console:\n{last_words}", one.id);
        }
    }
    text
}

/// How each measure was taken, in a line.
fn measures(report: &GuestReport) -> String {
    let one = |measure: &str| {
        let how = match Measured::of(measure, report) {
            Measured::Proven(way) => way,
            Measured::Untested(way) => format!("{way} (not all tests were run)"),
            Measured::Wrong { way, tests } => format!("{way} NOT PROVEN ({} not passed)", tests.len()),
            Measured::Absent(why) => format!("n/a ({why})"),
            Measured::Unknown => "?".to_owned(),
        };
        format!("{measure}: {how}")
    };
    MEASURES.map(one).join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vmtest::results::TestRun;

    fn ran(outcomes: &[Outcome], end: End) -> Tried {
        let test = |(n, &outcome): (usize, &Outcome)| TestRun {
            name: format!("test_{n}"),
            outcome,
            seconds: 1.0,
            output: String::new(),
        };
        let tests = outcomes.iter().enumerate().map(test).collect();
        let report = GuestReport { release: None, check: Some(serde_json::json!({})), tests, end };
        let verdict = Verdict::Ran { report, last_words: "Kernel panic".to_owned() };
        Tried { id: "6.12".to_owned(), version: "6.12.1-1".to_owned(), layout: Layout::V2, seconds: 61, verdict }
    }

    #[test]
    fn only_what_ran_whole_has_passed() {
        use Outcome::{Failed, Ignored, Passed};
        assert_eq!(ran(&[Passed, Passed], End::Finished).result(), "passed");
        assert_eq!(ran(&[Passed, Failed, Ignored], End::Finished).result(), "NOT PASSED: 1 failed, 1 ignored");
        assert_eq!(ran(&[], End::Finished).result(), "NOT PASSED: no test was run");
        assert_eq!(ran(&[Passed], End::TimedOut).result(), "NOT PASSED: the time was over");
        let not = Verdict::NotTried("the mirror has none".to_owned());
        let tried = Tried { verdict: not, ..ran(&[], End::Finished) };
        assert_eq!(tried.result(), "NOT PASSED: not tried: the mirror has none");
        assert!(!tried.passed());
    }

    #[test]
    fn the_table_names_what_failed() {
        let text = table(&[ran(&[Outcome::Passed, Outcome::Failed], End::Silent)]);
        assert!(
            text.contains("6.12         6.12.1-1             v2          1/2    61 s  NOT PASSED: 1 failed"),
            "{text}"
        );
        assert!(text.contains("6.12: test_1: Failed") && text.contains("Kernel panic"), "{text}");
    }
}
