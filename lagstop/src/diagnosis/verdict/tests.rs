use super::*;
use crate::{
    diagnosis::{
        Report, diagnose,
        fixture::{bullied, minute_of_tree, unfair},
    },
    model::{
        CgroupId, Interval, Nanos, Session,
        fixture::{self, blame},
    },
};

fn report(intervals: &[Interval]) -> Report {
    diagnose(&fixture::session(), intervals, &Thresholds::default())
}

fn causes(intervals: &[Interval]) -> Vec<(Rule, String)> {
    report(intervals).verdict.causes.into_iter().map(|cause| (cause.rule, cause.subject.to_string())).collect()
}

#[test]
fn a_healthy_host_is_told_so() {
    let verdict = report(&fixture::idle(60)).verdict;
    assert_eq!((verdict.severity, verdict.causes.len(), &verdict.next), (Severity::Ok, 0, &None));
    assert!(verdict.headline.starts_with("Healthy: 99 % of all waits"), "{}", verdict.headline);
}

#[test]
fn too_little_is_no_health() {
    for few in [Vec::new(), fixture::overloaded(3)] {
        let verdict = report(&few).verdict;
        assert_eq!(verdict.severity, Severity::NotEnoughData);
        assert!(verdict.headline.starts_with("Cannot tell"), "{}", verdict.headline);
    }
}

#[test]
fn a_bully_is_the_headline_and_its_victim_is_harmed() {
    let verdict = report(&bullied(60)).verdict;
    let worst = &verdict.causes[0];
    assert_eq!((worst.rule, worst.subject.to_string()), (Rule::NoisyNeighbour, "checkout".into()));
    assert_eq!(worst.culprits.iter().map(ToString::to_string).collect::<Vec<_>>(), ["etl/batch"]);
    assert!(verdict.headline.starts_with("checkout waits 80.0 % of its runnable time"), "{}", verdict.headline);
    assert!(verdict.next.is_some_and(|next| next.command.is_some()));
}

#[test]
fn weights_explain_who_waits_behind_whom() {
    let causes = causes(&unfair());
    assert!(causes.contains(&(Rule::Outweighed, "/system.slice".to_owned())), "{causes:?}");
    let is_neighbour = |(rule, of): &&(Rule, String)| *rule == Rule::NoisyNeighbour && of.contains("sshd");
    assert!(!causes.iter().any(|it| is_neighbour(&it)), "{causes:?}");
}

#[test]
fn what_a_cause_explains_is_not_told_again() {
    let report = report(&fixture::full_of_problems());
    let told: Vec<&Finding> = report.findings.iter().filter(|finding| report.verdict.tells(finding)).collect();
    assert!(told.len() >= report.verdict.causes.len().min(1 + Verdict::BENEATH));
    assert!(report.verdict.beneath().len() <= Verdict::BENEATH);
    let keys: std::collections::BTreeSet<String> =
        report.verdict.causes.iter().map(|cause| format!("{:?} {}", cause.rule, cause.subject)).collect();
    assert_eq!(keys.len(), report.verdict.causes.len(), "each once");
}

/// It waits behind kernel threads, and nobody is to blame: that is no health.
#[test]
fn who_waits_long_without_a_main_cause_is_not_called_healthy() {
    let mut intervals = minute_of_tree(&[("/checkout", &[1.0], 300, 500, 1)]);
    for cgroup in intervals.iter_mut().flat_map(|interval| &mut interval.cgroups) {
        blame(cgroup, &[], 0.0, 0.0);
        let totals = &mut cgroup.totals;
        (totals.wait_kernel_ns, totals.wait_elsewhere_ns) = (totals.wait_elsewhere_ns, totals.wait_kernel_ns);
    }
    let verdict = report(&intervals).verdict;
    assert!(verdict.headline.starts_with("1 of 1 cgroup waits long for a CPU."), "{}", verdict.headline);
    assert!(verdict.headline.contains("behind kernel threads"), "{}", verdict.headline);
    assert_eq!((verdict.severity, verdict.causes.len()), (Severity::Info, 1));
}

#[test]
fn all_that_wait_for_the_same_reason_are_counted() {
    let mut intervals = bullied(60);
    for interval in &mut intervals {
        let more = (0..8).map(|n| {
            let mut one = interval.cgroups[0].clone();
            (one.id, one.path, one.name) = (CgroupId(60 + n), format!("/more-{n}").into(), format!("more-{n}").into());
            one
        });
        let more: Vec<_> = more.collect();
        interval.cgroups.extend(more);
    }
    let verdict = report(&intervals).verdict;
    assert!(verdict.headline.ends_with(" and 7 others wait for the same reason."), "{}", verdict.headline);
}

#[test]
fn the_worst_comes_first() {
    let report = report(&fixture::full_of_problems());
    assert!(report.verdict.causes.is_sorted_by_key(|cause| std::cmp::Reverse(cause.severity)));
    assert_eq!(report.verdict.severity, report.verdict.causes[0].severity);
}

#[test]
fn a_hypervisor_is_to_blame_where_nobody_else_is() {
    let stolen = |mut intervals: Vec<Interval>| {
        intervals.iter_mut().for_each(|it| it.host.times.steal_ns = Some(Nanos(2 * Nanos::SECOND.0)));
        causes(&intervals).into_iter().map(|(rule, _)| rule).collect::<Vec<_>>()
    };
    assert_eq!(stolen(fixture::idle(60)), [Rule::Steal]);
    let names: Vec<String> = (0..10).map(|n| format!("/app-{n}")).collect();
    let all: Vec<_> = names.iter().map(|name| (name.clone().leak() as &str, &[1.0][..], 400, 5_600, 6)).collect();
    assert_eq!(stolen(minute_of_tree(&all))[..2], [Rule::Overload, Rule::Steal], "that much more than there is");
}

#[test]
fn a_host_of_which_nothing_is_known_is_not_called_healthy() {
    let session = Session { hooks: Vec::new(), ..fixture::session_without_cost() };
    let verdict = diagnose(&session, &fixture::without_cost(4), &Thresholds::default()).verdict;
    assert_eq!(verdict.severity, Severity::NotEnoughData);
}
