use super::*;
use crate::{
    diagnosis::fixture::{findings_of, problems_of},
    model::{Nanos, fixture::minute_of},
};

/// So many migrations in each second, of which a half is to another cache, by a pool with a second of CPU time.
fn moving(migrations: Option<u64>) -> Vec<crate::model::Interval> {
    minute_of(|pool| {
        pool.totals.migrations = migrations;
        pool.totals.migrations_cross_llc = migrations.map(|all| all / 2);
        pool.totals.migrations_cross_numa = Some(0);
    })
}

#[test]
fn a_pool_that_moves_too_often_is_named_from_the_threshold_on() {
    for (migrations, expected) in [(999, vec![]), (1_000, vec!["pool"]), (9_000, vec!["pool"])] {
        let problems = problems_of(Rule::Migrations, &moving(Some(migrations)));
        assert_eq!(problems.iter().map(|(whom, _)| whom).collect::<Vec<_>>(), expected, "{migrations}");
    }
    let finding = &findings_of(Rule::Migrations, &moving(Some(2_000)))[0];
    assert!(finding.verdict.contains("2000 times") && finding.verdict.contains("50.0 %"), "{}", finding.verdict);
    let shown: Vec<_> = finding.measured.iter().map(|figure| (figure.name, figure.shown())).collect();
    assert_eq!(shown[2], ("migrations_per_wakeup", "× 2.00".to_owned()), "a quarter of 4,000 switches are voluntary");
}

#[test]
fn a_few_moves_are_no_pattern() {
    let few = minute_of(|pool| (pool.totals.migrations, pool.totals.cpu_ns) = (Some(10), Nanos(1_000)));
    assert_eq!(problems_of(Rule::Migrations, &few), [], "10 billion a second of CPU time, but 600 in all");
}

#[test]
fn what_was_not_measured_is_said() {
    let finding = &findings_of(Rule::Migrations, &moving(None))[0];
    assert_eq!((finding.severity, finding.measured[0].value), (Severity::NotEnoughData, None));
    assert_eq!(findings_of(Rule::Migrations, &moving(Some(5)))[0].severity, Severity::Ok);
}
