use proptest::prelude::*;

use super::*;
use crate::model::{CgroupCounters, CgroupState, CpuReading, Files, Idle, Level, LoadCredits, Snapshot};

const TIME_CONSTANT: Nanos = LoadCredits::TIME_CONSTANT;

/// What happens in a cgroup in one interval: switches, CPU time, wait, and the durations of its waits.
type Step = Option<(u64, u64, u64, Vec<(u8, u32)>)>;

fn steps() -> impl Strategy<Value = Vec<(u64, Vec<Step>)>> {
    let waits = prop::collection::vec((0u8..144, 1u32..9), 0..4);
    let step = prop::option::of((1u64..99, 0u64..2_000_000_000, 0u64..9_000_000_000, waits));
    prop::collection::vec((1u64..3_000_000_000, prop::collection::vec(step, 3)), 2..7)
}

/// The readings before, between and after the intervals.
fn readings(steps: &[(u64, Vec<Step>)]) -> Vec<Snapshot> {
    let quota = FileCounters {
        nr_periods: Some(0),
        nr_throttled: Some(0),
        throttled_ns: Some(Nanos::ZERO),
        ..FileCounters::default()
    };
    let state = || CgroupState { files: Files { counters: quota, ..Files::default() }, ..CgroupState::default() };
    let none = CgroupCounters {
        totals: Totals {
            pick_ns: Some(Nanos(0)),
            runq_waits: Some(0),
            runq_wait_ns: Some(Nanos(0)),
            ..Totals::default()
        },
        runq_wait: Some(Distribution::default()),
        ..CgroupCounters::default()
    };
    let mut last =
        Snapshot { cpus: vec![CpuReading { is_online: true, ..CpuReading::default() }; 2], ..Snapshot::default() };
    last.cgroups = (0..3)
        .map(|n| (CgroupId(n + 5), Arc::new(CgroupState { counters: Arc::new(none.clone()), ..state() })))
        .collect();
    let mut all = vec![last.clone()];
    for (duration, cgroups) in steps {
        last.at = last.at.saturating_add(Nanos(*duration));
        for (n, cpu) in (1..).zip(&mut last.cpus) {
            cpu.totals.busy_ns = cpu.totals.busy_ns.saturating_add(Nanos(duration / n));
        }
        for (state, step) in last.cgroups.values_mut().zip(cgroups) {
            let Some((switches, cpu, wait, waits)) = step else { continue };
            let mut counters = CgroupCounters::clone(&state.counters);
            let totals = &mut counters.totals;
            totals.switches += switches;
            totals.voluntary_switches += switches;
            totals.cpu_ns = totals.cpu_ns.saturating_add(Nanos(*cpu));
            totals.pick_ns = totals.pick_ns.map(|pick| pick.saturating_add(Nanos(switches * 900)));
            totals.runq_wait_ns = totals.runq_wait_ns.map(|sum| sum.saturating_add(Nanos(*wait)));
            for &(bucket, count) in waits {
                let one = Distribution::from_buckets([(bucket, count)]).unwrap();
                counters.runq_wait.as_mut().unwrap().merge(&one);
                *counters.totals.runq_waits.as_mut().unwrap() += u64::from(count);
            }
            let state = Arc::make_mut(state);
            state.counters = Arc::new(counters);
            let periods = &mut state.files.counters.nr_periods;
            *periods = periods.map(|periods| periods + switches);
        }
        all.push(last.clone());
    }
    all
}

/// The intervals between `readings`.
fn intervals(readings: &[Snapshot], credits: &mut LoadCredits) -> Vec<Interval> {
    (0..)
        .zip(readings.windows(2))
        .map(|(seq, two)| Interval::between(seq, Nanos::ZERO, &two[0], &two[1], credits))
        .collect()
}

fn is_near(a: Option<Tasks>, b: Option<Tasks>) -> bool {
    a.zip(b).map_or(a == b, |(a, b)| (a.0 - b.0).abs() <= 1e-9 * a.0.abs().max(1.0))
}

#[test]
fn any_number_of_intervals_may_have_been_merged_before() {
    let of = |merged| Interval { merged, ..Interval::default() };
    assert_eq!(merge(TIME_CONSTANT, &[of(3), of(0), of(4)]).unwrap().merged, 9);
    assert_eq!(merge(TIME_CONSTANT, &[of(u64::MAX)]).unwrap().merged, u64::MAX);
    assert_eq!(merge(TIME_CONSTANT, &[of(1), of(u64::MAX)]).unwrap().merged, u64::MAX);
}

proptest! {
    #[test]
    fn merged_intervals_are_those_of_less_frequent_readings(steps in steps()) {
        let readings = readings(&steps);
        let mut credits = LoadCredits::new(TIME_CONSTANT);
        credits.advance(Nanos::SECOND, (5..8).map(|id| (CgroupId(id), Tasks(id as f64))));
        let short = intervals(&readings, &mut credits.clone());
        let merged = merge(TIME_CONSTANT, &short).unwrap();
        let ends = [readings[0].clone(), readings.last().unwrap().clone()];
        let mut long = intervals(&ends, &mut credits).remove(0);

        prop_assert_eq!(merged.merged + 1, short.len() as u64);
        long.merged = merged.merged;
        prop_assert_eq!(merged.cgroups.len(), long.cgroups.len());
        for (merged, long) in merged.cgroups.iter().zip(&mut long.cgroups) {
            prop_assert!(is_near(merged.load_credit, long.load_credit), "{:?} {:?}", merged.load_credit, long.load_credit);
            prop_assert!(is_near(merged.runnable_load, long.runnable_load));
            (long.load_credit, long.runnable_load) = (merged.load_credit, merged.runnable_load);
        }
        prop_assert_eq!(merged, long);
    }

    #[test]
    fn merging_in_two_steps_is_merging_in_one(steps in steps(), at in 1usize..5) {
        let short = intervals(&readings(&steps), &mut LoadCredits::new(TIME_CONSTANT));
        let (front, back) = short.split_at(at.min(short.len() - 1));
        let [front, back] = [front, back].map(|part| merge(TIME_CONSTANT, part).unwrap());
        let mut twice = merge(TIME_CONSTANT, [&front, &back]).unwrap();
        let once = merge(TIME_CONSTANT, &short).unwrap();
        for (twice, once) in twice.cgroups.iter_mut().zip(&once.cgroups) {
            prop_assert!(is_near(twice.runnable_load, once.runnable_load));
            prop_assert!(is_near(twice.load_credit, once.load_credit));
            (twice.load_credit, twice.runnable_load) = (once.load_credit, once.runnable_load);
        }
        prop_assert_eq!(twice, once);
    }
}

#[test]
fn costs_of_different_ways_are_not_added_up() {
    let interval = |way: &str| Interval {
        switch_cost_way: Some(way.into()),
        host: Host {
            totals: Totals { pick_ns: Some(Nanos(5)), schedule_calls: Some(2), switches: 1, ..Totals::default() },
            idle: Idle { swap_ns: Some(Nanos(3)), ..Idle::default() },
            ..Host::default()
        },
        ..Interval::default()
    };
    let same = merge(TIME_CONSTANT, &[interval("a"), interval("a")]).unwrap();
    assert_eq!((same.switch_cost_way.as_deref(), same.host.totals.pick_ns), (Some("a"), Some(Nanos(10))));
    let different = merge(TIME_CONSTANT, &[interval("a"), interval("b"), interval("a")]).unwrap();
    assert_eq!((different.switch_cost_way, different.host.totals.pick_ns), (None, None));
    assert_eq!(
        (different.host.totals.schedule_calls, different.host.idle.swap_ns),
        (None, None),
        "of calls and idle neither"
    );
    assert_eq!(different.host.totals.switches, 3);
}

#[test]
fn threads_are_not_added_up() {
    let interval = |threads| Interval {
        host: Host { totals: Totals { threads, ..Totals::default() }, ..Host::default() },
        cgroups: vec![Cgroup { totals: Totals { threads, ..Totals::default() }, ..Cgroup::default() }],
        ..Interval::default()
    };
    let merged = merge(TIME_CONSTANT, &[interval(3), interval(5), interval(1)]).unwrap();
    assert_eq!((merged.host.totals.threads, merged.cgroups[0].totals.threads), (5, 5));
}

#[test]
fn the_last_levels_and_cpus_that_are_known_stay() {
    let interval = |levels: Option<&[Level]>, cpus: Option<&str>| Interval {
        cgroups: vec![Cgroup { levels: levels.map(Into::into), cpus: cpus.map(Into::into), ..Cgroup::default() }],
        ..Interval::default()
    };
    let idle = Level { is_idle: true, ..Level::DEFAULT };
    let intervals =
        [interval(Some(&[Level::DEFAULT]), Some("0")), interval(Some(&[idle]), Some("1")), interval(None, None)];
    let merged = merge(TIME_CONSTANT, &intervals).unwrap();
    assert_eq!(
        (merged.cgroups[0].levels.as_deref(), merged.cgroups[0].cpus.as_deref()),
        (Some(&[idle][..]), Some("1"))
    );
}
