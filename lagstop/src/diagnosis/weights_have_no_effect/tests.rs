use super::*;
use crate::{
    diagnosis::fixture::{judged_by_shares, minute_of_tree},
    model::Interval,
};

/// Four CPUs, and two that always want all of them: their weights, and the CPU time of the first in each second.
fn two(weights: [&'static [f64]; 2], cpu: u64) -> Vec<Interval> {
    minute_of_tree(&[("/a", weights[0], cpu, 4_000 - cpu, 4), ("/b", weights[1], 4_000 - cpu, cpu, 4)])
}

fn findings(intervals: &[Interval]) -> Vec<Finding> {
    judged_by_shares(judge, intervals)
}

fn found(intervals: &[Interval]) -> Vec<(String, Severity)> {
    let bad = findings(intervals).into_iter().filter(|finding| finding.severity >= Severity::Warning);
    bad.map(|finding| (finding.subject.to_string(), finding.severity)).collect()
}

#[test]
fn equal_shares_with_different_weights_are_suspicious() {
    let all = two([&[400.0], &[100.0]], 2_000);
    assert_eq!(found(&all), [("a".to_owned(), Severity::Warning)]);
    assert_eq!(
        findings(&all)[0].verdict,
        "a weighs 4.00 times as much as b (cpu.weight 400 and 100) and both always want to run, yet it gets 2.00 cores and the \
         other 2.00 cores: the scheduler seems to ignore weights."
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
