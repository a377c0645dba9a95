//! What happened between two snapshots.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{
    Cgroup, CgroupCounters, CgroupId, CgroupState, Cpu, CpuTotals, Host, Idle, Listener, LoadCredits, Nanos,
    NetworkNamespace, Pressure, Snapshot, Tasks, Throttling, Totals,
};

/// What happened between two snapshots, for the host, each cgroup that was not idle, and each listener.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Counts from 0.
    pub seq: u64,
    /// When it began, since the first snapshot.
    pub start_ns: Nanos,
    /// How long it took.
    pub duration_ns: Nanos,
    /// The way in which switch costs were measured, as `--hooks` calls it: costs of different ways cannot be compared.
    #[serde(default)]
    pub switch_cost_way: Option<Arc<str>>,
    /// The way in which the cost of the pick function was.
    #[serde(default)]
    pub pick_function_way: Option<Arc<str>>,
    /// The host.
    pub host: Host,
    /// Cgroups in which anything was counted.
    pub cgroups: Vec<Cgroup>,
    /// CPUs that were online, by number.
    #[serde(default)]
    pub cpus: Vec<Cpu>,
    /// Listening addresses.
    pub listeners: Vec<Listener>,
    /// Network namespaces in which anybody listens, or a connection found a queue full.
    #[serde(default)]
    pub network_namespaces: Vec<NetworkNamespace>,
}

impl Interval {
    /// Subtracts `before` from `after`. A cgroup that is only in `after` was born in between and is whole in it; `credits`
    /// goes on by the interval.
    pub fn between(seq: u64, origin: Nanos, before: &Snapshot, after: &Snapshot, credits: &mut LoadCredits) -> Self {
        let duration_ns = after.at.minus(before.at);
        let mut cgroups: Vec<Cgroup> = after
            .cgroups
            .iter()
            .filter_map(|(&id, now)| cgroup(id, before.cgroups.get(&id), now, duration_ns))
            .collect();
        credits.advance(duration_ns, cgroups.iter().filter_map(|cgroup| Some((cgroup.id, cgroup.runnable_load?))));
        for cgroup in &mut cgroups {
            cgroup.load_credit = cgroup.runnable_load.map(|_| credits.of(cgroup.id));
        }
        Self {
            seq,
            start_ns: before.at.minus(origin),
            duration_ns,
            switch_cost_way: after.switch_cost_way.clone(),
            pick_function_way: after.pick_function_way.clone(),
            host: host(before, after, &cgroups),
            listeners: Listener::between(before, after),
            cgroups,
            cpus: Vec::new(),
            network_namespaces: NetworkNamespace::between(before, after),
        }
    }

    /// Rate of `count` over the interval.
    pub fn per_second(&self, count: u64) -> f64 {
        super::units::ratio(count as f64, self.duration_ns.seconds())
    }
}

/// `None` for a cgroup that was idle.
fn cgroup(id: CgroupId, before: Option<&CgroupState>, now: &CgroupState, duration: Nanos) -> Option<Cgroup> {
    // Quota counters are the kernel's, not ours: without an earlier reading there is nothing to subtract from.
    let throttling = now.throttling.zip(before.and_then(|before| before.throttling));
    let throttling: Option<Throttling> = throttling.map(|(now, before)| now.since(&before));
    let throttled = throttling.is_some_and(|throttling| throttling.nr_throttled > 0);
    if before.is_some_and(|before| Arc::ptr_eq(&before.counters, &now.counters)) && !throttled {
        return None;
    }
    let counters = match before {
        Some(before) => now.counters.since(&before.counters),
        None => CgroupCounters::clone(&now.counters),
    };
    let totals = counters.totals;
    let runnable = |wait: Nanos| Tasks((totals.cpu_ns + wait).cores(duration).0);
    (throttled || !totals.is_zero()).then(|| Cgroup {
        id,
        path: Arc::clone(&now.label.path),
        name: Arc::clone(&now.label.name),
        workload: now.label.workload.clone(),
        totals,
        runnable_load: totals.runq_wait_ns.map(runnable),
        load_credit: None,
        nr_periods: throttling.map(|t| t.nr_periods),
        nr_throttled: throttling.map(|t| t.nr_throttled),
        throttled_ns: throttling.map(|t| t.throttled_ns),
        switch_cost: counters.switch_cost,
        runq_wait: counters.runq_wait,
        accept_wait: counters.accept_wait,
    })
}

fn host(before: &Snapshot, after: &Snapshot, cgroups: &[Cgroup]) -> Host {
    let idle = after.idle.since(&before.idle);
    let mut totals: Totals = idle;
    for cgroup in cgroups {
        totals.add(&cgroup.totals);
    }
    let cpus = |figure: fn(&CpuTotals) -> Nanos| {
        let at = |snapshot: &Snapshot| snapshot.cpus.iter().map(figure).sum::<Nanos>();
        at(after).minus(at(before))
    };
    let (now, then) = (&after.host, &before.host);
    let difference = |now: Option<Nanos>, then: Option<Nanos>| now.zip(then).map(|(now, then)| now.minus(then));
    Host {
        totals,
        idle: Idle::from(&idle),
        cpus_online: now.cpus_online,
        busy_ns: cpus(|cpu| cpu.busy_ns),
        idle_ns: cpus(|cpu| cpu.idle_ns),
        steal_ns: difference(now.steal_ns, then.steal_ns),
        self_cpu_ns: now.self_cpu_ns.minus(then.self_cpu_ns),
        // Not known in the first moments; the programs have run since before the first reading all the same.
        self_probe_ns: now.self_probe_ns.map(|now| now.minus(then.self_probe_ns.unwrap_or_default())),
        pressure: difference(now.pressure.map(|p| p.some_ns), then.pressure.map(|p| p.some_ns))
            .map(|some_ns| Pressure { some_ns }),
        lost: now.lost.since(&then.lost),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn totals(switches: u64, pick: u64, cpu: u64, wait: u64) -> Totals {
        Totals {
            switches,
            cpu_ns: Nanos(cpu),
            pick_ns: Some(Nanos(pick)),
            swap_ns: Some(Nanos(pick / 2)),
            kept_ns: Some(Nanos(0)),
            runq_wait_ns: Some(Nanos(wait)),
            ..Totals::default()
        }
    }

    fn snapshot(at: u64, idle: Totals, cgroups: &[(u64, Totals)]) -> Snapshot {
        let state = |totals| CgroupState {
            counters: Arc::new(CgroupCounters { totals, ..CgroupCounters::default() }),
            ..CgroupState::default()
        };
        Snapshot {
            at: Nanos(at),
            idle,
            cgroups: cgroups.iter().map(|&(id, totals)| (CgroupId(id), state(totals))).collect(),
            ..Snapshot::default()
        }
    }

    #[test]
    fn a_cgroup_born_in_between_is_whole_and_an_idle_one_is_left_out() {
        let before = snapshot(0, totals(0, 0, 0, 0), &[(5, totals(10, 100, 1000, 0)), (6, totals(1, 1, 1, 1))]);
        let after = snapshot(
            Nanos::SECOND.0,
            totals(0, 0, 0, 0),
            &[(5, totals(15, 160, 1500, 500)), (6, totals(1, 1, 1, 1)), (7, totals(3, 30, 300, 0))],
        );
        let interval = Interval::between(0, Nanos::ZERO, &before, &after, &mut LoadCredits::default());
        let seen: Vec<_> = interval.cgroups.iter().map(|c| (c.id.0, c.totals.switches)).collect();
        assert_eq!(seen, [(5, 5), (7, 3)]);
        assert_eq!(interval.cgroups[0].runnable_load, Some(Tasks(1e-6)));
    }

    #[test]
    fn throttling_without_an_earlier_reading_is_unknown() {
        let mut before = snapshot(0, Totals::default(), &[(5, totals(1, 0, 0, 0))]);
        let mut after = snapshot(1, Totals::default(), &[(5, totals(2, 0, 0, 0))]);
        let reading = |n| Some(Throttling { nr_periods: n, nr_throttled: n, throttled_ns: Nanos(n) });
        after.cgroups.get_mut(&CgroupId(5)).unwrap().throttling = reading(30);
        let unknown = Interval::between(0, Nanos::ZERO, &before, &after, &mut LoadCredits::default());
        assert_eq!(unknown.cgroups[0].nr_throttled, None);
        before.cgroups.get_mut(&CgroupId(5)).unwrap().throttling = reading(10);
        let known = Interval::between(0, Nanos::ZERO, &before, &after, &mut LoadCredits::default());
        assert_eq!(known.cgroups[0].nr_throttled, Some(20));
    }

    proptest! {
        #[test]
        fn cgroups_and_idle_add_up_to_the_host(
            idle in (0u64..1000, 0u64..1000),
            groups in prop::collection::vec((0u64..1000, 0u64..1000, 0u64..1000, 0u64..1000), 0..20),
        ) {
            let groups: Vec<_> = groups.iter().enumerate().map(|(n, g)| (n as u64 + 2, totals(g.0, g.1, g.2, g.3))).collect();
            let after = snapshot(100, totals(idle.0, idle.1, 0, 0), &groups);
            let interval = Interval::between(0, Nanos::ZERO, &Snapshot::default(), &after, &mut LoadCredits::default());
            let host = &interval.host;
            let switches: u64 = interval.cgroups.iter().map(|c| c.totals.switches).sum();
            let cost: Nanos = interval.cgroups.iter().filter_map(|c| c.totals.switch_cost()).sum();
            prop_assert_eq!(host.totals.switches, switches + host.idle.switches);
            prop_assert_eq!(host.overhead_ns(), Some(cost));
        }
    }
}
