//! What is done with recordings, on the command line.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    fs,
    path::Path,
    process::{Command, Output, Stdio},
};

use lagstop::{model::Interval, recording::Reader};

const FIXTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/dense.jsonl");

fn lagstop(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lagstop"));
    command.args(arguments).env_remove("XDG_CONFIG_HOME").env("HOME", "/nonexistent");
    command.output().unwrap()
}

/// What it said on standard output, when it ended well and said nothing on standard error.
fn done(arguments: &[&str]) -> String {
    let output = lagstop(arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && errors.is_empty(), "{arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// What it said on standard error, when it failed.
fn refused(arguments: &[&str]) -> String {
    let output = lagstop(arguments);
    assert!(!output.status.success() && output.stdout.is_empty(), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// As they are read: what an older lagstop did not write is written as what it stands for.
fn intervals(path: &Path) -> Vec<Interval> {
    let mut reader = Reader::open(path).unwrap();
    (0..reader.len()).map(|n| reader.interval(n).unwrap()).collect()
}

#[test]
fn a_recording_goes_through_all_of_them() {
    let home = tempfile::tempdir().unwrap();
    let at = |name: &str| home.path().join(name).to_str().unwrap().to_owned();
    let (front, back, whole, plain) = (at("front.jsonl.zst"), at("back.zst"), at("whole.zst"), at("plain.jsonl"));
    done(&["cut", FIXTURE, "--to", "4s", "--output", &front]);
    done(&["cut", FIXTURE, "--from", "4s", "--output", &back]);
    done(&["merge", &back, &front, "--output", &whole]);
    done(&["cut", &whole, "--output", &plain]);
    assert_eq!(intervals(Path::new(&plain)), intervals(Path::new(FIXTURE)));

    assert!(done(&["show", &whole]).contains("10 of 1 s, none missing"));
    let shown: serde_json::Value = serde_json::from_str(&done(&["show", &plain, "--format", "json"])).unwrap();
    assert_eq!((&shown["intervals"], &shown["footer"]["intervals"]), (&10.into(), &10.into()));
    let [of_whole, of_fixture] = [&whole, FIXTURE].map(|file| done(&["diagnose", file, "--format", "json"]));
    let findings = |report: &str| serde_json::from_str::<serde_json::Value>(report).unwrap()["findings"].clone();
    assert_eq!(findings(&of_whole), findings(&of_fixture));
    assert_eq!(done(&["export", &whole, "--format", "csv", "--what", "host", "--output", "-"]).lines().count(), 11);

    let some = at("some.zst");
    done(&["cut", FIXTURE, "--cgroups", "pay/*", "--output", &some]);
    assert!(done(&["show", &some]).contains("5 ran; at most 5 at once"));
    let minutes = at("longer.jsonl");
    done(&["merge", FIXTURE, "--interval", "5s", "--output", &minutes]);
    assert_eq!(intervals(Path::new(&minutes)).len(), 2);
}

#[test]
fn nothing_is_overwritten_and_nothing_is_left_half_way() {
    let home = tempfile::tempdir().unwrap();
    let out = home.path().join("out.jsonl");
    let path = out.to_str().unwrap();
    fs::write(&out, "mine").unwrap();
    for arguments in [
        &["cut", FIXTURE, "--output", path][..],
        &["merge", FIXTURE, "--output", path],
        &["export", FIXTURE, "--format", "parquet", "--output", path],
    ] {
        assert!(refused(arguments).contains("overwrite it with --force"), "{arguments:?}");
    }
    assert!(refused(&["cut", FIXTURE, "--cgroups", "nobody", "--output", path, "--force"]).contains("no cgroup"));
    assert!(refused(&["merge", FIXTURE, FIXTURE, "--output", path, "--force"]).contains("Omit one"));
    assert_eq!(fs::read_to_string(&out).unwrap(), "mine");
    done(&["cut", FIXTURE, "--output", path, "--force"]);
    assert_eq!(intervals(&out).len(), 10);
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
}

#[test]
fn mistakes_are_said_with_a_remedy() {
    assert!(refused(&["show", "/not/there"]).contains("Check the path"));
    assert!(refused(&["cut", FIXTURE, "--from", "noon", "--output", "-"]).contains("in UTC"));
    assert!(
        refused(&["cut", FIXTURE, "--from", "1h", "--output", "-"])
            .contains("the recording covers 2026-11-21T12:30:32.637Z")
    );
    assert!(refused(&["diagnose", FIXTURE, "--duration", "1m"]).contains("--duration"));
    assert!(refused(&["merge", FIXTURE, "--interval", "10ms", "--output", "-"]).contains("longer --interval"));
    for arguments in [&["cut", FIXTURE][..], &["export", FIXTURE, "--format", "csv"]] {
        let error = refused(&[arguments, &["--output", "/dev/full"]].concat());
        assert!(
            error.contains("the disk is full: No space left on device. Free some space, or write to another disk"),
            "{error}"
        );
    }
}

#[test]
fn who_has_read_enough_is_not_told_off() {
    for arguments in [&["cut", FIXTURE][..], &["export", FIXTURE, "--format", "csv"], &["merge", FIXTURE]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lagstop"));
        command.args(arguments).args(["--output", "-"]).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{arguments:?}");
    }
}

fn report(arguments: &[&str]) -> serde_json::Value {
    serde_json::from_str(&done(&[&["diagnose", "--format", "json"], arguments].concat())).unwrap()
}

#[test]
fn a_diagnosis_comes_in_every_form() {
    for (format, begins, has) in [
        ("text", "", "cost of scheduling"),
        ("markdown", "# node-17: ", "scheduling_overhead"),
        ("json", "{", "scheduling_overhead"),
        ("html", "<!doctype html>", "scheduling_overhead"),
    ] {
        let written = done(&["diagnose", FIXTURE, "--format", format]);
        assert!(written.starts_with(begins) && written.contains(has), "{format}: {written}");
    }
    let explained = done(&["diagnose", FIXTURE, "--explain", "scheduling_overhead"]);
    for part in ["overhead = ", "(switching_ns + kept_ns) / capacity_ns", "capacity_ns", "arXiv 2508.15703"] {
        assert!(explained.contains(part), "{part}: {explained}");
    }
    assert!(done(&["diagnose", FIXTURE, "--plan", "cpuset"]).contains("No cgroup needs a CPU set"));
    assert!(refused(&["diagnose", FIXTURE, "--explain", "overheads"]).contains("scheduling_overhead"));
}

/// A later lagstop may write fields that this one does not know, in whatever it has. They are skipped, and not kept.
#[test]
fn fields_that_nobody_knows_take_no_memory() {
    let home = tempfile::tempdir().unwrap();
    let text = fs::read_to_string(FIXTURE).unwrap();
    let lines: Vec<&str> = text.lines().take(2).collect();
    let path = home.path().join("unknown.jsonl");
    let zeros = format!("\"unknown\":[{}0],", "0,".repeat(12_000_000));
    for part in ["\"host\":{", "\"cgroups\":[{", "\"cpus\":[{", "\"listeners\":[{"] {
        assert!(lines[1].contains(part), "{part}");
        let interval = lines[1].replacen(part, &format!("{part}{zeros}"), 1);
        fs::write(&path, format!("{}\n{interval}\n", lines[0])).unwrap();
        let mut command = Command::new("sh");
        // The line is 24 MB. Kept, its numbers would be more than 384.
        command.args(["-c", "ulimit -v 400000; exec \"$0\" diagnose \"$1\"", env!("CARGO_BIN_EXE_lagstop")]);
        let output = command.arg(&path).env("HOME", "/nonexistent").output().unwrap();
        assert!(output.status.success(), "{part}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn a_pipeline_is_told_how_bad_it_is() {
    let code = |arguments: &[&str]| lagstop(&[&["diagnose", FIXTURE], arguments].concat()).status.code();
    let critical = ["--threshold", "overhead_critical=0"];
    assert_eq!(code(&critical), Some(0), "nobody asked");
    for least in ["warning", "critical"] {
        assert_eq!(code(&[&critical[..], &["--fail-on", least]].concat()), Some(3), "{least}");
    }
}

#[test]
fn recordings_of_several_hosts_are_a_fleet_and_of_one_host_are_one() {
    let one = report(&[FIXTURE]);
    let twice = report(&[FIXTURE, FIXTURE]);
    let intervals = |report: &serde_json::Value| report["span"]["intervals"].as_u64().unwrap();
    assert_eq!((intervals(&twice), twice["schema"].as_str()), (2 * intervals(&one), Some("lagstop.report/3")));
    assert_eq!(twice["span"]["skipped_intervals"], 0);

    let home = tempfile::tempdir().unwrap();
    let other = home.path().join("other.jsonl");
    fs::write(&other, fs::read_to_string(FIXTURE).unwrap().replacen("node-17", "node-18", 1)).unwrap();
    let other = other.to_str().unwrap();
    let fleet = report(&[other, FIXTURE]);
    assert_eq!(fleet["schema"], "lagstop.hosts/2");
    let names: Vec<_> =
        fleet["hosts"].as_array().unwrap().iter().map(|host| &host["report"]["session"]["hostname"]).collect();
    assert_eq!(names, ["node-17", "node-18"]);
    assert_eq!(fleet["total"]["cpus"], 4);
    for (format, shows) in [("text", "cores lost"), ("markdown", "| node"), ("html", "<svg")] {
        let written = done(&["diagnose", other, FIXTURE, "--format", format]);
        assert!(written.contains(shows) && written.contains("node-18"), "{format}: {written}");
    }
    assert!(refused(&["diagnose", other, FIXTURE, "--plan", "cpuset"]).contains("one host"));
}
