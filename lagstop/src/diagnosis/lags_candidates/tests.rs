use super::*;
use crate::{
    diagnosis::{diagnose, fixture},
    model::{Cpu, Crowding, Interval},
};

fn judged(intervals: &[Interval], thresholds: &Thresholds) -> Finding {
    let report = diagnose(&fixture::session(), intervals, thresholds);
    report.findings.into_iter().find(|finding| finding.rule == Rule::LagsCandidates).unwrap()
}

fn found(intervals: &[Interval]) -> Finding {
    judged(intervals, &Thresholds::default())
}

fn names(finding: &Finding, is: impl Fn(&Candidate) -> bool) -> Vec<String> {
    finding.cgroups.iter().filter(|one| is(one)).map(|one| one.cgroup.to_string()).collect()
}

#[test]
fn each_light_and_heavy_cgroup_is_listed_and_those_that_wait_are_told_apart() {
    let finding = found(&fixture::overloaded(40));
    assert_eq!(finding.severity, Severity::Warning, "{}", finding.verdict);
    assert_eq!(names(&finding, |one| one.class == CandidateClass::Heavy), ["batch", "train"]);
    assert_eq!(names(&finding, |one| one.waits_long), ["web", "api\u{1b}[2J"]);
    assert!(finding.cgroups.iter().all(|one| one.wait_left.is_some()), "all of them are simulated");
}

#[test]
fn the_advice_is_for_what_the_kernel_offers() {
    let commands = |files: &[&str], sched_ext: Option<&str>| {
        let mut session = fixture::session();
        session.cpu_files = files.iter().map(|&file| file.to_owned()).collect();
        session.sched_ext = sched_ext.map(str::to_owned);
        let report = diagnose(&session, &fixture::overloaded(40), &Thresholds::default());
        let finding = report.findings.into_iter().find(|finding| finding.rule == Rule::LagsCandidates).unwrap();
        finding.advice.into_iter().filter_map(|advice| advice.command).collect::<Vec<_>>()
    };
    let plain = commands(&["cpu.weight"], None);
    assert_eq!(plain[0], "echo 200 | sudo tee /sys/fs/cgroup/apps.slice/web/cpu.weight");
    assert!(plain.iter().all(|command| command.contains("cpu.weight") || command.contains("-inum 22")), "{plain:?}");
    let idle = commands(&["cpu.idle", "cpu.weight"], Some(""));
    assert!(idle.contains(&"echo 1 | sudo tee /sys/fs/cgroup/apps.slice/batch/cpu.idle".to_owned()), "{idle:?}");
    let patched = commands(&["cpu.latency_awareness"], None);
    assert_eq!(patched[0], "echo 1 | sudo tee /sys/fs/cgroup/apps.slice/web/cpu.latency_awareness");
}

#[test]
fn on_an_idle_host_nobody_waits() {
    let finding = found(&fixture::idle(40));
    assert_eq!(finding.severity, Severity::Ok, "{}", finding.verdict);
    assert!(finding.verdict.starts_with("Nobody waits"));
}

#[test]
fn where_all_are_as_heavy_nobody_is_put_first() {
    let mut all = fixture::overloaded(40);
    for cgroup in all.iter_mut().flat_map(|interval| &mut interval.cgroups) {
        cgroup.load_credit = Some(crate::model::Tasks(4.0));
    }
    let finding = found(&all);
    assert_eq!((finding.severity, finding.advice.len()), (Severity::Info, 0), "{}", finding.verdict);
}

#[test]
fn what_is_light_is_a_matter_of_thresholds() {
    let with = |change: fn(&mut Thresholds)| {
        let mut thresholds = Thresholds::default();
        change(&mut thresholds);
        let finding = judged(&fixture::overloaded(40), &thresholds);
        (finding.severity, names(&finding, |one| one.waits_long))
    };
    assert_eq!(with(|_| ()).1.len(), 2);
    assert_eq!(with(|limits| limits.light_wait_p99 = Nanos(16_000_000)).1, ["web"], "api waits 15 ms, web 18 ms");
    assert_eq!(with(|limits| limits.light_wait_p99 = Nanos(40_000_000)), (Severity::Info, vec![]));
    assert_eq!(with(|limits| limits.min_waits = 1_000_000), (Severity::Info, vec![]));
    assert_eq!(with(|limits| limits.light_gain = 1.0).0, Severity::Info, "nothing is worth it");
}

#[test]
fn who_waits_for_itself_is_not_put_first() {
    let mut all = fixture::overloaded(40);
    for interval in &mut all {
        let web = interval.cgroups.iter().find(|cgroup| &*cgroup.name == "web").unwrap();
        let crowd = vec![Crowding { id: web.id, cpu_ns: web.totals.cpu_ns, runq_wait_ns: web.totals.runq_wait_ns }];
        interval.cpus = vec![Cpu { busy_ns: web.totals.cpu_ns, crowd, ..Cpu::default() }];
    }
    assert_eq!(names(&found(&all), |one| one.waits_long), ["api\u{1b}[2J"]);
}

#[test]
fn a_simulation_that_is_off_lowers_the_confidence_and_one_that_is_far_off_is_said_to_be() {
    use crate::diagnosis::Level::{High, Low, Medium};
    let sure = Confidence { level: High, why: "60 intervals".to_owned() };
    for (error, expected) in
        [(0.0, High), (0.25, High), (-0.25, High), (0.26, Medium), (-0.5, Medium), (0.51, Low), (f64::NAN, Low)]
    {
        assert_eq!(held_against(sure.clone(), error).level, expected, "{error}");
    }
    assert!(held_against(sure, -0.4).why.ends_with("60.0 % of the measured"));
    // Waits of tasks that hardly run, on CPUs that are idle, are none that a run queue explains.
    let mut all = fixture::overloaded(40);
    for cgroup in all.iter_mut().flat_map(|interval| &mut interval.cgroups) {
        cgroup.totals.cpu_ns = Nanos(cgroup.totals.cpu_ns.0 / 10);
    }
    let finding = found(&all);
    assert!(finding.verdict.contains("By a simulation that is far off here"), "{}", finding.verdict);
    assert_eq!(finding.confidence.level, Low);
    assert!(!found(&fixture::overloaded(40)).verdict.contains("far off"));
}
