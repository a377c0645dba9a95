//! docs/kernels.md: on which kernels lagstop was tried, and what came of it.

use std::fmt::Write as _;

use super::{
    live_tests::{MEASURES, truths_of},
    matrix::Run,
    measured::Measured,
    results::Outcome,
    store::Stored,
};

/// Nothing in it depends on when or where the tests ran.
const HEAD: &str = "\
# Kernels

<!-- Made by `cargo xtask vmtest`; do not edit it: xtask/src/vmtest/docs.rs. -->

lagstop is tried on these kernels, which are Debian's. Each is booted in a virtual machine, where the live tests that depend on the
kernel are run: they put a known load into cgroups and compare lagstop's figures with the kernel's own. `cargo xtask vmtest` does this and
makes this page ([development.md](development.md#kernels-in-vms)). Virtual machines without KVM show what is counted, not how
long it takes: costs are compared on real machines only.

A cell names the method by which lagstop takes the measure there; [measures.md](measures.md#methods) says what each method
does not see, and `lagstop check` which ones your host has, and why not a better one. Without a remark, every live test that
compares the measure with the truth has passed there, and every other method that the kernel offers for it was tried as well.

";

/// The page. `None` where there is no result.
pub(super) fn page(runs: &[(Run, Option<Stored>)]) -> String {
    let mut page = HEAD.to_owned();
    let mut notes = Notes::default();
    // Writing to a string cannot fail.
    let _ = writeln!(page, "| kernel | CPU | cgroups | live tests | {} |", MEASURES.join(" | "));
    let _ = writeln!(page, "|{}", " --- |".repeat(4 + MEASURES.len()));
    for (run, stored) in runs {
        let Run { kernel, layout } = run;
        let _ = write!(page, "| {} | {} | {} | ", kernel.version, kernel.arch.name(), layout.name());
        let Some(Stored { report, .. }) = stored else {
            let _ = writeln!(page, "not run |{}", " |".repeat(MEASURES.len()));
            continue;
        };
        let _ = write!(page, "{} of {} |", report.count(Outcome::Passed), report.tests.len());
        for measure in MEASURES {
            let cell = match Measured::of(measure, report) {
                Measured::Proven(way) => format!("`{way}`"),
                Measured::Wrong { way, tests } => {
                    format!("`{way}` **not proven**{}", notes.number(format!("Not passed: {}.", code(&tests))))
                }
                Measured::Untested(way) => {
                    format!("`{way}`{}", notes.number("Not all tests of it were run.".to_owned()))
                }
                Measured::Absent(why) => format!("n/a{}", notes.number(why)),
                Measured::Unknown => format!("?{}", notes.number("`lagstop check` gave no answer.".to_owned())),
            };
            let _ = write!(page, " {cell} |");
        }
        page.push('\n');
    }
    page.push('\n');
    for (number, note) in (1..).zip(&notes.0) {
        let _ = writeln!(page, "{number}. {note}");
    }
    failures(&mut page, runs);
    let _ = writeln!(page, "\n## What vouches for what\n\n| measure | live tests |\n| --- | --- |");
    for measure in MEASURES {
        let tests: Vec<_> = truths_of(measure).map(|test| test.name).collect();
        let _ = writeln!(page, "| {measure} | {} |", code(&tests));
    }
    page
}

/// Tests that did not pass, also those that are about no measure.
fn failures(page: &mut String, runs: &[(Run, Option<Stored>)]) {
    let mut lines = String::new();
    for (run, stored) in runs {
        let Some(Stored { report, .. }) = stored else { continue };
        let failed = report.tests.iter().filter(|test| test.outcome != Outcome::Passed);
        let failed: Vec<&str> = failed.map(|test| test.name.as_str()).collect();
        if !failed.is_empty() {
            let Run { kernel, layout } = run;
            let arch = kernel.arch.name();
            let _ = writeln!(lines, "- {}, {arch}, cgroup {}: {}", kernel.version, layout.name(), code(&failed));
        }
    }
    if !lines.is_empty() {
        let _ = write!(page, "\n## Tests that did not pass\n\n{lines}");
    }
}

/// Numbered remarks, each once.
#[derive(Default)]
struct Notes(Vec<String>);

impl Notes {
    fn number(&mut self, note: String) -> String {
        let known = self.0.iter().position(|known| *known == note);
        let index = known.unwrap_or_else(|| {
            self.0.push(note);
            self.0.len() - 1
        });
        format!(" ({})", index + 1)
    }
}

fn code(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vmtest::{live_tests::LIVE_TESTS, matrix, measured::tests::report};

    fn ways(pick: Option<&'static str>) -> Vec<(&'static str, Option<&'static str>, &'static str)> {
        MEASURES
            .map(|measure| if measure == "pick" { (measure, pick, "gone") } else { (measure, Some("way"), "") })
            .into()
    }

    #[test]
    fn every_kernel_has_a_row_and_every_remark_is_there_once() {
        let runs = matrix::named(&["6.1", "6.12", "6.12-v1", "7.2"].map(str::to_owned)).unwrap();
        let stored = |pick, failed: &[&str]| {
            Some(Stored { version: String::new(), build: String::new(), report: report(&ways(pick), failed) })
        };
        let results = [
            stored(Some("fentry"), &[]),
            stored(None, &[]),
            stored(None, &["migrations_agree_with_proc", "top_leaves_the_terminal_as_it_was"]),
            None,
        ];
        let page = page(&runs.into_iter().zip(results).collect::<Vec<_>>());
        let all = LIVE_TESTS.len();
        let row = |start: &str| page.lines().find(|line| line.starts_with(start)).unwrap().to_owned();
        assert!(
            row("| 6.1.").ends_with(&format!(
                "| {all} of {all} | `way` | `way` | `fentry` |{}",
                " `way` |".repeat(MEASURES.len() - 3)
            )),
            "{page}"
        );
        assert!(row("| 6.12.").contains("| n/a (1) |"), "{page}");
        let v1 = format!("| v1 | {} of {all} | `way` **not proven** (2) | `way` | n/a (1) |", all - 2);
        assert!(page.contains(&v1), "{page}");
        assert!(page.contains("\n1. gone\n2. Not passed: `migrations_agree_with_proc`.\n"), "{page}");
        assert!(
            page.contains("cgroup v1: `migrations_agree_with_proc`, `top_leaves_the_terminal_as_it_was`\n"),
            "{page}"
        );
        assert!(row("| 7.2.").contains("| not run | | |"), "{page}");
        let columns = |line: &str| line.matches('|').count();
        let table: Vec<&str> = page.lines().skip_while(|line| !line.starts_with("| kernel")).take(6).collect();
        assert!(table.iter().all(|line| columns(line) == columns(table[0])), "{table:#?}");
    }
}
