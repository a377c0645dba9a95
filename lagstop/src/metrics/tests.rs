//! What is exposed, as those who read it do.

mod messages;

use std::{
    collections::BTreeMap,
    io::Write,
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use proptest::prelude::*;

use super::*;
use crate::model::{
    Cgroup, CgroupId, Distribution, FileCounters, Hook, Host, HostTimes, Idle, Interval, Listener, ListenerTotals,
    Measure, Nanos, NetworkNamespace, OwnCost, Pressure, Session, Tasks, Totals, WaitBehind, Workload,
};
use crate::{host::Signs, source::SentinelState};

const HOSTILE: &str = "/a\"} 1\n# TYPE x counter\nx{y=\"\\";

fn settings(top: usize) -> MetricsSettings {
    MetricsSettings { is_wanted: Box::new(|_| true), top, expiry: Nanos(60 * Nanos::SECOND.0) }
}

fn session() -> Session {
    let hook = Hook {
        measures: vec!["switches".to_owned()],
        ..Hook::new(Measure::Switches, Some("sched_switch"), "tracepoint".to_owned())
    };
    Session {
        hooks: vec![hook],
        lagstop_version: "1.2.3".to_owned(),
        load_credit_time_ns: Nanos(2 * Nanos::SECOND.0),
        ..Session::default()
    }
}

/// A cgroup with nonzero values everywhere, multiplied by `n`.
fn cgroup(id: u64, path: &str, n: u64) -> Cgroup {
    let waits = Distribution::of([(Nanos(2_000_000), n as u32)]);
    Cgroup {
        id: CgroupId(id),
        path: path.into(),
        name: path.into(),
        totals: Totals {
            switches: 3 * n,
            voluntary_switches: 2 * n,
            involuntary_switches: n,
            cpu_ns: Nanos(n * 10_000_000),
            threads: 2,
            cross_cgroup_switches: Some(n),
            schedule_calls: Some(4 * n),
            pick_ns: Some(Nanos(n * 5_000)),
            kept_ns: Some(Nanos(n * 1_000)),
            swap_ns: Some(Nanos(n * 2_000)),
            pick_function_ns: Some(Nanos(n * 500)),
            runq_waits: Some(n),
            runq_wait_ns: Some(Nanos(n * 2_100_000)),
            wait_behind_ns: Some(Nanos(n * 1_500_000)),
            wait_self_ns: Some(Nanos(n * 400_000)),
            wait_kernel_ns: Some(Nanos(n * 100_000)),
            wait_idle_ns: Some(Nanos(n * 50_000)),
            wait_throttled_ns: Some(Nanos(n * 30_000)),
            wait_elsewhere_ns: Some(Nanos(n * 15_000)),
            wait_unknown_ns: Some(Nanos(n * 5_000)),
            migrations: Some(n),
            migrations_cross_llc: Some(0),
            migrations_cross_numa: Some(0),
            accepts: Some(n),
            accept_wait_ns: Some(Nanos(n * 2_100_000)),
        },
        load_credit: Some(Tasks(n as f64 / 10.0)),
        files: FileCounters {
            nr_periods: Some(10),
            nr_throttled: Some(1),
            throttled_ns: Some(Nanos(5_000_000)),
            pressure_some_ns: Some(Nanos(3_000_000)),
            pressure_full_ns: Some(Nanos(1_000_000)),
            vcpu_wait_ns: Some(Nanos(20_000_000)),
            vcpu_ns: Some(Nanos(2_000_000_000)),
        },
        quota_ns: Some(Nanos(500_000_000)),
        runq_wait: Some(waits.clone()),
        accept_wait: Some(waits),
        ..Cgroup::default()
    }
}

/// It waited so many milliseconds behind another cgroup.
fn behind(cgroup: Cgroup, id: u64, ms: u64) -> Cgroup {
    Cgroup { waits_behind: vec![WaitBehind { id: CgroupId(id), wait_ns: Nanos(ms * 1_000_000) }], ..cgroup }
}

/// An interval of a second in which these ran, beside idle.
fn interval(cgroups: Vec<Cgroup>) -> Interval {
    let idle = Totals {
        switches: 7,
        voluntary_switches: 7,
        pick_ns: Some(Nanos(70_000)),
        kept_ns: Some(Nanos(7_000)),
        swap_ns: Some(Nanos(30_000)),
        ..cgroup(0, "", 0).totals
    };
    let mut totals = idle;
    cgroups.iter().for_each(|cgroup| totals.add(&cgroup.totals));
    Interval {
        duration_ns: Nanos::SECOND,
        host: Host {
            totals,
            idle: Idle::from(&idle),
            cpus_online: 2,
            times: HostTimes {
                busy_ns: Nanos(1_500_000_000),
                idle_ns: Nanos(500_000_000),
                steal_ns: Some(Nanos(10_000_000)),
            },
            own_cost: OwnCost { self_cpu_ns: Nanos(3_000_000), self_probe_ns: Some(Nanos(4_000_000)) },
            pressure: Some(Pressure { some_ns: Nanos(100_000_000) }),
            ..Host::default()
        },
        cgroups,
        listeners: vec![Listener {
            cgroup: Some(CgroupId(5)),
            sockets: Some(1),
            backlog: Some(3),
            backlog_capacity: Some(129),
            drops: Some(1),
            totals: Some(ListenerTotals { established: 9, accepts: 5, accept_wait_ns: Nanos(80_000), abandoned: 1 }),
            ..Listener::new(1, ([127, 0, 0, 1], 80).into())
        }],
        network_namespaces: vec![NetworkNamespace { netns: 1, listen_overflows: Some(2) }],
        ..Interval::default()
    }
}

/// A snapshot with everything. One of its three cgroups has no series of its own.
fn everything() -> Arc<MetricsSnapshot> {
    let mut accumulator = Accumulator::new(&session(), settings(2));
    let mut pod = cgroup(5, "/kubepods.slice/x.scope", 4);
    pod.workload =
        Some(Arc::new(Workload { namespace: Some("shop".into()), pod: Some("web".into()), container: None }));
    accumulator.add(&interval(vec![cgroup(6, HOSTILE, 9), behind(pod, 6, 5), cgroup(7, "/small", 1)]));
    let signs = Signs {
        pressure: Some((0.2, "/a".into())),
        throttled: Some((0.1, "/b".into())),
        waiting: Some((0.5, 1)),
        left_out: 0,
    };
    accumulator.watched(SentinelState { is_attached: true, signs, ..SentinelState::default() });
    MetricsSnapshot { timed_intervals: Some(3), switch_cost_error: Some(0.02), ..accumulator.snapshot() }.into()
}

/// Name and labels of a series.
type Key = (String, BTreeMap<String, String>);

/// What OpenMetrics and Prometheus text have in common, read strictly: samples, and kinds by name.
fn parse(text: &str) -> (BTreeMap<Key, f64>, BTreeMap<String, String>) {
    let (mut samples, mut kinds) = (BTreeMap::new(), BTreeMap::new());
    for line in text.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            if let Some((name, kind)) = comment.strip_prefix("TYPE ").and_then(|rest| rest.split_once(' ')) {
                assert!(kinds.insert(name.to_owned(), kind.to_owned()).is_none(), "{name} comes twice");
            }
            continue;
        }
        let end = line.find(['{', ' ']).unwrap();
        let name = &line[..end];
        assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{line}");
        let (labels, rest) = match line[end..].strip_prefix('{') {
            Some(labels) => parse_labels(labels),
            None => (BTreeMap::new(), &line[end..]),
        };
        let value: f64 = rest.strip_prefix(' ').unwrap().parse().unwrap_or_else(|_| panic!("{line}"));
        let before = samples.insert((name.to_owned(), labels), value);
        assert_eq!(before, None, "twice: {line}");
    }
    (samples, kinds)
}

fn parse_labels(mut rest: &str) -> (BTreeMap<String, String>, &str) {
    let mut labels = BTreeMap::new();
    loop {
        let (name, after) = rest.split_once("=\"").unwrap();
        assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{name}");
        let (mut value, mut chars) = (String::new(), after.char_indices());
        let end = loop {
            match chars.next().unwrap() {
                (at, '"') => break at + 1,
                (_, '\\') => value.push(match chars.next().unwrap().1 {
                    'n' => '\n',
                    other => other,
                }),
                (_, other) => value.push(other),
            }
        };
        assert!(labels.insert(name.to_owned(), value).is_none(), "{name} comes twice");
        rest = &after[end..];
        match rest.strip_prefix(',') {
            Some(next) => rest = next,
            None => return (labels, rest.strip_prefix('}').unwrap()),
        }
    }
}

fn bytes(format: Exposition, snapshot: &Arc<MetricsSnapshot>) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(format, snapshot, &mut bytes).unwrap();
    bytes
}

fn text(format: Exposition, snapshot: &Arc<MetricsSnapshot>) -> String {
    String::from_utf8(bytes(format, snapshot)).unwrap()
}

fn openmetrics(snapshot: &Arc<MetricsSnapshot>) -> BTreeMap<Key, f64> {
    parse(&text(Exposition::OpenMetrics, snapshot)).0
}

/// The value of the only series of `name` whose labels hold all of `labels`.
fn value(samples: &BTreeMap<Key, f64>, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    let is_it =
        |key: &Key| key.0 == name && labels.iter().all(|(name, value)| key.1.get(*name).is_some_and(|it| it == value));
    let mut found = samples.iter().filter(|(key, _)| is_it(key));
    let value = found.next().map(|(_, value)| *value);
    assert!(found.next().is_none(), "more than one {name} {labels:?}");
    value
}

#[test]
fn names_follow_the_conventions() {
    for family in families() {
        let name = family.name;
        assert_eq!(name.ends_with("_total"), family.kind == Kind::Counter, "{name}");
        assert_eq!(name.ends_with("_info"), family.kind == Kind::Info, "{name}");
        assert!(!family.help.ends_with('.') && !family.help.contains(['\\', '\n', '"']), "{name}");
        assert!(families().iter().filter(|other| other.name == name).count() == 1, "{name}");
    }
}

#[test]
fn every_metric_is_there_where_everything_is_measured() {
    let (samples, kinds) = parse(&text(Exposition::OpenMetrics, &everything()));
    for family in families() {
        let name = match family.kind {
            Kind::Histogram => format!("{}_bucket", family.name),
            _ => family.name.to_owned(),
        };
        let mut series = samples.keys().filter(|(known, _)| *known == name).peekable();
        assert!(series.peek().is_some(), "{name}");
        for (_, labels) in series {
            let expected = family.labels.iter().copied().chain((family.kind == Kind::Histogram).then_some("le"));
            let mut expected: Vec<&str> = expected.collect();
            expected.sort_unstable();
            assert_eq!(labels.keys().map(String::as_str).collect::<Vec<_>>(), expected, "{name}");
        }
        let stem = family.name.trim_end_matches("_total").trim_end_matches("_info");
        assert_eq!(kinds[stem], family.kind.name(), "{stem}");
    }
    assert_eq!(kinds.len(), families().len());
    let text = text(Exposition::OpenMetrics, &everything());
    assert!(text.ends_with("\n# EOF\n"), "{text}");
    assert!(text.contains("\n# UNIT lagstop_cgroup_cpu_seconds seconds\n"));
}

#[test]
fn waits_are_told_by_cause_and_by_culprit() {
    let samples = openmetrics(&everything());
    let sum = |name: &str, path: &str| {
        let of = samples.iter().filter(|(key, _)| key.0 == name && key.1["cgroup"] == path);
        of.map(|(_, value)| value).sum::<f64>()
    };
    for (path, n) in [(HOSTILE, 9.0), ("/kubepods.slice/x.scope", 4.0), ("other", 1.0)] {
        let (causes, behind) =
            (sum("lagstop_cgroup_wait_seconds_total", path), sum("lagstop_cgroup_wait_caused_seconds_total", path));
        assert!((causes - n * 0.0021).abs() < 1e-9, "{path:?}: {causes}");
        assert!((behind - n * 0.0015).abs() < 1e-9, "{path:?}: {behind}");
    }
    let caused = |by| value(&samples, "lagstop_cgroup_wait_caused_seconds_total", &[("pod", "web"), ("by", by)]);
    assert_eq!([HOSTILE, "(other)"].map(caused), [Some(0.005), Some(0.001)]);
}

#[test]
fn hostile_names_stay_inside_of_their_quotes() {
    let samples = openmetrics(&everything());
    assert_eq!(value(&samples, "lagstop_cgroup_cpu_seconds_total", &[("cgroup", HOSTILE)]), Some(0.09));
    assert!(!samples.keys().any(|(name, _)| name == "x"));
    let shop = [("namespace", "shop"), ("pod", "web"), ("container", ""), ("unit", "x.scope"), ("kind", "voluntary")];
    assert_eq!(value(&samples, "lagstop_cgroup_switches_total", &shop), Some(8.0));
}

#[test]
fn prometheus_text_has_the_same_samples_and_whole_names() {
    // So many cgroups that a piece of the output may end anywhere.
    let mut accumulator = Accumulator::new(&session(), settings(500));
    accumulator.add(&interval((0..500).map(|n| cgroup(n + 5, &format!("/{n}"), n)).collect()));
    for snapshot in [everything(), accumulator.snapshot().into()] {
        let (openmetrics, known) = parse(&text(Exposition::OpenMetrics, &snapshot));
        let text = text(Exposition::Prometheus, &snapshot);
        let (prometheus, kinds) = parse(&text);
        assert!(prometheus == openmetrics && kinds.len() == known.len());
        assert!(!text.contains("# EOF") && !text.contains("# UNIT"));
        for family in families().iter().filter(|family| family.samples(&snapshot).next().is_some()) {
            let kind = if family.kind == Kind::Info { "gauge" } else { family.kind.name() };
            assert_eq!(kinds[family.name], kind, "{}", family.name);
            assert!(text.contains(&format!("# HELP {} {}\n# TYPE", family.name, family.help)), "{}", family.name);
        }
    }
}

/// Where the program of Prometheus is that checks what exporters say; else it cannot be asked.
#[test]
fn promtool_has_nothing_to_object_to() {
    let mut command = Command::new("promtool");
    command.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut promtool = match command.spawn() {
        Ok(promtool) => promtool,
        Err(error) => return eprintln!("SKIPPED: promtool cannot be run: {error}"),
    };
    promtool.stdin.take().unwrap().write_all(text(Exposition::Prometheus, &everything()).as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).concat();
    assert!(output.status.success(), "{said}");
}

#[test]
fn what_idle_costs_is_not_the_hosts() {
    let samples = openmetrics(&everything());
    let cost = |name, phase| value(&samples, name, &[("phase", phase)]);
    // 9 + 4 + 1 times what one did.
    assert_eq!(cost("lagstop_host_switch_cost_seconds_total", "pick"), Some(70e-6));
    assert_eq!(cost("lagstop_host_switch_cost_seconds_total", "swap"), Some(28e-6));
    assert_eq!(value(&samples, "lagstop_host_kept_running_seconds_total", &[]), Some(14e-6));
    assert_eq!(value(&samples, "lagstop_host_switches_total", &[("kind", "voluntary")]), Some(28.0));
    assert_eq!(value(&samples, "lagstop_host_switches_total", &[("kind", "involuntary")]), Some(14.0));
    assert_eq!(value(&samples, "lagstop_host_runqueue_wait_seconds_count", &[]), Some(14.0));
    let load = value(&samples, "lagstop_host_runnable_tasks_per_cpu", &[]).unwrap();
    assert!((load - (1.5 + 14.0 * 0.0021) / 2.0).abs() < 1e-9, "{load}");
}

#[test]
fn what_is_not_measured_is_absent() {
    let mut accumulator = Accumulator::new(&session(), settings(10));
    let totals = Totals { switches: 1, cpu_ns: Nanos(5), ..Totals::default() };
    let one = Cgroup { id: CgroupId(5), path: "/a".into(), totals, ..Cgroup::default() };
    accumulator.add(&Interval { cgroups: vec![one], duration_ns: Nanos::SECOND, ..Interval::default() });
    let samples = openmetrics(&accumulator.snapshot().into());
    let names: Vec<&str> = samples.keys().map(|(name, _)| name.as_str()).collect();
    for there in ["lagstop_cgroup_cpu_seconds_total", "lagstop_cgroup_switches_total", "lagstop_cgroup_threads"] {
        assert!(names.contains(&there), "{there}");
    }
    for absent in [
        "cost",
        "kept",
        "migrations",
        "wait",
        "credit",
        "light",
        "period",
        "thrott",
        "quota",
        "steal",
        "pressure",
        "probe",
        "cross",
    ] {
        assert!(!names.iter().any(|name| name.contains(absent)), "{absent}: {names:?}");
    }
}

#[test]
fn while_a_sentinel_only_watches_counters_stand_still_and_gauges_are_absent() {
    let mut accumulator = Accumulator::new(&session(), settings(10));
    accumulator.add(&interval(vec![cgroup(5, "/a", 1)]));
    let signs = Signs { pressure: Some((0.25, "/a".into())), ..Signs::default() };
    let [watching, measuring] = [70, 30].map(Duration::from_secs);
    let watched = SentinelState { is_attached: false, watching, measuring, attached: 2, signs, why: None };
    accumulator.watched(SentinelState { is_attached: true, ..watched.clone() });
    let told = |accumulator: &Accumulator, name: &str, labels: &[(&str, &str)]| {
        value(&openmetrics(&accumulator.snapshot().into()), name, labels)
    };
    assert_eq!(told(&accumulator, "lagstop_sentinel_attached", &[]), Some(1.0));
    assert_eq!(told(&accumulator, "lagstop_cgroup_threads", &[("cgroup", "/a")]), Some(2.0));
    accumulator.watched(watched);
    let seconds = |state| told(&accumulator, "lagstop_sentinel_seconds_total", &[("state", state)]);
    assert_eq!([seconds("measuring"), seconds("watching")], [Some(30.0), Some(70.0)]);
    assert_eq!(told(&accumulator, "lagstop_sentinel_attached", &[]), Some(0.0));
    assert_eq!(told(&accumulator, "lagstop_sentinel_attachments_total", &[]), Some(2.0));
    assert_eq!(told(&accumulator, "lagstop_sentinel_worst_ratio", &[("sign", "pressure")]), Some(0.25));
    assert_eq!(
        told(&accumulator, "lagstop_sentinel_worst_ratio", &[("sign", "throttled")]),
        None,
        "nobody has a quota"
    );
    for gauge in ["lagstop_cgroup_threads", "lagstop_cgroup_load_credit_tasks", "lagstop_cgroup_light"] {
        assert_eq!(told(&accumulator, gauge, &[("cgroup", "/a")]), None, "{gauge}");
    }
    assert_eq!(told(&accumulator, "lagstop_host_cgroups_active", &[]), None);
    assert_eq!(told(&accumulator, "lagstop_cgroup_cpu_seconds_total", &[("cgroup", "/a")]), Some(0.01));
}

#[test]
fn costs_of_intervals_that_were_not_timed_are_estimates_with_an_error() {
    let mut accumulator = Accumulator::new(&session(), settings(10));
    let mut untimed = interval(vec![cgroup(5, "/a", 3)]);
    untimed.forget_costs();
    for n in [1, 2] {
        for next in [interval(vec![cgroup(5, "/a", n)]), untimed.clone()] {
            let next = accumulator.complete(next);
            accumulator.add(&next);
        }
    }
    let samples = openmetrics(&accumulator.snapshot().into());
    let pick = value(&samples, "lagstop_cgroup_switch_cost_seconds_total", &[("cgroup", "/a"), ("phase", "pick")]);
    assert_eq!(pick, Some((1.0 + 2.0 + 3.0 + 3.0) * 5e-6), "as many for each switch");
    assert_eq!(value(&samples, "lagstop_timed_intervals_total", &[]), Some(2.0));
    assert_eq!(value(&samples, "lagstop_switch_cost_relative_standard_error", &[]), Some(0.0), "all cost the same");
}

#[test]
fn light_and_heavy_are_told_by_the_mean_credit_of_those_that_ran() {
    let mut accumulator = Accumulator::new(&session(), settings(10));
    let root = Cgroup { id: CgroupId::ROOT, ..cgroup(1, "/", 90) };
    accumulator.add(&interval(vec![root, cgroup(5, "/a", 1), cgroup(6, "/b", 9)]));
    let snapshot = accumulator.snapshot().into();
    let light = |snapshot, path| value(&openmetrics(snapshot), "lagstop_cgroup_light", &[("cgroup", path)]);
    assert_eq!(["/", "/a", "/b"].map(|path| light(&snapshot, path)), [None, Some(1.0), Some(0.0)]);
    // /a is idle for two seconds, the time constant.
    (0..2).for_each(|_| accumulator.add(&interval(vec![cgroup(6, "/b", 9)])));
    let snapshot = accumulator.snapshot().into();
    assert_eq!(["/a", "/b"].map(|path| light(&snapshot, path)), [None, Some(0.0)]);
    let credit = value(&openmetrics(&snapshot), "lagstop_cgroup_load_credit_tasks", &[("cgroup", "/a")]).unwrap();
    assert!((credit - 0.1 * (-1.0f64).exp()).abs() < 1e-9, "{credit}");
    assert_eq!(value(&openmetrics(&snapshot), "lagstop_cgroup_threads", &[("cgroup", "/a")]), Some(0.0));
}

#[test]
fn a_unit_that_is_restarted_goes_on_and_one_that_is_gone_expires() {
    let mut accumulator = Accumulator::new(&session(), settings(10));
    accumulator.add(&interval(vec![cgroup(5, "/a", 1), cgroup(6, "/b", 1)]));
    // Another directory by the same name, and both at once.
    accumulator.add(&interval(vec![cgroup(5, "/a", 1), cgroup(50, "/a", 2)]));
    let cpu = |accumulator: &Accumulator, path: &str| {
        let samples = openmetrics(&accumulator.snapshot().into());
        value(&samples, "lagstop_cgroup_cpu_seconds_total", &[("cgroup", path)])
    };
    assert_eq!((cpu(&accumulator, "/a"), cpu(&accumulator, "/b")), (Some(0.04), Some(0.01)));
    for _ in 0..61 {
        accumulator.add(&interval(vec![cgroup(50, "/a", 1)]));
    }
    assert_eq!(cpu(&accumulator, "/b"), None);
    assert_eq!(cpu(&accumulator, "other"), None, "what it did stays its own");
    accumulator.add(&interval(vec![cgroup(6, "/b", 1)]));
    assert_eq!(cpu(&accumulator, "/b"), Some(0.01), "from the beginning");
}

#[test]
fn pressure_of_the_other_cgroups_is_no_sum() {
    let is_wanted = Box::new(|cgroup: &Cgroup| &*cgroup.path == "/a");
    let mut accumulator = Accumulator::new(&session(), MetricsSettings { is_wanted, ..settings(10) });
    accumulator.add(&interval(vec![cgroup(5, "/a", 1), cgroup(6, "/b", 1), cgroup(7, "/c", 1)]));
    let samples = openmetrics(&accumulator.snapshot().into());
    let of = |name, path| value(&samples, name, &[("cgroup", path)]);
    let pressure = ["/a", "other"].map(|path| of("lagstop_cgroup_cpu_pressure_some_seconds_total", path));
    assert_eq!(pressure, [Some(0.003), None]);
    assert_eq!(of("lagstop_cgroup_throttled_periods_total", "other"), Some(2.0), "which add up");
}

#[test]
fn only_wanted_cgroups_have_series() {
    let is_wanted = Box::new(|cgroup: &Cgroup| &*cgroup.path != "/b");
    let mut accumulator = Accumulator::new(&session(), MetricsSettings { is_wanted, ..settings(10) });
    let surplus = Cgroup { id: CgroupId::OTHER, ..cgroup(0, "(other)", 5) };
    accumulator.add(&interval(vec![surplus, cgroup(5, "/a", 1), cgroup(6, "/b", 1)]));
    let samples = openmetrics(&accumulator.snapshot().into());
    let cpu = |path| value(&samples, "lagstop_cgroup_cpu_seconds_total", &[("cgroup", path)]);
    assert_eq!(["/a", "/b", "(other)", "other"].map(cpu), [Some(0.01), None, None, Some(0.06)]);
    assert_eq!(value(&samples, "lagstop_cgroups_exported", &[]), Some(1.0));
    assert_eq!(value(&samples, "lagstop_cgroups_in_other", &[]), Some(1.0));
}

#[test]
fn a_name_that_is_found_out_late_is_kept() {
    let mut accumulator = Accumulator::new(&session(), settings(10));
    let mut named = cgroup(5, "/a", 1);
    named.workload = Some(Arc::new(Workload { pod: Some("web".into()), ..Workload::default() }));
    for (n, one) in [cgroup(5, "/a", 1), named, cgroup(5, "/a", 1)].into_iter().enumerate() {
        accumulator.add(&interval(vec![one]));
        let samples = openmetrics(&accumulator.snapshot().into());
        let pod = if n == 0 { "" } else { "web" };
        let cpu = value(&samples, "lagstop_cgroup_cpu_seconds_total", &[("pod", pod)]);
        assert_eq!(cpu, Some((n + 1) as f64 / 100.0));
    }
}

/// The counters, and those parts of histograms that only grow.
fn counters(samples: BTreeMap<Key, f64>) -> BTreeMap<Key, f64> {
    let only_grows = |name: &str| ["_total", "_bucket", "_sum", "_count"].iter().any(|end| name.ends_with(end));
    samples.into_iter().filter(|((name, _), _)| only_grows(name)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Whoever comes, goes, and changes places.
    #[test]
    fn counters_only_grow_and_add_up_to_the_host(
        seconds in prop::collection::vec(prop::collection::vec((0u64..6, 0u64..50), 0..6), 1..60),
        top in 0usize..4,
    ) {
        let mut accumulator = Accumulator::new(&session(), MetricsSettings { expiry: Nanos(5_000_000_000), ..settings(top) });
        let mut before: BTreeMap<Key, f64> = BTreeMap::new();
        for second in &seconds {
            let ran: BTreeMap<u64, u64> = second.iter().copied().filter(|(_, n)| *n > 0).collect();
            let cgroups = ran.iter().map(|(id, n)| behind(cgroup(id + 5, &format!("/{id}"), *n), (id + 1) % 6 + 5, *n));
            let cgroups = cgroups.collect();
            accumulator.add(&interval(cgroups));
            let snapshot = accumulator.snapshot();
            prop_assert!(snapshot.exported <= top as u64);
            let now = counters(openmetrics(&snapshot.into()));
            for (key, value) in &now {
                let then = before.get(key).copied().unwrap_or(0.0);
                prop_assert!(*value >= then, "{key:?} fell from {then} to {value}");
            }
            let grew = |name: &str| {
                let of = now.iter().filter(|((known, _), _)| known == name);
                of.map(|(key, value)| value - before.get(key).copied().unwrap_or(0.0)).sum::<f64>()
            };
            for (cgroups, host) in [
                ("lagstop_cgroup_switches_total", "lagstop_host_switches_total"),
                ("lagstop_cgroup_switch_cost_seconds_total", "lagstop_host_switch_cost_seconds_total"),
                ("lagstop_cgroup_runqueue_wait_seconds_count", "lagstop_host_runqueue_wait_seconds_count"),
                ("lagstop_cgroup_migrations_total", "lagstop_host_migrations_total"),
            ] {
                let (cgroups, host) = (grew(cgroups), grew(host));
                prop_assert!((cgroups - host).abs() < 1e-9, "{cgroups} is not {host}");
            }
            let caused = grew("lagstop_cgroup_wait_caused_seconds_total");
            let behind = ran.values().sum::<u64>() as f64 * 0.0015;
            prop_assert!((caused - behind).abs() < 1e-9, "{caused} is not {behind}");
            before = now;
        }
    }
}
