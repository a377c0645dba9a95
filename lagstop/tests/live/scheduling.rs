//! `lagstop schedule`: what LAGS does to light and heavy cgroups beside what the kernel's own scheduler does.

use std::{
    thread,
    time::{Duration, Instant},
};

use lagstop::{
    model::{GroupBy, Level},
    schedule::{GroupStatus, SchedulerStatus},
};
use rustix::process::Signal;

use crate::{
    Test,
    fixture::{Load, TestCgroup, eventually, is_slow, with_stream_every},
    kernel_files::{context_switches, involuntary_switches},
    lags::{Lags, is_back, is_possible, status},
    load::{Together, sleep_until},
};

pub(crate) const TESTS: &[Test] = &[
    ("lags_serves_light_cgroups_first", few),
    ("lags_serves_light_cgroups_first_among_a_hundred", many),
    ("lags_serves_light_cgroups_first_among_five_hundred", very_many),
    ("lags_serves_light_cgroups_first_in_the_first_second", cold),
    ("a_burst_of_threads_holds_up_no_light_cgroup", burst),
    ("weights_count_while_lags_schedules", weights),
    ("nobody_starves_while_lags_schedules_an_overload", overload),
    ("nobody_starves_when_many_cgroups_wake_at_once", awakening),
    ("whatever_tasks_do_goes_on_while_lags_schedules", disorder),
    ("the_papers_credit_is_lagstops_load_credit", papers_credit),
];

/// Is time counted by instructions here, so that what two blocks do can be compared to a percent?
fn is_counted() -> bool {
    std::env::var_os("LAGSTOP_TEST_COUNTED").is_some()
}

/// Can LAGS be compared with the kernel's own scheduler here?
///
/// One thread emulates all CPUs of a guest: each stands still while another goes on, and its clocks do not. Where time is not counted,
/// a tenth of all requests, and half of them on a busy host, had three times the CPU time that they ask for.
fn is_comparable() -> bool {
    if !is_possible() {
        return false;
    }
    let is_comparable = is_counted() && thread::available_parallelism().is_ok_and(|cpus| cpus.get() == 1);
    if !is_comparable {
        println!("*** SKIPPED: two blocks are compared where time is counted, and on one CPU ***");
    }
    is_comparable
}

/// The numbers that a load says.
fn numbers(load: &mut Load) -> Vec<u64> {
    load.line().split(' ').filter(|word| !word.is_empty()).map(|word| word.parse().unwrap()).collect()
}

/// The latencies that a load of requests says, in milliseconds, ascending.
pub(crate) fn latencies(requests: &mut Load) -> Vec<f64> {
    let mut latencies: Vec<f64> = numbers(requests).into_iter().map(|us| us as f64 / 1e3).collect();
    latencies.sort_by(f64::total_cmp);
    latencies
}

pub(crate) fn percentile(ascending: &[f64], part: f64) -> f64 {
    ascending[((ascending.len() - 1) as f64 * part) as usize]
}

/// What a block measured.
#[derive(Debug)]
struct Block {
    /// From when requests are due to when they are done, in milliseconds, ascending.
    latencies: Vec<f64>,
    /// Pieces of work that the heavy ones did, and the longest time in which one of them did not get on.
    work: u64,
    gap: f64,
    switches_per_second: f64,
    /// Those beyond the two that each request takes, to it and back: CPUs are never idle. However slow the machine, it takes those.
    spare_switches: f64,
    /// Those of the load's tasks that the scheduler made while they wanted to go on.
    involuntary: f64,
}

impl Block {
    fn percentile(&self, part: f64) -> f64 {
        percentile(&self.latencies, part)
    }

    fn say(&self, name: &str) {
        println!(
            "{name:<10} requests {:>5}  p50 {:>7.2}  p95 {:>7.2}  p99 {:>7.2} ms  work {:>7}  longest gap {:>6.0} ms  \
             switches {:>5.0}/s, {:>5.0} to spare, {:>5.0} involuntary",
            self.latencies.len(),
            self.percentile(0.5),
            self.percentile(0.95),
            self.percentile(0.99),
            self.work,
            self.gap,
            self.switches_per_second,
            self.spare_switches,
            self.involuntary
        );
    }
}

/// How many cgroups of each kind.
#[derive(Clone, Copy)]
struct Mix {
    heavy: usize,
    /// Threads in each heavy cgroup.
    threads: usize,
    light: usize,
    /// Microseconds between two requests of a light one, on average, and microseconds of work for each.
    gap: u64,
    work: u64,
    /// How long it is measured, and how long it runs beforehand: until lagstop knows what is heavy, and what starting
    /// the processes took is forgotten.
    time: Duration,
    before: Duration,
}

/// What is left under LAGS.
#[derive(Clone, Copy)]
struct Limits {
    /// Of heavy work, at least.
    work: f64,
    /// Of switches beyond two for each request, at most.
    switches: f64,
}

const USUAL: Limits = Limits { work: 0.99, switches: 0.5 };

impl Mix {
    /// Runs the same seeded load each time, under whichever scheduler is in force now.
    fn run(self) -> Block {
        self.run_after(seconds(1), || ()).0
    }

    /// The same after all processes were there and slept for so long, under the scheduler that `begin` starts before.
    fn run_after<S>(self, asleep: Duration, begin: impl FnOnce() -> S) -> (Block, S) {
        let together = Together::new(self.before, self.time);
        let window = together.words();
        let parent = TestCgroup::new("lags");
        let start = |name: String, what: &str| {
            let cgroup = parent.child(&name);
            let load = cgroup.start(what);
            (load, cgroup)
        };
        let mut heavy: Vec<(Load, TestCgroup)> =
            (0..self.heavy).map(|n| start(format!("heavy{n}"), &format!("grind {} {window}", self.threads))).collect();
        let mut light: Vec<(Load, TestCgroup)> = (0..self.light)
            .map(|n| start(format!("light{n}"), &format!("requests {} {} {} {window}", n + 1, self.gap, self.work)))
            .collect();
        heavy.iter_mut().chain(&mut light).for_each(|(load, _)| assert_eq!(load.line(), "joined"));
        let scheduler = begin();
        let told_from = together.begin(asleep, heavy.iter_mut().chain(&mut light).map(|(load, _)| load));
        sleep_until(told_from);
        let involuntary = |loads: &[(Load, TestCgroup)]| -> u64 {
            loads.iter().map(|(load, _)| involuntary_switches(load.pid())).sum()
        };
        let (before, began) = (context_switches(), Instant::now());
        let involuntary_before = involuntary(&heavy) + involuntary(&light);
        // They end soon after the reported time.
        let looked = Instant::now();
        thread::sleep(self.time.mul_f64(0.8).saturating_sub(began.elapsed()));
        let involuntary = (involuntary(&heavy) + involuntary(&light) - involuntary_before) as f64;
        let involuntary = involuntary / looked.elapsed().as_secs_f64();
        let ground: Vec<Vec<u64>> = heavy.iter_mut().map(|(load, _)| numbers(load)).collect();
        let switches_per_second = (context_switches() - before) as f64 / began.elapsed().as_secs_f64();
        let mut latencies: Vec<f64> = light.iter_mut().flat_map(|(load, _)| latencies(load)).collect();
        latencies.sort_by(f64::total_cmp);
        // Nothing is said of requests that are due before the reported time.
        assert!(latencies.len() > 50, "{}", latencies.len());
        let spare_switches = switches_per_second - 2.0 * latencies.len() as f64 / self.time.as_secs_f64();
        let work = ground.iter().map(|ground| ground[0]).sum();
        let gap = ground.iter().map(|ground| ground[1]).max().unwrap() as f64 / 1e3;
        // Processes end before their cgroups are removed.
        drop((heavy, light));
        (Block { latencies, work, gap, switches_per_second, spare_switches, involuntary }, scheduler)
    }
}

/// The same load under the kernel's own scheduler and under LAGS.
fn compared(mix: Mix) -> (Block, Block) {
    let own = mix.run();
    own.say("kernel's");
    let lags = Lags::start(&[]);
    let block = mix.run();
    block.say("LAGS");
    let (status, said) = lags.end(Signal::INT);
    println!("{said}");
    assert!(status.success() && said.contains("The kernel's own scheduler is back"), "{said}");
    eventually("the kernel's own is back", is_back);
    (own, block)
}

/// Is this percentile of the latencies so much shorter under LAGS?
fn is_faster(part: f64, (own, lags): &(Block, Block)) -> (bool, String) {
    let faster = lags.percentile(part) / own.percentile(part);
    (faster < 0.25, format!("percentile {part} is {faster:.3} of the kernel's own"))
}

fn is_better(mix: Mix, limits: Limits) {
    let blocks = compared(mix);
    let (own, lags) = &blocks;
    let work = lags.work as f64 / own.work as f64;
    let fewer = lags.spare_switches / own.spare_switches;
    let all = [
        is_faster(0.95, &blocks),
        (work > limits.work, format!("work is {work:.3} of the kernel's own")),
        (fewer < limits.switches, format!("switches beyond two for each request are {fewer:.3} of the kernel's own")),
        (lags.gap < 4_500.0, format!("one did not get on for {} ms", lags.gap)),
    ];
    let worse: Vec<String> = all.into_iter().filter(|(is_met, _)| !is_met).map(|(_, what)| what).collect();
    assert!(worse.is_empty(), "{worse:?}");
}

pub(crate) const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn few() {
    if !is_comparable() {
        return;
    }
    let mix = Mix { heavy: 4, threads: 2, light: 6, gap: 50_000, work: 1_500, time: seconds(4), before: seconds(2) };
    is_better(mix, USUAL);
}

fn many() {
    if !is_comparable() {
        return;
    }
    let mix = Mix { heavy: 60, threads: 1, light: 40, gap: 400_000, work: 1_500, time: seconds(5), before: seconds(5) };
    is_better(mix, USUAL);
}

fn very_many() {
    if !is_comparable() {
        return;
    }
    let mix =
        Mix { heavy: 300, threads: 1, light: 200, gap: 2_000_000, work: 1_500, time: seconds(10), before: seconds(10) };
    // Turns of so many are short, or a round of them would take too long, and lagstop itself takes 2 % of the CPU.
    is_better(mix, Limits { work: 0.95, switches: 0.85 });
}

/// A hundred begin together. LAGS has seen none of them run, so each is promised all that there is, until it looks again.
fn cold() {
    if !is_comparable() {
        return;
    }
    let mix = Mix {
        heavy: 60,
        threads: 1,
        light: 40,
        gap: 200_000,
        work: 1_000,
        time: Duration::from_millis(500),
        before: Duration::ZERO,
    };
    let asleep = Duration::from_millis(300);
    let (own, ()) = mix.run_after(asleep, || ());
    own.say("kernel's");
    // All shares are worked out again a second after that, when this is nearly over.
    let (block, lags) = mix.run_after(asleep, || Lags::start(&["--learn", "0s"]));
    block.say("LAGS");
    let (status, said) = lags.end(Signal::INT);
    assert!(status.success(), "{said}");
    let (is_faster, what) = is_faster(0.5, &(own, block));
    assert!(is_faster, "{what}");
}

/// A cgroup that starts many threads at once, each of which wants a CPU, beside one that has hardly anything to do: nobody has
/// used anything before, and those threads all come before the next request.
fn burst() {
    if !is_possible() {
        return;
    }
    let together = Together::new(seconds(3), seconds(2));
    let parent = TestCgroup::new("burst");
    let (many, light) = (parent.child("many"), parent.child("light"));
    let mut threads = many.start("threads 60 3000");
    let mut requests = light.start(&format!("requests 1 20000 1000 {}", together.words()));
    [&mut threads, &mut requests].into_iter().for_each(|load| assert_eq!(load.line(), "joined"));
    let lags = Lags::start(&["--learn", "0s"]);
    sleep_until(together.begin(seconds(1), [&mut requests]));
    threads.go();
    let latencies = latencies(&mut requests);
    let (status, said) = lags.end(Signal::INT);
    println!("{said}");
    assert!(status.success() && latencies.len() > 50, "{}: {said}", latencies.len());
    let p95 = percentile(&latencies, 0.95);
    println!("{} requests beside 60 new threads: p95 {p95} ms", latencies.len());
    assert!(p95 < 60.0, "{p95} ms");
    // Processes end before their cgroups are removed.
    drop((threads, requests));
}

/// A cgroup that always wants to run, or has cgroups inside, and the part of the whole that it is to get.
struct Entitled {
    name: &'static str,
    level: Level,
    inside: Vec<Entitled>,
    part: f64,
}

impl Entitled {
    fn new(name: &'static str, weight: f64, part: f64) -> Self {
        Self { name, level: Level { weight: Some(weight), ..Level::DEFAULT }, inside: Vec::new(), part }
    }

    fn idle(name: &'static str, part: f64) -> Self {
        let level = Level { weight: Some(Level::IDLE_WEIGHT), is_idle: true, ..Level::DEFAULT };
        Self { level, ..Self::new(name, 0.0, part) }
    }

    fn with(self, inside: Vec<Self>) -> Self {
        Self { inside, ..self }
    }

    /// Makes it in `parent`, and starts what is to run there.
    fn start(&self, parent: &TestCgroup, time: Duration, all: &mut Vec<Spinning>) {
        let cgroup = parent.child(self.name);
        if self.level.is_idle {
            assert!(cgroup.make_idle());
        } else {
            cgroup.entitle(&self.level);
        }
        self.inside.iter().for_each(|one| one.start(&cgroup, time, all));
        let load = self.inside.is_empty().then(|| cgroup.start(&format!("threads 2 {}", time.as_millis())));
        all.push(Spinning { load, cgroup, name: self.name, part: self.part });
    }
}

/// A cgroup that was started. Those inside of others come first, so that they are removed first.
struct Spinning {
    /// `None` where it has others inside.
    load: Option<Load>,
    cgroup: TestCgroup,
    name: &'static str,
    part: f64,
}

/// The part of the whole that each spinning cgroup got, beside the part that it is to get, and what `--status` said of
/// them.
fn divided(levels: &[Entitled], time: Duration) -> (Vec<(&'static str, f64, f64)>, String) {
    /// How long it takes until the entitlement of each is worked out.
    const BEFORE: Duration = Duration::from_secs(4);
    let parent = TestCgroup::new("weights");
    let mut all = Vec::new();
    levels.iter().for_each(|level| level.start(&parent, time + BEFORE + Duration::from_secs(2), &mut all));
    let loads = |all: &mut Vec<Spinning>, what: fn(&mut Load)| {
        all.iter_mut().filter_map(|one| one.load.as_mut()).for_each(what)
    };
    loads(&mut all, |load| assert_eq!(load.line(), "joined"));
    loads(&mut all, Load::go);
    thread::sleep(BEFORE);
    let of = |all: &[Spinning]| -> Vec<u64> { all.iter().map(|one| one.cgroup.cpu_ns()).collect() };
    let before = of(&all);
    thread::sleep(time);
    let used: Vec<f64> = of(&all).into_iter().zip(before).map(|(after, before)| (after - before) as f64).collect();
    let status = status();
    let leaves = || all.iter().zip(&used).filter(|(one, _)| one.load.is_some());
    let whole: f64 = leaves().map(|(_, used)| used).sum();
    let parts = leaves().map(|(one, used)| (one.name, one.part, used / whole)).collect();
    (parts, status)
}

fn weights() {
    if !is_possible() {
        return;
    }
    let flat = [
        Entitled::new("a", 100.0, 100.0 / 603.0),
        Entitled::new("b", 200.0, 200.0 / 603.0),
        Entitled::new("c", 300.0, 300.0 / 603.0),
        Entitled::idle("d", 3.0 / 603.0),
    ];
    // Two levels: a third and two thirds; inside of the latter a quarter and three quarters.
    let deep = [
        Entitled::new("e", 100.0, 1.0 / 3.0),
        Entitled::new("f", 200.0, 0.0)
            .with(vec![Entitled::new("g", 100.0, 1.0 / 6.0), Entitled::new("h", 300.0, 1.0 / 2.0)]),
    ];
    for levels in [&flat[..], &deep] {
        let lags = Lags::start(&["--learn", "0s"]);
        let (parts, status) = divided(levels, Duration::from_secs(6));
        lags.end(Signal::TERM);
        println!("{status}");
        assert!(status.contains("LAGS schedules this host") && status.contains("weights"), "{status}");
        for (name, part, got) in &parts {
            println!("{name} got {got:.4} of the CPU time, and is entitled to {part:.4}");
        }
        for (name, part, got) in parts {
            // A cgroup that is entitled to next to nothing may be off by more: a turn takes at least a tick.
            let allowed = (0.05 * part).max(0.004);
            assert!((got - part).abs() < allowed, "{name} got {got}, and is entitled to {part}");
        }
    }
}

/// Many cgroups of which each wants little, but together more than there is, beside two that want all.
fn overload() {
    if !is_possible() {
        return;
    }
    let mix = Mix { heavy: 4, threads: 2, light: 30, gap: 20_000, work: 2_500, time: seconds(4), before: seconds(2) };
    let lags = Lags::start(&["--learn", "1s"]);
    let block = mix.run();
    block.say("overload");
    lags.is_in_force();
    let (status, said) = lags.end(Signal::INT);
    println!("{said}");
    assert!(status.success(), "{said}");
    assert!(block.gap < 4_500.0, "one did not get on for {} ms", block.gap);
    assert!(block.work > 0);
}

/// A cgroup whose CPU time is watched.
struct Watched {
    cgroup: TestCgroup,
    used: u64,
    since: Instant,
    /// The longest time in which it got none.
    longest: Duration,
}

impl Watched {
    fn look(&mut self) {
        let used = self.cgroup.cpu_ns();
        self.longest = self.longest.max(self.since.elapsed());
        if used > self.used {
            (self.used, self.since) = (used, Instant::now());
        }
    }
}

/// A hundred cgroups that have run before, and slept so long that each was promised as much as one that wakes alone: all that is
/// known of them is wrong. Each says for itself how long it waited: whoever looks at them has to wait, too.
fn awakening() {
    if !is_possible() {
        return;
    }
    let heavy = TestCgroup::new("heavy");
    let mut load = heavy.start("threads 4 3600000");
    assert_eq!(load.line(), "joined");
    load.go();
    let lags = Lags::start(&["--learn", "1s"]);
    let mix =
        Mix { heavy: 100, threads: 1, light: 2, gap: 50_000, work: 1_000, time: seconds(12), before: Duration::ZERO };
    let (block, ()) = mix.run_after(seconds(4), || ());
    block.say("awakening");
    lags.is_in_force();
    let (status, said) = lags.end(Signal::INT);
    assert!(status.success(), "{said}");
    // Where the machine itself waits, it is only sure that everybody gets on.
    let most = if is_slow() && !is_counted() { 12_000.0 } else { 4_500.0 };
    assert!(block.gap < most, "one did not get on for {} ms", block.gap);
    drop(load);
}

/// Pinned tasks, changes of affinity, real-time and deadline tasks, storms of threads and of processes that execute programs, and
/// a task that is moved from cgroup to cgroup, each of which is removed behind it.
fn disorder() {
    if !is_possible() {
        return;
    }
    let time = seconds(if is_slow() { 20 } else { 6 });
    let parent = TestCgroup::new("disorder");
    let kinds = ["threads 4", "crowd 0 2", "wander", "mortal", "processes", "real-time", "deadline"];
    let kinds = kinds.iter().filter(|kind| **kind != "wander" || thread::available_parallelism().unwrap().get() > 1);
    let mut watched: Vec<Watched> = Vec::new();
    let mut loads = Vec::new();
    for kind in kinds {
        let cgroup = parent.child(kind.split(' ').next().unwrap());
        loads.push(cgroup.start(&format!("{kind} {}", 2 * time.as_millis())));
        watched.push(Watched { cgroup, used: 0, since: Instant::now(), longest: Duration::ZERO });
    }
    let home = parent.child("home");
    let mut wanderer = home.start("nap 3600000");
    loads.iter_mut().chain([&mut wanderer]).for_each(|load| assert_eq!(load.line(), "joined"));
    // Before Linux 7.0 the real-time load may look to lagstop as if it could take all CPUs.
    let lags = Lags::start(&["--learn", "0s", "--ignore-real-time"]);
    loads.iter_mut().chain([&mut wanderer]).for_each(Load::go);
    watched.iter_mut().for_each(|one| (one.used, one.since) = (one.cgroup.cpu_ns(), Instant::now()));
    let (start, mut moves) = (Instant::now(), 0);
    while start.elapsed() < time {
        let visited = parent.child(&format!("visited{moves}"));
        visited.take_in(wanderer.pid());
        thread::sleep(Duration::from_millis(20));
        home.take_in(wanderer.pid());
        moves += 1;
        watched.iter_mut().for_each(Watched::look);
    }
    lags.is_in_force();
    for Watched { cgroup, longest, .. } in &watched {
        println!("{}: at most {longest:?} without CPU time", cgroup.path);
        assert!(*longest < Duration::from_millis(4_500), "{} got none for {longest:?}", cgroup.path);
    }
    println!("{moves} cgroups came and went");
    assert!(moves >= 10, "{moves}");
    let (status, said) = lags.end(Signal::INT);
    println!("{said}");
    assert!(status.success(), "{said}");
    eventually("the kernel's own is back", is_back);
    // Processes end before their cgroups are removed.
    drop((loads, wanderer));
}

/// What LAGS ranks by with `--credit paper`, worked out in the kernel in fixed point, is what lagstop works out of the waits and
/// the CPU time that it measures. Both average the same seconds, and are read up to a second apart.
fn papers_credit() {
    if !is_possible() {
        return;
    }
    let parent = TestCgroup::new("credit");
    let cgroups = [1, 3].map(|tasks| (parent.child(&format!("of{tasks}")), tasks));
    let mut loads: Vec<Load> =
        cgroups.iter().flat_map(|(cgroup, tasks)| (0..*tasks).map(|_| cgroup.start("nap 3600000"))).collect();
    loads.iter_mut().for_each(|load| assert_eq!(load.line(), "joined"));
    loads.iter_mut().for_each(Load::go);
    let lags = Lags::start(&["--learn", "0s", "--credit", "paper", "--memory", "2s"]);
    let sums = with_stream_every(seconds(1), GroupBy::Scheduler, async |stream| {
        let mut sums = [[0.0; 2]; 2];
        for n in 0..20 {
            let interval = stream.intervals.recv().await.unwrap().unwrap();
            let groups = SchedulerStatus::read().unwrap().groups;
            for ((cgroup, _), [measured, ranked]) in cgroups.iter().zip(&mut sums).filter(|_| n >= 8) {
                let of = |known: &&lagstop::model::Cgroup| *known.path == *cgroup.path;
                *measured += interval.cgroups.iter().find(of).unwrap().load_credit.unwrap().0;
                let of = |known: &&GroupStatus| known.path == cgroup.path;
                *ranked += groups.iter().find(of).unwrap().load_credit.unwrap();
            }
        }
        sums
    });
    println!("{}", status());
    lags.end(Signal::INT);
    eventually("the kernel's own is back", is_back);
    for ((cgroup, _), [measured, ranked]) in cgroups.iter().zip(sums) {
        let (measured, ranked) = (measured / 12.0, ranked / 12.0);
        println!(
            "{}: Load Credit {measured:.3}, LAGS ranks by {ranked:.3}: {:+.1} %",
            cgroup.path,
            100.0 * (ranked / measured - 1.0)
        );
        assert!(measured > 0.2, "{measured}");
        assert!((ranked / measured - 1.0).abs() < 0.1, "{}: {ranked} is not {measured}", cgroup.path);
    }
    drop(loads);
}
