//! What is kept is what was.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::model::{Cgroup, Distribution, Nanos, Tasks, Totals};

const LIMITS: HistoryLimits = HistoryLimits { time: Nanos(600_000_000_000), bytes: 48 << 20 };

fn timeline(limits: HistoryLimits) -> Timeline {
    Timeline::new(&Session::default(), &Thresholds::default(), limits)
}

fn interval(seq: u64, cgroups: Vec<Cgroup>) -> Interval {
    Interval { seq, start_ns: Nanos(seq * Nanos::SECOND.0), duration_ns: Nanos::SECOND, cgroups, ..Interval::default() }
}

fn cgroup(id: u64, figure: u64) -> Cgroup {
    Cgroup {
        id: CgroupId(id),
        path: Arc::from(format!("/{id}")),
        name: Arc::from(format!("name {id}")),
        totals: Totals {
            switches: figure,
            cpu_ns: Nanos(figure * 1_000),
            runq_wait_ns: Some(Nanos(figure * 100)),
            ..Totals::default()
        },
        load_credit: Some(Tasks(figure as f64 / 1e3)),
        runq_wait: Some(Distribution::of([(Nanos(10), figure as u32), (Nanos(1_000 + figure), 200)])),
        ..Cgroup::default()
    }
}

#[test]
fn an_interval_comes_back_as_it_was() {
    let mut timeline = timeline(LIMITS);
    let first = timeline.push(interval(0, vec![cgroup(5, 7), cgroup(6, 300), Cgroup::default()])).unwrap();
    timeline.push(interval(1, vec![cgroup(6, 40)])).unwrap();
    // All figures are small enough to be kept exactly.
    let mut back = timeline.frame(0).unwrap().unwrap();
    for (was, is) in first.interval.cgroups.iter().zip(&mut back.interval.cgroups) {
        let close = |a: Nanos, b: Nanos| a.0.abs_diff(b.0) * 2_000 <= a.0;
        assert!(close(was.totals.cpu_ns, is.totals.cpu_ns));
        is.totals.cpu_ns = was.totals.cpu_ns;
        assert!(close(was.totals.runq_wait_ns.unwrap_or_default(), is.totals.runq_wait_ns.unwrap_or_default()));
        is.totals.runq_wait_ns = was.totals.runq_wait_ns;
        let credits = was.load_credit.zip(is.load_credit).map(|(was, is)| (was.0 - is.0).abs() <= was.0 * 5e-4);
        assert!(credits.unwrap_or(true));
        is.load_credit = was.load_credit;
    }
    assert_eq!(back, first);
    assert_eq!(timeline.kept(), Some((0, 1)));
    assert_eq!(timeline.frame(2).unwrap(), None);
}

#[test]
fn of_what_is_long_ago_the_quantiles_are_kept() {
    let mut timeline = timeline(LIMITS);
    let waits = Distribution::of((1..200u64).map(|n| (Nanos(n * 1_000), (n % 7) as u32 + 1)));
    for seq in 0..70 {
        let cgroup =
            Cgroup { switch_cost: Some(waits.clone()), runq_wait: Some(Distribution::default()), ..cgroup(5, seq) };
        timeline.push(interval(seq, vec![cgroup])).unwrap();
    }
    let quantiles = |of: &Distribution| [0.5, 0.9, 0.99, 0.999].map(|share| of.quantile(share));
    for (n, has_shapes) in [(0, false), (9, false), (10, true), (69, true)] {
        let frame = timeline.frame(n).unwrap().unwrap();
        assert_eq!(frame.has_shapes, has_shapes, "{n}");
        let kept = frame.interval.cgroups[0].switch_cost.as_ref().unwrap();
        assert_eq!((kept == &waits, kept.count()), (has_shapes, waits.count()));
        assert_eq!(quantiles(kept), quantiles(&waits));
        assert_eq!(frame.interval.cgroups[0].runq_wait, Some(Distribution::default()));
        assert_eq!(frame.interval.cgroups[0].accept_wait, None);
    }
}

#[test]
fn the_oldest_go_first_by_time_and_by_size() {
    let mut by_time = timeline(HistoryLimits { time: Nanos(10 * Nanos::SECOND.0), ..LIMITS });
    let mut by_size = timeline(HistoryLimits { bytes: 4_000, ..LIMITS });
    for seq in 0..100 {
        by_time.push(interval(seq, vec![cgroup(seq, seq)])).unwrap();
        by_size.push(interval(seq, vec![cgroup(seq, seq)])).unwrap();
    }
    assert_eq!(by_time.kept(), Some((90, 99)));
    let (first, last) = by_size.kept().unwrap();
    assert!(last == 99 && first > 80 && first < 99, "{first}");
    assert_eq!(by_time.frame(95).unwrap().unwrap().interval.cgroups[0].id, CgroupId(95));
}

#[test]
fn the_history_of_a_cgroup_has_gaps_where_it_was_idle() {
    let mut timeline = timeline(LIMITS);
    for seq in 0..6 {
        let busy = if seq == 3 { vec![] } else { vec![cgroup(5, 100 * seq), cgroup(6, 1)] };
        timeline.push(interval(seq, busy)).unwrap();
    }
    let trend = timeline.trend(CgroupId(5), 4, 3).unwrap();
    let tenths = |credit: f64| (credit * 10.0).round() as u64;
    let credits: Vec<Option<u64>> = trend.iter().map(|point| point.load_credit.map(tenths)).collect();
    assert_eq!(credits, [Some(2), None, Some(4)]);
    assert_eq!(timeline.trend(CgroupId(99), 4, 3).unwrap(), [TrendPoint::default(); 3]);
}

#[test]
fn an_alert_is_as_old_as_its_first_interval_without_a_break() {
    let mut timeline = timeline(LIMITS);
    let waits = |seq, wait| {
        let mut waiting = cgroup(5, 100_000);
        waiting.totals.runq_wait_ns = Some(Nanos(wait));
        interval(seq, vec![waiting])
    };
    for (seq, wait) in [0, 200_000_000, 200_000_000, 0, 200_000_000, 200_000_000].into_iter().enumerate() {
        timeline.push(waits(seq as u64, wait)).unwrap();
    }
    let since = |n| timeline.frame(n).unwrap().unwrap().alerts().first().map(|alert| alert.since.0 / Nanos::SECOND.0);
    assert_eq!([0, 1, 2, 3, 4, 5].map(since), [None, Some(1), Some(1), None, Some(4), Some(4)]);
}

#[test]
fn an_alert_that_watching_began_with_may_be_older() {
    let mut timeline = timeline(LIMITS);
    let mut waiting = cgroup(5, 100_000);
    waiting.totals.runq_wait_ns = Some(Nanos(900_000_000));
    let is_longer = |frame: &Frame| frame.alerts()[0].is_longer;
    assert!(!is_longer(&timeline.push(interval(0, vec![waiting.clone()])).unwrap()), "it begins with the stream");
    timeline.restart(40);
    timeline.push(interval(40, vec![waiting.clone()])).unwrap();
    assert!(is_longer(&timeline.push(interval(41, vec![waiting.clone()])).unwrap()));
    timeline.push(interval(42, vec![])).unwrap();
    assert!(!is_longer(&timeline.push(interval(43, vec![waiting])).unwrap()));
}

proptest! {
    #[test]
    fn distributions_come_back_whole(
        all in prop::collection::vec(prop::collection::btree_map(0u64..5_000, 1u32.., 0..40), 0..6),
    ) {
        let mut timeline = timeline(LIMITS);
        let cgroups: Vec<Cgroup> = all
            .iter()
            .enumerate()
            .map(|(n, bins)| Cgroup {
                id: CgroupId(n as u64),
                switch_cost: Some(Distribution::of(bins.iter().map(|(&value, &count)| (Nanos(value), count)))),
                ..Cgroup::default()
            })
            .collect();
        timeline.push(interval(0, cgroups.clone())).unwrap();
        let back = timeline.frame(0).unwrap().unwrap().interval.cgroups;
        prop_assert_eq!(back.len(), cgroups.len());
        for (was, is) in cgroups.iter().zip(&back) {
            prop_assert_eq!(&was.switch_cost, &is.switch_cost);
        }
    }
}
