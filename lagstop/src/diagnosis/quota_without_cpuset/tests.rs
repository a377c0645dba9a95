use super::*;
use crate::{
    diagnosis::fixture::{findings_of, problems_of},
    model::{Interval, Nanos, fixture::minute_of},
};

/// A quota in thousandths of a core, so many of ten periods in a second throttled, and threads.
fn limited(millicores: u64, throttled: u64, threads: u64) -> Vec<Interval> {
    minute_of(|pool| {
        pool.quota_ns = Some(Nanos(millicores * 1_000_000));
        (pool.files.nr_periods, pool.files.nr_throttled) = (Some(10), Some(throttled));
        pool.totals.threads = threads;
    })
}

fn severities(intervals: &[Interval]) -> Vec<Severity> {
    problems_of(Rule::QuotaWithoutCpuset, intervals).into_iter().map(|(_, severity)| severity).collect()
}

#[test]
fn a_quota_that_is_run_into_with_more_threads_is_found() {
    assert_eq!(severities(&limited(2_000, 1, 8)), [Severity::Warning]);
    assert_eq!(severities(&limited(2_000, 3, 8)), [Severity::Critical]);
    let finding = &findings_of(Rule::QuotaWithoutCpuset, &limited(1_500, 9, 8))[0];
    assert!(finding.verdict.contains("1.50 cores but sees 4 CPUs: its 8 threads"), "{}", finding.verdict);
    assert!(finding.advice[0].text.contains("2 CPUs"), "{}", finding.advice[0].text);
}

#[test]
fn a_quota_that_fits_is_none() {
    assert_eq!(severities(&limited(2_000, 0, 8)), [], "it is not used up");
    assert_eq!(severities(&limited(2_000, 9, 2)), [], "no more threads than cores");
    assert_eq!(severities(&limited(500, 9, 1)), [], "one thread cannot be too many");
    assert_eq!(severities(&limited(3_001, 9, 8)), [], "nearly all that there is");
    assert_eq!(severities(&limited(3_000, 9, 8)), [Severity::Critical]);
    let verdict = &findings_of(Rule::QuotaWithoutCpuset, &minute_of(|_| ()))[0].verdict;
    assert!(verdict.starts_with("No cgroup with a quota"), "{verdict}");
}
