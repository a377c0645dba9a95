//! What rules find in intervals to test with, and intervals that the simulation makes up.

use super::{Finding, Observations, Rule, Severity, Thresholds, diagnose, shares::Shares};
use crate::{
    diagnosis::simulation::{self, Demand, Group, SimulatedKernel, SimulatedPolicy, Step, Switching, Trace},
    model::{
        Cgroup, Cpu, CpuTotals, Interval, Level, Nanos, Session,
        fixture::{CPUS, Of, blame, cgroup, interval_of, session},
    },
};

/// What `rule` finds.
pub(crate) fn findings_of(rule: Rule, intervals: &[Interval]) -> Vec<Finding> {
    let report = diagnose(&session(), intervals, &Thresholds::default());
    report.findings.into_iter().filter(|finding| finding.rule == rule).collect()
}

/// What `rule` finds worth acting on: whom it is about, and how bad it is.
pub(crate) fn problems_of(rule: Rule, intervals: &[Interval]) -> Vec<(String, Severity)> {
    problems(findings_of(rule, intervals))
}

fn problems(findings: Vec<Finding>) -> Vec<(String, Severity)> {
    let bad = findings.into_iter().filter(|finding| finding.severity >= Severity::Warning);
    bad.map(|finding| (finding.subject.to_string(), finding.severity)).collect()
}

/// A second of a host with four CPUs on which these compete, as the simulation has it: name, threads, bursts a second and the CPU
/// time of each in ms. Without bursts its threads never sleep.
pub(crate) fn competing(intervals: u64, groups: &[(&str, u32, u32, f64)]) -> Vec<Interval> {
    let demand = |&(_, threads, bursts, ms): &(&str, u32, u32, f64)| {
        let pause = f64::from(threads) / f64::from(bursts.max(1)) - ms / 1e3;
        let (spinners, tasks) = if bursts == 0 { (threads, 0) } else { (0, threads) };
        Demand { credit: 0.1, spinners, tasks, bursts, service: ms / 1e3, pause, ..Demand::default() }
    };
    let step = Step { duration: 1.0, demands: groups.iter().map(demand).enumerate().collect(), ..Step::default() };
    let cpus = CPUS as usize;
    let trace = Trace { cpus, groups: vec![Group::default(); groups.len()], steps: vec![step; 20], ..Trace::default() };
    let outcome =
        simulation::run(&trace, &SimulatedKernel::usual(cpus), &Switching::default(), &SimulatedPolicy::none(), 99);
    let row = |(number, &(name, threads, bursts, _)): (usize, &(&str, u32, u32, f64))| {
        let served = outcome.groups[number];
        let (cpu, wait) = (served.cpu / 20.0, served.wait / 20.0);
        let waits = u64::from(if bursts == 0 { 250 } else { bursts });
        let mut cgroup =
            cgroup(&Of(20 + number as u64, "", waits, 14_000, 0, waits, (wait * 1e6) as u64 / waits, cpu + wait));
        (cgroup.totals.cpu_ns, cgroup.totals.threads) = (Nanos((cpu * 1e9) as u64), u64::from(threads));
        (cgroup.path, cgroup.name) = (format!("/apps.slice/{name}").into(), name.into());
        cgroup.totals.voluntary_switches = u64::from(bursts);
        cgroup.totals.runq_wait_ns = Some(Nanos((wait * 1e9) as u64));
        cgroup.levels = Some([Level::DEFAULT; 2].into());
        cgroup
    };
    let cgroups: Vec<Cgroup> = groups.iter().enumerate().map(row).collect();
    (0..intervals).map(|seq| interval_of(seq, cgroups.clone())).collect()
}

/// Twelve that never sleep, and two light ones that wait for them. One has a hostile name.
pub(crate) fn contended(intervals: u64) -> Vec<Interval> {
    let names: Vec<String> = (0..10).map(|n| format!("etl-{n}")).collect();
    let mut groups =
        vec![("web", 4, 20, 6.0), ("api\u{1b}[2J", 2, 8, 10.0), ("batch", 4, 0, 0.0), ("train", 4, 0, 0.0)];
    groups.extend(names.iter().map(|name| (name.as_str(), 2, 0, 0.0)));
    competing(intervals, &groups)
}

/// A cgroup of [`minute_of_tree`]: path, the weight of each level, CPU time and run-queue wait in each second in ms, threads.
pub(crate) type InTree = (&'static str, &'static [f64], u64, u64, u64);

/// A minute of a host with four CPUs, in which all seconds are alike. Threads that are not always runnable sleep 40
/// times a second.
pub(crate) fn minute_of_tree(all: &[InTree]) -> Vec<Interval> {
    const WAITS: u64 = 20;
    let row = |(n, &(path, weights, cpu_ms, wait_ms, threads)): (usize, &InTree)| {
        let credit = (cpu_ms + wait_ms) as f64 / 1e3;
        let mut cgroup = cgroup(&Of(50 + n as u64, "", 200, 3_000, cpu_ms, WAITS, wait_ms * 1_000 / WAITS, credit));
        let name = path.rsplit('/').next().unwrap_or_default();
        (cgroup.path, cgroup.name, cgroup.totals.threads) = (path.into(), name.into(), threads);
        cgroup.totals.voluntary_switches = if cpu_ms + wait_ms >= 1_000 * threads { 0 } else { 40 };
        let levels = weights.iter().map(|&weight| Level { weight: Some(weight), ..Level::DEFAULT });
        cgroup.levels = Some(levels.collect());
        cgroup
    };
    let cgroups: Vec<Cgroup> = all.iter().enumerate().map(row).collect();
    (0..60).map(|seq| interval_of(seq, cgroups.clone())).collect()
}

/// One that gets less than its share, one that others outweigh, and two that get the same with different weights.
pub(crate) fn unfair() -> Vec<Interval> {
    let mut all = minute_of_tree(&[
        ("/system.slice/sshd.service", &[100.0, 100.0], 70, 930, 1),
        ("/kubepods.slice/web", &[5_000.0, 400.0], 600, 3_400, 4),
        ("/kubepods.slice/batch", &[5_000.0, 100.0], 3_300, 4_700, 8),
    ]);
    all.truncate(8);
    all
}

/// What a rule on shares finds, without all other rules.
pub(in crate::diagnosis) fn judged_by_shares(
    judge: fn(&Observations, &Shares, &Thresholds) -> Vec<Finding>,
    intervals: &[Interval],
) -> Vec<Finding> {
    judged_by_shares_of(session(), judge, intervals)
}

/// On the host of a session.
pub(in crate::diagnosis) fn judged_by_shares_of(
    session: Session,
    judge: fn(&Observations, &Shares, &Thresholds) -> Vec<Finding>,
    intervals: &[Interval],
) -> Vec<Finding> {
    let (mut observations, thresholds) = (Observations::new(session), Thresholds::default());
    intervals.iter().for_each(|interval| observations.add(interval));
    judge(&observations, &Shares::of(&observations, &thresholds), &thresholds)
}

/// What a rule on shares finds worth acting on: whom it is about, and how bad it is.
pub(in crate::diagnosis) fn problems_by_shares(
    judge: fn(&Observations, &Shares, &Thresholds) -> Vec<Finding>,
    intervals: &[Interval],
) -> Vec<(String, Severity)> {
    problems(judged_by_shares(judge, intervals))
}

/// One that waits mostly behind another, which takes more than its share: four CPUs, two of the usual weight.
pub(crate) fn bullied(intervals: u64) -> Vec<Interval> {
    let with = |of: &Of, threads, behind: &[(u64, f64)], itself| {
        let mut one = cgroup(of);
        (one.totals.threads, one.levels) = (threads, Some([Level::DEFAULT; 2].into()));
        blame(&mut one, behind, itself, 0.0);
        one
    };
    let mut victim = with(&Of(40, "checkout", 400, 3_000, 200, 400, 2_000, 1.0), 1, &[(41, 0.61)], 0.1);
    let mut bully = with(&Of(41, "etl", 4_000, 3_000, 3_600, 1_000, 4_400, 8.0), 8, &[(40, 0.02)], 0.95);
    bully.name = "etl/batch".into();
    // It always wants to run.
    victim.totals.voluntary_switches = 0;
    // The other one also waits long, but behind its own tasks.
    (0..intervals).map(|seq| interval_of(seq, vec![victim.clone(), bully.clone()])).collect()
}

/// The same, but the neighbour is only active in these seconds of a minute. In the others hardly anybody waits.
pub(crate) fn bullied_in(seconds: std::ops::Range<u64>) -> Vec<Interval> {
    let mut all = bullied(60);
    for interval in all.iter_mut().filter(|interval| !seconds.contains(&interval.seq)) {
        for (cgroup, cpu_ms) in interval.cgroups.iter_mut().zip([700, 20]) {
            cgroup.totals.cpu_ns = Nanos(cpu_ms * 1_000_000);
            cgroup.totals.runq_wait_ns = Some(Nanos(2_000_000));
            blame(cgroup, &[], 0.0, 0.0);
        }
    }
    all
}

/// For [`confined`]: all cgroups in `/batch` may only use two CPUs.
pub(crate) const CONFINED: [InTree; 5] = [
    ("/batch/w-0", &[1.0, 1.0], 500, 1_500, 2),
    ("/batch/w-1", &[1.0, 1.0], 500, 1_500, 2),
    ("/batch/w-2", &[1.0, 1.0], 500, 1_500, 2),
    ("/batch/w-3", &[1.0, 1.0], 500, 1_500, 2),
    ("/web", &[1.0], 100, 0, 1),
];

/// A host with 64 CPUs that is idle except for what is confined to two of them. This many of all CPUs are full.
pub(crate) fn confined(members: &[InTree], full: u32) -> Vec<Interval> {
    let ms = |ms: u64| Nanos(ms * 1_000_000);
    let mut intervals = minute_of_tree(members);
    for interval in &mut intervals {
        for cgroup in &mut interval.cgroups {
            cgroup.cpus = Some(if cgroup.path.starts_with("/batch") { "0-1".into() } else { "0-63".into() });
            blame(cgroup, &[], 0.0, 0.0);
        }
        let cpu = |cpu| {
            let busy = if cpu < full { 1_000 } else { 10 };
            let totals = CpuTotals { busy_ns: ms(busy), idle_ns: ms(1_000 - busy), ..CpuTotals::default() };
            Cpu { cpu, totals, crowd: Vec::new() }
        };
        interval.cpus = (0..64).map(cpu).collect();
        interval.host.cpus_online = 64;
        interval.host.times.busy_ns = interval.cpus.iter().map(|cpu| cpu.totals.busy_ns).sum();
        interval.host.times.idle_ns = interval.cpus.iter().map(|cpu| cpu.totals.idle_ns).sum();
    }
    intervals
}
