//! Accept waits, and who listens.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    thread,
    time::{Duration, Instant},
};

use lagstop::{
    diagnosis::{Rule, Subject, Thresholds, diagnose},
    model::{CgroupId, GroupBy, Interval, Listener, ListenerTotals, Nanos, Session},
    source::Stream,
    units::Value,
};

use crate::{
    Test,
    fixture::{Load, Probes, Setup, TestCgroup, assert_within, eventually, is_slow, with_stream},
};

pub(crate) const TESTS: &[Test] = &[
    ("accept_waits_agree_with_a_server_that_waits", accept_wait),
    ("a_server_is_as_busy_as_its_own_clock_says", utilisation),
    ("connections_that_nobody_accepts_are_abandoned", abandoned),
    ("a_full_accept_queue_agrees_with_netstat", full_queue),
    ("a_full_accept_queue_in_another_network_namespace_agrees_with_netstat", full_queue_apart),
    ("a_listener_without_traffic_has_an_owner", owner),
];

fn accept_wait() {
    accept_wait_with(&Setup::default());
}

pub(crate) fn accept_wait_with(setup: &Setup) {
    const CONNECTIONS: u64 = 20;
    let cgroup = TestCgroup::new("serve");
    let mut probes = Probes::with(setup);
    let mut load = cgroup.start(&format!("serve {CONNECTIONS} 50"));
    load.line();
    load.go();
    let port: u16 = load.line().parse().unwrap();
    let mut waits: Vec<u64> = load.line().split(' ').map(|wait| wait.parse().unwrap()).collect();
    waits.sort_unstable();
    // As the distribution has it: the least that half of them do not exceed.
    let (waited, median) = (waits.iter().sum(), waits[waits.len().div_ceil(2) - 1]);
    let snapshot = probes.snapshot();
    let counters = &snapshot.cgroups[&cgroup.id()].counters;
    assert_eq!(counters.totals.accepts, Some(CONNECTIONS));
    assert_within("accept wait", counters.totals.accept_wait_ns.unwrap().0, waited, 5.0);
    let distribution = counters.accept_wait.as_ref().unwrap();
    assert_eq!(distribution.count(), CONNECTIONS);
    assert_within("median accept wait", distribution.quantile(0.5).unwrap().0, median, 15.0);

    let listener = snapshot.traffic.iter().find(|traffic| traffic.address.port() == port).unwrap();
    assert_eq!(listener.totals.established, CONNECTIONS);
    assert_eq!(listener.totals.accepts, CONNECTIONS);
    assert_eq!(listener.totals.abandoned, 0);
    assert_eq!(Some(listener.totals.accept_wait_ns), counters.totals.accept_wait_ns);
    assert_eq!(listener.cgroup, Some(cgroup.id()));
    assert_eq!(listener.tgid, Some(load.pid()));
}

fn utilisation() {
    // As many at a time as two CPUs have room for; a slow one has for one.
    let together = [("sleep", &[0.3, 0.5, 0.7, 0.9][..]), ("spin", &[0.3, 0.9]), ("spin", &[0.5, 0.7])];
    let at_a_time = if is_slow() { 1 } else { 4 };
    for (how, loads) in together.iter().flat_map(|(how, loads)| loads.chunks(at_a_time).map(|loads| (*how, loads))) {
        for (load, (measured, by_its_clock)) in loads.iter().zip(utilisations_at(how, loads)) {
            println!("{how} {load}: measured {measured:.3}, by the server's own clock {by_its_clock:.3}");
            assert!((measured - by_its_clock).abs() <= 0.05, "{how} {load}: {measured:.3} is not {by_its_clock:.3}");
        }
    }
}

/// How busy threads are that serve connections that come at random, each by itself, as a finding has it, and by the thread's
/// own clock.
fn utilisations_at(how: &str, loads: &[f64]) -> Vec<(f64, f64)> {
    let cgroups: Vec<TestCgroup> = loads.iter().map(|load| TestCgroup::new(&format!("queue{load}"))).collect();
    let start = |(cgroup, load): (&TestCgroup, &f64)| cgroup.start(&format!("queue {how} 10000 {load} 8000"));
    let mut servers: Vec<Load> = cgroups.iter().zip(loads).map(start).collect();
    servers.iter_mut().for_each(|server| drop(server.line()));
    let (session, intervals, ports, said) = with_stream(GroupBy::Scheduler, async |stream| {
        let mut intervals = vec![stream.intervals.recv().await.unwrap().unwrap()];
        servers.iter_mut().for_each(Load::go);
        let ports: Vec<u16> = servers.iter_mut().map(|server| server.line().parse().unwrap()).collect();
        let said = thread::spawn(move || servers.iter_mut().map(Load::line).collect::<Vec<_>>());
        while !said.is_finished() {
            intervals.push(stream.intervals.recv().await.unwrap().unwrap());
        }
        (stream.session.clone(), intervals, ports, said.join().unwrap())
    });
    let utilisation = |(port, said): (u16, String)| {
        let said: Vec<f64> = said.split(' ').map(|figure| figure.parse().unwrap()).collect();
        (utilisation_of(port, &session, &intervals), said[1] / said[2])
    };
    ports.into_iter().zip(said).map(utilisation).collect()
}

/// As the finding on the one who listens on `port` has it, while connections came.
fn utilisation_of(port: u16, session: &Session, intervals: &[Interval]) -> f64 {
    let is_it = |listener: &Listener| {
        listener.address.port() == port && listener.totals.is_some_and(|totals| totals.established + totals.accepts > 0)
    };
    let happened = |interval: &Interval| interval.listeners.iter().any(is_it);
    let first = intervals.iter().position(happened).unwrap();
    let last = intervals.iter().rposition(happened).unwrap();
    // Whatever it waits is found.
    let thresholds = Thresholds { accept_wait_warn: Nanos(1), min_waits: 1, ..Thresholds::default() };
    let report = diagnose(session, &intervals[first..=last], &thresholds);
    let finding = report.findings.iter().find(|finding| {
        finding.rule == Rule::Backlog
            && matches!(finding.subject, Subject::Listener { address, .. } if address.port() == port)
    });
    let figures = &finding.unwrap().measured;
    let figure = figures.iter().find(|figure| figure.name == "utilisation").unwrap();
    figure.value.map(Value::as_f64).unwrap_or_else(|| panic!("{}", figure.shown()))
}

fn abandoned() {
    const CONNECTIONS: u64 = 7;
    let cgroup = TestCgroup::new("abandon");
    let mut probes = Probes::attach();
    let mut load = cgroup.start(&format!("abandon {CONNECTIONS}"));
    load.line();
    load.go();
    let port: u16 = load.line().parse().unwrap();
    assert_eq!(load.line(), "done");
    let expected = ListenerTotals { established: CONNECTIONS, abandoned: CONNECTIONS, ..ListenerTotals::default() };
    eventually("the end of every connection", || {
        thread::sleep(Duration::from_millis(20));
        let traffic = probes.snapshot().traffic;
        let found = traffic.iter().find(|traffic| traffic.address.port() == port).unwrap();
        found.totals == expected
    });
}

/// Waits for an interval that has `what`.
async fn until<T>(stream: &mut Stream, what: &str, mut find: impl FnMut(&Interval) -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        let interval = stream.intervals.recv().await.unwrap().unwrap();
        if let Some(found) = find(&interval) {
            return found;
        }
        assert!(start.elapsed() < Duration::from_secs(30), "{what} did not happen");
    }
}

/// Intervals that may have been measured before a line of a load was read, and are still to be had.
const STILL_ON_THEIR_WAY: u64 = 12;

/// `ListenOverflows` of the network namespace of a process.
pub(crate) fn listen_overflows(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/net/netstat")).unwrap();
    let lines: Vec<Vec<&str>> =
        text.lines().filter(|line| line.starts_with("TcpExt:")).map(|line| line.split(' ').collect()).collect();
    lines[1][lines[0].iter().position(|name| *name == "ListenOverflows").unwrap()].parse().unwrap()
}

fn full_queue() {
    overflow("overflow");
}

fn full_queue_apart() {
    overflow("overflow-apart");
}

/// Sees a listener appear, then its queue overflow, and compares with what the kernel says before and after.
fn overflow(what: &str) {
    const CONNECTIONS: u64 = 40;
    const TAKEN: u64 = 2;
    let cgroup = TestCgroup::new("overflow");
    let mut load = cgroup.start(&format!("{what} {CONNECTIONS}"));
    load.line();
    load.go();
    let port: u16 = load.line().parse().unwrap();
    let pid = load.pid();
    let netns = fs::metadata(format!("/proc/{pid}/ns/net")).unwrap().ino() as u32;
    let is_it = move |listener: &&Listener| (listener.netns, listener.address.port()) == (netns, port);
    let count = |interval: &Interval, drops: &mut u64, overflows: &mut u64| {
        let listener = interval.listeners.iter().find(is_it).unwrap();
        let namespace = interval.network_namespaces.iter().find(|namespace| namespace.netns == netns).unwrap();
        *drops += listener.drops.unwrap();
        *overflows += namespace.listen_overflows.unwrap();
        (listener.backlog, listener.backlog_capacity)
    };
    let before = listen_overflows(pid);
    let (drops, overflows, queue, least, most) = with_stream(GroupBy::Scheduler, async |stream| {
        let (mut drops, mut overflows) = (0, 0);
        // It is found, and read for the second time: what came before does not count.
        until(stream, "the listener", |interval| interval.listeners.iter().find(is_it)?.drops).await;
        let start = listen_overflows(pid);
        load.go();
        assert_eq!(load.line(), "overflowed");
        let end = listen_overflows(pid);
        let mut queue = (None, None);
        let first = until(stream, "the overflow", |interval| {
            queue = count(interval, &mut drops, &mut overflows);
            (overflows > 0).then_some(interval.seq)
        })
        .await;
        until(stream, "the end of it", |interval| {
            queue = count(interval, &mut drops, &mut overflows);
            (interval.seq > first + STILL_ON_THEIR_WAY).then_some(())
        })
        .await;
        (drops, overflows, queue, end - start, listen_overflows(pid) - before)
    });
    println!("{least} <= {overflows} overflows <= {most}; {drops} drops; queue {queue:?}");
    // Two handshakes that end at the same time may both find room for the last one.
    let taken = queue.0.unwrap();
    assert!((TAKEN..=TAKEN + 1).contains(&taken) && queue.1 == Some(TAKEN), "{queue:?}");
    assert!(least >= CONNECTIONS - taken);
    assert!((least..=most).contains(&overflows));
    // All of its drops are overflows; others here may have some too.
    assert!((CONNECTIONS - taken..=most).contains(&drops));
}

fn owner() {
    let cgroup = TestCgroup::new("owner");
    let inner = cgroup.child_without_group("inner");
    let mut load = inner.start("overflow-apart 0");
    load.line();
    load.go();
    let port: u16 = load.line().parse().unwrap();
    // Only in the unified hierarchy do sockets know their cgroup.
    let group = cgroup.is_unified().then(|| cgroup.id());
    assert_eq!(owner_of(&load, port, GroupBy::Scheduler), group);
    if let Some(leaf) = inner.leaf_id() {
        assert_eq!(owner_of(&load, port, GroupBy::Leaf), Some(leaf));
    }
}

fn owner_of(load: &Load, port: u16, group_by: GroupBy) -> Option<CgroupId> {
    let netns = fs::metadata(format!("/proc/{}/ns/net", load.pid())).unwrap().ino() as u32;
    let listener = with_stream(group_by, async |stream| {
        let is_it = |listener: &&Listener| (listener.netns, listener.address.port()) == (netns, port);
        until(stream, "the listener", |interval| interval.listeners.iter().find(is_it).cloned()).await
    });
    println!("by {group_by:?}: {listener:?}");
    assert_eq!((listener.sockets, listener.backlog, listener.backlog_capacity), (Some(1), Some(0), Some(2)));
    listener.cgroup
}
