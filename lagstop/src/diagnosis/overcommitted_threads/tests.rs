use super::*;
use crate::{
    diagnosis::fixture::{findings_of, interval_of, minute_of, problems_of},
    model::{Cgroup, Cpu, CpuTotals, Crowding, Interval, Nanos},
};

/// A pool that keeps so many threads runnable on four CPUs for itself, or has a part of them.
fn pool(runnable: u64, millicores: u64, own: f64) -> Vec<Interval> {
    let mut all = minute_of(|pool| {
        pool.totals.cpu_ns = Nanos(millicores * 1_000_000);
        pool.totals.runq_wait_ns = Some(Nanos((runnable * 1_000 - millicores) * 1_000_000));
        pool.totals.threads = runnable + 2;
    });
    for interval in &mut all {
        let (id, wait) = (interval.cgroups[0].id, interval.cgroups[0].totals.runq_wait_ns);
        let busy_ns = Nanos((millicores as f64 * 1e6 / own) as u64);
        let crowd = vec![Crowding { id, cpu_ns: Nanos(millicores * 1_000_000), runq_wait_ns: wait }];
        interval.cpus = vec![Cpu { totals: CpuTotals { busy_ns, ..CpuTotals::default() }, crowd, ..Cpu::default() }];
    }
    all
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
            Interval { cpus: interval.cpus, ..interval_of(interval.seq, vec![pool, other]) }
        })
        .collect();
    assert_eq!(names(&shared), ["pool"], "two threads on the one CPU that it gets");
}
