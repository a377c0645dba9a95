//! Every way to measure that this kernel has tells the same truth.

use std::{thread, time::Duration};

use lagstop::{
    kernel::{AttachPlan, KernelCgroup, Way},
    model::{CgroupCounters, CpuReading, Lost, Measure, Nanos, Totals},
};

use crate::{
    Test,
    accounting::{agree, run_with},
    fixture::{Load, Probes, Setup, TestCgroup, at_least, facts, is_slow},
    sockets::accept_wait_with,
};

pub(crate) const TESTS: &[Test] = &[
    ("every_way_to_switch_costs_adds_up_and_stays_within_the_time_there_was", switch_costs),
    ("every_way_to_pick_function_costs_stays_below_the_pick_cost", picks),
    ("every_way_to_run_queue_waits_agrees_with_proc", waits),
    ("every_way_to_accept_waits_agrees_with_a_server_that_waits", accepts),
    ("without_the_kernels_types_all_agrees_with_proc", by_file),
    ("the_light_setting_still_agrees_with_proc", light),
];

/// Calls `test` with each way to `measure` that can be attached here; says why of those that cannot.
fn each(measure: Measure, mut test: impl FnMut(&'static Way, Probes)) {
    let best = Probes::attach().way(measure);
    let mut tried = Vec::new();
    for way in measure.ways() {
        let probes = Probes::with(&Setup::by(measure, way.name));
        match probes.way(measure) {
            Ok(used) => {
                assert_eq!(used, way.name);
                println!("{measure}: {used}");
                test(way, probes);
                tried.push(used);
            }
            Err(why) => {
                println!("{measure}: not {}: {why}", way.name);
                // On the distributions' kernels, which are the emulated ones, nothing is refused.
                assert!(!is_slow() || !is_planned(way) || why.contains("did not fire"), "{}: {why}", way.name);
            }
        }
    }
    println!("{} of {} ways to {measure}", tried.len(), measure.ways().count());
    assert!(best.is_err() || best.is_ok_and(|best| tried.contains(&best)), "the way that is used was not tried");
}

/// Should `way` work here, as far as can be told without trying?
fn is_planned(way: &'static Way) -> bool {
    let wishes = Setup::by(way.measure, way.name).wishes;
    AttachPlan::from_facts(facts(), &wishes).is_ok_and(|plan| plan.uses(way.measure))
}

/// What was counted while loads ran, with nothing moving any more.
struct Counted {
    /// For a cgroup of tasks that sleep and wait.
    ours: CgroupCounters,
    /// For all cgroups and idle.
    all: CgroupCounters,
    cpus: Vec<CpuReading>,
    lost: Lost,
}

/// Runs tasks that sleep and wait, and stops the programs before all is read. Beside them run tasks that do not want to
/// leave the CPU, and others that leave it for ever: the time that they run must not be taken for a cost.
fn detached(mut probes: Probes) -> Counted {
    let cgroups: Vec<TestCgroup> = (0..2).map(|n| TestCgroup::new(&format!("way{n}"))).collect();
    let busy = TestCgroup::new("busy");
    let mut loads: Vec<Load> =
        cgroups.iter().flat_map(|cgroup| [cgroup.start("nap 1000"), cgroup.start("nap 1000")]).collect();
    loads.extend([busy.start("spin 1000"), busy.start("mortal 1000")]);
    loads.iter_mut().for_each(|load| drop(load.line()));
    loads.iter_mut().for_each(Load::go);
    for load in &mut loads {
        assert_eq!(load.line(), "done");
    }
    thread::sleep(Duration::from_millis(50));
    // Detaching takes a while, in which one program is there and another is not.
    let before = probes.snapshot();
    let lost = before.lost;
    println!("lost: {lost:?}");
    probes.reader.detach();
    let snapshot = probes.snapshot();
    let ours = before.cgroups[&cgroups[0].id()].counters.as_ref().clone();
    let Totals { pick_ns, cpu_ns, switches, .. } = snapshot.cgroups[&busy.id()].counters.totals;
    println!("busy: {pick_ns:?} of pick cost in {switches} switches, {cpu_ns} of CPU time");
    assert!(pick_ns.unwrap().0 < cpu_ns.0 / 5, "{pick_ns:?} of pick cost in {cpu_ns} of CPU time");
    let mut all = CgroupCounters { totals: snapshot.idle, ..CgroupCounters::default() };
    for KernelCgroup { counters, .. } in snapshot.cgroups.values() {
        all.totals.add(&counters.totals);
    }
    Counted { ours, all, cpus: snapshot.cpus, lost }
}

pub(crate) fn switch_costs() {
    each(Measure::SwitchCost, |way, probes| {
        let whole = way.gives_whole_cost();
        let Counted { ours, all, cpus, lost } = detached(probes);
        let sum = |figure: fn(&CpuReading) -> u64| cpus.iter().map(figure).sum::<u64>();
        assert_eq!(all.totals.switches, sum(|cpu| cpu.totals.switches.unwrap()));
        assert_eq!(all.totals.pick_ns, Some(Nanos(sum(|cpu| cpu.totals.pick_ns.unwrap().0))));
        assert!(cpus.iter().all(|cpu| cpu.totals.swap_ns.is_some() == whole));
        assert_eq!(all.totals.swap_ns, whole.then(|| Nanos(sum(|cpu| cpu.totals.swap_ns.unwrap().0))));
        assert_eq!(ours.switch_cost.is_some(), whole);
        assert!(ours.totals.switches > at_least(500), "{}", ours.totals.switches);
        assert!(ours.totals.pick_ns.unwrap().0 > 0);
        // Costs are part of the time that there was.
        let time = sum(|cpu| cpu.totals.busy_ns.0 + cpu.totals.idle_ns.0);
        let cost = all.totals.pick_ns.unwrap().0 + all.totals.swap_ns.unwrap_or_default().0;
        assert!(cost < time, "{cost} ns of cost in {time} ns");
        if let Some(costs) = ours.switch_cost {
            // Most switches of tasks that sleep have both halves, whatever the way, and the others are known to lack one.
            let share = costs.count() as f64 / ours.totals.switches as f64;
            println!("{:.1} % of {} switches have a cost", share * 100.0, ours.totals.switches);
            assert!(share > 0.5 && share <= 1.0, "{share}");
            let unseen = lost.entries + lost.exits + lost.switches;
            assert!(costs.count() + unseen >= ours.totals.switches, "{} costs, {lost:?}", costs.count());
        }
    });
}

fn picks() {
    each(Measure::Pick, |_, probes| {
        let Counted { ours, all, lost, .. } = detached(probes);
        let (function, pick) = (all.totals.pick_function_ns.unwrap(), all.totals.pick_ns.unwrap());
        println!("{function} of {pick}");
        assert!(ours.totals.pick_function_ns.unwrap().0 > 0);
        // Some ways to switch costs miss entries, and these switches have no pick cost; the function is seen all the same.
        let seen = 1.0 - lost.entries as f64 / all.totals.switches as f64;
        let most = pick.0 as f64 * if lost.entries == 0 { 1.0 } else { 1.2 };
        assert!(function.0 as f64 * seen <= most, "{function} in the function, {pick} from entry to switch, {lost:?}");
    });
}

fn waits() {
    each(Measure::RunqWait, |way, probes| {
        drop(probes);
        let measured = run_with(&Setup::by(Measure::RunqWait, way.name), "waits", "nap", 6);
        // Two clocks, and a wake-up is not quite the moment at which a task is queued. One that the kernel does not show,
        // as on hosts where it hides the switches of a CPU's idle task, is known to be missing.
        let (edges, percent) = match way.name {
            "sched_info" => (8, 1.0),
            _ => (8 + measured.1.waits / 1_000 + measured.2.wakeups, 5.0),
        };
        agree(&measured, edges, percent);
    });
}

fn accepts() {
    for measure in [Measure::TcpState, Measure::Accept] {
        each(measure, |way, probes| {
            drop(probes);
            accept_wait_with(&Setup::by(measure, way.name));
        });
    }
}

fn by_file() {
    let setup = Setup { by_file: true, ..Setup::default() };
    agree(&run_with(&setup, "file", "nap", 4), 8, 1.0);
    accept_wait_with(&setup);
}

fn light() {
    let setup = Setup { wishes: lagstop::kernel::Wishes::light(), ..Setup::default() };
    let measured = run_with(&setup, "light", "nap", 4);
    assert_eq!(measured.0.totals.pick_ns, None);
    assert_eq!(measured.0.totals.migrations, None);
    agree(&measured, 8, 1.0);
}
