//! Accept waits.

use std::{thread, time::Duration};

use lagstop::model::{ListenerTotals, Nanos};

use crate::{
    Test,
    fixture::{Probes, Setup, TestCgroup, assert_within, eventually},
};

pub(crate) const TESTS: &[Test] = &[
    ("accept_waits_agree_with_a_server_that_waits", accept_wait),
    ("connections_that_nobody_accepts_are_abandoned", abandoned),
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
    let waited: u64 = load.line().parse().unwrap();
    let snapshot = probes.snapshot();
    let counters = &snapshot.cgroups[&cgroup.id()].1;
    assert_eq!(counters.totals.accepts, Some(CONNECTIONS));
    assert_within("accept wait", counters.totals.accept_wait_ns.unwrap().0, waited, 5.0);
    let distribution = counters.accept_wait.as_ref().unwrap();
    assert_eq!(distribution.count(), CONNECTIONS);
    assert_within("median accept wait", distribution.quantile(0.5).unwrap().0, waited / CONNECTIONS, 15.0);

    let listener = snapshot.traffic.iter().find(|traffic| traffic.address.port() == port).unwrap();
    assert_eq!(listener.totals.established, CONNECTIONS);
    assert_eq!(listener.totals.accepts, CONNECTIONS);
    assert_eq!(listener.totals.abandoned, 0);
    assert_eq!(Some(listener.totals.accept_wait_ns), counters.totals.accept_wait_ns);
    assert_eq!(listener.cgroup, Some(cgroup.id()));
    assert_eq!(listener.tgid, Some(load.pid()));
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
    let expected =
        ListenerTotals { established: CONNECTIONS, accepts: 0, accept_wait_ns: Nanos(0), abandoned: CONNECTIONS };
    eventually("the end of every connection", || {
        thread::sleep(Duration::from_millis(20));
        let traffic = probes.snapshot().traffic;
        let found = traffic.iter().find(|traffic| traffic.address.port() == port).unwrap();
        found.totals == expected
    });
}
