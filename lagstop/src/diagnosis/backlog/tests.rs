use super::*;
use crate::{
    diagnosis::fixture::{findings_of, minute_of, problems_of},
    model::{Interval, Listener, ListenerTotals},
};

/// A listener of the pool, with room for 10: connections that come and are accepted in a second, their mean wait in ms, how
/// many wait at the end of each, and the run-queue wait of the pool in ms for each of its 2,000 waits.
fn listening(established: u64, accepts: u64, wait_ms: u64, backlog: u64, runq_ms: u64) -> Vec<Interval> {
    let mut all = minute_of(|pool| {
        pool.totals.runq_wait_ns = Some(Nanos(2_000_000_000 * runq_ms));
        pool.totals.threads = 1;
    });
    for interval in &mut all {
        let accept_wait_ns = Nanos(accepts * wait_ms * 1_000_000);
        let totals = ListenerTotals { established, accepts, accept_wait_ns, abandoned: 0 };
        interval.listeners = vec![Listener {
            cgroup: Some(interval.cgroups[0].id),
            backlog: Some(backlog),
            backlog_capacity: Some(10),
            totals: Some(totals),
            ..Listener::new(7, ([127, 0, 0, 1], 80).into())
        }];
    }
    all
}

fn severities(intervals: &[Interval]) -> Vec<Severity> {
    problems_of(Rule::Backlog, intervals).into_iter().map(|(_, severity)| severity).collect()
}

fn figure(finding: &Finding, name: &str) -> Option<f64> {
    finding.measured.iter().find(|figure| figure.name == name).unwrap().value.map(crate::diagnosis::Value::as_f64)
}

#[test]
fn a_long_wait_or_a_full_queue_is_found_from_the_threshold_on() {
    assert_eq!(severities(&listening(100, 100, 9, 4, 0)), []);
    assert_eq!(severities(&listening(100, 100, 10, 4, 0)), [Severity::Warning]);
    assert_eq!(severities(&listening(100, 100, 1, 5, 0)), [Severity::Warning]);
    assert_eq!(severities(&listening(100, 100, 1, 10, 0)), [Severity::Critical]);
    assert_eq!(severities(&listening(1, 1, 50, 0, 0)), [], "60 connections are too few");
}

#[test]
fn who_waits_for_a_cpu_is_told_from_who_is_busy() {
    let starved = &findings_of(Rule::Backlog, &listening(100, 100, 20, 4, 1))[0];
    assert!(starved.verdict.ends_with("whoever accepts waits for a CPU."), "{}", starved.verdict);
    assert!(starved.advice[0].text.starts_with("Get pool the CPU sooner"), "{}", starved.advice[0].text);
    let busy = &findings_of(Rule::Backlog, &listening(100, 100, 20, 4, 0))[0];
    assert!(busy.verdict.ends_with("busy with something else."), "{}", busy.verdict);
    assert!(busy.advice[0].text.contains("ore workers in pool"), "{}", busy.advice[0].text);
}

/// Ten wait at a time, 100 a second come and stay for 100 ms: Little's law holds. Service is as fast as it is while they
/// wait, which here is all the time.
#[test]
fn formulas_stand_beside_what_was_measured() {
    let finding = &findings_of(Rule::Backlog, &listening(100, 100, 100, 10, 0))[0];
    assert_eq!(figure(finding, "residual"), Some(0.0));
    assert_eq!((figure(finding, "service_rate"), figure(finding, "utilisation")), (Some(100.0), Some(1.0)));
    // ρ = 1, room for 11: (K − 1)/(2λ).
    let wait = figure(finding, "wait_mmck").unwrap();
    assert!((wait / 1e9 - 10.0 / 200.0).abs() < 1e-6, "{wait}");
    assert_eq!(figure(finding, "wait_ggc"), None, "without an end there is no mean");
    assert!(
        finding.against.iter().all(|doubt| !doubt.starts_with("The model")),
        "half of 100 ms is within a factor of 2"
    );
}

#[test]
fn where_more_come_than_are_served_a_longer_backlog_is_no_help() {
    let finding = &findings_of(Rule::Backlog, &listening(200, 100, 100, 10, 0))[0];
    assert!(
        finding.advice[0].text.starts_with("More workers in pool: 3 in place of 1, as fast each, would be busy 66.7 %"),
        "{}",
        finding.advice[0].text
    );
    assert!(finding.advice[1].text.ends_with("full after 0.10 s."), "{}", finding.advice[1].text);
}

/// 90 come in a second, and four threads serve 100 together: c = 4, μ = 25.
#[test]
fn each_thread_that_may_accept_is_a_server() {
    let mut all = listening(90, 100, 100, 10, 0);
    all.iter_mut().for_each(|interval| interval.cgroups[0].totals.threads = 4);
    let finding = &findings_of(Rule::Backlog, &all)[0];
    assert_eq!((figure(finding, "servers"), figure(finding, "utilisation")), (Some(4.0), Some(0.9)));
    let station = Station::new(90.0, 25.0, 4).unwrap();
    let wait = |seconds: f64| Some((seconds * 1e9) as u64 as f64);
    assert_eq!(figure(finding, "wait_mmck"), wait(station.finite(14).unwrap().wait));
    assert_eq!(figure(finding, "wait_ggc"), wait(station.wait(0.0, 1.0).unwrap()));
    assert!(finding.advice[0].text.starts_with("More workers in pool: 5 in place of 4"), "{}", finding.advice[0].text);
    // 0.9^n of the time more than n wait, or about: 64 places for a thousandth.
    assert!(finding.advice[1].text.starts_with("A backlog of 64, "), "{}", finding.advice[1].text);
}

#[test]
fn what_is_dropped_is_found_though_nobody_waits_long() {
    let mut all = listening(100, 100, 1, 0, 0);
    assert_eq!(severities(&all), []);
    all[7].listeners[0].drops = Some(2);
    assert_eq!(severities(&all), [Severity::Warning]);
    let finding = &findings_of(Rule::Backlog, &all)[0];
    assert!(finding.verdict.contains("; 2 were dropped"), "{}", finding.verdict);
}

#[test]
fn without_tcp_being_watched_the_queue_alone_is_judged() {
    let mut all = listening(0, 0, 0, 10, 0);
    for listener in all.iter_mut().flat_map(|interval| &mut interval.listeners) {
        listener.totals = None;
    }
    assert_eq!(severities(&all), [Severity::Critical]);
    for listener in all.iter_mut().flat_map(|interval| &mut interval.listeners) {
        (listener.backlog, listener.backlog_capacity) = (None, None);
    }
    assert_eq!(findings_of(Rule::Backlog, &all)[0].severity, Severity::NotEnoughData);
}
