//! What a guest says on its second serial port. Lines that start with `@@` are from init (init.sh); the others are output
//! of what it runs.

use std::{mem, time::Duration};

use serde::{Deserialize, Serialize};

/// What became of one live test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Outcome {
    Passed,
    Failed,
    /// The test did not run, which proves nothing.
    Ignored,
}

/// What a command that runs instead of tests is called.
pub(super) const COMMAND: &str = "command";

/// One live test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct TestRun {
    pub(super) name: String,
    pub(super) outcome: Outcome,
    pub(super) seconds: f64,
    pub(super) output: String,
}

/// How the guest ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum End {
    /// Init said that it was done.
    Finished,
    /// Init could not go on, and said why.
    Broken(String),
    /// It had to be stopped.
    TimedOut,
    /// It ended without a word: a panic, most likely.
    Silent,
}

/// All that a guest said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct GuestReport {
    /// `uname -r`
    pub(super) release: Option<String>,
    /// What `lagstop check --format json` printed, if that was JSON.
    pub(super) check: Option<serde_json::Value>,
    pub(super) tests: Vec<TestRun>,
    pub(super) end: End,
}

impl GuestReport {
    /// Did every test pass, was there one at all, and did `lagstop check` answer?
    pub(super) fn passed(&self) -> bool {
        let all = !self.tests.is_empty() && self.count(Outcome::Passed) == self.tests.len();
        self.end == End::Finished && all && self.check.is_some()
    }

    pub(super) fn count(&self, outcome: Outcome) -> usize {
        self.tests.iter().filter(|test| test.outcome == outcome).count()
    }
}

/// Something worth telling at once.
#[derive(Debug, PartialEq)]
pub(super) enum Event {
    /// The kernel has booted.
    Booted(String),
    /// A test has ended.
    Tested(TestRun),
    /// Nothing more will come.
    Ended,
}

/// What the output belongs to.
#[derive(Debug, PartialEq)]
enum Within {
    Nothing,
    Check,
    Test { name: String, since: Duration },
}

/// Reads line by line.
#[derive(Debug)]
pub(super) struct Reader {
    report: GuestReport,
    within: Within,
    output: String,
}

impl Reader {
    pub(super) const fn new() -> Self {
        let report = GuestReport { release: None, check: None, tests: Vec::new(), end: End::Silent };
        Self { report, within: Within::Nothing, output: String::new() }
    }

    /// Takes a line that came at this time since the start.
    pub(super) fn line(&mut self, line: &str, at: Duration) -> Option<Event> {
        let line = line.trim_end_matches(['\r', '\n']);
        let Some(said) = line.strip_prefix("@@ ") else {
            self.output.push_str(line);
            self.output.push('\n');
            return None;
        };
        let (word, rest) = said.split_once(' ').unwrap_or((said, ""));
        let output = mem::take(&mut self.output);
        match word {
            "kernel" => {
                self.report.release = Some(rest.to_owned());
                return Some(Event::Booted(rest.to_owned()));
            }
            "check" => self.within = Within::Check,
            "checked" => {
                self.report.check = serde_json::from_str(&output).ok();
                self.within = Within::Nothing;
            }
            "test" => self.within = Within::Test { name: rest.to_owned(), since: at },
            "tested" => return self.tested(outcome(rest, &output), output, at).map(Event::Tested),
            "ran" => {
                let outcome = if rest == "0" { Outcome::Passed } else { Outcome::Failed };
                return self.tested(outcome, output, at).map(Event::Tested);
            }
            "broken" => self.report.end = End::Broken(rest.to_owned()),
            "end" => {
                if self.report.end == End::Silent {
                    self.report.end = End::Finished;
                }
                return Some(Event::Ended);
            }
            _ => {}
        }
        None
    }

    /// What was said up to the end; a test that was not done by then has failed.
    pub(super) fn finish(mut self, timed_out: bool, at: Duration) -> GuestReport {
        if timed_out {
            self.report.end = End::TimedOut;
        }
        let mut output = mem::take(&mut self.output);
        output.push_str("(the guest ended here)\n");
        self.tested(Outcome::Failed, output, at);
        self.report
    }

    fn tested(&mut self, outcome: Outcome, output: String, at: Duration) -> Option<TestRun> {
        let Within::Test { name, since } = mem::replace(&mut self.within, Within::Nothing) else {
            return None;
        };
        let seconds = at.saturating_sub(since).as_secs_f64();
        let run = TestRun { name, outcome, seconds, output: output.trim_start_matches('\n').to_owned() };
        self.report.tests.push(run.clone());
        Some(run)
    }
}

/// Only a test that says so has passed: an exit with 0 may be that of no test at all.
fn outcome(status: &str, output: &str) -> Outcome {
    let summary = output.lines().rev().find(|line| line.starts_with("test result: ")).unwrap_or_default();
    if status == "0" && summary.contains(" 1 passed; 0 failed; 0 ignored;") {
        Outcome::Passed
    } else if status == "0" && summary.contains(" 0 passed; 0 failed; 1 ignored;") {
        Outcome::Ignored
    } else {
        Outcome::Failed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "
@@ kernel 6.12.107
@@ check
{\"verdict\":
 \"full\"}

@@ checked 0
a warning

@@ test one_and_one
test one_and_one ... measured 2
ok

test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 4 filtered out; finished in 0.50s

@@ tested 0

@@ test ignored
test result: ok. 0 passed; 0 failed; 1 ignored; 0 measured; 4 filtered out; finished in 0.00s

@@ tested 0

@@ test lies
measured 3
test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 4 filtered out; finished in 0.50s
@@ tested 101
@@ test killed
@@ tested 137
";

    fn read(text: &str) -> (Reader, Vec<Event>) {
        let mut reader = Reader::new();
        let events =
            text.lines().enumerate().filter_map(|(n, line)| reader.line(line, Duration::from_secs(n as u64))).collect();
        (reader, events)
    }

    #[test]
    fn every_test_has_its_outcome_and_its_output() {
        let (reader, events) = read(&format!("{SAID}@@ end\r\n"));
        assert_eq!(events.first(), Some(&Event::Booted("6.12.107".to_owned())));
        assert_eq!(events.last(), Some(&Event::Ended));
        let report = reader.finish(false, Duration::ZERO);
        assert_eq!(report.end, End::Finished);
        assert_eq!(report.check, Some(serde_json::json!({"verdict": "full"})));
        let outcomes: Vec<_> = report.tests.iter().map(|test| (test.name.as_str(), test.outcome)).collect();
        let expected = [
            ("one_and_one", Outcome::Passed),
            ("ignored", Outcome::Ignored),
            ("lies", Outcome::Failed),
            ("killed", Outcome::Failed),
        ];
        assert_eq!(outcomes, expected);
        assert!(report.tests[0].output.starts_with("test one_and_one ... measured 2\n"));
        assert!((report.tests[0].seconds - 6.0).abs() < 1e-9);
        assert!(!report.passed());
    }

    #[test]
    fn a_guest_that_does_not_say_that_it_is_done_has_not_passed() {
        let pass =
            "@@ check\n{}\n@@ checked 0\n@@ test a\ntest result: ok. 1 passed; 0 failed; 0 ignored;\n@@ tested 0\n";
        let end = |said: &str| read(&format!("{said}@@ end\n")).0.finish(false, Duration::ZERO);
        assert!(end(pass).passed());
        assert!(!end(&pass.replace("{}", "error")).passed(), "`lagstop check` failed");
        let silent = read(pass).0.finish(false, Duration::ZERO);
        assert!(!silent.passed() && silent.end == End::Silent);
        assert_eq!(read(pass).0.finish(true, Duration::ZERO).end, End::TimedOut);
        let none = read("@@ end\n").0.finish(false, Duration::ZERO);
        assert!(!none.passed() && none.end == End::Finished);
        let broken = read("@@ broken cpu is missing\n@@ end\n").0.finish(false, Duration::ZERO);
        assert_eq!(broken.end, End::Broken("cpu is missing".to_owned()));
    }

    #[test]
    fn the_test_that_the_guest_died_in_has_failed() {
        let report = read("@@ test hangs\nstill here\n").0.finish(true, Duration::from_secs(9));
        assert_eq!(report.tests.len(), 1);
        assert_eq!(report.tests[0].outcome, Outcome::Failed);
        assert_eq!(report.tests[0].output, "still here\n(the guest ended here)\n");
    }

    #[test]
    fn a_check_that_lagstop_does_not_know_is_no_facts() {
        let (reader, _) = read("@@ check\nerror: unrecognized subcommand\n@@ checked 2\n@@ end\n");
        assert_eq!(reader.finish(false, Duration::ZERO).check, None);
    }
}
