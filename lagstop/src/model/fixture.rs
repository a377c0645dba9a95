//! Intervals to test with.

use super::{
    Cgroup, CgroupId, Cpu, CpuTotals, Crowding, Distribution, Hook, Host, HostTimes, Idle, Interval, Listener,
    ListenerTotals, Lost, Measure, Nanos, OwnCost, Services, Session, Tasks, Times, Totals, WaitBehind,
};

const SECOND: u64 = 1_000_000_000;
pub(crate) const CPUS: u64 = 4;

pub(crate) fn session() -> Session {
    let switches = Hook::new(Measure::Switches, Some("switches"), "counted at the switch".to_owned());
    Session {
        lagstop_version: "0.1.0".to_owned(),
        started_at: "2026-08-03T10:00:00Z".to_owned(),
        hostname: "node-7".to_owned(),
        boot_id: "b".to_owned(),
        kernel: "6.12.1".to_owned(),
        cpus_online: CPUS,
        cpus_possible: CPUS,
        interval_ns: Nanos::SECOND,
        cgroup_mount: "/sys/fs/cgroup".to_owned(),
        cgroup_version: 2,
        hooks: vec![switches],
        ..Session::default()
    }
}

/// Of a kernel without the tracepoints that costs come from.
pub(crate) fn session_without_cost() -> Session {
    let measures = ["pick cost", "kept-running cost", "switch cost"].map(str::to_owned).into();
    let off =
        Hook { measures, ..Hook::new(Measure::SwitchCost, None, "kernel 6.8.0 has no such tracepoint".to_owned()) };
    Session { hooks: vec![off], ..session() }
}

/// Switches, cost of each, CPU time in thousandths of a core, waits, wait of each in µs, Load Credit.
pub(crate) struct Of(
    pub(crate) u64,
    pub(crate) &'static str,
    pub(crate) u64,
    pub(crate) u64,
    pub(crate) u64,
    pub(crate) u64,
    pub(crate) u64,
    pub(crate) f64,
);

pub(crate) fn cgroup(&Of(id, name, switches, each_ns, millicores, waits, wait_us, credit): &Of) -> Cgroup {
    let kept = switches * each_ns / 50;
    let wait = Nanos(wait_us * 1_000);
    Cgroup {
        id: CgroupId(id),
        path: format!("/apps.slice/{name}").into(),
        name: name.into(),
        totals: Totals {
            switches,
            voluntary_switches: switches / 4,
            involuntary_switches: switches - switches / 4,
            cross_cgroup_switches: Some(switches * 4 / 5),
            cpu_ns: Nanos(millicores * SECOND / 1_000),
            threads: 8,
            schedule_calls: Some(switches + switches / 10),
            pick_ns: Some(Nanos(switches * each_ns * 3 / 4 + kept)),
            kept_ns: Some(Nanos(kept)),
            swap_ns: Some(Nanos(switches * each_ns / 4)),
            runq_waits: Some(waits),
            runq_wait_ns: Some(Nanos(waits * wait.0)),
            migrations: Some(switches / 100),
            ..Totals::default()
        },
        load_credit: Some(Tasks(credit)),
        runq_wait: Some(Distribution::of([(wait, waits as u32)])),
        ..Cgroup::default()
    }
}

/// Sets the causes of its wait: these parts behind others, the worst first, behind itself, and for its quota. The rest
/// was elsewhere.
pub(crate) fn blame(cgroup: &mut Cgroup, behind: &[(u64, f64)], itself: f64, quota: f64) {
    let totals = &mut cgroup.totals;
    let all = totals.runq_wait_ns.unwrap_or_default();
    let part = |share: f64| Nanos((all.0 as f64 * share) as u64 / 1_000 * 1_000);
    let one = |&(id, share): &(u64, f64)| WaitBehind { id: CgroupId(id), wait_ns: part(share) };
    cgroup.waits_behind = behind.iter().map(one).collect();
    let others = cgroup.waits_behind.iter().map(|one| one.wait_ns).sum::<Nanos>();
    let known = [others, part(itself), part(quota)];
    let [behind, itself, throttled] = known.map(Some);
    (totals.wait_behind_ns, totals.wait_self_ns, totals.wait_throttled_ns) = (behind, itself, throttled);
    let none = Some(Nanos::ZERO);
    (totals.wait_kernel_ns, totals.wait_idle_ns, totals.wait_unknown_ns) = (none, none, none);
    totals.wait_elsewhere_ns = Some(all.saturating_sub(known.into_iter().sum()));
}

fn interval(seq: u64, cgroups: &[Of]) -> Interval {
    interval_of(seq, cgroups.iter().map(cgroup).collect())
}

/// A second in which these cgroups ran.
pub(crate) fn interval_of(seq: u64, cgroups: Vec<Cgroup>) -> Interval {
    let idle = Totals {
        switches: 1_000,
        pick_ns: Some(Nanos(1_000_000)),
        kept_ns: Some(Nanos(100_000)),
        swap_ns: Some(Nanos(500_000)),
        schedule_calls: Some(1_100),
        runq_waits: Some(0),
        runq_wait_ns: Some(Nanos(0)),
        migrations: Some(0),
        cross_cgroup_switches: Some(0),
        ..Totals::default()
    };
    let mut totals = idle;
    cgroups.iter().for_each(|cgroup| totals.add(&cgroup.totals));
    let busy = cgroups.iter().map(|cgroup| cgroup.totals.cpu_ns.0).sum::<u64>();
    Interval {
        switch_cost_way: Some("tracepoints".into()),
        pick_function_way: None,
        seq,
        start_ns: Nanos(seq * SECOND),
        duration_ns: Nanos::SECOND,
        host: Host {
            totals,
            idle: Idle::from(&idle),
            cpus_online: CPUS,
            times: HostTimes {
                busy_ns: Nanos(busy),
                idle_ns: Nanos((CPUS * SECOND).saturating_sub(busy)),
                steal_ns: Some(Nanos(0)),
            },
            own_cost: OwnCost { self_cpu_ns: Nanos(2_000_000), self_probe_ns: Some(Nanos(9_000_000)) },
            pressure: None,
            lost: Lost::default(),
        },
        cgroups,
        listeners: Vec::new(),
        ..Interval::default()
    }
}

/// A minute of the same second, in which one cgroup ran: `change` makes it what it is to be.
pub(crate) fn minute_of(change: impl Fn(&mut Cgroup)) -> Vec<Interval> {
    let mut one = cgroup(&Of(30, "pool", 4_000, 3_000, 1_000, 2_000, 500, 2.0));
    change(&mut one);
    (0..60).map(|seq| interval_of(seq, vec![one.clone()])).collect()
}

/// Recordings that nothing should be concluded from: nothing, one interval, intervals without time, CPUs or anything that
/// happened, with a gap, and with nothing measured.
pub(crate) fn without_content() -> Vec<Vec<Interval>> {
    let loaded = overloaded(60);
    let with = |change: fn(&mut Interval)| {
        let mut all = loaded.clone();
        all.iter_mut().for_each(change);
        all
    };
    vec![
        Vec::new(),
        loaded[59..].to_vec(),
        vec![Interval::default(); 60],
        with(|interval| interval.duration_ns = Nanos::ZERO),
        with(|interval| (interval.host.cpus_online, interval.host.times) = Default::default()),
        with(|interval| interval.cgroups.iter_mut().for_each(|cgroup| cgroup.totals = Totals::default())),
        with(|interval| interval.seq *= u64::MAX / 100),
        with(|interval| interval.start_ns = Nanos(u64::MAX - interval.start_ns.0)),
    ]
}

/// One cgroup with all that the rules on single ones look for, and a listener; the number of cgroups grows.
pub(crate) fn full_of_problems() -> Vec<Interval> {
    (0..60)
        .map(|seq| {
            let mut pool = cgroup(&Of(30, "pool", 40_000, 3_000, 1_000, 2_000, 2_000, 4.0));
            (pool.totals.migrations, pool.totals.threads) = (Some(9_000), 12);
            (pool.totals.migrations_cross_llc, pool.totals.migrations_cross_numa) = (Some(4_000), Some(10));
            (pool.files.nr_periods, pool.files.nr_throttled, pool.quota_ns) =
                (Some(10), Some(5), Some(Nanos(1_000_000_000)));
            pool.files.pressure_some_ns = Some(Nanos(600_000_000));
            pool.files.pressure_full_ns = Some(Nanos(100_000_000));
            blame(&mut pool, &[(100, 0.05)], 0.6, 0.3);
            let crowd =
                vec![Crowding { id: pool.id, cpu_ns: pool.totals.cpu_ns, runq_wait_ns: pool.totals.runq_wait_ns }];
            let second = pool.totals.cpu_ns;
            let full = CpuTotals { busy_ns: second, ..CpuTotals::default() };
            let idle = CpuTotals { idle_ns: second, ..CpuTotals::default() };
            let cpus =
                vec![Cpu { totals: full, crowd, ..Cpu::default() }, Cpu { cpu: 1, totals: idle, ..Cpu::default() }];
            let totals = ListenerTotals {
                established: 500 + seq,
                accepts: 500,
                accept_wait_ns: Nanos(10_000_000_000),
                abandoned: 1,
            };
            let services = Services {
                threads: 4,
                strayed: 0,
                found_none: 50,
                all: Times { count: 490, time_ns: Nanos(3_700_000_000), squares_us2: 55_000_000_000 },
                kept_waiting: Times { count: 400, time_ns: Nanos(2_900_000_000), squares_us2: 40_000_000_000 },
            };
            let listener = Listener {
                cgroup: Some(pool.id),
                backlog: Some(10),
                backlog_capacity: Some(10),
                drops: Some(3),
                totals: Some(totals),
                services: Some(services),
                ..Listener::new(7, ([127, 0, 0, 1], 8_080).into())
            };
            let others = (0..seq / 4 + 1).map(|n| {
                let mut job = cgroup(&Of(100 + n, "job", 400, 3_000, 200 - 2 * n.min(60), 200, 500, 0.2));
                blame(&mut job, &[(30, 0.7)], 0.1, 0.0);
                job
            });
            let cgroups = others.chain([pool]).collect();
            Interval { cpus, listeners: vec![listener], ..interval_of(seq, cgroups) }
        })
        .collect()
}

/// Next to nothing happens.
pub(crate) fn idle(intervals: u64) -> Vec<Interval> {
    (0..intervals)
        .map(|seq| {
            interval(seq, &[Of(10, "cron", 120, 2_000, 8, 100, 5, 0.01), Of(11, "sshd", 80, 2_100, 4, 50, 4, 0.005)])
        })
        .collect()
}

/// Quiet in the first half, then too many cgroups that run and wait. One has a hostile name.
pub(crate) fn overloaded(intervals: u64) -> Vec<Interval> {
    (0..intervals)
        .map(|seq| {
            if seq < intervals / 2 {
                interval(
                    seq,
                    &[
                        Of(20, "batch", 4_000, 3_000, 800, 3_000, 40, 0.9),
                        Of(21, "web", 2_000, 3_000, 100, 1_000, 30, 0.2),
                    ],
                )
            } else {
                interval(
                    seq,
                    &[
                        Of(20, "batch", 34_000, 14_000, 2_900, 9_000, 1_500, 16.0),
                        Of(21, "web", 9_000, 13_000, 300, 60, 18_000, 1.6),
                        Of(22, "api\u{1b}[2J", 3_000, 13_000, 200, 20, 15_000, 0.5),
                        Of(23, "train", 12_000, 15_000, 500, 8_000, 1_200, 10.0),
                    ],
                )
            }
        })
        .collect()
}

/// The overloaded host, on a kernel that did not let costs be measured.
pub(crate) fn without_cost(intervals: u64) -> Vec<Interval> {
    let mut all = overloaded(intervals);
    for interval in &mut all {
        let host = &mut interval.host;
        (host.idle.pick_ns, host.idle.kept_ns, host.idle.swap_ns) = (None, None, None);
        let cgroups = interval.cgroups.iter_mut().map(|cgroup| &mut cgroup.totals);
        for totals in cgroups.chain([&mut host.totals]) {
            (totals.pick_ns, totals.kept_ns, totals.swap_ns) = (None, None, None);
        }
    }
    all
}
