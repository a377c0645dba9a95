use super::*;
use crate::{
    diagnosis::fixture::{judged_by_shares, judged_by_shares_of, minute_of_tree, problems_by_shares},
    model::{CgroupMode, Interval, Session, fixture::session},
};

/// Four CPUs, on which a service of the system competes with pods that always want to run: its CPU time and wait in each second.
fn node(system: &'static [f64], pods: &'static [f64], cpu: u64, wait: u64) -> Vec<Interval> {
    minute_of_tree(&[
        ("/system.slice/sshd.service", system, cpu, wait, 1),
        ("/kubepods.slice/pod", pods, 4_000 - cpu, 8_000 + cpu, 12),
    ])
}

fn findings(intervals: &[Interval]) -> Vec<Finding> {
    judged_by_shares(judge, intervals)
}

fn found(intervals: &[Interval]) -> Vec<(String, Severity)> {
    problems_by_shares(judge, intervals)
}

#[test]
fn the_slice_of_the_system_is_outweighed_by_that_of_the_pods() {
    let all = node(&[100.0, 100.0], &[3_900.0, 100.0], 100, 900);
    assert_eq!(found(&all), [("/system.slice".to_owned(), Severity::Critical)]);
    let finding = &findings(&all)[0];
    assert_eq!(
        finding.verdict,
        "/system.slice waits 90.0 % of its runnable time because /kubepods.slice outweighs it (CPUWeight \
         100 against 3900). Its weight guarantees it 0.10 cores; equal weights would guarantee 1.00 cores."
    );
    // 1300 of 5200 are a fourth of four CPUs.
    let command = finding.advice[0].command.as_deref();
    assert_eq!(command, Some("sudo systemctl set-property --runtime system.slice CPUWeight=1300"));
    let undo = finding.advice[0].undo.as_deref();
    assert_eq!(undo, Some("sudo systemctl set-property --runtime system.slice CPUWeight=100"));
    let starved = judged_by_shares(starved::judge, &all);
    assert_eq!(starved[0].severity, Severity::Ok, "it gets what it is entitled to");
}

#[test]
fn a_pod_with_a_small_request_is_told_of_it_and_not_warned() {
    let all = minute_of_tree(&[
        ("/kubepods.slice/small", &[3_900.0, 10.0], 360, 3_640, 4),
        ("/kubepods.slice/large", &[3_900.0, 100.0], 3_640, 4_360, 8),
    ]);
    let findings = findings(&all);
    assert_eq!((findings.len(), findings[0].severity), (1, Severity::Info), "{}", findings[0].verdict);
    assert!(findings[0].verdict.contains("in “/kubepods.slice” ("), "{}", findings[0].verdict);
    assert!(findings[0].advice[0].text.starts_with("Raise the CPU request of small"));
}

#[test]
fn weights_that_differ_little_or_do_not_matter_are_no_problem() {
    // Equal ones.
    assert_eq!(found(&node(&[100.0, 100.0], &[100.0, 100.0], 500, 500)), []);
    // It gets all that it wants, but for short waits.
    assert_eq!(found(&node(&[100.0, 100.0], &[3_900.0, 100.0], 90, 10)), []);
    // It gets more than its weight's part.
    assert_eq!(found(&node(&[100.0, 100.0], &[3_900.0, 100.0], 510, 490)), []);
    // Three parts of four would be its own, of one CPU.
    assert_eq!(found(&node(&[100.0, 100.0], &[200.0, 100.0], 1_000, 1_000)), []);
}

#[test]
fn who_was_made_idle_is_meant_to_wait() {
    let mut all = node(&[100.0, 100.0], &[3_900.0, 100.0], 100, 900);
    for interval in &mut all {
        let levels = interval.cgroups[0].levels.take().unwrap();
        let idle = levels.iter().map(|level| crate::model::Level { is_idle: true, ..*level });
        interval.cgroups[0].levels = Some(idle.collect());
    }
    assert_eq!(found(&all), []);
}

#[test]
fn where_weights_count_several_times_the_one_advised_does_too() {
    // On four CPUs, eight threads make a weight count four times, three of them twice.
    let all = minute_of_tree(&[
        ("/light", &[100.0], 250, 7_750, 8),
        ("/heavy", &[1_000.0], 1_250, 1_750, 3),
        ("/heaviest", &[2_000.0], 2_500, 500, 3),
    ]);
    let told = |cgroup_mode| {
        let findings = judged_by_shares_of(Session { cgroup_mode: Some(cgroup_mode), ..session() }, judge, &all);
        let command = findings[0].advice[0].command.clone().unwrap_or_default();
        (findings[0].advice[0].text.clone(), command)
    };
    // Four of eight parts: 15 times four beside 10 times two and 20 times two.
    let (text, command) = told(CgroupMode::Concur);
    assert!(text.contains("that guarantees it about 2.00 cores"), "{text}");
    assert!(command.contains("1500"), "{command}");
    // One of three parts: 15 beside 10 and 20.
    let (text, command) = told(CgroupMode::Smp);
    assert!(text.contains("that guarantees it about 1.33 cores"), "{text}");
    assert!(command.contains("1500"), "{command}");
}
