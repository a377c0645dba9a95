use super::*;
use crate::{
    diagnosis::fixture::{InTree, judged_by_shares, minute_of_tree, problems_by_shares},
    model::{Cgroup, Cpu, Interval, Level, Nanos},
};

const USUAL: &[f64] = &[100.0, 100.0];

/// Four CPUs, on which eight threads of `batch` always want to run beside `web`: its CPU time and wait in each second, threads.
fn beside_batch(cpu: u64, wait: u64, threads: u64) -> Vec<Interval> {
    let web: InTree = ("/apps/web", USUAL, cpu, wait, threads);
    minute_of_tree(&[web, ("/apps/batch", USUAL, 4_000 - cpu, 4_000 + cpu, 8)])
}

fn findings(intervals: &[Interval]) -> Vec<Finding> {
    judged_by_shares(judge, intervals)
}

fn found(intervals: &[Interval]) -> Vec<(String, Severity)> {
    problems_by_shares(judge, intervals)
}

#[test]
fn one_that_always_wants_to_run_and_gets_a_part_of_its_share_is_starved() {
    let all = beside_batch(500, 500, 1);
    assert_eq!(found(&all), [("web".to_owned(), Severity::Warning)]);
    assert_eq!(found(&beside_batch(200, 800, 1)), [("web".to_owned(), Severity::Critical)]);
    let finding = &findings(&all)[0];
    assert_eq!(
        finding.verdict,
        "web gets 0.50 cores of the at least 1.00 cores it is entitled to, so its work takes 2.00 times as long as it \
         should."
    );
    let above = finding.measured.iter().find(|figure| figure.name == "above").unwrap();
    assert_eq!((above.of.as_ref().unwrap().to_string(), above.shown()), ("batch".to_owned(), "0.50 cores".to_owned()));
}

#[test]
fn fair_sharing_is_no_starvation() {
    // As rough as the kernel balances CPUs.
    assert_eq!(found(&beside_batch(700, 300, 1)), []);
    // It always wants four CPUs and gets its half of them.
    assert_eq!(found(&beside_batch(2_000, 2_000, 4)), []);
    // It sleeps, and waits for its turn when it wakes up.
    assert_eq!(found(&beside_batch(100, 300, 4)), []);
    assert_eq!(found(&beside_batch(100, 300, 1)), []);
}

#[test]
fn what_limits_it_is_not_what_starves_it() {
    let with = |change: fn(&mut Cgroup)| {
        let mut all = beside_batch(200, 800, 1);
        all.iter_mut().for_each(|interval| change(&mut interval.cgroups[0]));
        found(&all)
    };
    assert_eq!(with(|_| {}).len(), 1);
    let quota = |web: &mut Cgroup| {
        let own = Level { quota_ns: Some(Nanos(20_000_000)), period_ns: Some(Nanos(100_000_000)), ..Level::DEFAULT };
        web.levels = Some([Level::DEFAULT, own].into());
    };
    assert_eq!(with(quota), []);
    assert_eq!(with(|web| (web.files.nr_periods, web.files.nr_throttled) = (Some(10), Some(5))), []);
    let idle = |web: &mut Cgroup| {
        let own = Level { weight: Some(Level::IDLE_WEIGHT), is_idle: true, ..Level::DEFAULT };
        web.levels = Some([Level::DEFAULT, own].into());
    };
    assert_eq!(with(idle), []);
    // Two on one CPU.
    let mut all = minute_of_tree(&[("/a", &[100.0], 500, 500, 1), ("/b", &[100.0], 500, 500, 1)]);
    assert_eq!(found(&all).len(), 2, "and three CPUs are idle");
    for interval in &mut all {
        interval.cpus = (0..4).map(|cpu| Cpu { cpu, ..Cpu::default() }).collect();
        interval.cgroups.iter_mut().for_each(|cgroup| cgroup.cpus = Some("2".into()));
    }
    assert_eq!(found(&all), []);
}

#[test]
fn one_bad_second_is_none() {
    let mut all = beside_batch(900, 100, 1);
    let bad = beside_batch(100, 900, 1);
    all[..20].clone_from_slice(&bad[..20]);
    assert_eq!(found(&all), [], "20 of 60 intervals");
    all[..40].clone_from_slice(&bad[..40]);
    assert_eq!(found(&all), [("web".to_owned(), Severity::Warning)]);
}

#[test]
fn without_weights_it_is_not_said() {
    let mut all = beside_batch(200, 800, 1);
    all.iter_mut().flat_map(|interval| &mut interval.cgroups).for_each(|cgroup| cgroup.levels = None);
    let finding = &findings(&all)[0];
    assert_eq!(finding.severity, Severity::NotEnoughData);
    assert!(finding.verdict.ends_with("used 100 % of the CPU time were not recorded."), "{}", finding.verdict);
}
