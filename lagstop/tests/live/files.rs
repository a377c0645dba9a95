//! What files tell where no programs can be attached, to a user without any privileges.

use std::{
    os::unix::process::CommandExt,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use lagstop::model::{CgroupId, HookState, Interval, Nanos, Session, Totals};

use crate::{
    Test,
    command::lagstop,
    fixture::{Load, TestCgroup, assert_equal_but_for_edges, assert_within, at_least, eventually, tolerance},
    kernel_files::ProcessFigures,
    load,
    privileges::{NOBODY, copy},
    terminal::Terminal,
};

pub(crate) const TESTS: &[Test] =
    &[("what_files_tell_a_user_agrees_with_proc", scheduler), ("what_files_tell_of_leaves_agrees_with_proc", leaf)];
/// They run side by side.
pub(crate) const BESIDE: &[Test] = &[("top_shows_a_user_what_files_tell", top)];

fn scheduler() {
    agrees("scheduler", TestCgroup::id);
}

/// On a hybrid host the leaves are in another hierarchy, whose files are of version 2.
fn leaf() {
    if TestCgroup::new("leaf").leaf_id().is_none() {
        println!("no unified hierarchy here: the scheduler's is the only one");
        return;
    }
    agrees("leaf", |cgroup| cgroup.leaf_id().unwrap());
}

/// What the kernel says, and lagstop.
struct Watched {
    // Before the cgroup, which goes when it is empty.
    loads: Vec<Load>,
    cgroup: TestCgroup,
    then: Vec<ProcessFigures>,
    cpu_ns: u64,
}

impl Watched {
    fn new(cgroup: TestCgroup, loads: usize) -> Self {
        let mut loads: Vec<Load> = (0..loads).map(|_| cgroup.start("nap")).collect();
        loads.iter_mut().for_each(|load| drop(load.line()));
        Self { cgroup, loads, then: Vec::new(), cpu_ns: 0 }
    }

    fn begin(&mut self) {
        self.cpu_ns = self.cgroup.cpu_ns();
        self.then = self.loads.iter().map(|load| ProcessFigures::read(load.pid())).collect();
    }

    fn agrees(&self, totals: &Totals) {
        let mut kernel = ProcessFigures::default();
        for (load, then) in self.loads.iter().zip(&self.then) {
            kernel.add(ProcessFigures::read(load.pid()).since(*then));
        }
        assert!(kernel.voluntary > at_least(1_000), "the load was to sleep: {kernel:?}");
        println!("{}: {} processes", self.cgroup.path, self.loads.len());
        assert_within("CPU time", totals.cpu_ns.0, self.cgroup.cpu_ns() - self.cpu_ns, tolerance(2.0));
        let edges = self.loads.len() as u64 * 2;
        assert_equal_but_for_edges("voluntary switches", totals.voluntary_switches, kernel.voluntary, edges);
        assert_equal_but_for_edges("involuntary switches", totals.involuntary_switches, kernel.involuntary, edges);
        assert_equal_but_for_edges("waits", totals.runq_waits.unwrap(), kernel.waits, edges);
        assert_within("run-queue wait", totals.runq_wait_ns.unwrap().0, kernel.run_delay_ns, 2.0);
    }
}

fn agrees(group_by: &str, id: fn(&TestCgroup) -> CgroupId) {
    let parent = TestCgroup::new("files");
    let mut watched = [Watched::new(parent.child("many"), 5), Watched::new(parent.child("one"), 1)];

    let home = tempfile::tempdir().unwrap();
    let program = copy(&std::env::current_exe().unwrap(), &home);
    let watch = format!("watch {group_by}");
    let started = Instant::now();
    let mut watcher = Load::run(Command::new(program).args([load::FLAG, &watch]).uid(NOBODY).gid(NOBODY));
    assert_eq!(watcher.line(), "joined");
    watcher.go();
    let session: Session = serde_json::from_str(&watcher.line()).unwrap();
    assert_eq!(session.restricted.as_deref(), Some("told to"));
    for hook in &session.hooks {
        println!("{}: {:?}: {}", hook.name, hook.state, hook.detail);
    }
    let on: Vec<&str> =
        session.hooks.iter().filter(|hook| hook.state == HookState::On).map(|hook| &*hook.name).collect();
    assert_eq!(on, ["switches", "runq-wait"]);

    watched.iter_mut().for_each(Watched::begin);
    let began = Instant::now();
    watched.iter_mut().flat_map(|watched| &mut watched.loads).for_each(Load::go);
    watched.iter_mut().flat_map(|watched| &mut watched.loads).for_each(|load| assert_eq!(load.line(), "done"));
    thread::sleep(Duration::from_millis(300));
    let took = began.elapsed();
    watcher.go();
    let mut intervals: Vec<Interval> = Vec::new();
    loop {
        match watcher.line() {
            line if line == "done" => break,
            line => intervals.push(serde_json::from_str(&line).unwrap()),
        }
    }

    let of = |cgroup: &TestCgroup| {
        let id = id(cgroup);
        let none = Totals { runq_waits: Some(0), runq_wait_ns: Some(Nanos(0)), ..Totals::default() };
        let seen = intervals.iter().flat_map(|interval| &interval.cgroups).filter(|seen| seen.id == id);
        seen.fold(none, |mut sum, seen| {
            assert_eq!(*seen.path, *cgroup.path);
            assert!(seen.load_credit.is_some());
            sum.add(&seen.totals);
            sum
        })
    };
    for watched in &watched {
        watched.agrees(&of(&watched.cgroup));
    }
    let (inside, own) = (of(&watched[0].cgroup).cpu_ns, of(&parent).cpu_ns);
    println!("{} intervals; nobody is in the parent: {own} of its own, {inside} in one inside", intervals.len());
    assert!(own.0 * 50 < inside.0, "{own} against {inside}");
    assert!(intervals.len() > 3 && intervals.iter().all(|interval| interval.host.overhead().is_none()));
    let duration: Nanos = intervals.iter().map(|interval| interval.duration_ns).sum();
    let watched = (took.as_nanos() as u64)..=(started.elapsed().as_nanos() as u64);
    assert!(watched.contains(&duration.0), "{duration}, and {watched:?}");
    // By the clock ticks. What is stolen from an idle CPU is in its idle time too.
    let capacity: Nanos = intervals.iter().map(|interval| interval.host.capacity()).sum();
    let steal: Nanos = intervals.iter().filter_map(|interval| interval.host.times.steal_ns).sum();
    let all = duration.0 * session.cpus_online;
    println!("time of the CPUs: {capacity} and {steal} stolen; {} of them for {duration}", session.cpus_online);
    assert_within("at most", capacity.0.max(all), all, tolerance(10.0));
    assert_within("at least", capacity.saturating_add(steal).0.min(all), all, tolerance(10.0));
}

fn top() {
    let cgroup = TestCgroup::new("spun");
    let mut load = cgroup.start("spin 20000");
    load.line();
    load.go();
    let home = tempfile::tempdir().unwrap();
    let program = copy(&lagstop(), &home);
    let mut terminal = Terminal::open();
    let before = terminal.modes();
    let mut top = terminal.run(Command::new(program).arg("top").uid(NOBODY).gid(NOBODY));
    eventually("the cgroup's row", || terminal.shows("-spun"));
    terminal.press(b"q");
    let status = top.wait().unwrap();
    assert!(status.success(), "{status}");
    assert_eq!(terminal.modes(), before);
}
