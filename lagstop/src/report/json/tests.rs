use super::*;
use crate::diagnosis::{Thresholds, diagnose, fixture};

#[test]
fn what_is_hostile_is_escaped_and_means_the_same() {
    let mut report = diagnose(&fixture::session(), &fixture::overloaded(8), &Thresholds::default());
    report.session.hostname = "a\u{9b}b\u{202e}c\u{e0041}\n".to_owned();
    let json = render(&report).unwrap();
    assert!(json.lines().all(|line| !line.contains(is_hostile)));
    let back: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(back["session"]["hostname"], report.session.hostname.as_str());
}

#[test]
fn a_report_reads_like_this() {
    let mut report = diagnose(&fixture::session(), &fixture::idle(6), &Thresholds::default());
    report.findings.truncate(1);
    insta::assert_snapshot!(render(&report).unwrap(), @r#"
    {
      "schema": "lagstop.report/1",
      "verdict": "No problem found.",
      "severity": "ok",
      "session": {
        "lagstop_version": "0.1.0",
        "started_at": "2026-08-03T10:00:00Z",
        "hostname": "node-7",
        "boot_id": "b",
        "kernel": "6.12.1",
        "cpus_online": 4,
        "cpus_possible": 4,
        "interval_ns": 1000000000,
        "group_by": "scheduler",
        "load_credit_time_ns": 0,
        "cgroup_mount": "/sys/fs/cgroup",
        "cgroup_version": 2,
        "topology": [],
        "hooks": [
          {
            "name": "switches",
            "state": "on",
            "way": "switches",
            "detail": "counted at the switch",
            "measures": "everything"
          }
        ]
      },
      "span": {
        "intervals": 6,
        "duration_ns": 6000000000,
        "merged_intervals": 0,
        "skipped_intervals": 0
      },
      "summary": [
        {
          "name": "overhead",
          "label": "scheduling overhead",
          "value": 0.00010404,
          "unit": "share",
          "note": "of the time of all CPUs"
        },
        {
          "name": "mean_switch_cost",
          "label": "mean switch cost",
          "value": 2040,
          "unit": "ns"
        },
        {
          "name": "switch_rate",
          "label": "switches",
          "value": 200.0,
          "unit": "per_second"
        },
        {
          "name": "perceived_utilisation",
          "label": "perceived utilisation",
          "value": 0.003,
          "unit": "share"
        },
        {
          "name": "effective_utilisation",
          "label": "effective utilisation",
          "value": 0.00289596,
          "unit": "share"
        },
        {
          "name": "runnable_per_cpu",
          "label": "runnable tasks per CPU",
          "value": 0.003175,
          "unit": "tasks"
        },
        {
          "name": "cgroups",
          "label": "cgroups that ran",
          "value": 2,
          "unit": "count"
        },
        {
          "name": "steal",
          "label": "taken by a hypervisor",
          "value": 0.0,
          "unit": "share"
        }
      ],
      "findings": [
        {
          "id": "scheduling_overhead",
          "severity": "ok",
          "subject": {
            "kind": "host"
          },
          "verdict": "No problem found: scheduling took 0.01 % of the time of all CPUs (< 0.001 of 4 cores).",
          "evidence": [
            {
              "name": "overhead",
              "label": "overhead",
              "value": 0.00010404,
              "unit": "share",
              "note": "of the time of all CPUs"
            },
            {
              "name": "mean_switch_cost",
              "label": "mean switch cost",
              "value": 2040,
              "unit": "ns",
              "note": "pick + swap, calls that switched"
            },
            {
              "name": "switch_rate",
              "label": "switches",
              "value": 200.0,
              "unit": "per_second",
              "note": "50.0/s per CPU"
            },
            {
              "name": "kept_running",
              "label": "calls that kept the task",
              "value": 2.04e-6,
              "unit": "share",
              "note": "part of the overhead"
            },
            {
              "name": "cross_cgroup",
              "label": "switches between cgroups",
              "value": 0.8,
              "unit": "share",
              "note": "of all switches"
            },
            {
              "name": "involuntary",
              "label": "involuntary switches",
              "value": 0.75,
              "unit": "share",
              "note": "of all switches"
            },
            {
              "name": "payer",
              "label": "pays",
              "of": {
                "kind": "cgroup",
                "id": 10,
                "path": "/apps.slice/cron",
                "name": "cron"
              },
              "value": 0.588235,
              "unit": "share",
              "note": "< 0.001 cores of it by 120/s, 2.00 µs each"
            },
            {
              "name": "payer",
              "label": "pays",
              "of": {
                "kind": "cgroup",
                "id": 11,
                "path": "/apps.slice/sshd",
                "name": "sshd"
              },
              "value": 0.411765,
              "unit": "share",
              "note": "< 0.001 cores of it by 80.0/s, 2.10 µs each"
            }
          ],
          "thresholds": [
            {
              "name": "overhead_warn",
              "value": 0.05,
              "unit": "share",
              "severity": "warning",
              "source": "default; CFS-LAGS paper (arXiv 2508.15703, §3.1): 5 to 7 % at peak throughput"
            },
            {
              "name": "overhead_critical",
              "value": 0.1,
              "unit": "share",
              "severity": "critical",
              "source": "default; CFS-LAGS paper (arXiv 2508.15703, §3.1): steady load stays below 10 %, overload reaches 28 %"
            },
            {
              "name": "mean_switch_cost_warn",
              "value": 10000,
              "unit": "ns",
              "severity": "info",
              "source": "default; CFS-LAGS paper (arXiv 2508.15703, §3.1): below 10 µs under steady load, more under bursts"
            },
            {
              "name": "mean_switch_cost_critical",
              "value": 20000,
              "unit": "ns",
              "severity": "critical",
              "source": "default; CFS-LAGS paper (arXiv 2508.15703, §3.1): up to 20 µs on its overloaded host"
            }
          ],
          "confidence": {
            "level": "low",
            "why": "6 intervals, 1200 switches; 6 of 6 intervals alone support it"
          },
          "against": [
            "The paper's percentages cannot be reproduced from its own raw data, so the thresholds are starting points: this host's own quiet cost is the better measure.",
            "No quiet time to compare with: 6 intervals with switches are too few to split by load.",
            "lagstop's own programs ran for 54.0 ms, part of it within the 2.50 ms that are called overhead."
          ],
          "advice": []
        }
      ],
      "thresholds": {
        "overhead_warn": 0.05,
        "overhead_critical": 0.1,
        "mean_switch_cost_warn": 10000,
        "mean_switch_cost_critical": 20000,
        "growth_notable": 1.2,
        "utilisation_gap_warn": 0.1,
        "utilisation_gap_critical": 0.25,
        "full_utilisation": 0.45,
        "contended_wait": 0.05,
        "light_credit": 0.5,
        "light_wait_per_cpu": 1.0,
        "light_wait_p99": 10000000,
        "wait_per_cpu_warn": 1.0,
        "wait_per_cpu_critical": 4.0,
        "migrations_warn": 1000.0,
        "backlog_warn": 0.5,
        "backlog_critical": 1.0,
        "throttled_warn": 0.05,
        "throttled_critical": 0.25,
        "max_cgroup_findings": 5,
        "min_intervals": 5,
        "min_switches": 1000,
        "min_waits": 100
      },
      "own_cost": {
        "self_cpu_ns": 12000000,
        "self_probe_ns": 54000000,
        "cores": 0.011
      },
      "lost": {
        "entries": 0,
        "exits": 0,
        "switches": 0,
        "task_states": 0,
        "cgroup_overflows": 0,
        "connections": 0,
        "accepts": 0,
        "listener_overflows": 0,
        "wakeups": 0,
        "missed_runs": 0
      }
    }
    "#);
}
