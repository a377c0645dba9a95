//! Cgroups that live for a moment, and many of them.

use std::{
    collections::BTreeMap,
    fs,
    io::{Read as _, Write as _},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use lagstop::model::CgroupId;
use rustix::{
    process::{Pid, WaitId, WaitIdOptions, waitid},
    thread::{CpuSet, sched_getaffinity, sched_setaffinity},
};

use crate::{
    Test,
    fixture::{TestCgroup, is_slow},
    recorder::{Recorder, Recording},
};

pub(crate) const TESTS: &[Test] = &[("ten_thousand_cgroups_that_come_and_go_have_a_row_each", come_and_go)];

/// How many there are, how many come in a second at most, and how many are made at a time.
const CGROUPS: u32 = 10_000;
const A_SECOND: u32 = 350;
const AT_A_TIME: u32 = 2;
/// Says that it is there, waits until it is told to go on, and works a little.
const WORK: &str = "echo; read line; n=0; while [ $n -lt 500 ]; do n=$((n + 1)); done";

/// With the default number of rows and the default interval.
fn come_and_go() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("host.jsonl.zst");
    let mut recorder = Recorder::start(&["--output", path.to_str().unwrap()]);
    let (count, start) = (if is_slow() { CGROUPS / 25 } else { CGROUPS }, Instant::now());
    let moment = &|n: u32| {
        let came = Instant::now();
        let cgroup = TestCgroup::new(&format!("moment{n}"));
        // Those that are there at the same time work on the same CPU, so that they meet.
        work_in(&cgroup, n / 64);
        let (id, cpu_ns) = (cgroup.id(), cgroup.cpu_ns());
        drop(cgroup);
        let left = Instant::now();
        thread::sleep((Duration::from_secs(1) / A_SECOND * (n + 1)).saturating_sub(start.elapsed()));
        (id, Moment { cpu_ns, came, left })
    };
    let moments: BTreeMap<CgroupId, Moment> = thread::scope(|scope| {
        let makers = (0..AT_A_TIME).map(|maker| (maker..count).step_by(AT_A_TIME as usize));
        let makers: Vec<_> = makers.map(|all| scope.spawn(move || all.map(moment).collect::<Vec<_>>())).collect();
        makers.into_iter().flat_map(|maker| maker.join().unwrap()).collect()
    });
    let rate = f64::from(count) / start.elapsed().as_secs_f64();
    // The last ones are in an interval, too.
    thread::sleep(Duration::from_millis(1_500));
    recorder.interrupt();

    let recording = Recording::read(&path);
    let mut measured: BTreeMap<CgroupId, u64> = BTreeMap::new();
    for cgroup in recording.intervals.iter().flat_map(|interval| &interval.cgroups) {
        *measured.entry(cgroup.id).or_default() += cgroup.totals.cpu_ns.0;
    }
    let lost: u64 = recording.intervals.iter().map(|interval| interval.host.lost.cgroup_overflows).sum();
    let found = moments.keys().filter(|id| measured.contains_key(id)).count();
    println!("{count} cgroups, {rate:.0} a second: {found} have a row of their own, {lost} switches went to (other)");
    assert_eq!((lost, found), (0, moments.len()));
    // Each has its own CPU time, and nothing of whoever had its row before.
    let strayed: Vec<(u64, u64)> = moments
        .iter()
        .map(|(id, moment)| (measured[id], moment.cpu_ns))
        .filter(|(measured, used)| measured.abs_diff(*used) > used / 20 + 50_000)
        .collect();
    assert!(
        strayed.is_empty(),
        "{} of {count} differ; measured, and the kernel's: {:?}",
        strayed.len(),
        &strayed[..strayed.len().min(5)]
    );
    let (measured, used): (u64, u64) =
        moments.iter().map(|(id, moment)| (measured[id], moment.cpu_ns)).fold((0, 0), |(a, b), (c, d)| (a + c, b + d));
    println!("CPU time of all: measured {measured}, the kernel says {used}");
    assert!(measured.abs_diff(used) <= used / 100, "{measured} of {used}");
    blames_nobody_who_was_not_there(&recording, &moments);
}

/// A cgroup that lived for a moment.
struct Moment {
    cpu_ns: u64,
    came: Instant,
    left: Instant,
}

/// No wait is blamed on a cgroup that had the same row earlier or later, but was not there at the time.
fn blames_nobody_who_was_not_there(recording: &Recording, moments: &BTreeMap<CgroupId, Moment>) {
    let cgroups = recording.intervals.iter().flat_map(|interval| &interval.cgroups);
    let victims = cgroups.filter_map(|cgroup| Some((moments.get(&cgroup.id)?, &cgroup.waits_behind)));
    let pairs: Vec<(&Moment, &Moment)> = victims
        .flat_map(|(victim, behind)| behind.iter().filter_map(move |one| Some((victim, moments.get(&one.id)?))))
        .collect();
    let strayed = pairs.iter().filter(|(one, other)| one.left < other.came || other.left < one.came).count();
    println!("{} times one waited behind another, {strayed} times behind one that was not there", pairs.len());
    // With two at a time on a CPU, they meet fifty times in ten thousand where one takes half a millisecond.
    assert!(is_slow() || pairs.len() > 20, "too few to tell");
    assert_eq!(strayed, 0);
}

/// One short process, moved while it sleeps: no time of one cgroup is booked to the other with its next switch. `turn` says on which
/// CPU it works.
fn work_in(cgroup: &TestCgroup, turn: u32) {
    let mut shell = Command::new("sh");
    let mut shell = shell.args(["-c", WORK]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    shell.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    // It has been heard before it sleeps.
    let stat = format!("/proc/{}/stat", shell.id());
    while !fs::read_to_string(&stat).unwrap().contains(") S ") {
        thread::yield_now();
    }
    take_off_its_cpu(shell.id(), turn);
    cgroup.take_in(shell.id());
    shell.stdin.take().unwrap().write_all(b"\n").unwrap();
    // Its parent hears of its end before its last switch, and `cpuacct.usage` knows of its last part only then.
    let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    waitid(WaitId::Pid(Pid::from_raw(shell.id().try_into().unwrap()).unwrap()), ended).unwrap();
    take_off_its_cpu(shell.id(), turn);
    assert!(shell.wait().unwrap().success());
}

/// A task that is about to sleep or end already counts as such while it still runs. Moving it off its CPU makes the
/// kernel wait for its last switch. It stays on one of the first two CPUs, in turns.
fn take_off_its_cpu(pid: u32, turn: u32) {
    let pid = Pid::from_raw(pid.try_into().unwrap());
    let all = sched_getaffinity(None).unwrap();
    let mut cpus: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&cpu| all.is_set(cpu)).take(2).collect();
    let first = turn as usize % cpus.len();
    cpus.rotate_left(first);
    for &cpu in cpus.iter().chain(&cpus[..1]) {
        let mut one = CpuSet::new();
        one.set(cpu);
        sched_setaffinity(pid, &one).unwrap();
    }
}
