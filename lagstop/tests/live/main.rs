//! Does lagstop tell the truth? Each test puts a known load into cgroups of its own and compares with figures that
//! lagstop did not make. They need root and the running kernel; without, they count as ignored, and say so.

#![expect(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "tests fail by panicking")]

mod accounting;
mod attached;
mod benchmark;
mod cgroups;
mod churn;
mod command;
mod cpus;
mod dashboard;
mod disruption;
mod files;
mod findings;
mod fixture;
mod kernel_files;
mod load;
mod looks;
mod outputs;
mod pods;
mod privileges;
mod recorder;
mod rotation;
mod screen;
mod serving;
mod sockets;
mod terminal;
mod trying;
mod ways;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};

/// A test: fails by panicking.
type Test = (&'static str, fn());

fn main() -> ExitCode {
    // The same binary is the load: processes that the tests start.
    if let Some(load) = std::env::args().skip_while(|argument| argument != load::FLAG).nth(1) {
        return if load == load::PANICS { screen::panics() } else { load::run(&load) };
    }
    let mut arguments = Arguments::from_args();
    // They measure: one at a time.
    arguments.test_threads = Some(1);
    let why_not = fixture::why_not();
    if let (Some(why), false) = (&why_not, arguments.list) {
        eprintln!("\n*** LIVE TESTS SKIPPED: {why}. Nothing below says that lagstop measures right. ***\n");
    }
    if !disruption::may_disrupt() && !arguments.list {
        eprintln!("*** SKIPPED: others may be on this machine. LAGSTOP_TEST_DISRUPT=1 tries what they would feel ***");
    }
    let is_ignored = |test: &str| {
        why_not.is_some()
            || !disruption::may_disrupt() && disruption::TESTS.iter().any(|(disruptive, _)| *disruptive == test)
    };
    let trials = [
        accounting::TESTS,
        attached::TESTS,
        benchmark::TESTS,
        cgroups::TESTS,
        churn::TESTS,
        command::TESTS,
        cpus::TESTS,
        dashboard::TESTS,
        disruption::TESTS,
        files::TESTS,
        findings::TESTS,
        looks::TESTS,
        outputs::TESTS,
        pods::TESTS,
        privileges::TESTS,
        rotation::TESTS,
        screen::TESTS,
        serving::TESTS,
        sockets::TESTS,
        trying::TESTS,
        ways::TESTS,
    ]
    .concat()
    .into_iter()
    .map(|(name, test): Test| {
        let run = move || {
            test();
            Ok::<(), Failed>(())
        };
        Trial::test(name, run).with_ignored_flag(is_ignored(name))
    });
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}
