use super::*;
use crate::{
    diagnosis::{
        ConfidenceLevel as Sure,
        fixture::{bullied, bullied_in, findings_of, problems_of},
    },
    model::{
        Interval, Level,
        fixture::{blame, minute_of},
    },
};

fn found(intervals: &[Interval]) -> Finding {
    findings_of(Rule::NoisyNeighbour, intervals).remove(0)
}

fn change(mut all: Vec<Interval>, change: impl Fn(&mut Interval)) -> Vec<Interval> {
    all.iter_mut().for_each(change);
    all
}

fn weight(weight: f64) -> Level {
    Level { weight: Some(weight), ..Level::DEFAULT }
}

#[test]
fn who_takes_more_than_its_share_is_named_first() {
    let all = bullied(60);
    let report = crate::diagnosis::diagnose(&crate::model::fixture::session(), &all, &Thresholds::default());
    assert_eq!(report.findings[0].rule, Rule::NoisyNeighbour);
    let finding = found(&all);
    assert_eq!(
        finding.verdict,
        "checkout waits 80.0 % of its runnable time, mostly behind etl/batch (61.0 % of the wait), which takes 1.20 \
         times its share."
    );
    assert_eq!((finding.severity, finding.confidence.level), (Severity::Critical, Sure::High));
    assert!(finding.confidence.why.contains("60 of 60 intervals"), "{}", finding.confidence.why);
    let commands: Vec<_> = finding.advice.iter().filter_map(|advice| advice.command.as_deref()).collect();
    assert_eq!(commands[0], "sudo lagstop trial --policy weight --light /apps.slice/checkout --apply");
    assert!(commands[1].ends_with("sh /sys/fs/cgroup/apps.slice/etl 3000"), "{}", commands[1]);
    let shorter = change(bullied(60), |interval| interval.cgroups[0].totals.cpu_ns = Nanos(201_000_000));
    assert_eq!(found(&shorter).severity, Severity::Warning, "it waits less than four times as long as it runs");
}

#[test]
fn of_two_that_cause_as_much_the_one_that_takes_too_much_is_named() {
    let equal = |other: u64| {
        change(bullied(60), move |interval| {
            let mut twin = interval.cgroups[1].clone();
            (twin.id, twin.name, twin.path) = (CgroupId(other), "twin".into(), "/apps.slice/twin".into());
            // Each of the two has half of what the one had, but only one is entitled to it.
            for one in [&mut twin, &mut interval.cgroups[1]] {
                one.totals.cpu_ns = Nanos(one.totals.cpu_ns.0 / 2);
            }
            twin.levels = Some([Level::DEFAULT, weight(400.0)].into());
            interval.cgroups.push(twin);
            let turn =
                if interval.seq.is_multiple_of(2) { [(other, 0.4), (41, 0.4)] } else { [(41, 0.4), (other, 0.4)] };
            blame(&mut interval.cgroups[0], &turn, 0.0, 0.0);
        })
    };
    for other in [39, 43] {
        let finding = found(&equal(other));
        assert!(finding.verdict.contains("in large part behind etl/batch (40.0 % of the wait)"), "{}", finding.verdict);
        assert_eq!(finding.confidence.level, Sure::Medium, "it is the worst in half of the intervals");
        assert!(finding.confidence.why.contains("30 of 60 intervals"), "{}", finding.confidence.why);
    }
}

#[test]
fn who_waits_for_its_quota_has_no_noisy_neighbour() {
    let all = change(bullied(60), |interval| blame(&mut interval.cgroups[0], &[(41, 0.31)], 0.0, 0.6));
    let finding = found(&all);
    assert_eq!((finding.severity, &finding.subject), (Severity::Info, &Subject::Host));
    assert!(finding.verdict.contains("1 throttled by its own quota"), "{}", finding.verdict);
    assert_eq!(problems_of(Rule::NoisyNeighbour, &all), []);
}

#[test]
fn who_is_entitled_to_what_it_takes_is_not_to_blame() {
    let all = change(bullied(60), |interval| {
        interval.cgroups[0].totals.threads = 4;
        interval.cgroups[1].levels = Some([Level::DEFAULT, weight(2_000.0)].into());
    });
    let finding = found(&all);
    // It is harmed all the same: nothing is said to cap the neighbour, though.
    assert_eq!((finding.severity, finding.subject.to_string()), (Severity::Critical, "checkout".to_owned()));
    assert!(
        finding.verdict.ends_with("which takes no more than its fair share: no hog, but a competitor."),
        "{}",
        finding.verdict
    );
    assert!(finding.advice.iter().all(|advice| !advice.text.contains("quota")));
    let unknown = change(bullied(60), |interval| interval.cgroups.iter_mut().for_each(|one| one.levels = None));
    let finding = found(&unknown);
    assert_eq!(finding.severity, Severity::Critical);
    assert!(finding.verdict.ends_with("whose share is unknown."), "{}", finding.verdict);
}

#[test]
fn where_nobody_stands_out_there_is_too_little_cpu() {
    let all = change(bullied(60), |interval| {
        blame(&mut interval.cgroups[0], &[(41, 0.29), (CgroupId::OTHER.0, 0.6)], 0.1, 0.0);
    });
    let finding = found(&all);
    assert_eq!((finding.severity, &finding.subject), (Severity::Info, &Subject::Host));
    assert!(finding.verdict.ends_with("without a single main cause (--verbose shows what they wait for)."));
}

#[test]
fn of_too_few_waits_or_short_ones_nothing_is_said() {
    let few = change(bullied(60), |interval| {
        for one in &mut interval.cgroups {
            one.totals.runq_waits = Some(1);
        }
    });
    let finding = found(&few);
    assert_eq!((finding.severity, &*finding.verdict), (Severity::Ok, "No cgroup waits long behind another."));
    assert_eq!(found(&bullied(4)).severity, Severity::NotEnoughData);
}

#[test]
fn an_old_recording_does_not_say_who_it_was() {
    let finding = found(&minute_of(|pool| pool.totals.runq_wait_ns = Some(Nanos(9_000_000_000))));
    assert_eq!(finding.severity, Severity::NotEnoughData);
    assert!(
        finding.verdict.ends_with("is not measured by the lagstop that made the recording."),
        "{}",
        finding.verdict
    );
    assert_eq!(finding.measured[0].value, None);
}

#[test]
fn who_waits_for_its_turn_is_not_short_of_cpu_time() {
    // 160 bursts a second of 0.1 ms, each of which waits for a slice of one that never sleeps.
    let sleeper = |wait_ms: u64| {
        change(bullied(60), move |interval| {
            let totals = &mut interval.cgroups[0].totals;
            (totals.cpu_ns, totals.voluntary_switches) = (Nanos(16_000_000), 160);
            (totals.runq_waits, totals.runq_wait_ns) = (Some(160), Some(Nanos(wait_ms * 1_000_000)));
            interval.cgroups[1].totals.cpu_ns = Nanos(3_980_000_000);
            blame(&mut interval.cgroups[0], &[(41, 0.9)], 0.0, 0.0);
        })
    };
    let finding = found(&sleeper(480));
    assert_eq!((finding.severity, finding.subject.to_string()), (Severity::Critical, "checkout".to_owned()));
    assert!(finding.verdict.contains("mostly behind etl/batch (90.0 % of the wait)"), "{}", finding.verdict);
    assert!(finding.verdict.ends_with("; checkout still gets its own share."), "{}", finding.verdict);
    assert!(finding.advice.iter().all(|advice| !advice.text.contains("quota")), "{:?}", finding.advice);
}

#[test]
fn a_neighbour_that_runs_seldom_is_capped_at_what_it_is_entitled_to_while_it_runs() {
    let mut all = bullied(60);
    all.iter_mut().filter(|interval| interval.seq >= 20).for_each(|interval| interval.cgroups.truncate(1));
    let finding = found(&all);
    let cap = finding.advice.iter().find(|advice| advice.text.contains("quota")).map(|advice| &advice.text);
    assert!(cap.is_some_and(|text| text.contains("its share of 3.00 cores")), "{:?}", finding.advice);
}

#[test]
fn no_trial_is_advised_that_would_be_refused_or_not_touch_the_neighbour() {
    let is_trial = |finding: &Finding| {
        finding.advice.iter().any(|advice| advice.command.as_deref().is_some_and(|it| it.contains("lagstop trial")))
    };
    assert!(is_trial(&found(&bullied(60))));
    let idle = change(bullied(60), |interval| {
        interval.cgroups[1].levels = Some([Level::DEFAULT, Level { is_idle: true, ..Level::DEFAULT }].into());
    });
    let inside = change(bullied(60), |interval| {
        interval.cgroups[1].path = format!("{}/etl", interval.cgroups[0].path).into();
        interval.cgroups[1].levels = Some([Level::DEFAULT; 3].into());
    });
    let escaped = change(bullied(60), |interval| interval.cgroups[0].path = "/apps.slice/my\\x2dshop".into());
    for (what, intervals) in [("idle", idle), ("inside", inside), ("not to be named", escaped)] {
        assert!(!is_trial(&found(&intervals)), "{what}: {:?}", found(&intervals).advice);
    }
}

#[test]
fn a_neighbour_that_is_active_for_a_part_of_the_time_is_judged_by_that() {
    let finding = found(&bullied_in(20..35));
    assert_eq!(
        finding.verdict,
        "checkout waits 80.0 % of its runnable time for 15.0 s of 60.0 s, mostly behind etl/batch (61.0 % of the wait), which then \
         uses 3.60 CPUs and takes 1.20 times its share."
    );
    assert_eq!(finding.severity, Severity::Critical, "as bad as it is then");
    let time = figures::contended.among(&finding.measured).unwrap();
    assert_eq!(time.note.as_deref(), Some("of 60.0 s: from 20.0 s to 35.0 s of the recording"));
    let cap = finding.advice.iter().find(|advice| advice.text.contains("quota")).map(|advice| &advice.text);
    assert!(cap.is_some_and(|text| text.contains("its share of 3.00 cores")), "{:?}", finding.advice);
}

#[test]
fn a_neighbour_that_is_always_active_is_judged_by_all_of_the_time() {
    for all in [bullied_in(0..60), bullied_in(3..60)] {
        let finding = found(&all);
        assert!(!finding.verdict.contains(" for "), "{}", finding.verdict);
        assert!(!finding.has(&figures::contended));
    }
    let hardly = found(&bullied_in(10..13));
    assert!(!hardly.verdict.contains("etl"), "three seconds: {}", hardly.verdict);
}
