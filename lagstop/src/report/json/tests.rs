use super::*;
use crate::{
    diagnosis::{Thresholds, diagnose},
    model::fixture,
};

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
      "schema": "lagstop.report/3",
      "severity": "not_enough_data",
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
        "cpu_files": [],
        "sched_ext": null,
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
      "verdict": {
        "severity": "ok",
        "headline": "Healthy: 99 % of all waits for a CPU end within 4.61 µs (the longest: about 4.61 µs), switching takes 0.01 % of the CPU time, and the CPUs are 0.3 % busy.",
        "causes": []
      },
      "summary": [
        {
          "name": "overhead",
          "label": "overhead",
          "value": 0.00010404,
          "unit": "share",
          "note": "of all CPU time"
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
          "name": "cpu_utilisation",
          "label": "CPU utilisation",
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
          "label": "steal",
          "value": 0.0,
          "unit": "share"
        }
      ],
      "findings": [
        {
          "rule": "density",
          "severity": "not_enough_data",
          "subject": {
            "kind": "host"
          },
          "verdict": "Cannot judge how many cgroups this host can take: this needs at least 24 intervals (measured: 6).",
          "measured": [],
          "threshold": [
            {
              "name": "density_spread",
              "value": 1.5,
              "unit": "factor",
              "severity": "info",
              "source": "default; lagstop's own choice: with less spread, all densities look alike"
            },
            {
              "name": "density_full",
              "value": 0.8,
              "unit": "share",
              "severity": "info",
              "source": "default; lagstop's own choice: below this, the work runs out before the CPUs do"
            },
            {
              "name": "density_loss",
              "value": 0.02,
              "unit": "share",
              "severity": "warning",
              "source": "default; lagstop's own choice: with full CPUs, each further cgroup costs a few thousandths"
            }
          ],
          "confidence": {
            "level": "low",
            "why": "6 intervals, 1200 switches"
          },
          "caveats": [
            "This measures CPU time not lost to switching, not served requests, which may suffer earlier.",
            "The peak depends on the load during the measurement, not on the host alone.",
            "All cgroups count the same, whatever their demand."
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
        "light_gain": 0.2,
        "heavy_tolerance": 0.1,
        "full_cpus": 0.9,
        "wait_per_cpu_warn": 1.0,
        "wait_per_cpu_critical": 4.0,
        "starved_warn": 1.5,
        "starved_critical": 3.0,
        "outweighed_warn": 2.0,
        "outweighed_critical": 8.0,
        "weights_differ": 2.0,
        "neighbour_wait": 0.3,
        "neighbour_takes": 1.1,
        "threads_overcommit_warn": 2.0,
        "quota_gap": 0.25,
        "steal_warn": 0.05,
        "steal_critical": 0.2,
        "accept_wait_warn": 10000000,
        "migrations_warn": 1000.0,
        "backlog_warn": 0.5,
        "backlog_critical": 1.0,
        "drops_warn": 1,
        "density_intervals": 24,
        "density_spread": 1.5,
        "density_full": 0.8,
        "density_loss": 0.02,
        "throttled_warn": 0.05,
        "throttled_critical": 0.25,
        "throttled_wait_critical": 0.5,
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
        "acceptors": 0,
        "wakeups": 0,
        "pairs": 0,
        "missed_runs": 0
      }
    }
    "#);
}

#[test]
fn what_is_written_fits_the_schema() {
    let mut recordings = fixture::without_content();
    recordings.extend([fixture::overloaded(60), fixture::without_cost(60), fixture::full_of_problems()]);
    let schema = jsonschema::validator_for(&schema()).unwrap();
    for intervals in recordings {
        let report = diagnose(&fixture::session(), &intervals, &Thresholds::default());
        let written: serde_json::Value = serde_json::from_str(&render(&report).unwrap()).unwrap();
        assert_eq!(schema.validate(&written).err().map(|error| error.to_string()), None);
    }
    let wrong = serde_json::json!({ "schema": SCHEMA, "verdict": "", "severity": "bad" });
    assert!(!schema.is_valid(&wrong));
}
