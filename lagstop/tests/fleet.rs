//! `lagstop fleet` against servers: a small made-up one that misbehaves, and a real Prometheus over a backfilled fleet, where
//! Debian's package `prometheus` is installed; without, that counts as ignored, and says so.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

#[path = "fleet/fake.rs"]
mod fake;
#[path = "fleet/prometheus.rs"]
mod prometheus;
#[path = "fleet/tls.rs"]
mod tls;

use std::process::{Command, ExitCode, Output};

use libtest_mimic::{Arguments, Failed, Trial};

/// What the command says.
fn fleet(url: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lagstop"));
    command.args(["fleet", "--prometheus", url]).args(arguments);
    command.env_remove("XDG_CONFIG_HOME").env_remove("LAGSTOP_PROMETHEUS_TOKEN").env("HOME", "/nonexistent");
    // The environment's proxies are not for these requests.
    for proxy in ["http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"] {
        command.env_remove(proxy);
    }
    command.output().unwrap()
}

fn done(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn refused(output: &Output) -> String {
    assert!(!output.status.success() && output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let missing = prometheus::missing();
    if let Some(missing) = missing.filter(|_| !arguments.list) {
        eprintln!(
            "\n*** SKIPPED: there is no `{missing}` here (Debian's package `prometheus`). Queries are not tried on a real server. ***\n"
        );
    }
    let trial = |(name, test): (&'static str, fn())| {
        Trial::test(name, move || {
            test();
            Ok::<(), Failed>(())
        })
    };
    let trials = fake::TESTS.into_iter().chain(tls::TESTS).map(trial);
    let real = prometheus::TESTS.into_iter().map(|test| trial(test).with_ignored_flag(missing.is_some()));
    libtest_mimic::run(&arguments, trials.chain(real).collect()).exit_code()
}
