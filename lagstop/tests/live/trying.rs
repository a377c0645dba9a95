//! `lagstop trial`: what each policy does to real tasks and cgroups, and that everything is put back, whatever happens.

use std::{
    fs,
    os::unix::process::ExitStatusExt,
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
    thread,
    time::Duration,
};

use lagstop::{
    host::Hierarchy,
    kernel::loaded_scheduler,
    model::{GroupBy, Level},
    trial::Attr,
};
use rustix::{
    process::{Pid, Signal, kill_process},
    time::{ClockId, clock_gettime},
};
use serde_json::Value;
use tempfile::TempDir;

use crate::{
    Test,
    command::lagstop,
    fixture::{Load, TestCgroup, eventually},
    lags::{beside_real_time_tasks, is_back, is_possible, names_real_time, spin_in_real_time, status},
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
    ("what_somebody_else_changed_during_a_trial_stays", theirs),
    ("a_budget_that_somebody_else_uses_meanwhile_stays", needed),
    ("a_trial_is_refused_in_a_pid_namespace", contained),
    ("the_watchdog_of_a_trial_has_a_cgroup_of_its_own_until_it_ends", sheltered),
    ("a_trial_ends_before_anybody_starves", starved),
    ("a_wait_counts_in_the_block_that_it_was_spent_in", where_spent),
    ("a_trial_of_nothing_changes_nothing", placebo),
    ("a_trial_of_lags_gives_the_host_back", lags),
    ("a_trial_of_another_scheduler_ends_its_program", program),
    ("a_trial_of_lags_is_refused_as_lags_is", refused_schedulers),
    ("a_trial_of_another_scheduler_keeps_away_from_real_time_tasks", beside_real_time),
];

/// A host with light and heavy cgroups, and where the journal is.
struct Host {
    // Dropped first, because a cgroup with processes in it cannot be removed.
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
        Self::new("sparse 600000", "threads 3 600000")
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
        command.args([
            "trial",
            "--policy",
            policy,
            "--light",
            &light,
            "--before",
            "2s",
            "--block",
            block,
            "--duration",
            all,
        ]);
        command.args(["--format", "json", "--journal"]).arg(self.journal());
        command
    }

    fn heavy_directories(&self) -> impl Iterator<Item = PathBuf> + use<'_> {
        let hierarchy = Hierarchy::find(GroupBy::Scheduler).unwrap();
        self.heavy.iter().map(move |cgroup| hierarchy.directory(&cgroup.path).unwrap())
    }

    /// A trial whose first block with the policy has begun.
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

    /// What a file says in each of these cgroups.
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

/// The file with a cgroup's weight.
fn weight_file() -> &'static str {
    let is_v1 = Hierarchy::find(GroupBy::Scheduler).unwrap().mount.join("cpu.shares").exists();
    if is_v1 { "cpu.shares" } else { "cpu.weight" }
}

/// What is to be seen of a policy while it is tried.
fn shows(host: &Host, policy: &str) -> bool {
    let weight = weight_file();
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
            assert!(
                !output.status.success() && said(&output).contains(" came with Linux "),
                "{policy}: {}",
                said(&output)
            );
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
    // Killed soon after the first change, and while changes are made.
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
    // Killed before anything was changed, and while the journal is written.
    for later in [0, 5, 20] {
        let mut child = host.trial("weight").args(["--apply", "--floor", "0"]).stdout(Stdio::null()).spawn().unwrap();
        eventually("the journal", || host.journal().exists());
        thread::sleep(Duration::from_millis(later));
        child.kill().unwrap();
        child.wait().unwrap();
        // Where there is no watchdog yet, a journal without changes is left.
        thread::sleep(Duration::from_millis(500));
        if host.journal().exists() {
            restore(&host);
        }
        assert_eq!(host.state(), before);
    }
}

fn restore(host: &Host) {
    let mut command = Command::new(lagstop());
    // `--journal` is a hidden option for tests.
    command.args(["trial", "--restore", "--journal"]).arg(host.journal());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert!(!host.journal().exists());
}

/// A child of a process whose command line has this word.
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

/// As with Ctrl-Z: the trial cannot do anything about it itself.
fn stopped() {
    let host = Host::usual();
    let before = host.state();
    let mut child = host.changed("weight", &before);
    kill_process(Pid::from_child(&child), Signal::STOP).unwrap();
    assert_ne!(host.state(), before, "it was stopped before it put anything back");
    eventually("that everything is put back", || host.state() == before && !host.journal().exists());
    assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
}

/// The terminal that the trial reports its progress to takes nothing, as after Ctrl-S.
fn unseen() {
    let host = Host::usual();
    let before = host.state();
    let terminal = Terminal::open();
    let mut command = host.trial("weight");
    command.args(["--apply", "--floor", "0"]);
    let mut child = terminal.run(&mut command);
    eventually("a change", || host.state() != before);
    terminal.stop();
    // Meanwhile nobody takes the trial's output.
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
        // The trial waits for the watchdog at its end.
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

/// As a kubelet or an operator does: it is neither overwritten, nor an error; and all else is put back.
fn theirs() {
    let host = Host::usual();
    let before = host.state();
    let directory = host.heavy_directories().next().unwrap();
    let weight = directory.join(weight_file());
    let was = fs::read_to_string(&weight).unwrap();
    let says = || fs::read_to_string(&weight).unwrap().trim().to_owned();
    let set_back = || {
        fs::write(&weight, &was).unwrap();
        assert_eq!(host.state(), before, "all else was put back");
    };
    // The trial finds it at its end.
    let child = host.changed("weight", &before);
    eventually("the weight", || says() != was.trim());
    fs::write(&weight, "777").unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let outcome: Value = serde_json::from_slice(&output.stdout).unwrap();
    let left = outcome["changed_by_others"].to_string();
    assert!(left.contains("changed by another program to 777") && left.contains(weight_file()), "{outcome}");
    assert_eq!(says(), "777");
    set_back();
    // The watchdog does.
    let mut child = host.changed("weight", &before);
    eventually("the weight", || says() != was.trim());
    fs::write(&weight, "777").unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    eventually("the end of the journal", || !host.journal().exists());
    assert_eq!(says(), "777");
    set_back();
    // The weight of a cgroup that is idle is lost: the two belong together.
    let idle = directory.join("cpu.idle");
    if idle.exists() {
        let child = host.changed("lags-dynamic", &before);
        eventually("cpu.idle", || fs::read_to_string(&idle).unwrap().trim() == "1");
        fs::write(&idle, "0").unwrap();
        fs::write(&weight, "777").unwrap();
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{}", said(&output));
        assert_eq!(says(), "777");
        set_back();
    }
}

/// The kernel takes no real-time budget from a cgroup with real-time threads.
fn needed() {
    let host = Host::usual();
    let before = host.state();
    let file = |directory: &PathBuf| directory.join("cpu.rt_runtime_us");
    if !host.directories().any(|directory| file(&directory).exists()) {
        println!("no real-time budgets of cgroups here");
        return;
    }
    let has_budget = |directory: &PathBuf| fs::read_to_string(file(directory)).unwrap().trim() != "0";
    let child = host.changed("lags-static", &before);
    eventually("a budget", || host.directories().any(|directory| has_budget(&directory)));
    let directory = host.directories().find(has_budget).unwrap();
    let mut theirs = Command::new("sleep").arg("60").spawn().unwrap();
    fs::write(directory.join("cgroup.procs"), theirs.id().to_string()).unwrap();
    let mut real_time = Attr::of(theirs.id()).unwrap();
    (real_time.nice, real_time.policy, real_time.priority) = (0, Attr::RR, 1);
    real_time.set(theirs.id()).unwrap();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    theirs.kill().unwrap();
    theirs.wait().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    let outcome: Value = serde_json::from_slice(&output.stdout).unwrap();
    let left = outcome["changed_by_others"].to_string();
    assert!(left.contains("cpu.rt_runtime_us") && left.contains("is still needed"), "{outcome}");
    assert!(has_budget(&directory) && !host.journal().exists());
    fs::write(file(&directory), "0").unwrap();
    assert_eq!(host.state(), before, "all else was put back");
}

/// When the first process of a PID namespace ends, all others in it are killed, the watchdog as well.
fn contained() {
    let host = Host::usual();
    let before = host.state();
    let trial = host.trial("weight");
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--mount-proc"]).arg(lagstop()).args(trial.get_args()).arg("--apply");
    let output = command.output().unwrap();
    let why = said(&output);
    assert!(!output.status.success() && why.contains("PID namespace") && why.contains("--force"), "{why}");
    assert!(!host.journal().exists());
    assert_eq!(host.state(), before);
}

/// The watchdog survives when everything in the trial's cgroup is killed, and does not wait for what the trial makes
/// real-time.
fn sheltered() {
    let host = Host::usual();
    let before = host.state();
    let child = host.changed("lags-static", &before);
    let watchdog = child_with(child.id(), "trial-watchdog").unwrap();
    let proc = PathBuf::from(format!("/proc/{}", watchdog.as_raw_nonzero()));
    let name = format!("lagstop-trial-watchdog-{}", watchdog.as_raw_nonzero());
    let cgroups = fs::read_to_string(proc.join("cgroup")).unwrap();
    let has_budgets = Hierarchy::find(GroupBy::Scheduler).unwrap().mount.join("cpu.rt_runtime_us").exists();
    if has_budgets && Hierarchy::find(GroupBy::Leaf).is_err() {
        println!("a new cgroup has no real-time budget here, and there is no other hierarchy: it stays where it is");
    } else {
        assert!(cgroups.lines().any(|line| line.ends_with(&format!(":/{name}"))), "{cgroups}");
    }
    let score = fs::read_to_string(proc.join("oom_score_adj")).unwrap();
    let attr = Attr::of(watchdog.as_raw_nonzero().get().unsigned_abs()).unwrap();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let outcome: Value = serde_json::from_slice(&output.stdout).unwrap();
    // Without CAP_SYS_RESOURCE, or without a real-time budget, this is refused, and the notes say so.
    let notes = outcome["notes"].to_string();
    assert_eq!(notes.contains("oom_score_adj"), score.trim() != "-1000", "{notes}");
    assert_eq!(
        notes.contains("the watchdog is not real-time"),
        (attr.policy, attr.priority) != (Attr::RR, 2),
        "{notes}"
    );
    let mounts = [GroupBy::Scheduler, GroupBy::Leaf].into_iter().filter_map(|by| Hierarchy::find(by).ok());
    for hierarchy in mounts {
        assert!(!hierarchy.mount.join(&name).exists(), "{}", hierarchy.mount.display());
    }
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

/// The cgroups that are called light take all CPU time. `None` where no task can be made to wait that long.
fn greedy() -> Option<Host> {
    let mut host = Host::new("threads 4 120000", "spin 120000");
    if !host.directories().next().unwrap().join("cpu.idle").exists() {
        println!("no cpu.idle here: nobody starves by a weight");
        return None;
    }
    let more: Vec<Load> = host.heavy.iter().map(|cgroup| cgroup.start("threads 12 120000")).collect();
    host.loads.extend(more);
    let new = host.loads.len() - 2;
    host.loads[new..].iter_mut().for_each(|load| drop(load.line()));
    host.loads[new..].iter_mut().for_each(Load::go);
    // A cgroup is heavy if it uses more CPU time than the average: with equal weights that would be chance.
    host.heavy.iter().for_each(|cgroup| cgroup.entitle(&Level { weight: Some(200.0), ..Level::DEFAULT }));
    thread::sleep(Duration::from_millis(300));
    Some(host)
}

fn starved() {
    let Some(host) = greedy() else { return };
    let before = host.state();
    let mut command = host.longer("lags-dynamic", "4s", "20s");
    let output = command.args(["--apply", "--floor", "0.3", "--patience", "1s"]).output().unwrap();
    let outcome = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(3), "{outcome} {}", said(&output));
    assert!(outcome.contains("was runnable and got less than 0.3 cores"), "{outcome}");
    assert_eq!(host.state(), before);
}

/// What the heavy ones had up to a moment, by the state of their threads and the CPU time of their cgroups, without any
/// figure of waits.
#[derive(Clone, Copy, Debug)]
struct Seen {
    at_ns: u64,
    runnable: f64,
    cpu_ns: u64,
}

impl Seen {
    fn now(heavy: &[TestCgroup], tids: &[u32]) -> Self {
        let is_runnable = |tid: &&u32| {
            let stat = fs::read_to_string(format!("/proc/{tid}/stat")).unwrap_or_default();
            stat.rsplit_once(") ").is_some_and(|(_, fields)| fields.starts_with('R'))
        };
        let now = clock_gettime(ClockId::Monotonic);
        Self {
            at_ns: now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs(),
            runnable: tids.iter().filter(is_runnable).count() as f64,
            cpu_ns: heavy.iter().map(TestCgroup::cpu_ns).sum(),
        }
    }
}

/// Tasks that were runnable without a CPU, on average, between two moments.
fn waiting(seen: &[Seen], from_ns: u64, to_ns: u64) -> f64 {
    let these: Vec<&Seen> = seen.iter().filter(|seen| (from_ns..=to_ns).contains(&seen.at_ns)).collect();
    let (first, last) = (these[0], these[these.len() - 1]);
    let runnable = these.iter().map(|seen| seen.runnable).sum::<f64>() / these.len() as f64;
    runnable - (last.cpu_ns - first.cpu_ns) as f64 / (last.at_ns - first.at_ns) as f64
}

/// With the policy the heavy ones get next to no CPU time: the kernel books their waits only after the policy has gone.
fn where_spent() {
    let Some(host) = greedy() else { return };
    let tids: Vec<u32> = host.heavy_directories().flat_map(|directory| tids(&directory)).collect();
    let mut command = host.longer("lags-dynamic", "4s", "15s");
    let mut child = command.args(["--apply", "--floor", "0"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut seen = Vec::new();
    while child.try_wait().unwrap().is_none() {
        seen.push(Seen::now(&host.heavy, &tids));
        thread::sleep(Duration::from_millis(50));
    }
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let outcome: Value = serde_json::from_slice(&output.stdout).unwrap();
    let figure = outcome["figures"].as_array().unwrap().iter().find(|it| it["name"] == "heavy_waiting").unwrap();
    let mut booked_elsewhere = 0.0;
    for (is_with, name) in [(false, "without"), (true, "with")] {
        let blocks = || outcome["blocks"].as_array().unwrap().iter().filter(move |block| block["is_with"] == is_with);
        let ends = |block: &Value| (block["from_ns"].as_u64().unwrap(), block["to_ns"].as_u64().unwrap());
        let mean = |of: &dyn Fn(&Value) -> f64| blocks().map(of).sum::<f64>() / blocks().count() as f64;
        for block in blocks() {
            let (from, to) = ends(block);
            let looks = seen.iter().filter(|seen| (from..=to).contains(&seen.at_ns)).count();
            println!("{name}: {looks} looks saw {:.2} in {block}", waiting(&seen, from, to));
        }
        let expected = mean(&|block| waiting(&seen, ends(block).0, ends(block).1));
        let moved = mean(&|block| {
            let (from, to) = ends(block);
            block["heavy_moved_seconds"].as_f64().unwrap() / ((to - from) as f64 / 1e9)
        });
        let found = figure[name].as_f64().unwrap();
        println!("{name}: {found:.2} tasks waited, {:.2} were booked, {expected:.2} were seen", found - moved);
        assert!((found - expected).abs() < expected * 0.1, "{name}: {found} and not {expected}");
        booked_elsewhere = f64::max(booked_elsewhere, moved.abs() / expected);
    }
    assert!(booked_elsewhere > 0.2, "nobody waited long enough to tell: all but {booked_elsewhere} was booked at once");
}

/// All that a trial does, but for changes.
fn placebo() {
    let host = Host::usual();
    let before = host.state();
    let mut child = host.trial("none").arg("--apply").stdout(Stdio::piped()).spawn().unwrap();
    while child.try_wait().unwrap().is_none() {
        assert_eq!(host.state(), before);
        thread::sleep(Duration::from_millis(200));
    }
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let outcome: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&outcome["policy"], outcome["pairs"].as_u64(), outcome["undone"].as_u64()),
        (&Value::Null, Some(2), Some(0))
    );
    let figures = outcome["figures"].as_array().unwrap();
    assert!(figures.iter().all(|figure| figure["predicted"].is_null()), "{outcome}");
    let busy = figures.iter().find(|figure| figure["name"] == "busy").unwrap();
    assert!(busy["change"].as_f64().unwrap().abs() < 0.1, "the heavy ones fill the CPUs all the time: {busy}");
}

/// Is this host scheduled by LAGS now?
fn is_lags() -> bool {
    loaded_scheduler().as_deref() == Some(lagstop::schedule::NAME)
}

/// Does the trial say first what its policy does to the host?
fn warns(output: &Output, policy: &str) -> bool {
    said(output).starts_with(&format!("lagstop: {policy}: all cgroups of the host are scheduled by "))
}

/// Ends a trial of a scheduler by asking, by killing, and by leaving it alone; `arguments` come last.
fn is_given_back(policy: &str, arguments: &[&str]) {
    let host = Host::usual();
    let before = host.state();
    let start = || {
        let mut command = host.trial(policy);
        command.args(["--apply", "--floor", "0"]).args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        while !is_lags() {
            if child.try_wait().unwrap().is_some() {
                panic!("it ended: {}", said(&child.wait_with_output().unwrap()));
            }
            thread::sleep(Duration::from_millis(100));
        }
        child
    };
    let child = start();
    // That this is LAGS, and who started it, is said whoever did.
    let status = status();
    assert!(
        status.starts_with("LAGS schedules this host, started by lagstop trial or lagstop bench.")
            == (policy == "lags"),
        "{status}"
    );
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert!(is_back() && !host.journal().exists(), "{}", said(&output));
    let mut child = start();
    child.kill().unwrap();
    child.wait().unwrap();
    eventually("that the kernel's own is back, and the journal gone", || is_back() && !host.journal().exists());
    let output = start().wait_with_output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert!(is_back());
    let outcome: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((outcome["policy"].as_str(), outcome["pairs"].as_u64()), (Some(policy), Some(2)), "{outcome}");
    assert_eq!((outcome["undone"].as_u64(), &outcome["ended"]), (Some(2), &Value::Null), "{outcome}");
    assert_eq!(outcome["loaded_scheduler"], "", "{outcome}");
    assert!(warns(&output, policy), "{}", said(&output));
    let figures = outcome["figures"].as_array().unwrap();
    for name in ["busy", "light_waiting"] {
        let figure = figures.iter().find(|figure| figure["name"] == name).unwrap();
        println!("{figure}");
        assert!(figure["with"].is_number() && figure["without"].is_number(), "{figure}");
    }
    assert_eq!(host.state(), before);
}

fn lags() {
    if is_possible() {
        is_given_back("lags", &[]);
    }
}

/// `lagstop schedule` is a program that loads a scheduler, and ends it when it is interrupted.
fn program() {
    if is_possible() {
        is_given_back(&format!("scx:{}", lagstop().display()), &["--", "schedule", "--learn", "0s"]);
    }
}

fn refused_schedulers() {
    if !is_possible() {
        return;
    }
    let host = Host::usual();
    let refused = |policy: &str, arguments: &[&str], why: &str| {
        let output = host.trial(policy).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        assert!(said(&output).contains(why) && !warns(&output, policy), "{}", said(&output));
        assert!(is_back());
    };
    refused("scx:scx_that_is_not_there", &["--apply"], "is not in PATH");
    // Which loads nothing, and ends.
    let version = format!("scx:{}", lagstop().display());
    let output =
        host.trial(&version).args(["--apply", "--", "schedule", "--dry-run", "--every", "0s"]).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert!(String::from_utf8_lossy(&output.stdout).contains("ended: exit status: 2"), "{}", said(&output));
    host.heavy[0].limit_to_half_a_cpu();
    refused("lags", &[], "has a CPU quota");
    host.heavy[0].lift_the_limit();
}

/// What could hang the host is looked for before a scheduler is tried, and while it schedules.
fn beside_real_time() {
    if !is_possible() {
        return;
    }
    let Some(keeps_time) = beside_real_time_tasks() else { return };
    let host = Host::usual();
    let cgroup = TestCgroup::new("real-time");
    let spin = || spin_in_real_time(&cgroup);
    let program = format!("scx:{}", lagstop().display());
    let load = spin();
    for policy in ["lags", &program] {
        let output = host.trial(policy).output().unwrap();
        println!("{}", said(&output));
        assert_eq!(output.status.code(), Some(if keeps_time { 0 } else { 1 }));
        assert_eq!(names_real_time(&load, &said(&output)), !keeps_time);
    }
    drop(load);
    if keeps_time {
        return;
    }
    // The program itself does not look.
    let mut command = host.longer(&program, "30s", "2m");
    command.args(["--apply", "--floor", "0", "--", "schedule", "--learn", "0s", "--ignore-real-time"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    eventually("that the program schedules", is_lags);
    let load = spin();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    let outcome: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(names_real_time(&load, outcome["ended"].as_str().unwrap()), "{outcome}");
    assert!(is_back() && !host.journal().exists(), "{}", said(&output));
}
