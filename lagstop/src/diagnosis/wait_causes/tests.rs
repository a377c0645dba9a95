use super::*;
use crate::{
    diagnosis::fixture::{bullied, findings_of, problems_of},
    model::{
        Interval, Nanos,
        fixture::{blame, idle, minute_of},
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

fn stolen(share: f64) -> Vec<Interval> {
    let mut all = idle(60);
    for interval in &mut all {
        // Beside what its CPUs have.
        interval.host.times.steal_ns = Some(Nanos((4e9 * share / (1.0 - share)).ceil() as u64));
    }
    all
}

fn severity(intervals: &[Interval]) -> Severity {
    findings_of(Rule::WaitCauses, intervals)[0].severity
}

#[test]
fn a_quota_is_no_neighbour() {
    assert_eq!(
        [4, 5, 24, 25].map(|periods| severity(&throttled(periods))),
        [Severity::Info, Severity::Warning, Severity::Warning, Severity::Critical]
    );
    let finding = &findings_of(Rule::WaitCauses, &throttled(50))[0];
    assert!(
        finding.verdict.starts_with("1 cgroup was throttled by its own quota in 50.0 % of its periods"),
        "{}",
        finding.verdict
    );
    let command = finding.advice[0].command.as_deref().unwrap();
    assert!(command.ends_with("/cpu.max\"' sh /sys/fs/cgroup/apps.slice/pool 1000"), "{command}");
    let shares = ["waiting", "behind_others", "behind_itself", "in_throttled"].map(|name| shown(finding, name));
    assert_eq!(shares, ["1.00 tasks", "0 %", "20.0 %", "75.0 %"]);
}

#[test]
fn a_hypervisor_is_no_neighbour() {
    assert_eq!(
        [0.049, 0.05, 0.19, 0.2].map(|share| severity(&stolen(share))),
        [Severity::Ok, Severity::Warning, Severity::Warning, Severity::Critical]
    );
    let mut unknown = stolen(0.5);
    unknown.iter_mut().for_each(|interval| interval.host.times.steal_ns = None);
    let finding = &findings_of(Rule::WaitCauses, &unknown)[0];
    assert_eq!((finding.severity, &*shown(finding, "steal")), (Severity::Ok, "n/a"));
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
        "5.20 tasks wait for a CPU on average. Of their waiting time: 81.9 % behind threads of the same cgroup, 11.1 % behind other \
         cgroups, 7.0 % on another CPU before a migration."
    );
    let worst: Vec<String> = finding
        .measured
        .iter()
        .filter(|figure| figure.name == "behind_worst")
        .map(|figure| format!("{} {}", figure.of.as_ref().unwrap(), figure.shown()))
        .collect();
    assert_eq!(worst, ["etl/batch 9.4 %", "checkout 1.7 %"]);
    assert_eq!(finding.against, [""; 0]);
}

#[test]
fn causes_that_were_not_measured_are_not_guessed() {
    let finding = &findings_of(Rule::WaitCauses, &minute_of(|_| ()))[0];
    let why = "not measured by the lagstop that made the recording";
    assert_eq!(finding.verdict, format!("1.00 tasks wait for a CPU on average; the cause of their waits is {why}."));
    assert_eq!((shown(finding, "waiting"), shown(finding, "behind_others")), ("1.00 tasks".into(), "n/a".into()));
    assert!(finding.against[0].contains(why), "{:?}", finding.against);
}
