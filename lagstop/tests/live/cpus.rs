//! What each CPU did, and who crowded it.

use std::{sync::Arc, thread, time::Duration};

use lagstop::{
    kernel::KernelSnapshot,
    model::{CgroupId, CgroupState, Cpu, Crowding, Interval, LoadCredits, Nanos, Snapshot},
};

use crate::{
    Test,
    fixture::{Load, Probes, Setup, TestCgroup, assert_within, at_least, tolerance},
};

pub(crate) const TESTS: &[Test] = &[
    ("a_cpu_is_crowded_by_who_runs_and_waits_there", crowd),
    ("each_cpu_adds_up_to_the_cgroups_on_it", identity),
    ("nothing_of_a_cpu_that_is_excluded_is_counted", excluded),
];

/// The kernel's part as a snapshot, as the source makes it.
fn state_of(KernelSnapshot { at, idle, cgroups, cpus, .. }: KernelSnapshot) -> Snapshot {
    let state = |counters| Arc::new(CgroupState { counters, ..CgroupState::default() });
    Snapshot {
        at,
        idle,
        cgroups: cgroups.into_iter().map(|(id, known)| (id, state(known.counters))).collect(),
        cpus,
        ..Snapshot::default()
    }
}

fn between(before: &Snapshot, after: &Snapshot) -> Interval {
    Interval::between(0, Nanos::ZERO, before, after, &mut LoadCredits::default())
}

/// The part of `id` in the crowd on `cpu`, if it is named there.
fn part_of(id: CgroupId, cpu: &Cpu) -> Option<&Crowding> {
    cpu.crowd.iter().find(|one| one.id == id)
}

/// The same load on the second CPU, which is excluded.
fn excluded() {
    let cgroup = TestCgroup::new("excluded");
    let mut probes = Probes::with(&Setup { excluded: vec![1], ..Setup::default() });
    let before = state_of(probes.snapshot());
    let mut load = cgroup.start("crowd 1 8");
    load.line();
    let then = cgroup.cpu_ns();
    load.go();
    assert_eq!(load.line(), "done");
    let after = state_of(probes.snapshot());
    let there = cgroup.cpu_ns() - then;
    let interval = between(&before, &after);

    let cpus: Vec<u32> = interval.cpus.iter().map(|cpu| cpu.cpu).collect();
    assert!(!cpus.contains(&1) && cpus.contains(&0), "{cpus:?}");
    let busy = interval.cpus.iter().map(|cpu| cpu.totals.busy_ns.0 + cpu.totals.idle_ns.0).sum::<u64>();
    assert_within("the time of the other CPUs", busy, interval.duration_ns.0 * cpus.len() as u64, tolerance(2.0));
    // The load was put on the excluded CPU, and ran elsewhere until then.
    let counted = interval.cgroups.iter().find(|one| one.id == cgroup.id()).map_or(0, |one| one.totals.cpu_ns.0);
    assert!(counted < there / 20, "{counted} of {there} ns");
    let waited = interval.cgroups.iter().find(|one| one.id == cgroup.id());
    let behind = waited.map_or(0, |one| one.totals.wait_self_ns.unwrap_or_default().0);
    assert!(behind < there / 20, "{behind} ns of waiting for each other");
}

/// More tasks than whatever else runs here is likely to have on one CPU, all on the second.
fn crowd() {
    const TASKS: u64 = 16;
    let cgroup = TestCgroup::new("crowd");
    let mut probes = Probes::attach();
    let mut load = cgroup.start(&format!("crowd 1 {TASKS}"));
    load.line();
    let (before, then) = (state_of(probes.snapshot()), cgroup.cpu_ns());
    load.go();
    assert_eq!(load.line(), "done");
    thread::sleep(Duration::from_millis(50));
    let (after, now) = (state_of(probes.snapshot()), cgroup.cpu_ns());
    let interval = between(&before, &after);
    interval.cpus.iter().for_each(|cpu| println!("{cpu:?}"));

    let crowding = interval.cpus[1].crowd[0];
    assert_eq!((interval.cpus[1].cpu, crowding.id), (1, cgroup.id()));
    assert_within("CPU time on CPU 1", crowding.cpu_ns.0, now - then, tolerance(2.0));
    let all = interval.cgroups.iter().find(|one| one.id == cgroup.id()).unwrap();
    let wait = crowding.runq_wait_ns.unwrap();
    assert_within("run-queue wait on CPU 1", wait.0, all.totals.runq_wait_ns.unwrap().0, tolerance(2.0));
    assert!(wait.0 > (TASKS / 2) * crowding.cpu_ns.0, "the tasks were to wait for one another: {wait}");
    let elsewhere = part_of(cgroup.id(), &interval.cpus[0]).map_or(0, |one| one.cpu_ns.0);
    assert!(elsewhere < crowding.cpu_ns.0 / 50, "{elsewhere} ns on CPU 0, where it was not to be");
    // It is named once on each CPU, and its parts are no more than all.
    let named = |cpu: &&Cpu| part_of(cgroup.id(), cpu).is_some();
    assert!(interval.cpus.iter().filter(named).count() <= 2);
    assert!(crowding.cpu_ns.0 + elsewhere <= all.totals.cpu_ns.0);
}

fn identity() {
    let cgroups: Vec<TestCgroup> = (0..4).map(|n| TestCgroup::new(&format!("cpus{n}"))).collect();
    let mut probes = Probes::attach();
    let mut loads: Vec<Load> =
        cgroups.iter().flat_map(|cgroup| [cgroup.start("nap"), cgroup.start("wander")]).collect();
    loads.iter_mut().for_each(|load| drop(load.line()));
    loads.iter_mut().for_each(Load::go);
    thread::sleep(Duration::from_secs(2));
    probes.snapshot();
    // A reading takes some time: with the programs detached nothing moves.
    probes.reader.detach();
    let after = state_of(probes.snapshot());
    // Since the programs were attached.
    let interval = between(&Snapshot::default(), &after);
    assert_eq!(interval.cpus.iter().map(|cpu| cpu.cpu).collect::<Vec<_>>(), online());

    let switches: u64 = interval.cgroups.iter().map(|cgroup| cgroup.totals.switches).sum();
    let idle = interval.host.idle.switches;
    println!("{switches} switches of cgroups, {idle} of idle");
    assert!(switches > at_least(5_000));
    assert_eq!(interval.cpus.iter().map(|cpu| cpu.totals.switches.unwrap()).sum::<u64>(), switches + idle);
    assert_eq!(
        interval.host.capacity(),
        interval.cpus.iter().map(|cpu| cpu.totals.busy_ns.saturating_add(cpu.totals.idle_ns)).sum()
    );
    for cpu in &interval.cpus {
        let on_it = |state: &Arc<CgroupState>| state.counters.by_cpu.on(cpu.cpu as usize);
        let (times, waits): (Vec<Nanos>, Vec<Option<Nanos>>) = after.cgroups.values().map(on_it).unzip();
        assert_eq!(waits.into_iter().sum::<Option<Nanos>>(), cpu.totals.runq_wait_ns, "CPU {}", cpu.cpu);
        // Two clocks are compared, and the one that is read from switch to switch includes interrupts and what a
        // hypervisor took.
        let time = times.into_iter().sum::<Nanos>();
        println!("CPU {}: {time} of CPU time, {} busy", cpu.cpu, cpu.totals.busy_ns);
        let within = cpu.totals.busy_ns.0 / 2..cpu.totals.busy_ns.0 + cpu.totals.busy_ns.0 / 50;
        assert!(within.contains(&time.0), "CPU {}: {time} of CPU time in {}", cpu.cpu, cpu.totals.busy_ns);
    }
    for (id, state) in &after.cgroups {
        let (totals, by_cpu) = (&state.counters.totals, &state.counters.by_cpu);
        assert_eq!(by_cpu.cpu_ns.iter().copied().sum::<Nanos>(), totals.cpu_ns, "{id:?}");
        let waits = by_cpu.runq_wait_ns.as_ref().map(|waits| waits.iter().copied().sum::<Nanos>());
        assert_eq!(waits, totals.runq_wait_ns, "{id:?}");
    }
}

/// Numbers of the CPUs online.
fn online() -> Vec<u32> {
    lagstop::host::Cpus::read().unwrap().online
}
