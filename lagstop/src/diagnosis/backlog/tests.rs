use super::*;
use crate::{
    diagnosis::fixture::{findings_of, problems_of},
    model::{Interval, Listener, ListenerTotals, Services, Times, fixture::minute_of},
    units::Value,
};

/// A listener of the pool, with room for 10: connections that come and are accepted in a second, their mean wait in ms, how
/// many wait at the end of each, and the run-queue wait of the pool in ms for each of its 2,000 waits. One thread accepts,
/// each keeps it for 10 ms on average, and another always waits.
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
            services: Some(served(1, accepts, 10)),
            ..Listener::new(7, ([127, 0, 0, 1], 80).into())
        }];
    }
    all
}

/// Services of `ms` each on average, exponentially distributed.
fn served(threads: u64, count: u64, ms: u64) -> Services {
    let times = Times { count, time_ns: Nanos(count * ms * 1_000_000), squares_us2: count * 2 * (ms * 1_000).pow(2) };
    Services { threads, all: times, kept_waiting: times, ..Services::NONE }
}

fn with_services(mut all: Vec<Interval>, services: Option<Services>) -> Vec<Interval> {
    for listener in all.iter_mut().flat_map(|interval| &mut interval.listeners) {
        listener.services = services;
    }
    all
}

fn severities(intervals: &[Interval]) -> Vec<Severity> {
    problems_of(Rule::Backlog, intervals).into_iter().map(|(_, severity)| severity).collect()
}

fn figure(finding: &Finding, name: &str) -> Option<f64> {
    finding.measured.iter().find(|figure| figure.name == name).unwrap().value.map(Value::as_f64)
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
    assert!(starved.verdict.ends_with(", because pool waits for a CPU."), "{}", starved.verdict);
    assert!(starved.advice[0].text.starts_with("Give pool faster access to a CPU"), "{}", starved.advice[0].text);
    let busy = &findings_of(Rule::Backlog, &listening(100, 100, 20, 4, 0))[0];
    assert!(busy.verdict.ends_with(", because pool is busy with other work."), "{}", busy.verdict);
    assert!(busy.advice[0].text.starts_with("Check what the workers of pool do"), "{}", busy.advice[0].text);
}

#[test]
fn who_waits_for_a_cpu_is_known_though_none_was_accepted() {
    let starved = &findings_of(Rule::Backlog, &listening(1, 0, 0, 9, 1))[0];
    assert!(
        starved
            .verdict
            .ends_with(" are not accepted, with the backlog up to 90.0 % full, because pool waits for a CPU."),
        "{}",
        starved.verdict
    );
    let mut unwatched = listening(0, 0, 0, 9, 1);
    unwatched.iter_mut().flat_map(|interval| &mut interval.listeners).for_each(|listener| listener.totals = None);
    let verdict = &findings_of(Rule::Backlog, &unwatched)[0].verdict;
    assert!(verdict.contains("(time not measured)"), "{verdict}");
}

#[test]
fn where_none_was_seen_waiting_no_cause_is_told() {
    let mut all = listening(0, 0, 0, 0, 0);
    all[7].listeners[0].drops = Some(2);
    let verdict = &findings_of(Rule::Backlog, &all)[0].verdict;
    assert!(verdict.ends_with(", and 2 were dropped."), "{verdict}");
}

/// Ten wait at a time, 100 a second come and stay for 100 ms: Little's law holds. As many could be served as come.
#[test]
fn formulas_stand_beside_what_was_measured() {
    let finding = &findings_of(Rule::Backlog, &listening(100, 100, 100, 10, 0))[0];
    assert_eq!(figure(finding, "residual"), Some(0.0));
    assert_eq!((figure(finding, "service_time"), figure(finding, "utilisation")), (Some(1e7), Some(1.0)));
    // ρ = 1, room for 11: (K − 1)/(2λ).
    let wait = figure(finding, "wait_mmck").unwrap();
    assert!((wait / 1e9 - 10.0 / 200.0).abs() < 1e-6, "{wait}");
    assert_eq!(figure(finding, "wait_ggc"), None, "without an end there is no mean");
    assert!(
        finding.caveats.iter().all(|caveat| !caveat.starts_with("The model")),
        "half of 100 ms is within a factor of 2"
    );
}

#[test]
fn where_more_come_than_are_served_a_longer_backlog_is_no_help() {
    let finding = &findings_of(Rule::Backlog, &listening(200, 100, 100, 10, 0))[0];
    let more = "Increase the workers in pool from 1 to 3: at the same speed, they would be busy 66.7 %";
    assert!(finding.advice[0].text.starts_with(more), "{}", finding.advice[0].text);
    assert!(finding.advice[1].text.ends_with("fills in 0.10 s."), "{}", finding.advice[1].text);
}

/// 90 come in a second, and four threads take 40 ms for each: c = 4, μ = 25. What runs in their cgroup beside is no matter.
#[test]
fn each_thread_that_accepts_is_a_server() {
    let mut all = with_services(listening(90, 100, 50, 10, 0), Some(served(4, 90, 40)));
    all.iter_mut().for_each(|interval| interval.cgroups[0].totals.threads = 9);
    let finding = &findings_of(Rule::Backlog, &all)[0];
    assert_eq!((figure(finding, "servers"), figure(finding, "utilisation")), (Some(4.0), Some(0.9)));
    let station = Station::new(90.0, 25.0, 4).unwrap();
    let wait = |seconds: f64| Some((seconds * 1e9) as u64 as f64);
    assert_eq!(figure(finding, "wait_mmck"), wait(station.finite(14).unwrap().wait));
    assert_eq!(figure(finding, "wait_ggc"), wait(station.wait(0.0, 1.0).unwrap()));
    assert!(
        finding.advice[0].text.starts_with("Increase the workers in pool from 4 to 5"),
        "{}",
        finding.advice[0].text
    );
    // More than n wait for about 0.9^n of the time: 64 places for a thousandth.
    assert!(finding.advice[1].text.starts_with("Raise the backlog to 64 "), "{}", finding.advice[1].text);
}

/// The advice that a model gives.
const BY_MODEL: [&str; 3] = ["Increase the workers in", "M/M/c/K", "Do not lengthen the backlog"];

#[test]
fn where_service_was_not_timed_there_is_no_model_and_it_recommends_nothing() {
    let timed = listening(200, 100, 100, 10, 0);
    let by_model = |intervals: &[Interval]| {
        let finding = findings_of(Rule::Backlog, intervals).remove(0);
        let texts = finding.advice.iter().filter(|advice| BY_MODEL.iter().any(|part| advice.text.contains(part)));
        (texts.count(), finding)
    };
    assert_eq!(by_model(&timed).0, 2);
    for (services, why) in [
        (None, "not in this recording"),
        (Some(Services { strayed: 50, ..served(1, 100, 10) }), "the accepting threads also serve other ports"),
    ] {
        let (advice, finding) = by_model(&with_services(timed.clone(), services));
        assert_eq!(advice, 0, "{:?}", finding.advice);
        for name in ["service_time", "service_variation", "utilisation", "wait_mmck", "wait_ggc"] {
            let figure = finding.measured.iter().find(|figure| figure.name == name).unwrap();
            assert_eq!((figure.value, figure.missing.as_deref()), (None, Some(why)), "{name}");
        }
    }
}

/// At 10 ms a connection and 20 a second, 3 ms would be waited for; measured are 100.
#[test]
fn a_model_that_does_not_apply_recommends_nothing() {
    let finding = &findings_of(Rule::Backlog, &listening(20, 20, 100, 10, 0))[0];
    assert!(
        finding.caveats.iter().any(|caveat| caveat.starts_with("The model does not apply")),
        "{:?}",
        finding.caveats
    );
    let is_by_model = |text: &str| BY_MODEL.iter().any(|part| text.contains(part));
    assert!(finding.advice.iter().all(|advice| !is_by_model(&advice.text)), "{:?}", finding.advice);
}

/// Without cgroups all tasks are in the root, so the acceptor's waits cannot be told from those of others.
#[test]
fn whoever_accepts_in_the_root_is_not_told_from_others() {
    let mut all = listening(100, 100, 20, 4, 1);
    for interval in &mut all {
        interval.cgroups[0].id = CgroupId::ROOT;
        interval.listeners[0].cgroup = Some(CgroupId::ROOT);
    }
    let finding = &findings_of(Rule::Backlog, &all)[0];
    assert_eq!((figure(finding, "starved"), figure(finding, "servers")), (None, Some(1.0)));
    assert!(finding.verdict.ends_with("to be accepted, with the backlog up to 40.0 % full."), "{}", finding.verdict);
    assert!(
        finding.advice.iter().any(|advice| advice.text.ends_with("(run it in its own cgroup to measure this).")),
        "{:?}",
        finding.advice
    );
}

#[test]
fn what_is_dropped_is_found_though_nobody_waits_long() {
    let mut all = listening(100, 100, 1, 0, 0);
    assert_eq!(severities(&all), []);
    all[7].listeners[0].drops = Some(2);
    assert_eq!(severities(&all), [Severity::Warning]);
    let finding = &findings_of(Rule::Backlog, &all)[0];
    assert!(finding.verdict.contains(", and 2 were dropped"), "{}", finding.verdict);
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
