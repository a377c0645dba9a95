//! The commands, as a user runs them.

use std::{
    collections::HashSet,
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use lagstop::{
    model::Interval,
    recording::{Footer, Line},
};
use rustix::process::{Pid, Signal, kill_process};

use crate::{
    Test,
    fixture::{Load, TestCgroup, assert_equal_but_for_edges, assert_within, eventually},
};

pub(crate) const TESTS: &[Test] = &[
    ("record_names_200_busy_cgroups_and_their_costs_add_up", two_hundred),
    ("record_ends_whole_on_sigint_and_sigterm", signals),
    ("record_ends_in_silence_when_its_reader_goes", reader_goes),
    ("a_recording_that_was_killed_is_whole_lines", killed),
    ("throttling_agrees_with_cpu_stat", throttling),
];

const LAGSTOP: &str = env!("CARGO_BIN_EXE_lagstop");

fn lines(path: &Path) -> Vec<Line> {
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {line}"))).collect()
}

fn intervals(lines: &[Line]) -> Vec<&Interval> {
    lines.iter().filter_map(|line| if let Line::Interval(interval) = line { Some(&**interval) } else { None }).collect()
}

fn footer(lines: &[Line]) -> &Footer {
    match lines.last() {
        Some(Line::Footer(footer)) => footer,
        other => panic!("no footer but {other:?}"),
    }
}

/// Starts to record, and waits until it does.
fn record(arguments: &[&str]) -> Child {
    let mut child = Command::new(LAGSTOP).arg("record").args(arguments).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    stderr.read_line(&mut line).unwrap();
    assert!(line.starts_with("recording"), "{line}");
    // Else it would be told that nobody reads it.
    thread::spawn(move || stderr.lines().for_each(drop));
    child
}

fn two_hundred() {
    const CGROUPS: usize = 200;
    let home = tempfile::tempdir().unwrap();
    let output = home.path().join("200.jsonl");
    let parent = TestCgroup::new("dense");
    let cgroups: Vec<TestCgroup> = (0..CGROUPS).map(|n| parent.child(&format!("func-{n}"))).collect();
    let mut loads: Vec<Load> = cgroups.iter().map(|cgroup| cgroup.start("nap 4000")).collect();
    loads.iter_mut().for_each(|load| drop(load.line()));
    loads.iter_mut().for_each(Load::go);
    let status = record(&["--duration", "3s", "--output", output.to_str().unwrap()]).wait().unwrap();
    assert!(status.success());

    let lines = lines(&output);
    assert!(matches!(lines.first(), Some(Line::Header { schema: 1, .. })));
    let intervals = intervals(&lines);
    assert_eq!(footer(&lines).intervals, intervals.len() as u64);
    let named: HashSet<&str> = intervals.iter().flat_map(|i| &i.cgroups).map(|cgroup| &*cgroup.path).collect();
    let missing = cgroups.iter().filter(|cgroup| !named.contains(&*cgroup.path)).count();
    assert_eq!(missing, 0, "of {CGROUPS} cgroups");
    // The time of the CPUs, by the programs' clock, is that of the intervals. The reader may be kept waiting between the
    // two clocks at either end.
    let of_cpus: u64 = intervals.iter().map(|interval| interval.host.capacity().0).sum();
    let of_clock: u64 = intervals.iter().map(|interval| interval.duration_ns.0 * interval.host.cpus_online).sum();
    assert_within("time of the CPUs", of_cpus, of_clock, 5.0);
    for interval in intervals {
        let host = &interval.host;
        let sum = |figure: &dyn Fn(&lagstop::model::Totals) -> u64| {
            interval.cgroups.iter().map(|cgroup| figure(&cgroup.totals)).sum::<u64>()
        };
        assert_eq!(host.totals.switches, sum(&|t| t.switches) + host.idle.switches);
        assert_eq!(host.totals.pick_ns.unwrap().0, sum(&|t| t.pick_ns.unwrap().0) + host.idle.pick_ns.unwrap().0);
        assert_eq!(host.totals.swap_ns.unwrap().0, sum(&|t| t.swap_ns.unwrap().0) + host.idle.swap_ns.unwrap().0);
        assert_eq!(host.totals.runq_wait_ns.unwrap().0, sum(&|t| t.runq_wait_ns.unwrap().0));
        println!(
            "{} cgroups, {} switches at {}, overhead {:.2} %, lost {:?}",
            interval.cgroups.len(),
            host.totals.switches,
            host.mean_switch_cost().unwrap(),
            host.overhead().unwrap() * 100.0,
            host.lost,
        );
    }
}

fn signals() {
    for signal in [Signal::INT, Signal::TERM] {
        let output = tempfile::NamedTempFile::new().unwrap();
        let path = output.path().to_str().unwrap();
        let mut child = record(&["--interval", "200ms", "--output", path]);
        thread::sleep(Duration::from_millis(700));
        kill_process(Pid::from_child(&child), signal).unwrap();
        assert!(child.wait().unwrap().success());
        let lines = lines(output.path());
        assert_eq!(footer(&lines).reason, "interrupted");
        let intervals = intervals(&lines);
        let measured: u64 = intervals.iter().map(|interval| interval.duration_ns.0).sum();
        assert!(measured > 650_000_000, "the last part is there too: {measured} ns in {} intervals", intervals.len());
    }
}

fn reader_goes() {
    let mut child = Command::new(LAGSTOP)
        .args(["record", "--interval", "100ms", "--duration", "20s"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("\"kind\":\"header\""));
    // The reader is dropped with the line above.
    let mut status = None;
    eventually("the end", || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    assert!(status.unwrap().success());
    let stderr = std::io::read_to_string(child.stderr.take().unwrap()).unwrap();
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
}

fn killed() {
    let output = tempfile::NamedTempFile::new().unwrap();
    let mut child = record(&["--interval", "50ms", "--output", output.path().to_str().unwrap()]);
    thread::sleep(Duration::from_millis(600));
    child.kill().unwrap();
    child.wait().unwrap();
    let text = fs::read_to_string(output.path()).unwrap();
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let lines: Vec<Line> = whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.len() >= 8, "{} lines", lines.len());
    assert!(!lines.iter().any(|line| matches!(line, Line::Footer(_))));
}

fn throttling() {
    let cgroup = TestCgroup::new("quota");
    cgroup.limit_to_half_a_cpu();
    let output = tempfile::NamedTempFile::new().unwrap();
    let mut load = cgroup.start("spin 4000");
    load.line();
    load.go();
    thread::sleep(Duration::from_millis(200));
    let mut child = record(&["--duration", "3s", "--output", output.path().to_str().unwrap()]);
    let before = cgroup.throttling();
    child.wait().unwrap();
    let after = cgroup.throttling();
    let lines = lines(output.path());
    // The first interval has no reading before it.
    let of = |figure: fn(&lagstop::model::Cgroup) -> Option<u64>| -> u64 {
        let all = intervals(&lines).into_iter().flat_map(|interval| &interval.cgroups);
        all.filter(|found| *found.path == *cgroup.path).filter_map(figure).sum()
    };
    assert!(after.1 > before.1, "the load was to be throttled");
    // Periods of 20 ms: one interval more or less is 50 of them.
    assert_equal_but_for_edges("periods", of(|c| c.nr_periods), after.0 - before.0, 55);
    assert_equal_but_for_edges("throttled periods", of(|c| c.nr_throttled), after.1 - before.1, 55);
    assert!(of(|c| c.nr_throttled) > 50);
}
