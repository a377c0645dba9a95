//! Intervals to test with, that vary as real ones do: by chance, and each like the one before.

use super::DiffSide;
use crate::{
    model::{Cgroup, CgroupId, Hook, Host, HostTimes, Idle, Interval, Measure, Nanos, Session, Totals},
    random::Random,
};

pub(crate) const CPUS: u64 = 4;

/// What a host had to do.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    /// Of each cgroup.
    pub switches: f64,
    pub cost_ns: f64,
    pub wait_ns: f64,
    pub cgroups: usize,
    /// How much all of it goes up and down.
    pub noise: f64,
    /// How much of that an interval has from the one before.
    pub memory: f64,
}

impl Default for Load {
    fn default() -> Self {
        Self { switches: 5_000.0, cost_ns: 4_000.0, wait_ns: 60_000.0, cgroups: 3, noise: 0.2, memory: 0.0 }
    }
}

pub(crate) fn session(started_at: &str) -> Session {
    let hook = |measure, way| Hook::new(measure, way, "tcp_set_state cannot be hooked".to_owned());
    Session {
        started_at: started_at.to_owned(),
        hostname: "node-7".to_owned(),
        kernel: "6.12.1".to_owned(),
        cpus_online: CPUS,
        cpus_possible: CPUS,
        interval_ns: Nanos::SECOND,
        hooks: vec![hook(Measure::RunqWait, Some("sched_info")), hook(Measure::Accept, None)],
        ..Session::default()
    }
}

/// A whole recording of `intervals`.
pub(crate) fn side(started_at: &str, intervals: &[Interval]) -> DiffSide {
    let mut side = DiffSide::new(session(started_at), intervals.len(), true);
    intervals.iter().for_each(|interval| side.add(interval));
    side
}

impl Load {
    /// Intervals of it; of another `seed`, others.
    pub(crate) fn intervals(&self, count: u64, seed: u64) -> Vec<Interval> {
        let mut random = Random::new(seed, 77);
        // A sum of 12 is about normal.
        let mut normal = move || (0..12).map(|_| random.below(1_000_000) as f64 / 1e6).sum::<f64>() - 6.0;
        let (mut rate, mut cost, mut wait) = (normal(), normal(), normal());
        (0..count)
            .map(|seq| {
                for value in [&mut rate, &mut cost, &mut wait] {
                    *value = self.memory * *value + (1.0 - self.memory * self.memory).sqrt() * normal();
                }
                let vary = |value: f64| (1.0 + self.noise * value).max(0.05);
                let cgroups = (0..self.cgroups).map(|n| {
                    let switches = (self.switches * vary(rate) / (n + 1) as f64) as u64;
                    cgroup(n, switches, self.cost_ns * vary(cost), self.wait_ns * vary(wait))
                });
                interval(seq, cgroups.collect())
            })
            .collect()
    }
}

fn cgroup(n: usize, switches: u64, cost_ns: f64, wait_ns: f64) -> Cgroup {
    let times = |ns: f64| Nanos((switches as f64 * ns) as u64);
    let kept = times(cost_ns / 50.0);
    Cgroup {
        id: CgroupId(10 + n as u64),
        path: format!("/apps/{n}").into(),
        name: format!("app-{n}").into(),
        totals: Totals {
            switches,
            voluntary_switches: switches,
            cpu_ns: times(100_000.0),
            pick_ns: Some(times(cost_ns * 0.75).saturating_add(kept)),
            kept_ns: Some(kept),
            swap_ns: Some(times(cost_ns * 0.25)),
            runq_waits: Some(switches),
            runq_wait_ns: Some(times(wait_ns)),
            migrations: Some(switches / 50),
            ..Totals::default()
        },
        ..Cgroup::default()
    }
}

fn interval(seq: u64, cgroups: Vec<Cgroup>) -> Interval {
    let idle = Totals {
        switches: 700,
        pick_ns: Some(Nanos(900_000)),
        kept_ns: Some(Nanos(50_000)),
        swap_ns: Some(Nanos(400_000)),
        runq_waits: Some(0),
        runq_wait_ns: Some(Nanos(0)),
        migrations: Some(0),
        ..Totals::default()
    };
    let mut totals = idle;
    cgroups.iter().for_each(|cgroup| totals.add(&cgroup.totals));
    let all = CPUS * Nanos::SECOND.0;
    let busy = totals.cpu_ns.0.min(all);
    Interval {
        seq,
        start_ns: Nanos(seq * Nanos::SECOND.0),
        duration_ns: Nanos::SECOND,
        switch_cost_way: Some("tracepoints".into()),
        host: Host {
            totals,
            idle: Idle::from(&idle),
            cpus_online: CPUS,
            times: HostTimes { busy_ns: Nanos(busy), idle_ns: Nanos(all - busy), steal_ns: None },
            ..Host::default()
        },
        cgroups,
        ..Interval::default()
    }
}
