//! The commands, as a user runs them.

use std::{
    collections::HashSet,
    fs,
    io::{BufRead, BufReader},
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use lagstop::{
    model::{Cgroup, Interval, Nanos},
    recording::{Footer, Line, SCHEMA},
};
use rustix::process::{Pid, Signal, kill_process};

use crate::{
    Test,
    fixture::{Load, TestCgroup, assert_within, eventually, is_slow},
    recorder::Recorder,
    terminal::Terminal,
};

pub(crate) const TESTS: &[Test] = &[
    ("record_names_200_busy_cgroups_and_their_costs_add_up", two_hundred),
    ("throttling_agrees_with_cpu_stat", throttling),
    ("pressure_agrees_with_cpu_pressure", pressure),
    ("cgroups_come_and_go_in_a_table_that_is_smaller_than_their_number", churn),
    ("diagnose_reports_on_the_running_host", diagnosis),
    ("a_refused_recording_leaves_files_as_they_were", refused),
];
/// They run side by side.
pub(crate) const BESIDE: &[Test] = &[
    ("record_ends_whole_on_sigint_and_sigterm", signals),
    ("record_ends_in_silence_when_its_reader_goes", reader_goes),
    ("a_recording_that_was_killed_is_whole_lines", killed),
    ("top_leaves_the_terminal_as_it_was", top),
    ("a_standard_error_that_nobody_reads_is_no_matter", deaf),
];

/// The program under test: where cargo built it, unless it was moved since.
pub(crate) fn lagstop() -> PathBuf {
    std::env::var_os("LAGSTOP_BIN").map_or_else(|| env!("CARGO_BIN_EXE_lagstop").into(), PathBuf::from)
}

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

fn two_hundred() {
    const CGROUPS: usize = 200;
    let home = tempfile::tempdir().unwrap();
    let output = home.path().join("200.jsonl");
    let parent = TestCgroup::new("dense");
    let cgroups: Vec<TestCgroup> = (0..CGROUPS).map(|n| parent.child(&format!("func-{n}"))).collect();
    // Until they are killed: on a slow machine, attaching beside so many loads takes its time.
    let mut loads: Vec<Load> = cgroups.iter().map(|cgroup| cgroup.start("nap 600000")).collect();
    loads.iter_mut().for_each(|load| drop(load.line()));
    loads.iter_mut().for_each(Load::go);
    let (status, said) = Recorder::start(&["--duration", "3s", "--output", output.to_str().unwrap()]).end();
    assert!(status.success(), "{said}");

    let lines = lines(&output);
    assert!(matches!(lines.first(), Some(Line::Header { schema: SCHEMA, .. })));
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
        let mut recorder = Recorder::start(&["--interval", "200ms", "--output", path]);
        thread::sleep(Duration::from_millis(700));
        recorder.signal(signal);
        assert!(recorder.end().0.success());
        let lines = lines(output.path());
        assert_eq!(footer(&lines).reason, "interrupted");
        let intervals = intervals(&lines);
        let measured: u64 = intervals.iter().map(|interval| interval.duration_ns.0).sum();
        assert!(measured > 650_000_000, "the last part is there too: {measured} ns in {} intervals", intervals.len());
    }
}

fn reader_goes() {
    let mut child = Command::new(lagstop())
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
    let mut recorder = Recorder::start(&["--interval", "50ms", "--output", output.path().to_str().unwrap()]);
    let text = || fs::read_to_string(output.path()).unwrap();
    eventually("some intervals", || text().lines().count() > 8);
    recorder.signal(Signal::KILL);
    recorder.end();
    let text = text();
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let lines: Vec<Line> = whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(!lines.iter().any(|line| matches!(line, Line::Footer(_))));
}

fn throttling() {
    let cgroup = TestCgroup::new("quota");
    cgroup.limit_to_half_a_cpu();
    let output = tempfile::NamedTempFile::new().unwrap();
    // Until it is killed: attaching may take longer than the recording.
    let mut load = cgroup.start("spin 60000");
    load.line();
    load.go();
    thread::sleep(Duration::from_millis(300));
    let (before, started) = (cgroup.throttling(), Instant::now());
    let path = output.path().to_str().unwrap();
    Recorder::start(&["--duration", "3s", "--interval", "500ms", "--output", path]).end();
    let (after, took) = (cgroup.throttling(), started.elapsed());
    let lines = lines(output.path());
    // In an interval before which the cgroup was not seen to run, what is new in the kernel's figures is not known.
    let known: Vec<(&Interval, &Cgroup)> = intervals(&lines)
        .into_iter()
        .flat_map(|interval| interval.cgroups.iter().map(move |found| (interval, found)))
        .filter(|(_, found)| *found.path == *cgroup.path && found.files.nr_periods.is_some())
        .collect();
    let sum = |figure: fn(&Cgroup) -> Option<u64>| known.iter().filter_map(|(_, found)| figure(found)).sum::<u64>();
    let recorded: u64 = known.iter().map(|(interval, _)| interval.duration_ns.0).sum();
    assert!(recorded > 1_000_000_000, "throttling is known for {recorded} ns in {} intervals", known.len());
    // What the kernel says holds the start and the end of the recording too, in periods of 20 ms.
    let edges = (took.as_nanos() as u64 - recorded) / 20_000_000 + 5;
    let (periods, throttled) = (sum(|c| c.files.nr_periods), sum(|c| c.files.nr_throttled));
    println!("measured {periods} periods, {throttled} throttled, {edges} at the edges; {before:?} to {after:?}");
    assert!(after.1 - before.1 > 50, "the load was to be throttled");
    assert!(periods <= after.0 - before.0 && periods + edges >= after.0 - before.0);
    assert!(throttled <= after.1 - before.1 && throttled + edges >= after.1 - before.1);
    // A period in which it does not get to run at all, as on a crowded host, does not count.
    let most = recorded / 20_000_000 + 2 * known.len() as u64;
    assert!((most / 3..=most).contains(&periods), "{periods} periods in {recorded} ns");
    // One task that spins is throttled on one CPU at a time: at the edges for no longer than they are.
    let time = sum(|c| c.files.throttled_ns.map(|time| time.0));
    let kernel = after.2 - before.2;
    let at_edges = took.as_nanos() as u64 - recorded;
    println!("{time} ns throttled of {kernel}, {at_edges} ns at the edges");
    assert!(time <= kernel && time + at_edges >= kernel);
}

/// Three tasks that want one CPU.
fn pressure() {
    let cgroup = TestCgroup::new("pressure");
    let Some((Some(_), _)) = cgroup.pressure() else {
        println!("SKIPPED: the kernel has no cpu.pressure of cgroups here");
        return;
    };
    let output = tempfile::NamedTempFile::new().unwrap();
    let path = output.path().to_str().unwrap().to_owned();
    let mut load = cgroup.start("crowd 0 3 60000");
    load.line();
    load.go();
    thread::sleep(Duration::from_millis(300));
    let before = cgroup.pressure().unwrap();
    let started = Instant::now();
    let flags = ["--group-by", "leaf", "--duration", "3s", "--interval", "500ms", "--output", &path];
    Recorder::start(&flags).end();
    let (after, took) = (cgroup.pressure().unwrap(), started.elapsed().as_nanos() as u64);
    let lines = lines(output.path());
    let known: Vec<(&Interval, &Cgroup)> = intervals(&lines)
        .into_iter()
        .flat_map(|interval| interval.cgroups.iter().map(move |found| (interval, found)))
        .filter(|(_, found)| *found.path == *cgroup.path && found.files.pressure_some_ns.is_some())
        .collect();
    let recorded: u64 = known.iter().map(|(interval, _)| interval.duration_ns.0).sum();
    assert!(recorded > 1_000_000_000, "pressure is known for {recorded} ns in {} intervals", known.len());
    let edges = took - recorded;
    let compare = |what: &str, of: fn(&Cgroup) -> Option<Nanos>, before: Option<u64>, after: Option<u64>| {
        let (Some(before), Some(after)) = (before, after) else {
            println!("SKIPPED: the kernel does not say {what} of CPUs");
            return;
        };
        let measured: u64 = known.iter().filter_map(|(_, found)| of(found)).map(|time| time.0).sum();
        let kernel = after - before;
        println!("{what}: {measured} ns of {kernel}, {edges} ns at the edges; {recorded} ns recorded");
        let each = known.iter().map(|(interval, found)| (interval.duration_ns.0, of(found).map(|time| time.0)));
        println!("{what}, of each interval: {:?}", each.collect::<Vec<_>>());
        // The file is read a moment after the clock is, in the first interval and in the last.
        let moment = recorded / 200;
        assert!(measured <= kernel + moment && measured + edges + moment >= kernel, "{what}");
        assert!(measured <= recorded + recorded / 50, "{what}: more than the time there was");
    };
    compare("some", |found| found.files.pressure_some_ns, before.0, after.0);
    compare("full", |found| found.files.pressure_full_ns, before.1, after.1);
    let some: u64 = known.iter().filter_map(|(_, found)| found.files.pressure_some_ns).map(|time| time.0).sum();
    assert!(some > recorded / 2, "of three that want one CPU two wait: {some} of {recorded} ns");
}

/// Twelve cgroups, one after the other, in a table with room for the root and five more.
fn churn() {
    let output = tempfile::NamedTempFile::new().unwrap();
    let path = output.path().to_str().unwrap();
    let mut recorder = Recorder::start(&["--interval", "100ms", "--max-cgroups", "6", "--output", path]);
    let mut used = Vec::new();
    let spins = if is_slow() { 400 } else { 50 };
    for n in 0..12 {
        let cgroup = TestCgroup::new(&format!("churn{n}"));
        let mut load = cgroup.start(&format!("spin {spins}"));
        load.line();
        load.go();
        load.line();
        drop(load);
        // A task ends for a while after others have heard of it.
        thread::sleep(Duration::from_millis(if is_slow() { 1_000 } else { 200 }));
        used.push((cgroup.path.clone(), cgroup.cpu_ns()));
        drop(cgroup);
        // A row is free some readings after its cgroup is gone.
        thread::sleep(Duration::from_millis(300));
    }
    recorder.interrupt();
    let lines = lines(output.path());
    assert_eq!(footer(&lines).lost.cgroup_overflows, 0);
    for (path, used) in used {
        let all = intervals(&lines).into_iter().flat_map(|interval| &interval.cgroups);
        let cpu_ns: u64 = all.filter(|cgroup| *cgroup.path == *path).map(|cgroup| cgroup.totals.cpu_ns.0).sum();
        // A row that was another cgroup's before would include that one's time too. What the task ran before it joined
        // is included if it has not left the CPU since.
        let most = used + spins * 1_000_000 / 4;
        assert!((used / 100 * 95..most).contains(&cpu_ns), "{path}: {cpu_ns} ns, and the kernel says {used}");
    }
}

/// On a terminal of its own: what it draws, and that it leaves the terminal as it was.
fn top() {
    for ending in [Ending::Key, Ending::Signal(Signal::TERM), Ending::Signal(Signal::HUP)] {
        let mut terminal = Terminal::open();
        let modes = terminal.modes();
        let mut child = terminal.run(Command::new(lagstop()).args(["top", "--interval", "200ms"]));
        eventually("the table", || terminal.shows("switch/s"));
        assert_ne!(terminal.modes(), modes, "keys are read raw");
        match ending {
            Ending::Key => terminal.press(b"q"),
            Ending::Signal(signal) => kill_process(Pid::from_child(&child), signal).unwrap(),
        }
        let mut status = None;
        eventually("the end", || {
            status = child.try_wait().unwrap();
            status.is_some()
        });
        assert!(status.unwrap().success());
        assert_eq!(terminal.modes(), modes);
        eventually("the usual screen", || terminal.shows("\u{1b}[?1049l") && terminal.shows("\u{1b}[?25h"));
    }
}

enum Ending {
    Key,
    Signal(Signal),
}

fn diagnosis() {
    let output = Command::new(lagstop())
        .args(["diagnose", "--duration", "1500ms", "--interval", "200ms", "--format", "json"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let ids: Vec<&str> = report["findings"].as_array().unwrap().iter().map(|f| f["rule"].as_str().unwrap()).collect();
    for id in ["scheduling_overhead", "utilisation", "lags_candidates", "wait_causes"] {
        assert!(ids.contains(&id), "{ids:?}");
    }
    assert!(report["span"]["intervals"].as_u64().unwrap() >= 7);
}

fn refused() {
    let home = tempfile::tempdir().unwrap();
    let (old, new) = (home.path().join("old"), home.path().join("new"));
    fs::write(&old, "precious").unwrap();
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o777)).unwrap();
    fs::set_permissions(&old, fs::Permissions::from_mode(0o666)).unwrap();
    // The program may be where only root may go.
    let program = home.path().join("lagstop");
    fs::copy(lagstop(), &program).unwrap();
    for output in [&old, &new] {
        let ended = Command::new(&program)
            .args(["record", "--duration", "1s", "--force", "--output"])
            .arg(output)
            .uid(65_534)
            .gid(65_534)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(!ended.status.success() && said.contains("CAP_BPF and CAP_PERFMON"), "{said}");
    }
    assert_eq!(fs::read_to_string(&old).unwrap(), "precious");
    assert!(!new.exists());
}

fn deaf() {
    let status = Command::new(lagstop())
        .args(["record", "--duration", "300ms", "--interval", "100ms"])
        .stdout(Stdio::null())
        .stderr(fs::File::options().write(true).open("/dev/full").unwrap())
        .status()
        .unwrap();
    assert!(status.success(), "{status}");
}
