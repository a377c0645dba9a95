use super::*;
use crate::{
    diagnosis::fixture::{findings_of, problems_of},
    model::{
        Cgroup, Interval, Nanos,
        fixture::{blame, interval_of, minute_of},
    },
};

/// A pool that keeps so many threads runnable on four CPUs, and waits for itself for a part of the time.
fn pool(runnable: u64, millicores: u64, own: f64) -> Vec<Interval> {
    minute_of(|pool| {
        pool.totals.cpu_ns = Nanos(millicores * 1_000_000);
        pool.totals.runq_wait_ns = Some(Nanos((runnable * 1_000 - millicores) * 1_000_000));
        pool.totals.threads = runnable + 2;
        blame(pool, &[], own, 0.0);
    })
}

fn names(intervals: &[Interval]) -> Vec<String> {
    problems_of(Rule::OvercommittedThreads, intervals).into_iter().map(|(whom, _)| whom).collect()
}

#[test]
fn a_pool_of_twice_as_many_threads_as_cpus_is_too_large() {
    assert_eq!(names(&pool(8, 4_000, 1.0)), ["pool"]);
    assert_eq!(names(&pool(7, 4_000, 1.0)), [""; 0], "below the threshold");
    let found = &findings_of(Rule::OvercommittedThreads, &pool(12, 4_000, 1.0))[0];
    assert!(found.verdict.contains("12.0 threads runnable on the 4 CPUs"), "{}", found.verdict);
    assert!(found.advice[0].text.contains("about 4 threads"));
}

#[test]
fn who_waits_behind_others_is_not_blamed() {
    assert_eq!(names(&pool(12, 4_000, 0.4)), [""; 0]);
}

#[test]
fn who_waits_for_its_own_quota_waits_for_itself() {
    let mut all = pool(12, 4_000, 0.1);
    for cgroup in all.iter_mut().flat_map(|interval| &mut interval.cgroups) {
        blame(cgroup, &[], 0.1, 0.6);
    }
    assert_eq!(names(&all), [""; 0], "the quota of one above it");
    all.iter_mut().for_each(|interval| interval.cgroups[0].quota_ns = Some(Nanos(4_000_000_000)));
    assert_eq!(names(&all), ["pool"]);
}

#[test]
fn behind_whom_it_waits_has_to_be_known() {
    let old = |runnable| {
        let mut all = pool(runnable, 4_000, 1.0);
        all.iter_mut().for_each(|interval| interval.cgroups[0].totals.wait_self_ns = None);
        findings_of(Rule::OvercommittedThreads, &all).remove(0)
    };
    assert_eq!((old(12).severity, old(7).severity), (Severity::NotEnoughData, Severity::Ok));
    assert!(old(12).verdict.contains("whether these queue behind each other is not measured"), "{}", old(12).verdict);
}

#[test]
fn a_quota_is_all_that_a_pool_gets() {
    let mut all = pool(4, 1_500, 1.0);
    assert_eq!(names(&all), [""; 0], "it is alone, so it could have all four");
    for interval in &mut all {
        interval.cgroups[0].quota_ns = Some(Nanos(1_500_000_000));
    }
    assert_eq!(names(&all), ["pool"], "four threads on two CPUs");
}

#[test]
fn a_share_of_the_host_is_all_that_a_pool_gets() {
    let other = Cgroup { id: CgroupId(99), path: "/other".into(), name: "other".into(), ..Cgroup::default() };
    let shared: Vec<Interval> = pool(2, 1_000, 1.0)
        .into_iter()
        .map(|mut interval| {
            let mut other = other.clone();
            (other.totals.cpu_ns, other.totals.runq_wait_ns) = (Nanos(3_000_000_000), Some(Nanos::ZERO));
            let pool = interval.cgroups.remove(0);
            interval_of(interval.seq, vec![pool, other])
        })
        .collect();
    assert_eq!(names(&shared), ["pool"], "two threads on the one CPU that it gets");
}
