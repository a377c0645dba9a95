use super::*;
use crate::{
    diagnosis::fixture::{bullied, findings_of, problems_of},
    model::{
        Interval, Nanos,
        fixture::{blame, minute_of},
    },
};

fn throttled(periods: u64) -> Vec<Interval> {
    minute_of(|pool| {
        pool.quota_ns = Some(Nanos(500_000_000));
        (pool.files.nr_periods, pool.files.nr_throttled) = (Some(100), Some(periods));
        blame(pool, &[], 0.2, 0.75);
    })
}

fn shown(finding: &Finding, name: &str) -> String {
    finding.measured.iter().find(|figure| figure.name == name).unwrap().shown()
}

#[test]
fn a_quota_is_no_neighbour() {
    let finding = &findings_of(Rule::WaitCauses, &throttled(50))[0];
    let shares = ["waiting", "behind_others", "behind_itself", "in_throttled"].map(|name| shown(finding, name));
    assert_eq!(shares, ["1.00 tasks", "0 %", "20.0 %", "75.0 %"]);
}

#[test]
fn who_waits_for_itself_waits_for_no_neighbour() {
    let all = minute_of(|pool| blame(pool, &[], 0.5, 0.0));
    let finding = &findings_of(Rule::WaitCauses, &all)[0];
    assert_eq!(
        ["behind_others", "behind_itself", "elsewhere"].map(|name| shown(finding, name)),
        ["0 %", "50.0 %", "50.0 %"]
    );
    assert_eq!((finding.severity, problems_of(Rule::WaitCauses, &all)), (Severity::Info, vec![]));
}

#[test]
fn all_causes_are_told_and_the_worst_neighbours_by_name() {
    let finding = &findings_of(Rule::WaitCauses, &bullied(60))[0];
    assert_eq!(
        finding.verdict,
        "5.20 tasks wait for a CPU on average: 81.9 % of the wait is behind own threads, 11.1 % behind \
         other cgroups, 7.0 % before a migration."
    );
    let worst: Vec<String> = finding
        .measured
        .iter()
        .filter(|figure| figure.name == "behind_worst")
        .map(|figure| format!("{} {}", figure.of.as_ref().unwrap(), figure.shown()))
        .collect();
    assert_eq!(worst, ["etl/batch 9.4 %", "checkout 1.7 %"]);
    assert_eq!(finding.caveats, [""; 0]);
}

#[test]
fn causes_that_were_not_measured_are_not_guessed() {
    let finding = &findings_of(Rule::WaitCauses, &minute_of(|_| ()))[0];
    let why = "not measured by the lagstop that made the recording";
    assert_eq!(finding.verdict, format!("1.00 tasks wait for a CPU on average, but the cause is {why}."));
    assert_eq!((shown(finding, "waiting"), shown(finding, "behind_others")), ("1.00 tasks".into(), "n/a".into()));
    assert!(finding.caveats[0].contains(why), "{:?}", finding.caveats);
}
