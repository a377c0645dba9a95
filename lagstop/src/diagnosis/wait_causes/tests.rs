use super::*;
use crate::{
    diagnosis::fixture::{findings_of, idle, minute_of, problems_of},
    model::{Cpu, CpuTotals, Crowding, Interval, Nanos},
};

fn throttled(periods: u64) -> Vec<Interval> {
    minute_of(|pool| {
        pool.quota_ns = Some(Nanos(500_000_000));
        (pool.files.nr_periods, pool.files.nr_throttled) = (Some(100), Some(periods));
    })
}

fn stolen(share: f64) -> Vec<Interval> {
    let mut all = idle(60);
    for interval in &mut all {
        // Beside what its CPUs have.
        interval.host.steal_ns = Some(Nanos((4e9 * share / (1.0 - share)).ceil() as u64));
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
        finding.verdict.starts_with("1 cgroup was stopped by its own quota in up to 50.0 %"),
        "{}",
        finding.verdict
    );
    let command = finding.advice[0].command.as_deref().unwrap();
    assert!(command.ends_with("/cpu.max\"' sh /sys/fs/cgroup/apps.slice/pool 1000"), "{command}");
    let waiting: Vec<String> = finding.measured[..4].iter().map(Figure::shown).collect();
    assert_eq!(waiting, ["0 tasks", "0 tasks", "1.00 tasks", "0 tasks"]);
}

#[test]
fn a_hypervisor_is_no_neighbour() {
    assert_eq!(
        [0.049, 0.05, 0.19, 0.2].map(|share| severity(&stolen(share))),
        [Severity::Ok, Severity::Warning, Severity::Warning, Severity::Critical]
    );
    let mut unknown = stolen(0.5);
    unknown.iter_mut().for_each(|interval| interval.host.steal_ns = None);
    let finding = &findings_of(Rule::WaitCauses, &unknown)[0];
    assert_eq!((finding.severity, finding.measured[4].value), (Severity::Ok, None));
}

#[test]
fn who_waits_for_itself_waits_for_no_neighbour() {
    let mut all = minute_of(|_| ());
    for interval in &mut all {
        let one = &interval.cgroups[0];
        let crowd = vec![Crowding { id: one.id, cpu_ns: one.totals.cpu_ns, runq_wait_ns: one.totals.runq_wait_ns }];
        interval.cpus = vec![Cpu {
            totals: CpuTotals { busy_ns: one.totals.cpu_ns.saturating_add(one.totals.cpu_ns), ..CpuTotals::default() },
            crowd,
            ..Cpu::default()
        }];
    }
    let finding = &findings_of(Rule::WaitCauses, &all)[0];
    let waiting: Vec<String> = finding.measured[..4].iter().map(Figure::shown).collect();
    assert_eq!(
        waiting,
        ["0.50 tasks", "0.50 tasks", "0 tasks", "0 tasks"],
        "half of the time that its CPU was busy it ran itself"
    );
    assert_eq!((finding.severity, problems_of(Rule::WaitCauses, &all)), (Severity::Info, vec![]));
}

/// One that runs for a tenth of the time that its CPU is busy, and is none of those that crowd it.
#[test]
fn who_is_not_watched_waits_behind_others_for_all_that_it_cannot_have_run_itself() {
    let mut all = minute_of(|pool| pool.totals.cpu_ns = Nanos(100_000_000));
    let behind = |all: &[Interval]| -> Vec<String> {
        findings_of(Rule::WaitCauses, all)[0].measured[..4].iter().map(Figure::shown).collect()
    };
    assert_eq!(behind(&all), ["0 tasks", "0 tasks", "0 tasks", "1.00 tasks"], "no CPU was watched");
    for interval in &mut all {
        interval.cpus =
            vec![Cpu { totals: CpuTotals { busy_ns: Nanos::SECOND, ..CpuTotals::default() }, ..Cpu::default() }];
    }
    assert_eq!(behind(&all), ["0.90 tasks", "0 tasks", "0 tasks", "0.10 tasks"]);
}
