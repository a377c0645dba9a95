//! `lagstop diff` over recordings that are made up.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::{path::Path, process::Command};

use lagstop::{
    model::{Cgroup, CgroupId, Host, HostTimes, Idle, Interval, Nanos, Session, Totals},
    recording::{Footer, Line, SCHEMA, Writer},
};
use tempfile::{NamedTempFile, TempDir};

/// A recording in which a switch costs about this much.
fn recording(started_at: &str, cost: u64, footer: bool) -> NamedTempFile {
    let file = NamedTempFile::new().unwrap();
    let mut writer = Writer::to_file(file.reopen().unwrap());
    let session = Session { started_at: started_at.to_owned(), hostname: "h".to_owned(), ..Session::default() };
    writer.write(&Line::Header { schema: SCHEMA, session }).unwrap();
    for seq in 0..40 {
        let each = cost + seq * 7 % 11 * 20;
        let totals = Totals {
            switches: 1_000,
            cpu_ns: Nanos(300_000_000),
            pick_ns: Some(Nanos(each * 700)),
            kept_ns: Some(Nanos(0)),
            swap_ns: Some(Nanos(each * 300)),
            ..Totals::default()
        };
        let idle = Idle { pick_ns: Some(Nanos(0)), swap_ns: Some(Nanos(0)), ..Idle::default() };
        let cgroups = (0..12).map(|n| Cgroup {
            id: CgroupId(n + 2),
            path: format!("/service-{n}").into(),
            totals: Totals { switches: 80, ..totals },
            ..Cgroup::default()
        });
        let interval = Interval {
            seq,
            start_ns: Nanos(seq * Nanos::SECOND.0),
            duration_ns: Nanos::SECOND,
            switch_cost_way: Some("tracepoints".into()),
            host: Host {
                totals,
                idle,
                times: HostTimes { busy_ns: Nanos(300_000_000), idle_ns: Nanos(700_000_000), steal_ns: None },
                ..Host::default()
            },
            cgroups: cgroups.collect(),
            ..Interval::default()
        };
        writer.write(&Line::Interval(Box::new(interval))).unwrap();
    }
    if footer {
        writer.write(&Line::Footer(Footer::default())).unwrap();
    }
    file
}

/// Exit code, standard output, standard error.
fn diff(args: &[&str], files: [&Path; 2]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_lagstop")).arg("diff").args(args).args(files).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn a_change_is_told_and_can_fail() {
    let (before, after) =
        (recording("2026-01-01T00:00:00Z", 4_000, true), recording("2026-01-02T00:00:00Z", 4_400, false));
    let (code, text, said) = diff(&[], [before.path(), after.path()]);
    assert_eq!((code, said.as_str()), (Some(0), ""));
    assert!(
        text.starts_with(
            "On the host, worse: overhead, mean switch cost; less: effective utilisation. Cgroups in both: 12, of"
        ),
        "{text}"
    );
    assert!(text.contains("The second recording was cut off") && !text.contains('\u{1b}'), "{text}");
    assert!(text.contains("Not listed, in both recordings: 2, 2 of them changed. --all lists them."), "{text}");

    assert!(!diff(&["--all"], [before.path(), after.path()]).1.contains("Not listed"));
    assert_eq!(diff(&["--fail-on", "worse"], [before.path(), after.path()]).0, Some(3));
    let (code, text, _) = diff(&["--fail-on", "worse"], [after.path(), before.path()]);
    assert_eq!(code, Some(0));
    assert!(text.contains("better: overhead") && text.contains("after the second"), "{text}");
}

#[test]
fn programs_get_everything() {
    let (before, after) =
        (recording("2026-01-01T00:00:00Z", 4_000, true), recording("2026-01-02T00:00:00Z", 4_000, true));
    let json = |args: &[&str]| -> serde_json::Value {
        let args = [&["--format", "json"], args].concat();
        serde_json::from_str(&diff(&args, [before.path(), after.path()]).1).unwrap()
    };
    let all = json(&[]);
    assert_eq!(all["schema"], "lagstop.diff/1");
    assert_eq!(all["verdict"], "On the host, no significant change. Cgroups in both: 12, no significant change.");
    assert_eq!((all["cgroups"].as_array().unwrap().len(), &all["is_worse"]), (12, &false.into()));
    assert_eq!(all["host"][0]["verdict"], "no_significant_change");
    assert_eq!(all, json(&["--seed", "1"]), "it is the same every time");
    assert_eq!(json(&["--rows", "3"])["cgroups"].as_array().unwrap().len(), 3);
}

#[test]
fn what_cannot_be_read_is_named() {
    let good = recording("2026-01-01T00:00:00Z", 4_000, true);
    let home = TempDir::new().unwrap();
    let (code, text, said) = diff(&[], [good.path(), &home.path().join("none")]);
    assert_eq!((code, text.as_str()), (Some(1), ""));
    assert!(said.starts_with("lagstop: ") && said.contains("none: cannot open it"), "{said}");
    assert_eq!(diff(&["--confidence", "95"], [good.path(), good.path()]).0, Some(2));
}
