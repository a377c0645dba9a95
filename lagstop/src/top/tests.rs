//! What is seen, and that nothing a user does breaks it.

mod golden;
mod keys;
mod random;

use std::{path::Path, sync::Arc};

use ratatui::{Terminal, backend::TestBackend};

use super::{App, Key, TopSettings};
use crate::{
    model::{
        Cgroup, CgroupId, Distribution, FileCounters, Hook, HookState, Host, HostTimes, Idle, Interval, Lost, Measure,
        Nanos, OwnCost, Session, Tasks, Totals, WaitBehind,
    },
    recording::Reader,
    source::Link,
};

/// A recording of a crowded host: pods of several namespaces, a server that accepts late, a quota, a hostile name.
const RECORDING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/dense.jsonl");

fn recording() -> Reader {
    Reader::open(Path::new(RECORDING)).unwrap()
}

/// That recording at its last interval but one.
fn replay(settings: &TopSettings) -> App {
    let mut app = App::replay(recording(), settings).unwrap();
    for _ in 0..8 {
        app.on_key(Key::Char(']')).unwrap();
    }
    app
}

fn session() -> Session {
    let hook = |name: &str, state, detail: &str, measures: &str| Hook {
        name: name.to_owned(),
        state,
        way: None,
        detail: detail.to_owned(),
        measures: vec![measures.to_owned()],
    };
    Session {
        hostname: "node-17".to_owned(),
        kernel: "6.12.41".to_owned(),
        cpus_online: 8,
        interval_ns: Nanos::SECOND,
        hooks: vec![
            hook("sched_switch", HookState::On, "tp_btf", "switches"),
            hook(
                "pick_next_task_fair",
                HookState::Off,
                "the function is inlined in this kernel, so that nothing can be attached to it",
                "time in pick_next_task_fair",
            ),
            hook("inet_csk_accept", HookState::Off, "attaching it: EPERM\u{1b}[31m", "accept wait"),
        ],
        ..Session::default()
    }
}

fn cgroup(id: u64, name: &str, n: u64) -> Cgroup {
    Cgroup {
        id: CgroupId(id),
        path: Arc::from(format!("/{id}")),
        name: Arc::from(name),
        totals: Totals {
            switches: 1_000 * n,
            voluntary_switches: 700 * n,
            involuntary_switches: 300 * n,
            cross_cgroup_switches: Some(900 * n),
            cpu_ns: Nanos(120_000_000 * n),
            threads: n,
            schedule_calls: Some(1_100 * n),
            pick_ns: Some(Nanos(3_000_000 * n)),
            kept_ns: Some(Nanos(100_000 * n)),
            swap_ns: Some(Nanos(1_500_000 * n)),
            runq_waits: Some(1_000 * n),
            runq_wait_ns: Some(Nanos(250_000_000 * n * n)),
            migrations: Some(40 * n),
            ..Totals::default()
        },
        runnable_load: Some(Tasks(0.37 * n as f64)),
        load_credit: Some(Tasks(0.31 * n as f64)),
        files: FileCounters {
            nr_periods: Some(0),
            nr_throttled: Some(0),
            throttled_ns: Some(Nanos::ZERO),
            pressure_some_ns: Some(Nanos(250_000_000)),
            ..FileCounters::default()
        },
        runq_wait: Some(Distribution::of([(Nanos(9_000), 900), (Nanos(2_000_000 * n), 100)])),
        ..Cgroup::default()
    }
}

fn interval() -> Interval {
    let mut cgroups = vec![
        cgroup(20, "kube-system/coredns", 3),
        cgroup(21, "shop/checkout-7d9fdc6b5c-x2x8k/worker", 9),
        cgroup(22, "ssh.service", 1),
        cgroup(23, "日本語の名前.service", 2),
        cgroup(24, "evil\u{1b}[2J\u{202e}name", 4),
        cgroup(0, "(other)", 1),
    ];
    // One that accepts connections and is throttled, one that only is throttled.
    cgroups[1].totals.accepts = Some(10);
    cgroups[1].totals.accept_wait_ns = Some(Nanos(4_200_000));
    (cgroups[1].files.nr_periods, cgroups[1].files.nr_throttled) = (Some(10), Some(4));
    cgroups[2].totals = Totals { migrations: Some(0), ..Totals::default() };
    cgroups[2].runq_wait = None;
    let mut totals = Totals {
        switches: 4_000,
        pick_ns: Some(Nanos(8_000_000)),
        kept_ns: Some(Nanos(0)),
        swap_ns: Some(Nanos(4_000_000)),
        runq_wait_ns: Some(Nanos(0)),
        migrations: Some(0),
        ..Totals::default()
    };
    let idle = Idle::from(&totals);
    cgroups.iter().filter(|cgroup| cgroup.id != CgroupId(22)).for_each(|cgroup| totals.add(&cgroup.totals));
    Interval {
        seq: 3,
        duration_ns: Nanos::SECOND,
        host: Host {
            totals,
            idle,
            cpus_online: 8,
            times: HostTimes { busy_ns: Nanos(7_400_000_000), idle_ns: Nanos(600_000_000), steal_ns: None },
            own_cost: OwnCost { self_cpu_ns: Nanos(4_000_000), self_probe_ns: Some(Nanos(9_000_000)) },
            lost: Lost { switches: 3, connections: 12, ..Lost::default() },
            ..Host::default()
        },
        cgroups,
        ..Interval::default()
    }
}

/// The same, with what each wait was caused by.
fn with_causes(mut interval: Interval) -> Interval {
    let ids: Vec<CgroupId> = interval.cgroups.iter().map(|cgroup| cgroup.id).collect();
    for (n, cgroup) in interval.cgroups.iter_mut().enumerate() {
        let Totals { runq_wait_ns: Some(Nanos(wait)), .. } = cgroup.totals else { continue };
        let part = |percent: u64| Some(Nanos(wait / 100 * percent));
        let behind = if n == 1 { 40 } else { 74 };
        let totals = &mut cgroup.totals;
        (totals.wait_behind_ns, totals.wait_self_ns, totals.wait_kernel_ns) = (part(behind), part(10), part(5));
        (totals.wait_idle_ns, totals.wait_throttled_ns) = (part(4), part(80 - behind));
        (totals.wait_elsewhere_ns, totals.wait_unknown_ns) = (part(1), part(0));
        let culprit = |nth: usize| ids[(n + nth) % ids.len()];
        cgroup.waits_behind = [(3, 64), (1, 24), (2, 4)]
            .map(|(nth, share)| WaitBehind { id: culprit(nth), wait_ns: Nanos(wait / 100 * behind / 100 * share) })
            .to_vec();
    }
    interval
}

/// A live screen that shows `interval`, where causes of waits are measured.
fn showing_causes(interval: Interval) -> App {
    let how = "from a log of the tasks that ran on each CPU".to_owned();
    let blame = Hook::new(Measure::Blame, Some("stints"), how);
    let mut app = App::live(&Session { hooks: vec![blame], ..session() }, &TopSettings::default());
    app.on_interval(with_causes(interval)).unwrap();
    app
}

/// A live screen that shows `interval`.
fn showing(interval: Interval) -> App {
    let mut app = App::live(&session(), &TopSettings::default());
    app.on_interval(interval).unwrap();
    app
}

fn draw(app: &mut App, width: u16, height: u16) -> TestBackend {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| app.draw(frame)).unwrap();
    terminal.backend().clone()
}

fn drawn(app: &mut App, width: u16, height: u16) -> String {
    draw(app, width, height).to_string()
}

fn press(app: &mut App, keys: &str) {
    for key in keys.chars() {
        app.on_key(Key::Char(key)).unwrap();
    }
}

#[test]
fn why_nothing_comes_from_another_host_is_said() {
    let mut app = showing(interval());
    let link = Link { server: "http://node:9185".to_owned(), ..Link::default() };
    let mut first_line = |link: &Link| {
        app.on_link(link.clone());
        drawn(&mut app, 100, 24).lines().next().unwrap().to_owned()
    };
    assert!(first_line(&link).contains("from http://node:9185"));
    let calm = first_line(&Link { is_calm: true, ..link.clone() });
    assert!(calm.contains("http://node:9185: all is calm, nothing is measured") && calm.contains(" CALM "), "{calm}");
    let lost = first_line(&Link { lost: Some("no answer".to_owned()), is_calm: true, ..link });
    assert!(lost.contains("no answer") && lost.contains(" RECONNECTING ") && !lost.contains("CALM"), "{lost}");
}
