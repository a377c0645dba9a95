use super::*;
use crate::{
    diagnosis::fixture::{findings_of, minute_of_tree},
    model::{Cpu, CpuTotals, Crowding, Interval},
};

/// Two that share CPU 0, while the others are idle for so many of a thousand parts.
fn crowded(idle: u64) -> Vec<Interval> {
    let ms = |ms: u64| Nanos(ms * 1_000_000);
    let mut intervals = minute_of_tree(&[("/parser", &[1.0], 500, 500, 1), ("/writer", &[1.0], 500, 500, 1)]);
    for interval in &mut intervals {
        let crowd =
            interval.cgroups.iter().map(|it| Crowding { id: it.id, cpu_ns: ms(500), runq_wait_ns: Some(ms(500)) });
        let crowd: Vec<Crowding> = crowd.collect();
        interval.cpus = (0..4)
            .map(|cpu| {
                let idle = if cpu == 0 { 0 } else { idle };
                let totals = CpuTotals { busy_ns: ms(1_000 - idle), idle_ns: ms(idle), ..CpuTotals::default() };
                Cpu { cpu, totals, crowd: if cpu == 0 { crowd.clone() } else { Vec::new() } }
            })
            .collect();
    }
    intervals
}

#[test]
fn a_wait_on_a_full_cpu_beside_idle_ones_is_found() {
    let findings = findings_of(Rule::Pinned, &crowded(900));
    assert_eq!(findings.len(), 2);
    assert_eq!(
        findings[0].verdict,
        "parser waits 50.0 % of its runnable time on CPU 0, which is full, while 2.70 of 4 CPUs are idle: its threads seem to be \
         pinned."
    );
    assert_eq!(findings[0].severity, Severity::Warning);
    assert!(findings[0].advice[0].command.as_deref().is_some_and(|it| it.contains("taskset -apc")));
}

#[test]
fn where_all_cpus_are_used_nobody_is_kept_from_idle_ones() {
    let findings = findings_of(Rule::Pinned, &crowded(300));
    assert_eq!((findings.len(), findings[0].severity), (1, Severity::Ok));
}

#[test]
fn a_narrow_cpu_set_is_named() {
    let mut intervals = crowded(900);
    for cgroup in intervals.iter_mut().flat_map(|interval| &mut interval.cgroups) {
        cgroup.cpus = Some("0".into());
    }
    let finding = &findings_of(Rule::Pinned, &intervals)[0];
    assert_eq!(finding.caveats[0], "Its CPU set allows CPUs 0.");
    assert!(finding.advice[0].text.starts_with("Widen the CPU set"));
    for (list, is_one) in [("0-3", false), ("0-1,2,3", false), ("0,2", true), ("1", true), ("x", false), ("", false)] {
        assert_eq!(is_narrow(list, &[0, 1, 2, 3]), is_one, "{list}");
    }
}
