//! Who makes whom wait: held against a trace of the kernel's own tracepoints, of the same seconds.

use std::{collections::BTreeSet, sync::Arc, thread, time::Duration};

use lagstop::{
    kernel::KernelSnapshot,
    model::{CgroupCounters, CgroupId, GroupBy, Nanos, Totals, WaitBehind},
};
use rustix::{
    process::Pid,
    thread::{CpuSet, sched_setaffinity},
};

use crate::{
    Test,
    fixture::{Load, Probes, TestCgroup, assert_within, is_slow, tolerance, with_stream},
    trace::{Trace, Traced},
};

pub(crate) const TESTS: &[Test] = &[
    ("who_makes_whom_wait_agrees_with_a_trace", bully),
    ("who_makes_those_wait_that_sleep_agrees_with_a_trace", nappers),
    ("long_waits_are_charged_to_all_who_ran", long_waits),
    ("so_many_waits_that_they_are_sampled_are_charged_to_all_who_ran", sampled),
    ("cgroups_that_were_throttled_once_are_sampled_as_others", sampled_after_a_quota),
    ("a_cgroup_that_waits_behind_its_own_threads_blames_nobody", own_threads),
    ("a_cgroup_that_waits_for_its_quota_blames_nobody", throttled),
    ("waits_of_who_is_moved_are_whole", moved),
    ("causes_add_up_to_the_wait_in_every_interval", whole),
    ("no_blame_falls_on_who_did_not_run", churn),
];

/// All of it happens here.
const CPU: usize = 1;
/// How far a part of a wait may be off, in percentage points.
const POINTS: f64 = 2.0;
/// How long the loads work.
const TIME: Duration = Duration::from_millis(3_000);

/// A cgroup that works on [`CPU`].
struct Party {
    // Dropped first, because a cgroup with a process in it cannot be removed.
    load: Load,
    cgroup: TestCgroup,
    /// Its threads, by the trace.
    threads: BTreeSet<u32>,
}

/// What lagstop measured of each, and what the trace tells.
struct Seen {
    parties: Vec<Party>,
    waited: Vec<Waited>,
    traced: Traced,
}

/// What lagstop measured of one.
struct Waited {
    totals: Totals,
    behind: Vec<WaitBehind>,
}

/// Has each do what it is called for.
fn watch(work: &[(&str, String)]) -> Seen {
    watch_after(work, |_| {})
}

/// The same, after `happen` was called for each cgroup.
fn watch_after(work: &[(&str, String)], happen: impl Fn(&TestCgroup)) -> Seen {
    let mut probes = Probes::attach();
    let mut parties: Vec<Party> = work
        .iter()
        .map(|(name, what)| {
            let cgroup = TestCgroup::new(name);
            happen(&cgroup);
            let mut load = cgroup.start(what);
            load.line();
            Party { cgroup, load, threads: BTreeSet::new() }
        })
        .collect();
    let mut before = |party: &Party| probes.counters(party.cgroup.id());
    let before: Vec<_> = parties.iter().map(&mut before).collect();
    let trace = Trace::start(CPU);
    parties.iter_mut().for_each(|party| party.load.go());
    parties.iter_mut().for_each(|party| drop(party.load.line()));
    thread::sleep(Duration::from_millis(50));
    let traced = trace.finish();
    parties.iter_mut().for_each(|party| party.threads = traced.threads_of(party.load.pid()));
    // All by one reading: it tells behind whom they waited since the one before.
    let KernelSnapshot { cgroups, lost, .. } = probes.snapshot();
    let since = |(party, before): (&Party, &Arc<CgroupCounters>)| {
        let now = &cgroups[&party.cgroup.id()];
        Waited { totals: now.counters.totals.since(&before.totals), behind: now.behind.clone() }
    };
    let waited = parties.iter().zip(&before).map(since).collect();
    assert_eq!(lost.pairs, 0, "{lost:?}");
    Seen { parties, waited, traced }
}

impl Seen {
    /// Asserts that each party's wait is behind each other's, and behind its own, as much as the trace has it, but for `points` of
    /// a hundred, and for what chance does where instants are drawn all the same, as in the long waits of a slow host.
    fn agrees(&self, points: f64) {
        self.is_within(|_, _, _, drawn| points + drawn);
    }

    /// The same where instants are drawn, two a wait.
    fn agrees_where_drawn(&self) {
        self.is_within(|part, waits, _, _| chance(part, 2.0 * waits));
    }

    /// The same where waits that are not drawn are sampled, at least so many times a second. A victim gets its part of
    /// the samples.
    fn agrees_where_sampled(&self) {
        let samples = 1_000.0 * TIME.as_secs_f64();
        self.is_within(|part, waits, of_all, _| chance(part, 1.0 / (1.0 / (samples * of_all) + 1.0 / (2.0 * waits))));
    }

    /// `allowed` is how far a part may be off, in points of a hundred: by the part itself, the number of waits of one length that
    /// tell as much as the victim's waits do, the victim's part of all waits, and how far it may be off by the draws that the trace has.
    fn is_within(&self, allowed: impl Fn(f64, f64, f64, f64) -> f64) {
        let wait_of = |waited: &Waited| waited.totals.runq_wait_ns.unwrap().0 as f64;
        let of_everybody: f64 = self.waited.iter().map(wait_of).sum();
        for (victim, waited) in self.parties.iter().zip(&self.waited) {
            let wait = waited.totals.runq_wait_ns.unwrap();
            assert_eq!(sum(&waited.totals), wait, "{:?}", waited.totals);
            // What was charged to nobody would show up as an unknown cause, and as a wait behind others without a name.
            let unknown = share(waited.totals.wait_unknown_ns, &waited.totals);
            assert!(unknown < 0.01, "{:.2} % of the wait is of an unknown cause", 100.0 * unknown);
            let named: Nanos = waited.behind.iter().map(|one| one.wait_ns).sum();
            let not_named = waited.totals.wait_behind_ns.unwrap().saturating_sub(named);
            assert!(
                not_named.0 as f64 <= 0.01 * wait.0 as f64,
                "{not_named:?} of {wait:?} are behind others without a name"
            );
            let of_trace = |culprit: &Party| -> f64 {
                let pairs = self.traced.waits.iter();
                pairs
                    .filter(|((who, ran), _)| victim.threads.contains(who) && culprit.threads.contains(ran))
                    .map(|(_, time)| time)
                    .sum()
            };
            let all: f64 = self
                .traced
                .waits
                .iter()
                .filter(|((who, _), _)| victim.threads.contains(who))
                .map(|(_, time)| time)
                .sum();
            let waits: u64 = victim.threads.iter().filter_map(|thread| self.traced.count.get(thread)).sum();
            let squares: f64 = victim.threads.iter().filter_map(|thread| self.traced.squares.get(thread)).sum();
            let alike = all.powi(2) / squares;
            // Of waits in which many others ran, as where the host is slow, instants are drawn.
            let drawn = victim.threads.iter().filter_map(|thread| self.traced.drawn.get(thread));
            let (drawn, drawn_squares) = drawn.fold((0.0, 0.0), |sum, it| (sum.0 + it.0, sum.1 + it.1));
            let at_random = |part| {
                if drawn > 0.0 { drawn / all * chance(part, 2.0 * drawn.powi(2) / drawn_squares) } else { 0.0 }
            };
            println!(
                "{}: {wait:?} in {waits} waits, as good as {alike:.0} of one length, by the trace {all:.3} s, {drawn:.3} s drawn",
                victim.cgroup.path
            );
            assert!(all > 0.3, "the load was to wait");
            for culprit in &self.parties {
                let id = culprit.cgroup.id();
                let measured = if id == victim.cgroup.id() {
                    waited.totals.wait_self_ns.unwrap()
                } else {
                    behind(&waited.behind, id)
                };
                let measured = 100.0 * measured.0 as f64 / wait.0 as f64;
                let part = of_trace(culprit) / all;
                let points = allowed(part, alike, wait_of(waited) / of_everybody, at_random(part));
                let expected = 100.0 * part;
                println!("  behind {}: {measured:.2} %, by the trace {expected:.2} %", culprit.cgroup.path);
                assert!((measured - expected).abs() <= points, "more than {points:.1} points apart");
            }
        }
    }
}

/// Four times the standard deviation of a part that was told by so many draws, as docs/measures.md has it, in points of a hundred.
fn chance(part: f64, draws: f64) -> f64 {
    400.0 * (part * (1.0 - part) / draws).sqrt() + 0.1
}

fn behind(waits: &[WaitBehind], culprit: CgroupId) -> Nanos {
    waits.iter().filter(|one| one.id == culprit).map(|one| one.wait_ns).sum()
}

/// All causes of the wait.
fn sum(totals: &Totals) -> Nanos {
    let causes = [
        totals.wait_behind_ns,
        totals.wait_self_ns,
        totals.wait_kernel_ns,
        totals.wait_idle_ns,
        totals.wait_throttled_ns,
        totals.wait_elsewhere_ns,
        totals.wait_unknown_ns,
    ];
    causes.into_iter().map(Option::unwrap).sum()
}

fn share(part: Option<Nanos>, totals: &Totals) -> f64 {
    part.unwrap().0 as f64 / totals.runq_wait_ns.unwrap().0 as f64
}

fn crowd(threads: usize) -> String {
    format!("crowd {CPU} {threads} {}", TIME.as_millis())
}

/// A bully, a victim, and somebody beside.
pub(crate) fn bully() {
    watch(&[("bully", crowd(3)), ("victim", crowd(1)), ("beside", crowd(1))]).agrees(POINTS);
}

/// Two victims that sleep and wake up. Many waits hold more stints than are looked at one by one.
fn nappers() {
    let nap = format!("nap-on {CPU} {}", TIME.as_millis());
    watch(&[("bully", crowd(2)), ("napper", nap.clone()), ("other", nap)]).agrees_where_drawn();
}

/// With so many tasks that who ran is drawn, and not all of it looked at.
fn long_waits() {
    watch(&[("many", crowd(24)), ("some", crowd(12)), ("few", crowd(4))]).agrees_where_drawn();
}

/// So many switches that a few of the waits stand for all.
fn sampled() {
    watch(&many_switches()).agrees_where_sampled();
}

fn many_switches() -> [(&'static str, String); 3] {
    let yields = |threads: usize, us: u32| format!("yield-on {CPU} {threads} {us} {}", TIME.as_millis());
    [("often", yields(2, 10)), ("seldom", yields(1, 60)), ("own", yields(3, 30))]
}

/// For cgroups that were throttled once: the kernel's sum of throttled time never goes back to zero.
fn sampled_after_a_quota() {
    let throttled_once = |cgroup: &TestCgroup| {
        cgroup.limit_to_half_a_cpu();
        let mut load = cgroup.start(&format!("crowd {CPU} 1 300"));
        load.line();
        load.go();
        load.line();
        assert!(cgroup.throttling().1 > 0, "it was to be throttled");
        cgroup.lift_the_limit();
    };
    watch_after(&many_switches(), throttled_once).agrees_where_sampled();
}

fn own_threads() {
    let seen = watch(&[("own", crowd(3))]);
    seen.agrees(POINTS);
    let totals = &seen.waited[0].totals;
    assert!(share(totals.wait_self_ns, totals) > 0.9, "{totals:?}");
    assert!(share(totals.wait_throttled_ns, totals) == 0.0, "{totals:?}");
}

fn throttled() {
    let mut probes = Probes::attach();
    let cgroup = TestCgroup::new("throttled");
    cgroup.limit_to_half_a_cpu();
    let mut load = cgroup.start(&format!("crowd {CPU} 1 {}", 2 * TIME.as_millis()));
    load.line();
    load.go();
    // What was throttled before the first look is not known.
    thread::sleep(Duration::from_millis(300));
    let (before, then) = (probes.counters(cgroup.id()), cgroup.throttling());
    thread::sleep(TIME);
    let (now, after) = (probes.cgroup(cgroup.id()), cgroup.throttling());
    let totals = now.counters.totals.since(&before.totals);
    println!("{totals:?}");
    assert_eq!(sum(&totals), totals.runq_wait_ns.unwrap());
    assert_within("time throttled", totals.wait_throttled_ns.unwrap().0, after.2 - then.2, tolerance(1.0));
    let others: u64 = now.behind.iter().map(|one| one.wait_ns.0).sum();
    let wait = totals.runq_wait_ns.unwrap().0;
    let part = |ns: u64| ns as f64 / wait as f64;
    // Others here may have the CPU when the quota is there again. The kernel says how long that can be.
    let (others, most) = (part(others), part(wait.saturating_sub(after.2 - then.2)));
    println!("behind others: {:.2} % of the wait, {:.2} % was not throttled", 100.0 * others, 100.0 * most);
    assert!(others < most + if is_slow() { 0.05 } else { 0.01 }, "{:?}", now.behind);
}

/// A task that others move from CPU to CPU while it waits.
fn moved() {
    let mut probes = Probes::attach();
    let bullies: Vec<TestCgroup> = (0..2).map(|n| TestCgroup::new(&format!("bully{n}"))).collect();
    let victim = TestCgroup::new("moved");
    let mut loads: Vec<Load> =
        (0..2).map(|cpu| bullies[cpu].start(&format!("crowd {cpu} 2 {}", TIME.as_millis()))).collect();
    loads.push(victim.start(&format!("spin {}", TIME.as_millis())));
    loads.iter_mut().for_each(|load| drop(load.line()));
    let before = probes.counters(victim.id());
    loads.iter_mut().for_each(Load::go);
    let pid = Pid::from_raw(loads[2].pid().cast_signed());
    for turn in 0..(TIME.as_millis() / 7) as usize {
        let mut set = CpuSet::new();
        set.set(turn % 2);
        sched_setaffinity(pid, &set).unwrap();
        thread::sleep(Duration::from_millis(7));
    }
    loads.iter_mut().for_each(|load| drop(load.line()));
    let now = probes.cgroup(victim.id());
    let totals = now.counters.totals.since(&before.totals);
    println!("{totals:?}");
    assert_eq!(sum(&totals), totals.runq_wait_ns.unwrap());
    let [elsewhere, unknown] = [totals.wait_elsewhere_ns, totals.wait_unknown_ns].map(|part| share(part, &totals));
    assert!(elsewhere > 0.05 && unknown < 0.02, "{elsewhere} and {unknown}");
    let both = bullies.iter().map(|bully| behind(&now.behind, bully.id())).filter(|wait| *wait > Nanos(0)).count();
    assert_eq!(both, 2, "it waited behind either: {:?}", now.behind);
}

pub(crate) fn whole() {
    let cgroups: Vec<TestCgroup> = (0..4).map(|n| TestCgroup::new(&format!("whole{n}"))).collect();
    cgroups[3].limit_to_half_a_cpu();
    let mut loads: Vec<Load> = cgroups.iter().map(|cgroup| cgroup.start("threads 2 60000")).collect();
    loads.iter_mut().for_each(|load| drop(load.line()));
    loads.iter_mut().for_each(Load::go);
    // Until all waits are over that began before the programs were attached.
    let settled = if is_slow() { 20 } else { 5 };
    let intervals = with_stream(GroupBy::Scheduler, async |stream| {
        let mut intervals = Vec::new();
        while intervals.len() < settled + 15 {
            intervals.push(stream.intervals.recv().await.unwrap().unwrap());
        }
        intervals
    });
    let mut named = 0;
    for interval in &intervals {
        for cgroup in &interval.cgroups {
            let totals = &cgroup.totals;
            assert_eq!(sum(totals), totals.runq_wait_ns.unwrap(), "{} in {}", cgroup.path, interval.seq);
            let behind: Nanos = cgroup.waits_behind.iter().map(|one| one.wait_ns).sum();
            assert!(behind <= totals.wait_behind_ns.unwrap(), "{} in {}", cgroup.path, interval.seq);
            assert!(cgroup.waits_behind.iter().all(|one| interval.cgroups.iter().any(|other| other.id == one.id)));
            named += cgroup.waits_behind.len();
        }
        assert_eq!(sum(&interval.host.totals), interval.host.totals.runq_wait_ns.unwrap());
    }
    assert!(named > if is_slow() { 0 } else { 20 }, "{named} were named");
    let mut later = intervals[settled].host.totals;
    intervals[settled + 1..].iter().for_each(|interval| later.add(&interval.host.totals));
    let unknown = share(later.wait_unknown_ns, &later);
    assert!(unknown < 0.02, "{:.2} % of all waits are of an unknown cause", 100.0 * unknown);
}

/// Cgroups come and go on the other CPU, in a table that has rows for few: each has a row that was another's.
fn churn() {
    let mut probes = Probes::with(&crate::fixture::Setup { max_cgroups: Some(24), ..Default::default() });
    let (victim, bully) = (TestCgroup::new("churn-victim"), TestCgroup::new("churn-bully"));
    let mut loads = [victim.start(&format!("crowd {CPU} 1 8000")), bully.start(&format!("crowd {CPU} 1 8000"))];
    loads.iter_mut().for_each(|load| drop(load.line()));
    loads.iter_mut().for_each(Load::go);
    let mut others = BTreeSet::new();
    let mut waits = Vec::new();
    for n in 0..if is_slow() { 20 } else { 120 } {
        let cgroup = TestCgroup::new(&format!("churn{n}"));
        let mut load = cgroup.start("crowd 0 1 20");
        load.line();
        load.go();
        load.line();
        others.insert(cgroup.id());
        drop(load);
        let id = cgroup.id();
        drop(cgroup);
        probes.reader.retire([id]).unwrap();
        waits.extend(probes.cgroup(victim.id()).behind);
    }
    let last = probes.cgroup(victim.id());
    waits.extend(last.behind);
    println!("{waits:?}");
    let all = last.counters.totals.runq_wait_ns.unwrap();
    assert!(behind(&waits, bully.id()).0 * 10 > all.0 * 8, "of {all} that it waited");
    // They join their cgroups on whichever CPU they begin, before they are told to stay on the other.
    let blamed: Nanos = waits.iter().filter(|one| others.contains(&one.id)).map(|one| one.wait_ns).sum();
    assert!(blamed.0 * 100 < all.0, "{blamed:?}");
}
