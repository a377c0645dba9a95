use super::*;
use crate::{
    diagnosis::{
        diagnose,
        fixture::{competing, contended},
    },
    model::{
        CgroupId, Interval, Level, Session,
        fixture::{self, blame},
    },
};

fn judged(intervals: &[Interval], thresholds: &Thresholds) -> Finding {
    let report = diagnose(&fixture::session(), intervals, thresholds);
    report.findings.into_iter().find(|finding| finding.rule == Rule::LagsCandidates).unwrap()
}

fn found(intervals: &[Interval]) -> Finding {
    judged(intervals, &Thresholds::default())
}

/// Sorted by what they would be spared.
const LIGHT: [&str; 2] = ["web", "api\u{1b}[2J"];

fn names(finding: &Finding, is: impl Fn(&Candidate) -> bool) -> Vec<String> {
    finding.cgroups.iter().filter(|one| is(one)).map(|one| one.cgroup.to_string()).collect()
}

#[test]
fn each_light_and_heavy_cgroup_is_listed_and_those_that_wait_are_told_apart() {
    let finding = found(&contended(40));
    assert_eq!(finding.severity, Severity::Warning, "{}", finding.verdict);
    let heavy = names(&finding, |one| one.class == CandidateClass::Heavy);
    assert!(heavy.contains(&"batch".to_owned()) && heavy.contains(&"etl-9".to_owned()), "{heavy:?}");
    assert_eq!(names(&finding, |one| one.waits_long), LIGHT);
    assert!(finding.cgroups.iter().all(|one| one.wait_left.is_some()), "all of them are simulated");
}

#[test]
fn the_advice_is_for_what_the_kernel_offers() {
    let commands = |files: &[&str], sched_ext: Option<&str>| {
        let mut session = fixture::session();
        session.cpu_files = files.iter().map(|&file| file.to_owned()).collect();
        session.sched_ext = sched_ext.map(str::to_owned);
        let report = diagnose(&session, &contended(40), &Thresholds::default());
        let finding = report.findings.into_iter().find(|finding| finding.rule == Rule::LagsCandidates).unwrap();
        finding.advice.into_iter().filter_map(|advice| advice.command).collect::<Vec<_>>()
    };
    let plain = commands(&["cpu.weight"], None);
    assert_eq!(plain[0], "sudo lagstop trial --policy weight --from-diagnose --apply");
    assert!(plain.contains(&"echo 400 | sudo tee /sys/fs/cgroup/apps.slice/web/cpu.weight".to_owned()), "{plain:?}");
    let is_known = |command: &String| {
        command.contains("cpu.weight") || command.contains("-inum 22") || command.starts_with("sudo lagstop trial ")
    };
    assert!(plain.iter().all(is_known), "{plain:?}");
    let idle = commands(&["cpu.idle", "cpu.weight"], Some(""));
    assert!(idle.iter().any(|command| command.starts_with("echo 1") && command.ends_with("/cpu.idle")), "{idle:?}");
    assert_eq!(idle[0], "sudo lagstop trial --policy lags --apply");
    let is_scheduled = |commands: &[String]| commands.iter().any(|command| command.contains("lagstop schedule"));
    assert!(is_scheduled(&idle) && !is_scheduled(&plain) && !is_scheduled(&commands(&[], Some("scx_lavd"))));
    let loaded = commands(&["cpu.weight"], Some("scx_lavd"));
    assert!(loaded.iter().all(|command| !command.contains("--policy weight")), "it would be refused: {loaded:?}");
    let patched = commands(&["cpu.latency_awareness"], None);
    assert_eq!(patched[1], "echo 1 | sudo tee /sys/fs/cgroup/apps.slice/web/cpu.latency_awareness");
}

#[test]
fn where_cgroups_are_nothing_to_the_scheduler_that_is_said_with_what_to_do() {
    let mut alone = contended(40);
    for interval in &mut alone {
        interval.cgroups.truncate(1);
        interval.cgroups[0].id = CgroupId::ROOT;
    }
    let finding = |files: &[&str]| {
        let cpu_files = files.iter().map(|&file| file.to_owned()).collect();
        let session = Session { cpu_files, cgroup_version: 2, ..fixture::session() };
        let report = diagnose(&session, &alone, &Thresholds::default());
        report.findings.into_iter().find(|finding| finding.rule == Rule::LagsCandidates).unwrap()
    };
    let without = finding(&[]);
    assert!(without.verdict.contains("into one group") && without.severity == Severity::NotEnoughData);
    assert_eq!(without.advice[0].command.as_deref(), Some("sudo lagstop diagnose --group-by leaf"));
    let with = finding(&["cpu.weight"]);
    assert!(with.verdict.contains("only the root cgroup ran") && with.advice.is_empty(), "{}", with.verdict);
}

#[test]
fn what_the_advice_changes_is_undone_exactly_or_no_undo_is_offered() {
    let changes = |weight: f64| -> Vec<(String, Option<String>)> {
        let mut all = contended(40);
        for cgroup in all.iter_mut().flat_map(|interval| &mut interval.cgroups) {
            cgroup.levels = Some([Level::DEFAULT, Level { weight: Some(weight), ..Level::DEFAULT }].into());
        }
        let cpu_files = ["cpu.idle", "cpu.weight"].map(str::to_owned).into();
        let report = diagnose(&Session { cpu_files, ..fixture::session() }, &all, &Thresholds::default());
        let finding = report.findings.into_iter().find(|finding| finding.rule == Rule::LagsCandidates).unwrap();
        let is_change = |(command, _): &(String, _)| command.contains("/sys/fs/cgroup/apps.slice/");
        let both = |advice: crate::diagnosis::Advice| Some((advice.command?, advice.undo));
        finding.advice.into_iter().filter_map(both).filter(is_change).collect()
    };
    let to = |cgroup: &str, file: &str, value: &str| {
        format!("echo {value} | sudo tee /sys/fs/cgroup/apps.slice/{cgroup}/{file}")
    };
    let usual = changes(100.0);
    let raised = (to("web", "cpu.weight", "400"), Some(to("web", "cpu.weight", "100")));
    assert!(usual.contains(&raised), "{usual:?}");
    // The kernel forgets the weight of what is idle.
    let undo = format!("{} && {}", to("batch", "cpu.idle", "0"), to("batch", "cpu.weight", "100"));
    assert!(usual.contains(&(to("batch", "cpu.idle", "1"), Some(undo))), "{usual:?}");
    let between = changes(100.3);
    let has = |end: &str| between.iter().any(|(command, _)| command.ends_with(end));
    assert!(has("/web/cpu.weight") && has("/batch/cpu.idle"), "{between:?}");
    assert!(between.iter().all(|(_, undo)| undo.is_none()), "no number says 100.3: {between:?}");
}

#[test]
fn on_an_idle_host_nobody_waits() {
    let finding = found(&fixture::idle(40));
    assert_eq!(finding.severity, Severity::Ok, "{}", finding.verdict);
    assert!(finding.verdict.starts_with("Tasks hardly wait for a CPU"));
}

#[test]
fn where_all_are_as_heavy_nobody_is_put_first() {
    let all = competing(40, &["a", "b", "c", "d", "e", "f", "g", "h"].map(|name| (name, 2, 0, 0.0)));
    let finding = found(&all);
    assert_eq!((finding.severity, finding.advice.len()), (Severity::Info, 0), "{}", finding.verdict);
}

#[test]
fn what_is_light_is_a_matter_of_thresholds() {
    let with = |change: fn(&mut Thresholds)| {
        let mut thresholds = Thresholds::default();
        change(&mut thresholds);
        let finding = judged(&contended(40), &thresholds);
        (finding.severity, names(&finding, |one| one.waits_long))
    };
    assert_eq!(with(|_| ()).1.len(), 2);
    assert_eq!(
        with(|limits| limits.light_wait_per_cpu = 3.0).1,
        LIGHT[..1],
        "web waits 3.7 times its service, api 2.2"
    );
    assert_eq!(with(|limits| limits.light_wait_p99 = Nanos(90_000_000)), (Severity::Info, vec![]));
    assert_eq!(with(|limits| limits.min_waits = 1_000_000), (Severity::Info, vec![]));
    assert_eq!(with(|limits| limits.light_gain = 1.0).0, Severity::Info, "nothing is worth it");
}

/// Each threshold at what was measured, and a little above.
#[test]
fn from_the_threshold_on_it_counts() {
    let finding = found(&contended(40));
    let figure =
        |name: &str| finding.measured.iter().find(|figure| figure.name == name).unwrap().value.unwrap().as_f64();
    let of = |who: &str| finding.cgroups.iter().find(|one| one.cgroup.to_string() == who).unwrap().clone();
    let heavy: Vec<f64> =
        finding.cgroups.iter().filter(|one| one.class == CandidateClass::Heavy).map(|one| one.cpu.as_f64()).collect();
    let web = of("web");
    let wait_per_cpu = web.wait_per_cpu.unwrap().as_f64();
    let credit = web.cpu.as_f64() / (heavy.iter().sum::<f64>() / heavy.len() as f64);
    let with = |change: &dyn Fn(&mut Thresholds)| {
        let mut thresholds = Thresholds::default();
        change(&mut thresholds);
        let finding = judged(&contended(40), &thresholds);
        (finding.severity, names(&finding, |one| one.waits_long).contains(&"web".to_owned()))
    };
    for (factor, is_bad) in [(1.0 - 1e-6, true), (1.0 + 1e-6, false)] {
        let severity = with(&|limits| limits.contended_wait = figure("waiting_per_cpu") * factor).0;
        assert_eq!(severity, if is_bad { Severity::Warning } else { Severity::Ok });
        let severity = with(&|limits| limits.light_gain = figure("light_gain") * factor).0;
        assert_eq!(severity, if is_bad { Severity::Warning } else { Severity::Info });
        assert_eq!(with(&|limits| limits.light_wait_per_cpu = wait_per_cpu * factor).1, is_bad);
        assert_eq!(with(&|limits| limits.light_credit = credit / factor).1, is_bad);
        let p99 = web.wait_p99_ns.unwrap().0;
        assert_eq!(with(&|limits| limits.light_wait_p99 = Nanos(p99 + u64::from(!is_bad))).1, is_bad);
        assert_eq!(with(&|limits| limits.min_waits = 20 * 40 + u64::from(!is_bad)).1, is_bad);
    }
}

#[test]
fn the_light_ones_come_by_what_they_would_gain() {
    let finding = found(&contended(40));
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
    assert_eq!(top, light.iter().map(|one| &one.cgroup).take(TOP).collect::<Vec<_>>());
}

#[test]
fn what_the_others_do_not_bear_is_not_advised() {
    // The heavy ones sleep at times, so they run later what they could not run while the light ones did.
    let groups = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"].map(|name| (name, 2, 4, 90.0));
    let light = [("l1", 1, 5, 8.0), ("l2", 1, 5, 16.0), ("l3", 1, 5, 24.0), ("l4", 1, 5, 30.0)];
    let all = competing(40, &[&light[..], &groups[..]].concat());
    let with = |heavy_tolerance: f64, light_gain: f64| {
        let limits = Thresholds { heavy_tolerance, light_gain, light_wait_per_cpu: 0.1, ..Thresholds::default() };
        let finding = judged(&all, &limits);
        let longer = finding.measured.iter().find(|figure| figure.name == "heavy_time").unwrap().value;
        (longer.unwrap().as_f64(), finding)
    };
    let (longer, lax) = with(1e9, 0.0);
    assert!(
        lax.severity == Severity::Warning
            && lax.verdict.contains("More weight for the light ones would make their wait"),
        "{}",
        lax.verdict
    );
    let (less, strict) = with(longer * 0.8, 0.2);
    assert!(less < longer, "{less} and {longer}");
    assert_eq!(strict.severity, Severity::Warning, "{}", strict.verdict);
    assert!(strict.verdict.contains("; more weight for the 2 lightest would make their wait"), "{}", strict.verdict);
    // Here no cgroup can go first.
    let (_, hard) = with(-0.9, 0.2);
    assert_eq!((hard.severity, hard.advice.len()), (Severity::Info, 0), "{}", hard.verdict);
    assert!(hard.caveats[0].ends_with("saves too little or also costs too much."), "{:?}", hard.caveats);
}

#[test]
fn who_is_favoured_and_who_pays_are_siblings() {
    // As in Kubernetes: each container is in a pod of its own, whose weight comes from its request.
    let mut all = contended(40);
    for cgroup in all.iter_mut().flat_map(|interval| &mut interval.cgroups) {
        let pod = format!("/kubepods.slice/pod-{}", cgroup.id.0);
        cgroup.path = format!("{pod}/{}", cgroup.name).into();
        cgroup.levels = Some([Level::DEFAULT; 3].into());
    }
    let finding = found(&all);
    assert_eq!(finding.severity, Severity::Warning, "{}", finding.verdict);
    assert!(finding.verdict.contains("2 of 6 light cgroups in “/kubepods.slice” (using"), "{}", finding.verdict);
    assert_eq!(names(&finding, |one| one.waits_long), ["/kubepods.slice/pod-20", "/kubepods.slice/pod-21"]);
    let commands: Vec<String> = finding.advice.into_iter().filter_map(|advice| advice.command).collect();
    assert!(commands.iter().any(|it| it.ends_with("/sys/fs/cgroup/kubepods.slice/pod-20/cpu.weight")), "{commands:?}");
    assert!(!commands.iter().any(|it| it.contains("/web/")), "a container has no sibling: {commands:?}");
}

#[test]
fn who_has_little_weight_and_uses_more_than_it_is_not_light() {
    let mut all = contended(40);
    for cgroup in all.iter_mut().flat_map(|interval| &mut interval.cgroups).filter(|cgroup| &*cgroup.name == "web") {
        let usual = Level::DEFAULT;
        cgroup.levels = Some([usual, Level { weight: Some(10.0), ..usual }].into());
    }
    assert_eq!(names(&found(&all), |one| one.waits_long), LIGHT[1..]);
}

#[test]
fn one_that_starves_is_not_taken_for_a_heavy_one() {
    // Its tasks wait all the time, so its Load Credit is as high as that of cgroups that never sleep.
    let mut all = contended(40);
    for cgroup in all.iter_mut().flat_map(|interval| &mut interval.cgroups).filter(|cgroup| &*cgroup.name == "web") {
        cgroup.totals.runq_wait_ns = Some(Nanos(3_800_000_000));
        cgroup.load_credit = Some(crate::model::Tasks(3.9));
    }
    let finding = found(&all);
    assert!(names(&finding, |one| one.waits_long).contains(&"web".to_owned()), "{}", finding.verdict);
}

#[test]
fn a_light_one_that_its_quota_stops_is_not_put_first() {
    let stopped = |throttled: u64| {
        let mut all = contended(40);
        for cgroup in all.iter_mut().flat_map(|interval| &mut interval.cgroups).filter(|cgroup| &*cgroup.name == "web")
        {
            (cgroup.files.nr_periods, cgroup.files.nr_throttled) = (Some(100), Some(throttled));
        }
        found(&all)
    };
    assert_eq!(names(&stopped(5), |one| one.waits_long), ["api\u{1b}[2J"]);
    let at_times = stopped(4);
    assert!(names(&at_times, |one| one.waits_long).contains(&"web".to_owned()));
    assert!(at_times.caveats.iter().any(|caveat| caveat.contains("used up their own quota")), "{:?}", at_times.caveats);
}

#[test]
fn who_waits_for_itself_is_not_put_first() {
    let mut all = contended(40);
    for interval in &mut all {
        let web = interval.cgroups.iter_mut().find(|cgroup| &*cgroup.name == "web").unwrap();
        blame(web, &[], 0.6, 0.0);
    }
    assert_eq!(names(&found(&all), |one| one.waits_long), ["api\u{1b}[2J"]);
}

#[test]
fn confidence_is_no_higher_than_calibration_bears_out() {
    use crate::diagnosis::ConfidenceLevel::{High, Medium};
    let sure = Confidence { level: High, why: "60 intervals".to_owned() };
    let held = |inside, of| Held { policy: "weight", figure: ForecastFigure::LightWaiting, inside, of };
    let by = |held| by_calibration(sure.clone(), held);
    assert_eq!([by(Some(held(8, 10))), by(Some(held(40, 40)))].map(|it| it.level), [High; 2]);
    assert_eq!(by(Some(held(9, 9))).level, Medium, "too few to tell");
    let seldom = by(Some(held(15, 19)));
    assert_eq!(seldom.level, Medium);
    assert!(
        seldom.why.ends_with("in calibration, 15 of 19 measured changes were within the predicted interval"),
        "{}",
        seldom.why
    );
    assert_eq!(by(Held::of("nothing", &[ForecastFigure::LightWaiting])).level, Medium);
}

#[test]
fn a_simulation_that_is_off_lowers_the_confidence_and_one_that_is_far_off_is_said_to_be() {
    use crate::diagnosis::ConfidenceLevel::{High, Low, Medium};
    let sure = Confidence { level: High, why: "60 intervals".to_owned() };
    for (error, expected) in
        [(0.0, High), (0.25, High), (-0.25, High), (0.26, Medium), (-0.5, Medium), (0.51, Low), (f64::NAN, Low)]
    {
        assert_eq!(held_against(sure.clone(), error).level, expected, "{error}");
    }
    assert!(held_against(sure, -0.4).why.ends_with("waits are -40 % off"));
    // Waits that the simulated run queues do not explain.
    let mut all = contended(40);
    let is_light = |cgroup: &&mut crate::model::Cgroup| [20, 21].contains(&cgroup.id.0);
    for cgroup in all.iter_mut().flat_map(|interval| &mut interval.cgroups).filter(is_light) {
        cgroup.totals.runq_wait_ns = cgroup.totals.runq_wait_ns.map(|wait| Nanos(wait.0 * 4));
    }
    let finding = found(&all);
    assert!(finding.verdict.ends_with("the effect of more weight cannot be predicted."), "{}", finding.verdict);
    assert!(finding.caveats[0].starts_with("The effect of more weight is not predicted: "), "{:?}", finding.caveats);
    assert_eq!((finding.severity, finding.confidence.level), (Severity::Warning, Low));
    let commands: Vec<_> = finding.advice.iter().filter_map(|advice| advice.command.as_deref()).collect();
    assert_eq!(commands, ["sudo lagstop trial --policy weight --from-diagnose --apply"]);
    // A trial of LAGS takes no prediction.
    let session = Session { sched_ext: Some(String::new()), ..fixture::session() };
    let report = diagnose(&session, &all, &Thresholds::default());
    let finding = report.findings.into_iter().find(|finding| finding.rule == Rule::LagsCandidates).unwrap();
    assert_eq!(finding.advice[0].command.as_deref(), Some("sudo lagstop trial --policy lags --apply"));
}
