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
    kernel_files::context_switches,
    lags::{Lags, is_back, is_possible},
    load::{Together, sleep_until},
    scheduling::{latencies, percentile, seconds},
};

pub(crate) const TESTS: &[Test] =
    &[("only_the_chosen_cgroups_go_first", only), ("turns_and_preemption_are_as_asked_for", turns)];

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

/// Switches in a second while eight cgroups always want to run and one wakes now and then, and how often this one took a CPU from
/// another.
fn with(flags: &[&str]) -> (f64, u64) {
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
    let (before, switches, began) = (preempted(), context_switches(), Instant::now());
    thread::sleep(TIME);
    let switches = (context_switches() - switches) as f64 / began.elapsed().as_secs_f64();
    let preempted = preempted() - before;
    println!("with {flags:?}: {switches:.0} switches a second, {preempted} preempted");
    assert!(latencies(&mut requests).len() > 20);
    end(lags);
    drop((requests, heavy));
    (switches, preempted)
}

fn turns() {
    if !is_possible() {
        return;
    }
    let (_, usual) = with(&[]);
    assert!(usual > 20, "{usual}");
    let long = ["--slice", "60ms", "--short-slice", "60ms", "--no-preemption"];
    let (of_long, preempted) = with(&long);
    assert_eq!(preempted, 0, "{long:?}");
    // Turns end at ticks, every 4 ms where there are 250 a second, and later where the machine waits itself.
    let short = ["--slice", "1ms", "--short-slice", "1ms", "--margin", "2"];
    let (of_short, preempted) = with(&short);
    assert!(of_short > 2.0 * of_long, "{of_short} and {of_long} switches a second");
    assert!(preempted * 2 < usual, "{preempted} with {short:?}, usually {usual}");
    // What may run for longer than a turn takes is not preempted, unless the machine stood still.
    let protect = ["--slice", "20ms", "--short-slice", "20ms", "--protect", "1s"];
    let (_, preempted) = with(&protect);
    assert!(preempted * 10 < usual, "{preempted} with {protect:?}, usually {usual}");
}
