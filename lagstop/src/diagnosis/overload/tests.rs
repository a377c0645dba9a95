use super::*;
use crate::{
    diagnosis::fixture::{InTree, bullied, findings_of, minute_of_tree},
    model::{Interval, Nanos, fixture},
};

fn judged(intervals: &[Interval]) -> Finding {
    findings_of(Rule::Overload, intervals).remove(0)
}

const EQUAL: &[f64] = &[1.0];

/// So many that each get an equal part of four CPUs.
fn equals(count: u64) -> Vec<Interval> {
    let cpu = 4_000 / count;
    let paths: Vec<String> = (0..count).map(|n| format!("/app-{n:02}")).collect();
    let all: Vec<InTree> = paths.iter().map(|path| (path.clone().leak() as &str, EQUAL, cpu, 1_000 - cpu, 1)).collect();
    minute_of_tree(&all)
}

#[test]
fn everybody_waits_where_many_fill_the_cpus() {
    let finding = judged(&equals(20));
    assert_eq!(
        finding.verdict,
        "Overloaded: tasks ask for 20.0 CPUs and there are 4, so CPU work takes 5.00 times as long. All 20 cgroups wait \
         long; none gets more than its share."
    );
    assert_eq!((finding.severity, finding.culprits.len()), (Severity::Critical, TOP));
    assert_eq!(judged(&equals(10)).severity, Severity::Warning);
    assert_eq!(judged(&equals(5)).severity, Severity::Info, "a fifth more than there is");
}

#[test]
fn cpus_with_room_are_not_overloaded() {
    let finding = judged(&fixture::idle(60));
    assert_eq!((finding.severity, finding.culprits.len()), (Severity::Ok, 0));
    assert!(finding.verdict.starts_with("The CPUs have room"), "{}", finding.verdict);
    assert_eq!(judged(&equals(4)).severity, Severity::Ok, "full, and nobody waits");
}

#[test]
fn one_that_fills_the_cpus_alone_is_no_overload() {
    let finding = judged(&bullied(60));
    assert_eq!((finding.severity, finding.culprits.len()), (Severity::Info, 1));
    assert!(finding.verdict.starts_with("etl/batch fills the CPUs: tasks ask for 9.00 CPUs"), "{}", finding.verdict);
}

#[test]
fn a_host_whose_root_cgroup_fills_it_is_not_called_healthy() {
    let verdict = |spinning: u64| {
        let root: &[InTree] = &[("/", EQUAL, 4_000, (spinning - 4) * 1_000, spinning)];
        let mut observations = Observations::new(fixture::session());
        for mut interval in minute_of_tree(root) {
            interval.cgroups.iter_mut().for_each(|cgroup| cgroup.id = CgroupId::OTHER);
            observations.add(&interval);
        }
        observations.diagnose(&Thresholds::default()).verdict
    };
    let slow = verdict(16);
    assert_eq!(
        slow.headline,
        "Tasks in the root cgroup or in cgroups without a row of their own fill the CPUs: they ask for 16.0 CPUs and there \
         are 4. No other cgroup waits long."
    );
    assert!(slow.severity == Severity::Info && slow.next.is_some());
    assert!(verdict(5).headline.starts_with("Healthy: "), "a quarter more than there is is hardly felt");
}

#[test]
fn a_few_that_fill_the_cpus_are_named() {
    let mut all: Vec<InTree> = vec![("/heavy-0", EQUAL, 1_500, 6_500, 8), ("/heavy-1", EQUAL, 1_500, 6_500, 8)];
    let names: Vec<&str> = (0..10).map(|n| &*format!("/light-{n}").leak()).collect();
    all.extend(names.iter().map(|name| (*name, EQUAL, 100, 300, 1)));
    let finding = judged(&minute_of_tree(&all));
    assert!(finding.verdict.ends_with("wait long; heavy-0 and heavy-1 fill the CPUs."), "{}", finding.verdict);
}

#[test]
fn what_was_not_measured_is_not_judged() {
    let mut blind = equals(20);
    for interval in &mut blind {
        interval.host.totals.runq_wait_ns = None;
        interval.cgroups.iter_mut().for_each(|cgroup| cgroup.totals.runq_wait_ns = None);
    }
    assert_eq!(judged(&blind).severity, Severity::NotEnoughData);
    assert_eq!(judged(&equals(20)[..2]).severity, Severity::NotEnoughData);
}

#[test]
fn lists_of_names_have_an_end() {
    let subject =
        |n: u64| Subject::Cgroup { id: Some(CgroupId(n)), path: format!("/{n}").into(), name: format!("c{n}").into() };
    let list = |count: u64, all| names((1..=count).map(subject), all);
    assert_eq!((list(1, 1), list(2, 2), list(3, 5)), ("c1".into(), "c1 and c2".into(), "c1, c2, c3 and 2 more".into()));
}

/// The CPUs are full for so many seconds of a minute, and nearly idle for the rest of it.
fn full_for(seconds: usize) -> Vec<Interval> {
    let paths: Vec<String> = (0..20).map(|n| format!("/app-{n:02}")).collect();
    let quiet: Vec<InTree> = paths.iter().map(|path| (path.clone().leak() as &str, EQUAL, 10, 0, 1)).collect();
    let mut all = equals(20);
    all.splice(seconds.., minute_of_tree(&quiet).into_iter().skip(seconds));
    all
}

#[test]
fn cpus_that_are_full_for_a_part_of_the_time_are_overloaded_then() {
    let finding = judged(&full_for(12));
    assert_eq!(
        finding.verdict,
        "Overloaded for 12.0 s of 60.0 s: tasks then ask for 20.0 CPUs and there are 4, so CPU work takes 5.00 times as long. All \
         20 cgroups wait long."
    );
    assert_eq!((finding.severity, finding.culprits.len()), (Severity::Critical, TOP));
    let time = finding.measured.iter().find(|figure| figure.name == "overloaded").unwrap();
    assert_eq!(time.shown(), "12.0 s");
    assert_eq!(time.note.as_deref(), Some("of 60.0 s: from 0 s to 12.0 s of the recording"));
    assert_eq!(judged(&full_for(5)).severity, Severity::Ok, "a twelfth of the time");
}

#[test]
fn whoever_its_own_quota_stops_asks_for_no_cpu() {
    let mut all = full_for(12);
    let cgroups = |interval: &mut Interval| {
        for cgroup in &mut interval.cgroups {
            cgroup.totals.wait_throttled_ns = cgroup.totals.runq_wait_ns;
        }
    };
    all.iter_mut().for_each(cgroups);
    assert_eq!(judged(&all).severity, Severity::Ok, "{}", judged(&all).verdict);
}

/// Full all the time, and too full for a part of it: the rest would hide most of the harm.
#[test]
fn the_part_of_the_time_is_told_of_a_host_that_is_always_busy() {
    let paths: Vec<String> = (0..20).map(|n| format!("/app-{n:02}")).collect();
    let busy: Vec<InTree> = paths.iter().map(|path| (path.clone().leak() as &str, EQUAL, 200, 0, 1)).collect();
    let mut all = minute_of_tree(&busy);
    assert_eq!(judged(&all).severity, Severity::Ok);
    all.splice(20..30, equals(20).into_iter().skip(20).take(10));
    all.splice(45..50, equals(20).into_iter().skip(45).take(5));
    let finding = judged(&all);
    assert!(
        finding
            .verdict
            .starts_with("Overloaded for 15.0 s of 60.0 s: tasks then ask for 20.0 CPUs and there are 4, so CPU work takes 5.00 times"),
        "{}",
        finding.verdict
    );
    assert_eq!(finding.severity, Severity::Critical, "as bad as it is then");
    let time = finding.measured.iter().find(|figure| figure.name == "overloaded").unwrap();
    assert_eq!(time.note.as_deref(), Some("of 60.0 s: 2 times between 20.0 s and 50.0 s of the recording"));
}

/// Those that wait long then are counted, though they hardly wait over all of the time.
#[test]
fn whoever_waits_long_while_it_is_overloaded_is_counted() {
    let mut all = full_for(12);
    for cgroup in all.iter_mut().flat_map(|interval| &mut interval.cgroups) {
        cgroup.runq_wait = None;
    }
    for cgroup in all.iter_mut().skip(12).flat_map(|interval| &mut interval.cgroups) {
        cgroup.totals.cpu_ns = Nanos(180_000_000);
    }
    let long = waiting_long(&observed(&all), &Thresholds::default(), |_| true);
    assert_eq!(long, 0, "over all of the time");
    assert!(judged(&all).verdict.ends_with("All 20 cgroups wait long."), "{}", judged(&all).verdict);
}

fn observed(intervals: &[Interval]) -> Observations {
    let mut observations = Observations::new(fixture::session());
    intervals.iter().for_each(|interval| observations.add(interval));
    observations
}
