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
    assert_eq!(names(&finding, |one| one.class == CandidateClass::Heavy), ["train", "batch"]);
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
    assert!(plain[0].contains("weight * 2") && plain[0].ends_with("sh /sys/fs/cgroup/apps.slice/web"), "{}", plain[0]);
    let is_known = |command: &String| {
        command.contains("cpu.weight") || command.contains("-inum 22") || command.starts_with("sudo lagstop trial ")
    };
    assert!(plain.iter().all(is_known), "{plain:?}");
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

/// Each threshold at what was measured, and a little above.
#[test]
fn from_the_threshold_on_it_counts() {
    let finding = found(&fixture::overloaded(40));
    let figure =
        |name: &str| finding.measured.iter().find(|figure| figure.name == name).unwrap().value.unwrap().as_f64();
    let of = |who: &str| finding.cgroups.iter().find(|one| one.cgroup.to_string() == who).unwrap().clone();
    let heavy: Vec<f64> = ["batch", "train"].iter().map(|who| of(who).load_credit.as_f64()).collect();
    let web = of("web");
    let wait_per_cpu = web.wait_per_cpu.unwrap().as_f64();
    let credit = web.load_credit.as_f64() / (heavy.iter().sum::<f64>() / heavy.len() as f64);
    let with = |change: &dyn Fn(&mut Thresholds)| {
        let mut thresholds = Thresholds::default();
        change(&mut thresholds);
        let finding = judged(&fixture::overloaded(40), &thresholds);
        (finding.severity, names(&finding, |one| one.waits_long).contains(&"web".to_owned()))
    };
    for (factor, is_bad) in [(1.0 - 1e-9, true), (1.0 + 1e-9, false)] {
        let severity = with(&|limits| limits.contended_wait = figure("waiting_per_cpu") * factor).0;
        assert_eq!(severity, if is_bad { Severity::Warning } else { Severity::Ok });
        let severity = with(&|limits| limits.light_gain = figure("light_gain") * factor).0;
        assert_eq!(severity, if is_bad { Severity::Warning } else { Severity::Info });
        assert_eq!(with(&|limits| limits.light_wait_per_cpu = wait_per_cpu * factor).1, is_bad);
        assert_eq!(with(&|limits| limits.light_credit = credit / factor).1, is_bad);
        let p99 = web.wait_p99_ns.unwrap().0;
        assert_eq!(with(&|limits| limits.light_wait_p99 = Nanos(p99 + u64::from(!is_bad))).1, is_bad);
        assert_eq!(with(&|limits| limits.min_waits = 20 * 1_060 + u64::from(!is_bad)).1, is_bad);
    }
}

#[test]
fn the_light_ones_come_by_what_they_would_gain() {
    let finding = found(&fixture::overloaded(40));
    let light: Vec<&Candidate> = finding.cgroups.iter().filter(|one| one.class == CandidateClass::Light).collect();
    let gain = |one: &Candidate| {
        let [cpu, wait, left] = [Some(one.cpu), one.wait_per_cpu, one.wait_left].map(|value| value.unwrap().as_f64());
        cpu * wait * (1.0 - left)
    };
    assert!(light.len() > 1 && light.windows(2).all(|pair| gain(pair[0]) >= gain(pair[1])), "{light:?}");
    assert!(finding.cgroups[light.len()..].iter().all(|one| one.class == CandidateClass::Heavy));
    let top: Vec<&Subject> = finding
        .measured
        .iter()
        .filter(|figure| figure.name == "light_gaining_most")
        .filter_map(|it| it.of.as_ref())
        .collect();
    assert_eq!(top, light.iter().map(|one| &one.cgroup).collect::<Vec<_>>());
}

/// Eleven more that want little, so that more is wanted than there is.
fn more_than_there_is() -> Vec<Interval> {
    let mut all = fixture::overloaded(40);
    for interval in &mut all {
        let web = interval.cgroups.iter().find(|cgroup| &*cgroup.name == "web").unwrap().clone();
        interval
            .cgroups
            .extend((0..11).map(|n| crate::model::Cgroup { id: crate::model::CgroupId(1_000 + n), ..web.clone() }));
    }
    all
}

#[test]
fn what_heavy_ones_do_not_bear_is_not_advised() {
    let with = |heavy_tolerance: f64, light_gain: f64| {
        let thresholds = Thresholds { heavy_tolerance, light_gain, ..Thresholds::default() };
        let finding = judged(&more_than_there_is(), &thresholds);
        let longer =
            finding.measured.iter().find(|figure| figure.name == "heavy_time").unwrap().value.unwrap().as_f64();
        (longer, finding)
    };
    let (longer, lax) = with(1e9, 0.0);
    assert!(longer > 0.2, "{longer}");
    assert!(lax.severity == Severity::Warning && !lax.verdict.contains("than they should"), "{}", lax.verdict);
    // Some of them can go first.
    let (_, strict) = with(0.1, 0.2);
    assert_eq!(strict.severity, Severity::Warning, "{}", strict.verdict);
    assert!(strict.verdict.contains("more than they should; with none but the 8 lightest first"), "{}", strict.verdict);
    // No one can.
    let (_, hard) = with(0.0, 0.6);
    assert_eq!((hard.severity, hard.advice.len()), (Severity::Info, 0), "{}", hard.verdict);
    assert!(hard.verdict.ends_with("and to put fewer first spares too little."), "{}", hard.verdict);
}

#[test]
fn a_light_one_that_its_quota_stops_is_not_put_first() {
    let stopped = |throttled: u64| {
        let mut all = fixture::overloaded(40);
        for cgroup in all.iter_mut().flat_map(|interval| &mut interval.cgroups).filter(|cgroup| &*cgroup.name == "web")
        {
            (cgroup.nr_periods, cgroup.nr_throttled) = (Some(100), Some(throttled));
        }
        found(&all)
    };
    assert_eq!(names(&stopped(5), |one| one.waits_long), ["api\u{1b}[2J"]);
    let at_times = stopped(4);
    assert!(names(&at_times, |one| one.waits_long).contains(&"web".to_owned()));
    assert!(at_times.against.iter().any(|doubt| doubt.contains("used up their own quota")), "{:?}", at_times.against);
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
