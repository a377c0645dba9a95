//! Does lagstop tell the truth? Each test puts a known load into cgroups of its own and compares with figures that
//! lagstop did not make. They need root and the running kernel; without, they count as ignored, and say so.

#![expect(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "tests fail by panicking")]

mod accounting;
mod assistant;
mod attached;
mod benchmark;
mod blame;
mod cgroups;
mod churn;
mod command;
mod connected;
mod cpus;
mod dashboard;
mod disruption;
mod disturbed;
mod files;
mod findings;
mod fixture;
mod kernel_files;
mod lags;
mod load;
mod looks;
mod outputs;
mod pods;
mod privileges;
mod recorder;
mod rotation;
mod runtimes;
mod scheduling;
mod scheduling_ends;
mod scheduling_host;
mod scheduling_options;
mod scheduling_truth;
mod screen;
mod serving;
mod sockets;
mod terminal;
mod trace;
mod trying;
mod ways;

use std::{
    process::ExitCode,
    sync::{PoisonError, RwLock},
};

use libtest_mimic::{Arguments, Failed, Trial};

/// A test: fails by panicking.
type Test = (&'static str, fn());

/// Tests that run side by side: those of words, files and processes, which compare no figures and load no CPUs.
const AT_A_TIME: usize = 4;
/// Held together by tests that run side by side, and by one alone of all others: those measure, or change what is not
/// their own.
static HOST: RwLock<()> = RwLock::new(());

fn main() -> ExitCode {
    // The same binary is the load: processes that the tests start.
    if let Some(load) = std::env::args().skip_while(|argument| argument != load::FLAG).nth(1) {
        return if load == load::PANICS { screen::panics() } else { load::run(&load) };
    }
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(AT_A_TIME);
    let why_not = fixture::why_not();
    if let (Some(why), false) = (&why_not, arguments.list) {
        eprintln!("\n*** LIVE TESTS SKIPPED: {why}. Nothing below says that lagstop measures right. ***\n");
    }
    if !disruption::may_disrupt() && !arguments.list {
        eprintln!("*** SKIPPED: others may be on this machine. LAGSTOP_TEST_DISRUPT=1 tries what they would feel ***");
    }
    if !arguments.list {
        for (test, _) in runtimes::TESTS {
            if let Some(missing) = runtimes::lacks(test) {
                eprintln!("*** SKIPPED: there is no {missing} here, which {test} needs ***");
            }
        }
    }
    let is_ignored = |test: &str| {
        why_not.is_some()
            || runtimes::lacks(test).is_some()
            || !disruption::may_disrupt() && disruption::TESTS.iter().any(|(disruptive, _)| *disruptive == test)
    };
    let trial = |name: &'static str, test: fn(), turn: fn(fn())| {
        let run = move || {
            turn(test);
            Ok::<(), Failed>(())
        };
        Trial::test(name, run).with_ignored_flag(is_ignored(name))
    };
    let beside = [
        attached::TESTS,
        command::BESIDE,
        connected::BESIDE,
        disturbed::BESIDE,
        files::BESIDE,
        outputs::BESIDE,
        privileges::TESTS,
        rotation::BESIDE,
        screen::BESIDE,
        serving::BESIDE,
    ]
    .concat();
    let alone = [
        accounting::TESTS,
        assistant::TESTS,
        benchmark::TESTS,
        blame::TESTS,
        cgroups::TESTS,
        churn::TESTS,
        command::TESTS,
        connected::TESTS,
        cpus::TESTS,
        dashboard::TESTS,
        disruption::TESTS,
        disturbed::TESTS,
        files::TESTS,
        findings::TESTS,
        looks::TESTS,
        outputs::TESTS,
        pods::TESTS,
        rotation::TESTS,
        runtimes::TESTS,
        scheduling::TESTS,
        scheduling_ends::TESTS,
        scheduling_host::TESTS,
        scheduling_options::TESTS,
        scheduling_truth::TESTS,
        screen::TESTS,
        serving::TESTS,
        sockets::TESTS,
        trying::TESTS,
        ways::TESTS,
    ]
    .concat();
    // In this order: a test that waits for the host to itself would keep others waiting.
    let beside = beside.into_iter().map(|(name, test): Test| trial(name, test, side_by_side));
    let alone = alone.into_iter().map(|(name, test): Test| trial(name, test, by_itself));
    let trials = beside.chain(alone).collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn side_by_side(test: fn()) {
    let _host = HOST.read().unwrap_or_else(PoisonError::into_inner);
    test();
}

fn by_itself(test: fn()) {
    let _host = HOST.write().unwrap_or_else(PoisonError::into_inner);
    test();
}
