//! `record --attach-cmd`: what the command's end is, and what is left of it.

use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use lagstop::{host::Hierarchy, kernel::Btf, model::GroupBy};
use rustix::{
    fs::{CWD, FileType, Mode, mknodat},
    process::{Pid, Signal, kill_process, test_kill_process},
};

use crate::{
    Test,
    command::lagstop,
    fixture::{TestCgroup, eventually},
    recorder::{Recorder, Recording},
};

pub(crate) const TESTS: &[Test] = &[
    ("a_command_is_recorded_in_its_cgroup_and_its_status_is_the_recorders", status),
    ("a_command_is_told_apart_by_its_leaf", leaf),
    ("a_refused_recording_runs_no_command", refused),
    ("a_recorder_interrupted_before_its_command_runs_none", interrupted),
    ("a_recorder_killed_before_its_command_leaves_nothing", killed_before),
    ("a_command_outlives_its_recorder_and_its_cgroup_does_not_outlive_it", killed_after),
    ("what_a_killed_keeper_leaves_is_removed_when_nothing_runs_in_it", swept),
    ("a_full_disk_does_not_end_the_command", full),
];

/// `lagstop record --attach-cmd` with `arguments` before, and a script to run.
fn attach(arguments: &[&str], output: &Path, script: &str) -> Command {
    let mut command = Command::new(lagstop());
    command.args(["record", "--interval", "50ms", "--output"]).arg(output).args(arguments);
    command.args(["--attach-cmd", "--", "sh", "-c", script]);
    command
}

/// The directories of commands' cgroups.
fn directories(group_by: GroupBy) -> BTreeSet<PathBuf> {
    let entries = fs::read_dir(Hierarchy::find(group_by).unwrap().mount).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("lagstop-command-")).collect()
}

/// The directory of the command that `keeper` keeps.
fn directory(group_by: GroupBy, keeper: u32) -> PathBuf {
    Hierarchy::find(group_by).unwrap().mount.join(format!("lagstop-command-{keeper}"))
}

/// The keeper: the child that the recorder has.
fn keeper(recorder: &Recorder) -> Option<u32> {
    let entries = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let mut processes = entries.filter(|pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // What is before the state may hold anything.
        let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
        fields.split(' ').nth(1).and_then(|parent| parent.parse().ok()) == Some(recorder.pid())
    });
    processes.next()
}

fn is_alive(pid: u32) -> bool {
    test_kill_process(Pid::from_raw(pid.cast_signed()).unwrap()).is_ok()
}

/// A named pipe.
fn pipe(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
}

/// A file of the kernel's types that nobody writes: the recorder waits for them, with the command ready.
fn waiting(home: &Path, script: &str) -> (Recorder, u32) {
    let types = home.join("types");
    pipe(&types);
    let recorder = Recorder::run(&mut attach(&["--btf", types.to_str().unwrap()], &home.join("host.jsonl"), script));
    let mut found = None;
    eventually("a keeper with a cgroup", || {
        found = keeper(&recorder);
        found.is_some_and(|keeper| directory(GroupBy::Scheduler, keeper).exists())
    });
    (recorder, found.unwrap())
}

fn status() {
    // So that the scheduler has groups below the root.
    let _beside = TestCgroup::new("beside");
    let home = tempfile::tempdir().unwrap();
    for (end, expected) in [("exit 7", 7), ("kill -9 $$", 137)] {
        let output = home.path().join(format!("{expected}.jsonl"));
        let busy = "n=0; while [ $n -lt 20000 ]; do n=$((n + 1)); done";
        let script = format!("cat /proc/self/cgroup; {busy}; {end}");
        let ended = attach(&[], &output, &script).stderr(Stdio::null()).output().unwrap();
        assert_eq!(ended.status.code(), Some(expected));
        let path = path_in(&String::from_utf8(ended.stdout).unwrap());
        let recording = Recording::read(&output);
        assert_eq!(recording.reason(), "the command ended");
        let seen = recording.intervals.iter().flat_map(|interval| &interval.cgroups).filter(|seen| *seen.path == *path);
        let cpu_ns: u64 = seen.map(|seen| seen.totals.cpu_ns.0).sum();
        println!("{path}: {cpu_ns} ns in {} intervals", recording.intervals.len());
        if cpu_ns < 1_000_000 {
            let all = recording.intervals.iter().flat_map(|interval| &interval.cgroups);
            all.for_each(|seen| println!("{}: {} ns", seen.path, seen.totals.cpu_ns.0));
            panic!("{path}: {cpu_ns} ns, {:?}", recording.footer);
        }
        assert!(!directories(GroupBy::Scheduler).iter().any(|left| left.ends_with(&path[1..])), "{path} is left");
    }
    let mut missing = Command::new(lagstop());
    missing.args(["record", "--output"]).arg(home.path().join("missing.jsonl"));
    let ended = missing.args(["--attach-cmd", "--", "/not/there"]).output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(127));
    assert!(said.contains("/not/there: command not found"), "{said}");
}

/// The path of the cgroup that a command said it was in.
fn path_in(said: &str) -> String {
    let path = said.lines().find_map(|line| Some(&line[line.find("/lagstop-command-")?..]));
    path.unwrap_or_else(|| panic!("no cgroup of its own in {said}")).to_owned()
}

fn leaf() {
    if Hierarchy::find(GroupBy::Leaf).is_err() {
        println!("no unified hierarchy here: the scheduler's is the only one");
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let output = home.path().join("host.jsonl");
    let script = "grep ^0: /proc/self/cgroup; n=0; while [ $n -lt 20000 ]; do n=$((n + 1)); done";
    let ended = attach(&["--group-by", "leaf"], &output, script).stderr(Stdio::null()).output().unwrap();
    assert!(ended.status.success());
    let path = path_in(&String::from_utf8(ended.stdout).unwrap());
    let recording = Recording::read(&output);
    assert!(recording.intervals.iter().flat_map(|interval| &interval.cgroups).any(|seen| *seen.path == *path));
    assert!(!directories(GroupBy::Leaf).iter().any(|left| left.ends_with(&path[1..])), "{path} is left");
}

fn refused() {
    let home = tempfile::tempdir().unwrap();
    let ran = home.path().join("ran");
    let (mut recorder, keeper) = waiting(home.path(), &format!("touch {}", ran.display()));
    // No kernel has such types.
    fs::write(home.path().join("types"), "nonsense").unwrap();
    let (status, said) = recorder.end();
    assert!(!status.success() && !said.contains("recording to"), "{said}");
    assert!(!directory(GroupBy::Scheduler, keeper).exists() && !ran.exists() && !is_alive(keeper));
    assert!(!home.path().join("host.jsonl").exists());

    let by_hand = Command::new(lagstop())
        .args(["keep-command", "--group-by", "scheduler", "--socket", "9", "--", "touch"])
        .arg(&ran)
        .output()
        .unwrap();
    assert!(!by_hand.status.success() && !ran.exists());
}

fn interrupted() {
    if !Path::new(Btf::VMLINUX).exists() {
        println!("this kernel does not show its types: nothing to wait for");
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let ran = home.path().join("ran");
    let (mut recorder, keeper) = waiting(home.path(), &format!("touch {}", ran.display()));
    recorder.signal(Signal::TERM);
    fs::copy(Btf::VMLINUX, home.path().join("types")).unwrap();
    let (status, said) = recorder.end();
    assert!(!status.success() && said.contains("the command was not run"), "{said}");
    assert!(!directory(GroupBy::Scheduler, keeper).exists() && !ran.exists() && !is_alive(keeper));
    assert!(!home.path().join("host.jsonl").exists());
}

fn killed_before() {
    let home = tempfile::tempdir().unwrap();
    let ran = home.path().join("ran");
    let (recorder, keeper) = waiting(home.path(), &format!("touch {}", ran.display()));
    recorder.signal(Signal::KILL);
    eventually("the end of the keeper", || !is_alive(keeper));
    assert!(!directory(GroupBy::Scheduler, keeper).exists() && !ran.exists());
}

/// A command that runs until it gets a line, or whoever has its standard input is gone.
struct Patient {
    recorder: Recorder,
    keeper: u32,
    input: std::process::ChildStdin,
    output: BufReader<std::process::ChildStdout>,
}

impl Patient {
    fn start(output: &Path) -> Self {
        let script = "echo started; read line || exit; echo $line";
        let mut recorder = Recorder::run(attach(&[], output, script).stdin(Stdio::piped()).stdout(Stdio::piped()));
        let Child { stdin, stdout, .. } = recorder.child();
        let (input, mut output) = (stdin.take().unwrap(), BufReader::new(stdout.take().unwrap()));
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert_eq!(line, "started\n");
        let keeper = keeper(&recorder).unwrap();
        assert!(directory(GroupBy::Scheduler, keeper).exists());
        Self { recorder, keeper, input, output }
    }

    /// Lets it end, and says what it said last.
    fn end(mut self) -> (Recorder, String) {
        self.input.write_all(b"went on\n").unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        (self.recorder, line)
    }
}

fn killed_after() {
    let home = tempfile::tempdir().unwrap();
    let output = home.path().join("host.jsonl");
    let patient = Patient::start(&output);
    let keeper = patient.keeper;
    eventually("an interval", || !Recording::read(&output).intervals.is_empty());
    patient.recorder.signal(Signal::KILL);
    let (mut recorder, line) = {
        // Reaped by it, or the keeper would not be another's yet.
        let mut patient = patient;
        patient.recorder.child().wait().unwrap();
        assert!(is_alive(keeper) && directory(GroupBy::Scheduler, keeper).exists());
        patient.end()
    };
    assert_eq!(line, "went on\n");
    eventually("the end of the keeper", || !is_alive(keeper));
    assert!(!directory(GroupBy::Scheduler, keeper).exists());
    // Standard error was open until the last of them ended.
    let (status, said) = recorder.end();
    assert!(!status.success());
    assert_eq!(said.lines().count(), 2, "a hint, and that it records: {said}");
    assert!(Recording::read(&output).footer.is_none());
}

fn swept() {
    let home = tempfile::tempdir().unwrap();
    let record = |name: &str| {
        let output = home.path().join(name);
        assert!(attach(&[], &output, "true").stderr(Stdio::null()).status().unwrap().success());
    };
    let patient = Patient::start(&home.path().join("first.jsonl"));
    let (keeper, left) = (patient.keeper, directory(GroupBy::Scheduler, patient.keeper));
    kill_process(Pid::from_raw(keeper.cast_signed()).unwrap(), Signal::KILL).unwrap();
    eventually("the end of the keeper", || !is_alive(keeper));
    record("second.jsonl");
    assert!(left.exists(), "the command goes on");
    let (mut recorder, line) = patient.end();
    assert_eq!(line, "went on\n");
    assert!(!recorder.end().0.success());
    let processes = left.join("cgroup.procs");
    eventually("the end of the command", || fs::read_to_string(&processes).is_ok_and(|listed| listed.is_empty()));
    record("third.jsonl");
    assert!(!left.exists());
}

fn full() {
    let home = tempfile::tempdir().unwrap();
    let output = home.path().join("host.jsonl");
    let patient = Patient::start(&output);
    eventually("an interval", || !Recording::read(&output).intervals.is_empty());
    // As good as a full disk.
    fs::remove_file(&output).unwrap();
    eventually("a complaint", || patient.recorder.says("the command continues"));
    let (mut recorder, line) = patient.end();
    assert_eq!(line, "went on\n");
    assert_eq!(recorder.end().0.code(), Some(1));
}
