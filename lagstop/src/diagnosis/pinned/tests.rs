use super::*;
use crate::{
    diagnosis::{
        Report, diagnose,
        fixture::{CONFINED, confined, findings_of, minute_of_tree},
    },
    model::{Cpu, CpuTotals, Crowding, Interval, fixture::session},
};

/// Two cgroups that share CPU 0, while the other CPUs are idle for this many thousandths of the time.
fn crowded(idle: u64) -> Vec<Interval> {
    let ms = |ms: u64| Nanos(ms * 1_000_000);
    let mut intervals = minute_of_tree(&[("/parser", &[1.0], 500, 500, 1), ("/writer", &[1.0], 500, 500, 1)]);
    for interval in &mut intervals {
        let crowd =
            interval.cgroups.iter().map(|it| Crowding { id: it.id, cpu_ns: ms(500), runq_wait_ns: Some(ms(500)) });
        let crowd: Vec<Crowding> = crowd.collect();
        interval.cpus = (0..4)
            .map(|cpu| {
                let idle = if cpu == 0 { 0 } else { idle };
                let totals = CpuTotals { busy_ns: ms(1_000 - idle), idle_ns: ms(idle), ..CpuTotals::default() };
                Cpu { cpu, totals, crowd: if cpu == 0 { crowd.clone() } else { Vec::new() } }
            })
            .collect();
    }
    intervals
}

#[test]
fn a_wait_on_a_full_cpu_beside_idle_ones_is_found() {
    let findings = findings_of(Rule::Pinned, &crowded(900));
    assert_eq!(findings.len(), 2);
    assert_eq!(
        findings[0].verdict,
        "parser waits 50.0 % of its runnable time on CPU 0, which is full, while 2.70 of 4 CPUs are idle: its threads seem to be \
         pinned."
    );
    assert_eq!(findings[0].severity, Severity::Warning);
    assert!(findings[0].advice[0].command.as_deref().is_some_and(|it| it.contains("taskset -apc")));
}

#[test]
fn where_all_cpus_are_used_nobody_is_kept_from_idle_ones() {
    let findings = findings_of(Rule::Pinned, &crowded(300));
    assert_eq!((findings.len(), findings[0].severity), (1, Severity::Ok));
}

#[test]
fn a_narrow_cpu_set_is_named() {
    let mut intervals = crowded(900);
    for cgroup in intervals.iter_mut().flat_map(|interval| &mut interval.cgroups) {
        cgroup.cpus = Some("0".into());
    }
    let findings = findings_of(Rule::Pinned, &intervals);
    assert_eq!(findings.len(), 1, "both wait for the same CPU set");
    assert_eq!(
        findings[0].verdict,
        "The CPU set 0 is full: parser and writer, which may use no other CPUs, ask for 2.00 CPUs and it has 1, while 2.70 of 4 \
         CPUs on this host are idle. 2 cgroups wait 50.0 % of their runnable time."
    );
    assert!(
        findings[0].advice[0].text.starts_with("Widen the CPU set 0 from 1 CPU towards 2,"),
        "{:?}",
        findings[0].advice
    );
    for (list, is_one) in [("0-3", false), ("0-1,2,3", false), ("0,2", true), ("1", true), ("x", false), ("", false)] {
        assert_eq!(is_narrow(list, &[0, 1, 2, 3]), is_one, "{list}");
    }
}

fn report(intervals: &[Interval]) -> Report {
    diagnose(&session(), intervals, &Thresholds::default())
}

#[test]
fn a_full_cpu_set_on_an_idle_host_is_the_headline_with_its_cgroups() {
    let verdict = report(&confined(&CONFINED, 2)).verdict;
    assert_eq!(
        verdict.headline,
        "The CPU set of /batch (CPUs 0-1) is full: w-0, w-1, w-2 and 1 more in it ask for 8.00 CPUs and it has 2, while 61.4 of 64 \
         CPUs on this host are idle. 4 cgroups wait 75.0 % of their runnable time."
    );
    assert_eq!((verdict.causes[0].rule, verdict.causes.len()), (Rule::Pinned, 1), "{:?}", verdict.causes);
    assert_eq!(verdict.causes[0].subject.path(), Some("/batch"));
    let next = verdict.next.unwrap().text;
    assert!(next.contains("Widen the CPU set of /batch from 2 CPUs towards 8,"), "{next}");
}

#[test]
fn a_cpu_set_with_room_is_no_cause() {
    let findings = findings_of(Rule::Pinned, &confined(&CONFINED, 1));
    assert_eq!((findings.len(), findings[0].severity), (1, Severity::Ok), "{}", findings[0].verdict);
}

#[test]
fn one_that_has_a_cpu_set_of_its_own_is_told_as_one() {
    let pool = ("/batch/w-0", &[1.0, 1.0][..], 2_000, 6_000, 8);
    let verdict = report(&confined(&[pool, CONFINED[4]], 2)).verdict;
    assert!(verdict.headline.contains("it asks for 8.00 CPUs and it has 2"), "{}", verdict.headline);
    assert!(verdict.headline.ends_with("It waits 75.0 % of its runnable time."), "{}", verdict.headline);
}

#[test]
fn two_full_cpu_sets_are_two_causes() {
    let mut intervals = confined(&CONFINED, 4);
    for cgroup in intervals.iter_mut().flat_map(|interval| &mut interval.cgroups) {
        if matches!(&*cgroup.name, "w-2" | "w-3") {
            cgroup.cpus = Some("2-3".into());
        }
    }
    let verdict = report(&intervals).verdict;
    let sets = verdict.causes.iter().filter(|cause| cause.rule == Rule::Pinned).count();
    assert_eq!(sets, 2, "{:?}", verdict.causes);
    // A cgroup with two CPU sets inside has none of its own.
    assert!(
        verdict.headline.starts_with("The CPU set 0-1 is full: w-0 and w-1, which may use no"),
        "{}",
        verdict.headline
    );
}
