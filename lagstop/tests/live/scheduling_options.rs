//! `lagstop schedule`: that its options do what they say.

use std::{
    thread,
    time::{Duration, Instant},
};

use lagstop::schedule::SchedulerStatus;
use rustix::process::Signal;

use crate::{
    Test,
    fixture::{Load, TestCgroup, eventually},
    kernel_files::{KernelThread, context_switches},
    lags::{Lags, is_back, is_possible},
    load::{Together, sleep_until},
    scheduling::{latencies, percentile, seconds},
    scheduling_host::waited,
};

pub(crate) const TESTS: &[Test] = &[
    ("only_the_chosen_cgroups_go_first", only),
    ("turns_and_preemption_are_as_asked_for", turns),
    ("a_head_start_is_as_long_as_asked_for", head_start),
];

/// Eight cgroups that always want to run.
fn heavy(parent: &TestCgroup) -> Vec<(Load, TestCgroup)> {
    let start = |n: usize| {
        let cgroup = parent.child(&format!("heavy{n}"));
        let mut load = cgroup.start("threads 2 600000");
        assert_eq!(load.line(), "joined");
        load.go();
        (load, cgroup)
    };
    (0..8).map(start).collect()
}

fn end(lags: Lags) {
    let (status, said) = lags.end(Signal::INT);
    assert!(status.success(), "{said}");
    eventually("the kernel's own is back", is_back);
}

fn only() {
    if !is_possible() {
        return;
    }
    // Where time is not counted, a host that is busy itself may hold up both alike: not three times in a row.
    let is_chosen = (0..3).map(|_| chosen_and_other()).any(|(chosen, other)| chosen * 2.0 < other);
    assert!(is_chosen, "the chosen cgroup did not go first");
}

/// The 95th percentile of the requests of a cgroup that was chosen, and of one that was not, in milliseconds.
fn chosen_and_other() -> (f64, f64) {
    let parent = TestCgroup::new("only");
    let heavy = heavy(&parent);
    let together = Together::new(seconds(3), seconds(6));
    let [(mut chosen, first), (mut other, second)] = ["chosen", "other"].map(|name| {
        let cgroup = parent.child(name);
        let mut load = cgroup.start(&format!("requests 1 50000 1000 {}", together.words()));
        assert_eq!(load.line(), "joined");
        (load, cgroup)
    });
    let lags = Lags::start(&["--only", &first.path]);
    together.begin(seconds(1), [&mut chosen, &mut other]);
    let [chosen, other] = [chosen, other].map(|mut load| percentile(&latencies(&mut load), 0.95));
    lags.is_in_force();
    end(lags);
    println!("p95 of the chosen cgroup's requests is {chosen:.2} ms, of the other's {other:.2} ms");
    // Processes end before their cgroups are removed.
    drop((heavy, second));
    (chosen, other)
}

/// What eight cgroups that always want to run, and one that wakes now and then, made of these flags.
struct Turns {
    switches_per_second: f64,
    /// How often a task was taken off its CPU for another one.
    preempted: u64,
    /// How long a kernel thread waited each time, on average, in milliseconds.
    kernel_threads: f64,
}

impl Turns {
    fn with(flags: &[&str]) -> Self {
        const TIME: Duration = seconds(4);
        let parent = TestCgroup::new("turns");
        let heavy = heavy(&parent);
        let light = parent.child("light");
        let together = Together::new(seconds(2), TIME);
        let mut requests = light.start(&format!("requests 1 50000 1000 {}", together.words()));
        assert_eq!(requests.line(), "joined");
        let lags = Lags::start(flags);
        let preempted = || SchedulerStatus::read().unwrap().counted.preempted;
        sleep_until(together.begin(seconds(1), [&mut requests]));
        let (before, switches, threads, began) = (preempted(), context_switches(), KernelThread::all(), Instant::now());
        thread::sleep(TIME);
        let switches_per_second = (context_switches() - switches) as f64 / began.elapsed().as_secs_f64();
        let preempted = preempted() - before;
        let kernel_threads = waited(&threads, &KernelThread::all());
        println!(
            "with {flags:?}: {switches_per_second:.0} switches a second, {preempted} preempted, kernel threads waited for \
             {kernel_threads:.2} ms each time"
        );
        assert!(latencies(&mut requests).len() > 20);
        end(lags);
        drop((requests, heavy));
        Self { switches_per_second, preempted, kernel_threads }
    }
}

fn turns() {
    if !is_possible() {
        return;
    }
    let usual = Turns::with(&[]).preempted;
    assert!(usual > 20, "{usual}");
    let long = Turns::with(&["--slice", "60ms", "--short-slice", "60ms", "--no-preemption"]);
    assert_eq!(long.preempted, 0);
    // Turns end at ticks, every 4 ms where there are 250 a second, and later where the machine waits itself.
    let short = Turns::with(&["--slice", "1ms", "--short-slice", "1ms", "--margin", "2"]);
    let (of_short, of_long) = (short.switches_per_second, long.switches_per_second);
    assert!(of_short > 2.0 * of_long, "{of_short} and {of_long} switches a second");
    assert!(short.preempted * 2 < usual, "{} with short turns, usually {usual}", short.preempted);
    // What may run for longer than a turn takes is not preempted, unless the machine stood still.
    let protected = Turns::with(&["--slice", "20ms", "--short-slice", "20ms", "--protect", "1s"]).preempted;
    assert!(protected * 10 < usual, "{protected} are preempted although they are protected, usually {usual}");
    // Kernel threads do not wait for the end of turns, however long these are, but where nobody is preempted.
    let soon = Turns::with(&["--slice", "60ms", "--short-slice", "60ms"]).kernel_threads;
    let late = long.kernel_threads;
    assert!(soon * 3.0 < late, "{soon} ms with preemption, and {late} without");
}

fn head_start() {
    if !is_possible() {
        return;
    }
    let long = first_second(&["--guard", "500ms", "--memory", "4s"]);
    // Whatever the guard, the head start is never longer than the memory.
    for flags in [&["--guard", "1ms"][..], &["--guard", "500ms", "--memory", "10ms"]] {
        let short = first_second(flags);
        assert!(short * 1.5 < long, "{short} with {flags:?}, and {long} with a long head start");
    }
}

/// CPU time that a cgroup got in the first second in which it wanted a CPU all the time, in seconds, beside eight that always did.
fn first_second(flags: &[&str]) -> f64 {
    let parent = TestCgroup::new("head-start");
    let heavy = heavy(&parent);
    let new = parent.child("new");
    let mut load = new.start("threads 1 600000");
    assert_eq!(load.line(), "joined");
    let lags = Lags::start(flags);
    thread::sleep(seconds(2));
    let (before, began) = (new.cpu_ns(), Instant::now());
    load.go();
    thread::sleep(seconds(1));
    let got = (new.cpu_ns() - before) as f64 / 1e9 / began.elapsed().as_secs_f64();
    println!("with {flags:?} it got {got:.3} s in its first second");
    end(lags);
    drop((load, heavy));
    got
}
