//! `lagstop trial`: what each policy does to real tasks and cgroups, and that everything is put back, whatever happens.

use std::{
    fs,
    os::unix::process::ExitStatusExt,
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
    thread,
    time::Duration,
};

use lagstop::{host::Hierarchy, model::GroupBy, trial::Attr};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::{
    Test,
    command::lagstop,
    fixture::{Load, TestCgroup, eventually},
    terminal::Terminal,
};

pub(crate) const TESTS: &[Test] = &[
    ("a_trial_without_apply_changes_nothing", dry),
    ("each_policy_does_what_it_says_and_is_undone", policies),
    ("a_trial_that_is_killed_is_put_back_by_its_watchdog", killed),
    ("a_trial_that_is_stopped_is_ended_and_put_back_by_its_watchdog", stopped),
    ("a_trial_whose_terminal_is_stopped_puts_everything_back", unseen),
    ("a_trial_ends_when_its_watchdog_is_killed_or_stopped", unwatched),
    ("a_trial_that_lost_all_its_processes_is_put_back_by_hand", restored),
    ("a_trial_that_is_asked_to_end_puts_everything_back", interrupted),
    ("a_trial_ends_before_anybody_starves", starved),
];

/// A host with light and heavy cgroups, and where the journal is.
struct Host {
    // They go first: there are no cgroups to remove before.
    loads: Vec<Load>,
    light: Vec<TestCgroup>,
    heavy: Vec<TestCgroup>,
    home: TempDir,
}

/// How each thread is scheduled, and what each file says, of all the cgroups.
type State = Vec<(String, String)>;

impl Host {
    fn new(light: &str, heavy: &str) -> Self {
        let cgroups = |what: &str| (0..2).map(|n| TestCgroup::new(&format!("{what}{n}"))).collect::<Vec<_>>();
        let (lights, heavies) = (cgroups("light"), cgroups("heavy"));
        let mut loads: Vec<Load> = lights.iter().map(|cgroup| cgroup.start(light)).collect();
        loads.extend(heavies.iter().map(|cgroup| cgroup.start(heavy)));
        loads.iter_mut().for_each(|load| drop(load.line()));
        loads.iter_mut().for_each(Load::go);
        // Until all threads are there.
        thread::sleep(Duration::from_millis(300));
        Self { light: lights, heavy: heavies, loads, home: tempfile::tempdir().unwrap() }
    }

    fn usual() -> Self {
        Self::new("sparse 120000", "threads 3 120000")
    }

    fn journal(&self) -> PathBuf {
        self.home.path().join("trial.journal")
    }

    fn trial(&self, policy: &str) -> Command {
        self.longer(policy, "2s", "10s")
    }

    fn longer(&self, policy: &str, block: &str, all: &str) -> Command {
        let mut command = Command::new(lagstop());
        let light = format!("/lagstop-test-{}-light*", std::process::id());
        command
            .args(["trial", "--policy", policy, "--light", &light, "--before", "2s", "--block", block, "--for", all]);
        command.args(["--format", "json", "--journal"]).arg(self.journal());
        command
    }

    /// One whose first block with the policy has begun.
    fn changed(&self, policy: &str, before: &State) -> Child {
        let child = self.trial(policy).args(["--apply", "--floor", "0"]).stdout(Stdio::piped()).spawn().unwrap();
        eventually("a change", || self.state() != *before);
        child
    }

    fn directories(&self) -> impl Iterator<Item = PathBuf> {
        let hierarchy = Hierarchy::find(GroupBy::Scheduler).unwrap();
        self.light.iter().chain(&self.heavy).map(move |cgroup| hierarchy.directory(&cgroup.path).unwrap())
    }

    fn state(&self) -> State {
        let mut state = State::new();
        for directory in self.directories() {
            for file in ["cpu.weight", "cpu.shares", "cpu.idle", "cpu.rt_runtime_us"] {
                let Ok(says) = fs::read_to_string(directory.join(file)) else { continue };
                state.push((directory.join(file).display().to_string(), says));
            }
            for tid in tids(&directory) {
                state.push((tid.to_string(), format!("{:?}", Attr::of(tid).unwrap())));
            }
        }
        state
    }

    /// Of the cgroups of a side.
    fn file(&self, of: &[TestCgroup], file: &str) -> Vec<u64> {
        let hierarchy = Hierarchy::find(GroupBy::Scheduler).unwrap();
        let read = |cgroup: &TestCgroup| fs::read_to_string(hierarchy.directory(&cgroup.path).unwrap().join(file));
        of.iter().map(|cgroup| read(cgroup).unwrap().trim().parse().unwrap()).collect()
    }

    fn threads(&self, of: &[TestCgroup]) -> Vec<Attr> {
        let hierarchy = Hierarchy::find(GroupBy::Scheduler).unwrap();
        let tids = of.iter().flat_map(|cgroup| tids(&hierarchy.directory(&cgroup.path).unwrap()));
        tids.filter_map(|tid| Attr::of(tid).ok()).collect()
    }
}

fn tids(directory: &std::path::Path) -> Vec<u32> {
    let lists = ["tasks", "cgroup.threads"].map(|file| fs::read_to_string(directory.join(file)));
    let list = lists.into_iter().find_map(Result::ok).unwrap_or_default();
    list.lines().map(|tid| tid.parse().unwrap()).collect()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn dry() {
    let host = Host::usual();
    let before = host.state();
    let output = host.trial("weight").output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let plan: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(plan["light"].as_array().unwrap().len(), 2, "{plan}");
    assert_eq!(plan["heavy"].as_array().unwrap().len(), 2, "{plan}");
    assert_eq!(plan["changes"].as_array().unwrap().len(), 4, "{plan}");
    assert_eq!(host.state(), before);
    assert!(!host.journal().exists());
}

/// What is to be seen of a policy while it is tried.
fn shows(host: &Host, policy: &str) -> bool {
    let weight = if Hierarchy::find(GroupBy::Scheduler).unwrap().mount.join("cpu.shares").exists() {
        "cpu.shares"
    } else {
        "cpu.weight"
    };
    match policy {
        "weight" => {
            let (light, heavy) = (host.file(&host.light, weight), host.file(&host.heavy, weight));
            light.iter().min() > heavy.iter().max()
        }
        "idle" => host.file(&host.heavy, "cpu.idle").contains(&1) && host.file(&host.light, "cpu.idle") == [0, 0],
        "lags-dynamic" => host.file(&host.heavy, "cpu.idle") == [1, 1],
        "lags-static" => {
            host.threads(&host.light).iter().all(|attr| attr.policy == Attr::RR)
                && host.threads(&host.heavy).iter().all(|attr| attr.policy == Attr::OTHER)
        }
        "slice" => {
            host.threads(&host.light).iter().all(|attr| attr.runtime == 500_000)
                && host.threads(&host.heavy).iter().all(|attr| attr.runtime == 20_000_000)
        }
        _ => unreachable!("{policy}"),
    }
}

fn policies() {
    let host = Host::usual();
    let before = host.state();
    let has_idle = host.directories().next().unwrap().join("cpu.idle").exists();
    let has_slices = Attr::of(0).unwrap().runtime > 0;
    for policy in ["weight", "idle", "lags-dynamic", "lags-static", "slice"] {
        let is_there = match policy {
            "idle" | "lags-dynamic" => has_idle,
            "slice" => has_slices,
            _ => true,
        };
        if !is_there {
            let output = host.trial(policy).arg("--apply").output().unwrap();
            assert!(!output.status.success() && said(&output).contains("it came with"), "{policy}: {}", said(&output));
            continue;
        }
        let child = host.changed(policy, &before);
        eventually(policy, || shows(&host, policy));
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{policy}: {}", said(&output));
        let outcome: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((outcome["pairs"].as_u64(), &outcome["ended"]), (Some(2), &Value::Null), "{outcome}");
        let figures = outcome["figures"].as_array().unwrap();
        let busy = figures.iter().find(|figure| figure["name"] == "busy").unwrap();
        assert!(busy["with"].as_f64().unwrap() > 0.5, "the heavy ones fill the CPUs: {busy}");
        assert_eq!(host.state(), before, "{policy}");
        assert!(!host.journal().exists());
    }
}

fn killed() {
    let host = Host::usual();
    let before = host.state();
    // Soon after the first change, and while changes are made.
    for (policy, later) in [("weight", 0), ("lags-static", 0), ("lags-static", 5), ("weight", 500), ("slice", 1)] {
        if policy == "slice" && Attr::of(0).unwrap().runtime == 0 {
            continue;
        }
        let mut child = host.changed(policy, &before);
        thread::sleep(Duration::from_millis(later));
        child.kill().unwrap();
        child.wait().unwrap();
        eventually("that everything is put back", || host.state() == before && !host.journal().exists());
    }
    // Before anything was changed, and while it is written down.
    for later in [0, 5, 20] {
        let mut child = host.trial("weight").args(["--apply", "--floor", "0"]).stdout(Stdio::null()).spawn().unwrap();
        eventually("the journal", || host.journal().exists());
        thread::sleep(Duration::from_millis(later));
        child.kill().unwrap();
        child.wait().unwrap();
        // Without a watchdog yet, there is a journal without changes.
        thread::sleep(Duration::from_millis(500));
        if host.journal().exists() {
            restore(&host);
        }
        assert_eq!(host.state(), before);
    }
}

fn restore(host: &Host) {
    let mut command = Command::new(lagstop());
    // A hidden option of tests beside it.
    command.args(["trial", "--restore", "--journal"]).arg(host.journal());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert!(!host.journal().exists());
}

/// Children of a process whose command line has this word.
fn child_with(parent: u32, word: &str) -> Option<Pid> {
    let entries =
        fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    entries
        .filter(|pid| fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.contains(word)))
        .find_map(|pid| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            let (_, fields) = stat.rsplit_once(") ")?;
            (fields.split(' ').nth(1)?.parse() == Ok(parent)).then(|| Pid::from_raw(pid)).flatten()
        })
}

/// As with Ctrl-Z: it cannot do anything about it itself.
fn stopped() {
    let host = Host::usual();
    let before = host.state();
    let mut child = host.changed("weight", &before);
    kill_process(Pid::from_child(&child), Signal::STOP).unwrap();
    assert_ne!(host.state(), before, "it was stopped before it put anything back");
    eventually("that everything is put back", || host.state() == before && !host.journal().exists());
    assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
}

/// It tells a terminal how far it is that takes nothing: Ctrl-S.
fn unseen() {
    let host = Host::usual();
    let before = host.state();
    let terminal = Terminal::open();
    let mut command = host.trial("weight");
    command.args(["--apply", "--floor", "0"]);
    let mut child = terminal.run(&mut command);
    eventually("a change", || host.state() != before);
    terminal.stop();
    // What it says meanwhile nobody takes.
    thread::sleep(Duration::from_millis(1_500));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    eventually("that everything is put back", || host.state() == before && !host.journal().exists());
    terminal.go_on();
    assert_eq!(child.wait().unwrap().code(), Some(3), "it ended itself: {}", terminal.last());
}

fn unwatched() {
    let host = Host::usual();
    let before = host.state();
    for signal in [Signal::KILL, Signal::STOP] {
        let child = host.changed("weight", &before);
        let watchdog = child_with(child.id(), "trial-watchdog").unwrap();
        kill_process(watchdog, signal).unwrap();
        // It is waited for at the end.
        eventually("that everything is put back", || host.state() == before);
        let _ = kill_process(watchdog, Signal::CONT);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{}", said(&output));
        assert!(String::from_utf8_lossy(&output.stdout).contains("its watchdog was killed or stopped"));
        assert!(!host.journal().exists());
    }
}

fn restored() {
    let host = Host::usual();
    let before = host.state();
    let mut child = host.changed("weight", &before);
    let other = host.trial("idle").arg("--apply").output().unwrap();
    assert!(!other.status.success() && said(&other).contains("a trial is running already"), "{}", said(&other));
    let watchdog = child_with(child.id(), "trial-watchdog").unwrap();
    // At once, so that neither can do anything about the other.
    for pid in [watchdog, Pid::from_child(&child)] {
        kill_process(pid, Signal::STOP).unwrap();
    }
    for pid in [watchdog, Pid::from_child(&child)] {
        kill_process(pid, Signal::KILL).unwrap();
    }
    child.wait().unwrap();
    assert!(host.state() != before && host.journal().exists());
    let other = host.trial("idle").arg("--apply").output().unwrap();
    assert!(!other.status.success() && said(&other).contains("--restore"), "{}", said(&other));
    restore(&host);
    assert_eq!(host.state(), before);
}

fn interrupted() {
    let host = Host::usual();
    let before = host.state();
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let child = host.changed("weight", &before);
        kill_process(Pid::from_child(&child), signal).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{}", said(&output));
        assert_eq!(host.state(), before);
        assert!(!host.journal().exists());
    }
}

/// The light ones, so called, take all there is.
fn starved() {
    let mut host = Host::new("threads 4 120000", "spin 120000");
    if !host.directories().next().unwrap().join("cpu.idle").exists() {
        println!("no cpu.idle here: nobody starves by a weight");
        return;
    }
    // Heavy is who is above the mean: for that they have to have more than these.
    let more: Vec<Load> = host.heavy.iter().map(|cgroup| cgroup.start("threads 12 120000")).collect();
    host.loads.extend(more);
    let new = host.loads.len() - 2;
    host.loads[new..].iter_mut().for_each(|load| drop(load.line()));
    host.loads[new..].iter_mut().for_each(Load::go);
    thread::sleep(Duration::from_millis(300));
    let before = host.state();
    let mut command = host.longer("lags-dynamic", "4s", "20s");
    let output = command.args(["--apply", "--floor", "0.3", "--patience", "1s"]).output().unwrap();
    let outcome = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(3), "{outcome} {}", said(&output));
    assert!(outcome.contains("wanted to run and got less than 0.3 cores"), "{outcome}");
    assert_eq!(host.state(), before);
}
