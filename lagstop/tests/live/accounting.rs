//! Switches, waits, CPU time, migrations, and that they add up.

use std::{
    fs,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use lagstop::model::{CgroupCounters, CpuReading, Distribution, LoadCredits, Lost, Measure, Nanos, Tasks, Totals};

use crate::{
    Test,
    fixture::{Load, Probes, Setup, TestCgroup, assert_equal_but_for_edges, assert_within, at_least, is_slow, kernel},
    kernel_files::{ProcessFigures, context_switches, tg_load_avg},
    load::WORK,
};

pub(crate) const TESTS: &[Test] = &[
    ("switches_and_waits_agree_with_proc_while_cpus_are_contended", contended),
    ("switches_and_waits_agree_with_proc_while_cpus_are_half_idle", half_idle),
    ("switches_and_waits_of_tasks_that_share_places_agree_with_proc", shared_places),
    ("where_no_place_is_left_for_tasks_it_is_counted_and_nothing_else_is_lost", no_places),
    ("switches_are_timed_only_between_chosen_readings", timed_now_and_then),
    ("a_thread_that_executes_a_program_does_not_wait_twice", execute),
    ("cpu_time_agrees_with_the_cgroups_own_figure", cpu_time),
    ("cpu_time_of_a_task_that_never_switches_is_there_at_once", lone_spinner),
    ("migrations_agree_with_proc", migrations),
    ("a_ping_pong_inside_one_cgroup_crosses_none", ping_pong_inside),
    ("a_ping_pong_between_two_cgroups_always_crosses", ping_pong_across),
    ("cgroups_and_idle_add_up_to_the_cpus_exactly", identity),
    ("switches_of_all_cpus_agree_with_proc_stat", all_switches),
    ("runnable_load_and_load_credit_agree_with_tg_load_avg", load_credit),
    ("threads_are_counted_once", threads),
    ("many_cgroups_make_switches_dearer", density),
];

/// What lagstop counted, what the kernel did, and what was lost.
pub(crate) type Measured = (CgroupCounters, ProcessFigures, Lost);

fn run(name: &str, kind: &str, loads: usize) -> Measured {
    run_with(&Setup::default(), name, kind, loads)
}

/// Runs `loads` loads of one kind in a new cgroup, and gives what lagstop and the kernel counted while they worked.
pub(crate) fn run_with(setup: &Setup, name: &str, kind: &str, loads: usize) -> Measured {
    let cgroup = TestCgroup::new(name);
    let mut probes = Probes::with(setup);
    let mut loads: Vec<Load> = (0..loads).map(|_| cgroup.start(kind)).collect();
    loads.iter_mut().for_each(|load| drop(load.line()));
    thread::sleep(Duration::from_millis(50));
    let before = probes.counters(cgroup.id());
    let then: Vec<ProcessFigures> = loads.iter().map(|load| ProcessFigures::read(load.pid())).collect();
    loads.iter_mut().for_each(Load::go);
    for load in &mut loads {
        assert_eq!(load.line(), "done");
    }
    thread::sleep(Duration::from_millis(50));
    let counters = probes.counters(cgroup.id()).since(&before);
    let mut kernel = ProcessFigures::default();
    for (load, then) in loads.iter().zip(then) {
        kernel.add(ProcessFigures::read(load.pid()).since(then));
    }
    let lost = probes.snapshot().lost;
    println!("lost: {lost:?}");
    assert_eq!((lost.task_states, lost.cgroup_overflows), (0, 0));
    (counters, kernel, lost)
}

/// Counts may differ by what happens at the edges, and the sum of the waits by `percent`.
pub(crate) fn agree((counters, kernel, lost): &Measured, edges: u64, percent: f64) {
    let totals = counters.totals;
    // Where no exit is seen, a switch that the kernel does not show stays unknown.
    let edges = if totals.swap_ns.is_some() { edges } else { edges + lost.switches };
    assert_equal_but_for_edges("voluntary switches", totals.voluntary_switches, kernel.voluntary, edges);
    assert_equal_but_for_edges("involuntary switches", totals.involuntary_switches, kernel.involuntary, edges);
    assert_equal_but_for_edges("waits", totals.runq_waits.unwrap(), kernel.waits, edges);
    assert_within("run-queue wait", totals.runq_wait_ns.unwrap().0, kernel.run_delay_ns, percent);
    assert_eq!(totals.switches, totals.voluntary_switches + totals.involuntary_switches);
    let waits = counters.runq_wait.as_ref().unwrap();
    assert_eq!(waits.count(), totals.runq_waits.unwrap(), "every wait is in the distribution");
    // Every switch has a cost, except for those that were seen only in part, on the whole host.
    if let Some(costs) = counters.switch_cost.as_ref().map(Distribution::count) {
        let unseen = lost.switches + lost.entries + lost.exits;
        assert!(costs <= totals.switches && costs + unseen >= totals.switches, "{costs} costs, {lost:?}");
    }
    // No bucket's middle is off by more than 12.5 %.
    let sum: u64 = waits.bins().map(|(wait, count)| wait.0 * u64::from(count)).sum();
    assert_within("sum of the wait distribution", sum, totals.runq_wait_ns.unwrap().0, 12.5);
}

pub(crate) fn contended() {
    let measured = run("contended", "nap", 8);
    assert!(measured.1.waits > at_least(5_000), "the load was to wait: {:?}", measured.1);
    agree(&measured, 8, 1.0);
}

pub(crate) fn half_idle() {
    let measured = run("idle", "nap", 1);
    assert!(measured.1.voluntary > at_least(1_000), "the load was to sleep: {:?}", measured.1);
    agree(&measured, 2, 1.0);
}

/// With half as many tasks as places, one in five to ten finds its place taken.
fn shared_places() {
    let threads = fs::read_dir("/proc").unwrap().filter_map(|entry| fs::read_dir(entry.ok()?.path().join("task")).ok());
    let tasks = threads.map(Iterator::count).sum::<usize>() as u32;
    assert!(tasks > 40, "{tasks} tasks");
    let setup = Setup { max_tasks: Some(2 * tasks), ..Setup::default() };
    let measured = run_with(&setup, "places", "wander", 8);
    agree(&measured, 16, 1.0);
}

fn no_places() {
    let cgroup = TestCgroup::new("placeless");
    let mut probes = Probes::with(&Setup { max_tasks: Some(4), ..Setup::default() });
    let mut loads: Vec<Load> = (0..8).map(|_| cgroup.start("nap")).collect();
    loads.iter_mut().for_each(|load| drop(load.line()));
    thread::sleep(Duration::from_millis(50));
    let before = probes.counters(cgroup.id());
    let then: Vec<ProcessFigures> = loads.iter().map(|load| ProcessFigures::read(load.pid())).collect();
    loads.iter_mut().for_each(Load::go);
    loads.iter_mut().for_each(|load| drop(load.line()));
    thread::sleep(Duration::from_millis(50));
    let totals = probes.counters(cgroup.id()).since(&before).totals;
    let mut kernel = ProcessFigures::default();
    for (load, then) in loads.iter().zip(then) {
        kernel.add(ProcessFigures::read(load.pid()).since(then));
    }
    assert_equal_but_for_edges("voluntary switches", totals.voluntary_switches, kernel.voluntary, 8);
    assert_equal_but_for_edges("involuntary switches", totals.involuntary_switches, kernel.involuntary, 8);
    let lost = probes.snapshot().lost.task_states;
    println!("{lost} times there was no place");
    assert!(lost > 0);
}

struct TimedReading {
    is_timed: bool,
    counters: Arc<CgroupCounters>,
    lost: Lost,
    began: Instant,
    took: Duration,
}

fn timed_now_and_then() {
    let cgroup = TestCgroup::new("timed");
    let mut probes = Probes::with(&Setup { samples_cost: true, ..Setup::default() });
    let mut loads: Vec<Load> = (0..3).map(|_| cgroup.start("nap 60000")).collect();
    loads.iter_mut().for_each(|load| drop(load.line()));
    loads.iter_mut().for_each(Load::go);
    if !probes.reader.samples_cost() {
        assert!(kernel() < (5, 13), "a program can be attached to a function again");
        println!("every switch is timed");
        for _ in 0..3 {
            probes.reader.time_next(false);
            assert!(probes.snapshot().switches_timed);
        }
        return;
    }
    // Without tracepoints, some calls of `__schedule()` come from places where no function can be hooked.
    let sees_all = probes.reader.way(Measure::SwitchCost) == Some("tracepoints");
    let mut read = |times_next: bool| {
        probes.reader.time_next(times_next);
        let began = Instant::now();
        let snapshot = probes.snapshot();
        let counters =
            snapshot.cgroups.get(&cgroup.id()).map_or_else(Arc::default, |known| Arc::clone(&known.counters));
        TimedReading { is_timed: snapshot.switches_timed, counters, lost: snapshot.lost, began, took: began.elapsed() }
    };
    let mut then = read(false);
    let mut lost = 0;
    let attached_untimed = attached();
    for round in 0..20 {
        let is_timed = round % 2 == 1;
        thread::sleep(Duration::from_millis(300));
        let attached_before = attached();
        let now = read(!is_timed);
        assert_eq!(now.is_timed, is_timed);
        // The timing programs are attached only while switches are timed: even a program that returns at once costs
        // something.
        assert_eq!(attached_before > attached_untimed, is_timed, "{attached_before} of {attached_untimed}");
        let since = now.counters.since(&then.counters);
        let costs = since.switch_cost.as_ref().map_or(0, Distribution::count);
        let (switches, pick) = (since.totals.switches, since.totals.pick_ns.unwrap());
        // What happens between a CPU's turn and the reading of its rows is on either side.
        let reading = (then.took + now.took).as_secs_f64() / now.began.duration_since(then.began).as_secs_f64();
        println!(
            "round {round}: {switches} switches, {costs} costs, {pick} of pick cost, {:.1} % of the time reading",
            reading * 100.0
        );
        assert!(switches > at_least(200), "the load was to switch");
        let edges = 4 + switches / if is_slow() { 10 } else { 50 } + (switches as f64 * reading) as u64;
        let all_lost = |lost: &Lost| lost.entries + lost.exits + lost.switches;
        if is_timed {
            let all_lost = all_lost(&now.lost) - all_lost(&then.lost);
            lost += all_lost;
            assert!(
                costs <= switches + edges && costs + all_lost + edges >= switches,
                "{costs} costs, {all_lost} lost"
            );
            assert!(pick > Nanos::ZERO);
        } else {
            assert!(costs <= edges, "{costs} costs");
            let since = now.lost.entries + now.lost.exits - then.lost.entries - then.lost.exits;
            assert!(since <= edges, "{since} were lost that were not wanted");
        }
        then = now;
    }
    println!("{lost} were lost at the edges");
    assert!(!sees_all || lost <= 10 * 4 * probes.online.len() as u64, "{lost}");
}

/// Programs of this process on their hooks.
fn attached() -> usize {
    let files = fs::read_dir("/proc/self/fd").unwrap().flatten();
    let names = files.filter_map(|file| Some(fs::read_link(file.path()).ok()?.to_string_lossy().into_owned()));
    names.filter(|name| ["bpf_link", "bpf-raw-tracepoint", "[perf_event]"].iter().any(|it| name.contains(it))).count()
}

/// The thread takes over the process' id and time of birth.
fn execute() {
    let cgroup = TestCgroup::new("execute");
    let crowd: Vec<TestCgroup> = (0..3).map(|n| TestCgroup::new(&format!("crowd{n}"))).collect();
    let mut probes = Probes::attach();
    let mut hogs: Vec<Load> = crowd.iter().map(|cgroup| cgroup.start("threads 2")).collect();
    let mut load = cgroup.start("execute 1500");
    for load in hogs.iter_mut().chain([&mut load]) {
        load.line();
        load.go();
    }
    // The program has started again.
    assert_eq!(load.line(), "joined");
    drop(hogs);
    load.go();
    assert_eq!(load.line(), "done");
    thread::sleep(Duration::from_millis(50));
    let (counters, kernel) = (probes.counters(cgroup.id()), ProcessFigures::read(load.pid()));
    assert!(kernel.run_delay_ns > 300_000_000, "the load was to wait: {kernel:?}");
    // The first thread has waited a little too, and the kernel does not count that any more.
    assert_within("run-queue wait", counters.totals.runq_wait_ns.unwrap().0, kernel.run_delay_ns, 20.0);
}

pub(crate) fn cpu_time() {
    let cgroup = TestCgroup::new("cpu");
    let mut probes = Probes::attach();
    let mut loads: Vec<Load> = (0..3).map(|_| cgroup.start("nap")).collect();
    loads.iter_mut().for_each(|load| drop(load.line()));
    let (before, then) = (probes.counters(cgroup.id()), cgroup.cpu_ns());
    loads.iter_mut().for_each(Load::go);
    loads.iter_mut().for_each(|load| drop(load.line()));
    let (after, now) = (probes.counters(cgroup.id()), cgroup.cpu_ns());
    assert_within("CPU time", after.since(&before).totals.cpu_ns.0, now - then, 1.0);
}

fn lone_spinner() {
    let cgroup = TestCgroup::new("lone");
    let mut probes = Probes::attach();
    let mut load = cgroup.start("spin");
    load.line();
    load.go();
    thread::sleep(Duration::from_millis(500));
    // What the kernel books lies around the reading, as in `all_switches`.
    let mut bracketed = || (cgroup.cpu_ns(), probes.counters(cgroup.id()).totals.cpu_ns, cgroup.cpu_ns());
    let first = bracketed();
    thread::sleep(Duration::from_secs(2));
    let last = bracketed();
    let (least, measured, most) = (last.0 - first.2, last.1.saturating_sub(first.1).0, last.2 - first.0);
    println!("CPU time: measured {measured}, the kernel says {least} to {most}");
    assert!(least > 200_000_000, "the load was to spin");
    // The kernel books at its tick.
    let tick = if is_slow() { 10_000_000 } else { 4_000_000 };
    assert!(measured + tick >= least && measured <= most + tick, "{measured}: not {least} to {most}");
}

pub(crate) fn migrations() {
    let measured = run("wander", "wander", 2);
    let (counters, kernel, _) = &measured;
    assert!(kernel.migrations > at_least(1_000), "the load was to change CPUs: {kernel:?}");
    assert_equal_but_for_edges("migrations", counters.totals.migrations.unwrap(), kernel.migrations, 4);
    agree(&measured, 4, 1.0);
}

fn ping_pong_inside() {
    let cgroup = TestCgroup::new("inside");
    let totals = ping_pong(&cgroup, &cgroup);
    let share = totals.cross_cgroup_switches.unwrap() as f64 / totals.switches as f64;
    println!("{} of {} switches cross", totals.cross_cgroup_switches.unwrap(), totals.switches);
    assert!(totals.switches > at_least(10_000) && share < 0.02, "{share}");
}

fn ping_pong_across() {
    let (one, two) = (TestCgroup::new("one"), TestCgroup::new("two"));
    let totals = ping_pong(&one, &two);
    let share = totals.cross_cgroup_switches.unwrap() as f64 / totals.switches as f64;
    println!("{} of {} switches cross", totals.cross_cgroup_switches.unwrap(), totals.switches);
    assert!(totals.switches > at_least(10_000) && share > 0.98, "{share}");
}

/// What is counted for the one that begins.
fn ping_pong(one: &TestCgroup, two: &TestCgroup) -> Totals {
    let pipes = tempfile::tempdir().unwrap();
    for pipe in ["ping", "pong"] {
        let mode = rustix::fs::Mode::RWXU;
        rustix::fs::mknodat(rustix::fs::CWD, pipes.path().join(pipe), rustix::fs::FileType::Fifo, mode, 0).unwrap();
    }
    let mut probes = Probes::attach();
    let mut loads = [
        one.start(&format!("ping {}", pipes.path().display())),
        two.start(&format!("pong {}", pipes.path().display())),
    ];
    loads.iter_mut().for_each(|load| drop(load.line()));
    let before = probes.counters(one.id());
    loads.iter_mut().for_each(Load::go);
    thread::sleep(WORK / 2);
    probes.counters(one.id()).since(&before).totals
}

pub(crate) fn identity() {
    let cgroups: Vec<TestCgroup> = (0..4).map(|n| TestCgroup::new(&format!("sum{n}"))).collect();
    let mut probes = Probes::attach();
    let mut loads: Vec<Load> =
        cgroups.iter().flat_map(|cgroup| [cgroup.start("nap"), cgroup.start("wander")]).collect();
    loads.iter_mut().for_each(|load| drop(load.line()));
    loads.iter_mut().for_each(Load::go);
    thread::sleep(Duration::from_secs(2));
    probes.snapshot();
    // Reading is not one moment. With the programs detached nothing moves, and the two books must be equal.
    probes.reader.detach();
    let snapshot = probes.snapshot();
    let mut rows = snapshot.idle;
    for cgroup in snapshot.cgroups.values() {
        rows.add(&cgroup.counters.totals);
    }
    let sum = |figure: fn(&CpuReading) -> u64| snapshot.cpus.iter().map(figure).sum::<u64>();
    println!("{} switches, {} of pick cost", rows.switches, rows.pick_ns.unwrap());
    assert!(rows.switches > at_least(10_000));
    assert_eq!(rows.switches, sum(|cpu| cpu.totals.switches.unwrap()));
    assert_eq!(rows.schedule_calls, Some(sum(|cpu| cpu.totals.switches.unwrap() + cpu.totals.kept_calls.unwrap())));
    assert_eq!(rows.pick_ns, Some(Nanos(sum(|cpu| cpu.totals.pick_ns.unwrap().0))));
    assert_eq!(rows.swap_ns, Some(Nanos(sum(|cpu| cpu.totals.swap_ns.unwrap().0))));
    assert_eq!(rows.runq_waits, Some(sum(|cpu| cpu.totals.runq_waits.unwrap())));
    assert_eq!(rows.runq_wait_ns, Some(Nanos(sum(|cpu| cpu.totals.runq_wait_ns.unwrap().0))));
}

/// `/proc/stat` is read before and after lagstop reads: what lagstop counts lies between.
pub(crate) fn all_switches() {
    let cgroup = TestCgroup::new("all");
    let mut probes = Probes::attach();
    let mut loads: Vec<Load> = (0..3).map(|_| cgroup.start("nap")).collect();
    loads.iter_mut().for_each(|load| drop(load.line()));
    let mut bracketed = || {
        let before = context_switches();
        let snapshot = probes.snapshot();
        (before, snapshot.cpus.iter().filter_map(|cpu| cpu.totals.switches).sum::<u64>(), context_switches())
    };
    let first = bracketed();
    loads.iter_mut().for_each(Load::go);
    thread::sleep(Duration::from_secs(2));
    let last = bracketed();
    let (least, measured, most) = (last.0 - first.2, last.1 - first.1, last.2 - first.0);
    println!("switches: measured {measured}, the kernel says {least} to {most}");
    // A switch that is neither shown nor seen to end cannot be counted; on kernels that hide some, it is a handful at
    // most.
    let hidden = measured / 1_000;
    assert!(
        measured > at_least(5_000) && measured + hidden >= least && measured <= most,
        "{measured}: not {least} to {most}"
    );
}

fn load_credit() {
    let cgroup = TestCgroup::new("load");
    let mut probes = Probes::attach();
    // They spin until the averages have settled, however slow the machine.
    let mut loads: Vec<Load> = (0..4).map(|_| cgroup.start("spin 600000")).collect();
    loads.iter_mut().for_each(|load| drop(load.line()));
    let mut read = || {
        let snapshot = probes.snapshot();
        (snapshot.at, Arc::clone(&snapshot.cgroups[&cgroup.id()].counters))
    };
    let mut last = read();
    loads.iter_mut().for_each(Load::go);
    let mut credits = LoadCredits::default();
    let mut kernel = Vec::new();
    for _ in 0..12 {
        thread::sleep(Duration::from_secs(1));
        let now = read();
        let totals = now.1.since(&last.1).totals;
        let load =
            Tasks(totals.cpu_ns.saturating_add(totals.runq_wait_ns.unwrap()).cores(now.0.saturating_sub(last.0)).0);
        credits.advance(now.0.saturating_sub(last.0), [(cgroup.id(), load)]);
        last = now;
        kernel.push(tg_load_avg()[&cgroup.path]);
    }
    let settled = &kernel[6..];
    let kernel = settled.iter().sum::<u64>() / settled.len() as u64;
    assert_within("Load Credit", (credits.of(cgroup.id()).0 * 1024.0) as u64, kernel, 10.0);
}

fn threads() {
    const SPINNING: u64 = 5;
    const WINDOWS: u64 = 12;
    let cgroup = TestCgroup::new("threads");
    let mut probes = Probes::attach();
    let mut load = cgroup.start(&format!("threads {SPINNING} 600000"));
    load.line();
    load.go();
    // Until all have started, and the one that starts them waits.
    let (start, window) = if is_slow() { (1_000, 350) } else { (300, 200) };
    thread::sleep(Duration::from_millis(start));
    let mut last = probes.counters(cgroup.id());
    let mut counted = Vec::new();
    for _ in 0..WINDOWS {
        thread::sleep(Duration::from_millis(window));
        let now = probes.counters(cgroup.id());
        counted.push(now.since(&last).totals.threads);
        last = now;
    }
    println!("{counted:?}");
    // Threads that run while lagstop reads are counted in the interval before instead. At either end, that may be all
    // of them.
    let sum: u64 = counted.iter().sum();
    assert!(sum.abs_diff(SPINNING * WINDOWS) <= SPINNING, "{counted:?}");
    assert!(counted.iter().all(|&threads| threads <= 2 * SPINNING), "{counted:?}");
}

/// The papers' effect: the same tasks, once in one cgroup, once in a cgroup each.
fn density() {
    const TASKS: usize = 60;
    const MOST_ROUNDS: usize = 25;
    const DECISIVE: i32 = 4;
    let mean = |cgroups: &[TestCgroup]| {
        let mut probes = Probes::with(&Setup { max_cgroups: Some(500), ..Setup::default() });
        let mut loads: Vec<Load> = cgroups.iter().cycle().take(TASKS).map(|cgroup| cgroup.start("nap 2000")).collect();
        loads.iter_mut().for_each(|load| drop(load.line()));
        let before: Vec<_> = cgroups.iter().map(|cgroup| probes.counters(cgroup.id())).collect();
        loads.iter_mut().for_each(Load::go);
        thread::sleep(Duration::from_millis(700));
        let mut totals =
            Totals { pick_ns: Some(Nanos(0)), swap_ns: Some(Nanos(0)), kept_ns: Some(Nanos(0)), ..Totals::default() };
        for (cgroup, before) in cgroups.iter().zip(before) {
            totals.add(&probes.counters(cgroup.id()).since(&before).totals);
        }
        totals.mean_switch_cost().unwrap()
    };
    // Two means that were measured one after the other differ by chance, too: rounds are added until one side leads by
    // enough.
    let mut lead = 0_i32;
    for round in 0..MOST_ROUNDS {
        let crowd = TestCgroup::new("crowd");
        let together = mean(std::slice::from_ref(&crowd));
        drop(crowd);
        let apart: Vec<TestCgroup> = (0..TASKS).map(|n| TestCgroup::new(&format!("apart{n}"))).collect();
        let apart = mean(&apart);
        lead += if apart > together { 1 } else { -1 };
        println!("round {round}: {together} a switch of {TASKS} tasks in one cgroup, {apart} in {TASKS}");
        // An emulated machine shows what happens, not how long it takes.
        if lead.abs() == DECISIVE || is_slow() {
            break;
        }
    }
    assert!(is_slow() || lead == DECISIVE, "switches cost more among many cgroups in {lead:+} rounds more than not");
}
