use super::*;
use crate::{
    diagnosis::fixture::{judged_by_shares, minute_of_tree, problems_by_shares},
    model::{Interval, Level, Nanos, fixture::blame},
};

/// Four CPUs, and two that always want all of them: their weights, and the CPU time of the first in each second.
fn two(weights: [&'static [f64]; 2], cpu: u64) -> Vec<Interval> {
    minute_of_tree(&[("/a", weights[0], cpu, 4_000 - cpu, 4), ("/b", weights[1], 4_000 - cpu, cpu, 4)])
}

fn findings(intervals: &[Interval]) -> Vec<Finding> {
    judged_by_shares(judge, intervals)
}

fn found(intervals: &[Interval]) -> Vec<(String, Severity)> {
    problems_by_shares(judge, intervals)
}

#[test]
fn equal_shares_with_different_weights_are_suspicious() {
    let all = two([&[400.0], &[100.0]], 2_000);
    assert_eq!(found(&all), [("a".to_owned(), Severity::Warning)]);
    assert_eq!(
        findings(&all)[0].verdict,
        "a has 4.00 times the weight of b (cpu.weight 400 and 100) and both always want to run, but they get 2.00 \
         cores and 2.00 cores: weights seem to be ignored."
    );
    assert_eq!(found(&two([&[100.0], &[400.0]], 2_200)), [("b".to_owned(), Severity::Warning)], "even less");
}

#[test]
fn shares_that_go_by_weight_are_not() {
    assert_eq!(found(&two([&[400.0], &[100.0]], 2_600)), [], "not by far enough, but more");
    assert_eq!(found(&two([&[190.0], &[100.0]], 2_000)), [], "weights differ too little");
    assert_eq!(found(&two([&[100.0], &[100.0]], 2_000)), []);
}

#[test]
fn who_wants_no_more_is_not_compared() {
    // One thread gets no more than one CPU, whatever it weighs.
    let all = minute_of_tree(&[("/a", &[400.0], 1_000, 0, 1), ("/b", &[100.0], 3_000, 5_000, 8)]);
    assert_eq!(found(&all), []);
    // Four threads that sleep half of the time.
    let all = minute_of_tree(&[("/a", &[400.0], 1_000, 1_000, 4), ("/b", &[100.0], 3_000, 5_000, 8)]);
    assert_eq!(found(&all), []);
}

#[test]
fn a_quota_above_both_is_not_the_schedulers_doing() {
    let below_quota = |known: bool| {
        // One thread each; a quota of half a CPU for both, used up in every period.
        let mut all = minute_of_tree(&[("/s/a", &[100.0, 400.0], 250, 750, 1), ("/s/b", &[100.0, 100.0], 250, 750, 1)]);
        for cgroup in all.iter_mut().flat_map(|interval| &mut interval.cgroups) {
            let above =
                Level { quota_ns: Some(Nanos(50_000_000)), period_ns: Some(Nanos(100_000_000)), ..Level::DEFAULT };
            let own = cgroup.levels.as_ref().unwrap()[1];
            cgroup.levels = Some([above, own].into());
            blame(cgroup, &[], 0.0, if known { 1.0 } else { 0.0 });
        }
        found(&all)
    };
    assert_eq!(below_quota(false).len(), 1, "as if they had waited for each other");
    assert_eq!(below_quota(true), []);
}
