use super::*;
use crate::{
    diagnosis::fixture::{findings_of, problems_of},
    model::{
        Interval, Level, Nanos,
        fixture::{blame, minute_of},
    },
};

/// Half a core of quota, used up in so many of a hundred periods; it waits a second in each, three quarters of it for that.
fn limited(throttled: u64) -> Vec<Interval> {
    minute_of(|pool| {
        pool.quota_ns = Some(Nanos(500_000_000));
        (pool.files.nr_periods, pool.files.nr_throttled) = (Some(100), Some(throttled));
        blame(pool, &[], 0.2, 0.75);
    })
}

fn unexplained(throttled: u64) -> Vec<Interval> {
    let mut intervals = limited(throttled);
    intervals.iter_mut().flat_map(|it| &mut it.cgroups).for_each(|cgroup| cgroup.totals.wait_throttled_ns = None);
    intervals
}

fn severities(intervals: &[Interval]) -> Vec<Severity> {
    problems_of(Rule::Throttled, intervals).into_iter().map(|(_, severity)| severity).collect()
}

#[test]
fn a_quota_that_is_used_up_is_found() {
    assert_eq!(severities(&unexplained(4)), []);
    assert_eq!([5, 24].map(|it| severities(&unexplained(it))), [[Severity::Warning], [Severity::Warning]]);
    assert_eq!(severities(&unexplained(25)), [Severity::Critical]);
    // It stops its tasks for three of eight parts of their time.
    assert_eq!(severities(&limited(100)), [Severity::Warning]);
}

#[test]
fn it_says_how_much_would_end_it() {
    let finding = &findings_of(Rule::Throttled, &limited(50))[0];
    let expected = "pool is throttled";
    assert!(finding.verdict.starts_with(expected), "{}", finding.verdict);
    assert!(
        finding.verdict.contains("its own quota of 0.50 CPUs is used up in 50.0 % of its periods"),
        "{}",
        finding.verdict
    );
    // What it gets and three quarters of a second of wait in each second.
    let cpu = finding.measured.iter().find(|figure| figure.name == "cpu").unwrap().value.unwrap().as_f64();
    let needed = finding.measured.iter().find(|figure| figure.name == "needed").unwrap().value.unwrap().as_f64();
    assert!((needed - cpu - 0.75).abs() < 1e-9, "{needed} {cpu}");
    let command = finding.advice[0].command.as_deref().unwrap();
    let to = (needed * HEADROOM * 1_000.0).round();
    assert!(command.ends_with(&format!("/cpu.max\"' sh /sys/fs/cgroup/apps.slice/pool {to}")), "{command}");
}

#[test]
fn without_causes_the_periods_tell_enough() {
    let finding = &findings_of(Rule::Throttled, &unexplained(50))[0];
    assert!(
        finding.verdict.contains("its own quota of 0.50 CPUs is used up in 50.0 % of its periods"),
        "{}",
        finding.verdict
    );
    assert!(finding.advice[0].command.as_deref().unwrap().ends_with(" 1000"), "twice the quota");
}

#[test]
fn without_a_quota_nothing_is_throttled() {
    let finding = &findings_of(Rule::Throttled, &minute_of(|_| ()))[0];
    assert_eq!((finding.severity, &*finding.verdict), (Severity::Ok, "No cgroup that ran has a quota of its own."));
}

/// A quarter of what it wants is not for its quota at all.
#[test]
fn a_quota_that_hardly_stops_anybody_is_no_problem() {
    let mut intervals = limited(50);
    for cgroup in intervals.iter_mut().flat_map(|interval| &mut interval.cgroups) {
        blame(cgroup, &[], 0.98, 0.02);
    }
    assert_eq!(problems_of(Rule::Throttled, &intervals), []);
}

#[test]
fn the_quota_of_a_cgroup_above_is_named() {
    let mut intervals = limited(50);
    for cgroup in intervals.iter_mut().flat_map(|interval| &mut interval.cgroups) {
        (cgroup.quota_ns, cgroup.files.nr_periods, cgroup.files.nr_throttled) = (None, None, None);
        let limited =
            Level { quota_ns: Some(Nanos(40_000_000)), period_ns: Some(Nanos(100_000_000)), ..Level::DEFAULT };
        cgroup.levels = Some([limited, Level::DEFAULT].into());
    }
    let finding = &findings_of(Rule::Throttled, &intervals)[0];
    assert!(finding.verdict.contains("the quota of 0.40 CPUs of /apps.slice is used up"), "{}", finding.verdict);
    assert!(finding.advice[0].command.as_deref().is_some_and(|it| it.contains("sh /sys/fs/cgroup/apps.slice ")));
}

#[test]
fn of_two_quotas_the_one_that_is_used_up_is_named() {
    let mut intervals = limited(0);
    for cgroup in intervals.iter_mut().flat_map(|interval| &mut interval.cgroups) {
        let limited =
            Level { quota_ns: Some(Nanos(40_000_000)), period_ns: Some(Nanos(100_000_000)), ..Level::DEFAULT };
        let own = Level { quota_ns: Some(Nanos(50_000_000)), ..limited };
        cgroup.levels = Some([limited, own].into());
    }
    let finding = &findings_of(Rule::Throttled, &intervals)[0];
    assert!(finding.verdict.contains("the quota of 0.40 CPUs of /apps.slice is used up"), "{}", finding.verdict);
    assert_eq!(finding.culprits[0].to_string(), "/apps.slice");
}
