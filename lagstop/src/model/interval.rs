//! What happened between two snapshots.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::{
    Cgroup, CgroupCounters, CgroupId, CgroupState, Cpu, FileCounters, Host, HostTimes, Idle, Listener, LoadCredits,
    Nanos, NetworkNamespace, Snapshot, Totals, WaitBehind, behind::worst, bounded, crowd::Crowds,
};

/// Differences between two snapshots: for the host, for each cgroup that was not idle, and for each listener.
/// Compressed recordings store other [`Cgroups`] than a list.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(bound(deserialize = "C: Cgroups"))]
#[schemars(rename = "IntervalWith{C}")]
pub struct Interval<C = Vec<Cgroup>> {
    /// Number of the interval, counted from 0.
    pub seq: u64,
    /// Start time, since the first snapshot.
    pub start_ns: Nanos,
    /// Length of the interval.
    pub duration_ns: Nanos,
    /// Number of intervals that were merged into the first one. 0 for an interval as it was measured. See
    /// [`Merger`](super::Merger).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub merged: u64,
    /// Measurement method of switch costs, as in `--hooks`. Costs of different methods cannot be compared.
    #[serde(default)]
    pub switch_cost_way: Option<Arc<str>>,
    /// Measurement method of the cost of the pick function.
    #[serde(default)]
    pub pick_function_way: Option<Arc<str>>,
    /// The loaded `sched_ext` scheduler, at the end. Empty if none is loaded. Missing if the kernel does not support
    /// `sched_ext`, or if it was not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sched_ext: Option<Arc<str>>,
    /// The host.
    pub host: Host,
    /// Cgroups with any nonzero counter.
    #[serde(deserialize_with = "Cgroups::read")]
    pub cgroups: C,
    /// CPUs that were online at the end or during a part of the interval, by number.
    #[serde(default, deserialize_with = "bounded::cpus")]
    pub cpus: Vec<Cpu>,
    /// Listening addresses.
    #[serde(deserialize_with = "bounded::listeners")]
    pub listeners: Vec<Listener>,
    /// Network namespaces that have listeners, or in which a connection found an accept queue full.
    #[serde(default, deserialize_with = "bounded::namespaces")]
    pub network_namespaces: Vec<NetworkNamespace>,
}

/// The cgroups of an interval, as a list or in columns.
pub trait Cgroups: Sized {
    /// Reads them from an untrusted file.
    ///
    /// # Errors
    /// When there are more than any host has, or when they are not cgroups.
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error>;
}

impl Cgroups for Vec<Cgroup> {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        bounded::cgroups(|cgroup: &Cgroup| cgroup.levels.as_ref().map_or(0, |levels| levels.len()), deserializer)
    }
}

impl<C> Interval<C> {
    /// The same interval with other cgroups.
    #[must_use]
    pub fn with_cgroups<D>(&self, cgroups: D) -> Interval<D> {
        Interval {
            seq: self.seq,
            start_ns: self.start_ns,
            duration_ns: self.duration_ns,
            merged: self.merged,
            switch_cost_way: self.switch_cost_way.clone(),
            pick_function_way: self.pick_function_way.clone(),
            sched_ext: self.sched_ext.clone(),
            host: self.host.clone(),
            cgroups,
            cpus: self.cpus.clone(),
            listeners: self.listeners.clone(),
            network_namespaces: self.network_namespaces.clone(),
        }
    }
}

impl Interval {
    /// Subtracts `before` from `after`. A cgroup that is only in `after` was born in between and is whole in it; `credits`
    /// goes on by the interval.
    pub fn between(seq: u64, origin: Nanos, before: &Snapshot, after: &Snapshot, credits: &mut LoadCredits) -> Self {
        let duration_ns = after.at.saturating_sub(before.at);
        let mut crowds = Crowds::default();
        let mut earlier = before.cgroups.beside();
        let ran =
            after.cgroups.iter().filter_map(|(&id, now)| cgroup(id, earlier.get(id), now, duration_ns, &mut crowds));
        // Allocated at once, because cgroups are large.
        let mut cgroups = Vec::with_capacity(after.cgroups.len());
        cgroups.extend(ran);
        name_waits(&mut cgroups, after);
        let cpus = crowds.cpus(&before.cpus, &after.cpus);
        credits.advance(duration_ns, cgroups.iter().filter_map(|cgroup| Some((cgroup.id, cgroup.runnable_load?))));
        for cgroup in &mut cgroups {
            cgroup.load_credit = cgroup.runnable_load.map(|_| credits.of(cgroup.id));
        }
        let mut interval = Self {
            seq,
            start_ns: before.at.saturating_sub(origin),
            duration_ns,
            merged: 0,
            switch_cost_way: after.switch_cost_way.clone(),
            pick_function_way: after.pick_function_way.clone(),
            sched_ext: after.sched_ext.clone(),
            host: host(before, after, &cgroups, &cpus),
            listeners: after.listeners_since(before),
            cgroups,
            cpus,
            network_namespaces: after.namespaces_since(before),
        };
        if after.untimed {
            interval.forget_costs();
        }
        if before.is_scheduled_by_another() || after.is_scheduled_by_another() {
            interval.forget_pick_function();
            interval.pick_function_way = None;
        }
        interval
    }

    /// Removes what is only known if switches are timed.
    pub(crate) fn forget_costs(&mut self) {
        self.forget_switch_costs();
        self.forget_pick_function();
    }

    /// But for the time in the pick function.
    pub(super) fn forget_switch_costs(&mut self) {
        for cgroup in &mut self.cgroups {
            cgroup.totals.forget_switch_costs();
            cgroup.switch_cost = None;
        }
        self.host.totals.forget_switch_costs();
        self.host.idle = Idle { switches: self.host.idle.switches, ..Idle::default() };
        for cpu in &mut self.cpus {
            (cpu.totals.kept_calls, cpu.totals.pick_ns, cpu.totals.swap_ns) = (None, None, None);
        }
    }

    pub(super) fn forget_pick_function(&mut self) {
        self.cgroups.iter_mut().for_each(|cgroup| cgroup.totals.pick_function_ns = None);
        self.host.totals.pick_function_ns = None;
    }

    /// Rate of `count` over the interval.
    pub fn per_second(&self, count: u64) -> f64 {
        crate::units::ratio(count as f64, self.duration_ns.seconds())
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// `None` for a cgroup that was idle. The others go into `crowds`.
fn cgroup(
    id: CgroupId,
    before: Option<&Arc<CgroupState>>,
    now: &Arc<CgroupState>,
    duration: Nanos,
    crowds: &mut Crowds,
) -> Option<Cgroup> {
    if before.is_some_and(|before| Arc::ptr_eq(before, now)) {
        return None;
    }
    let files =
        before.map_or_else(FileCounters::default, |before| now.files.counters.since_known(&before.files.counters));
    let throttled = files.nr_throttled > Some(0);
    if before.is_some_and(|before| before.stands_at(&now.counters)) && !throttled {
        return None;
    }
    let nothing = CgroupCounters::default();
    let (then, now_counted) = (before.map_or(&nothing, |before| &*before.counters), &*now.counters);
    crowds.add(id, before.map(|before| &before.counters.by_cpu), &now_counted.by_cpu);
    let totals = now_counted.totals.since(&then.totals);
    let [switch_cost, runq_wait, accept_wait] = now_counted.distributions_since(then);
    // A cost or a wait may be reported later than the switch that it belongs to.
    let is_late = || [&switch_cost, &runq_wait, &accept_wait].into_iter().flatten().any(|late| late.count() > 0);
    (throttled || !totals.is_zero() || is_late()).then(|| Cgroup {
        id,
        path: Arc::clone(&now.label.path),
        name: Arc::clone(&now.label.name),
        workload: now.label.workload.clone(),
        levels: now.files.levels.clone(),
        cpus: now.files.cpus.clone(),
        totals,
        waits_behind: Vec::new(),
        runnable_load: totals.runnable_load(duration),
        load_credit: None,
        entitled_cpu: None,
        files,
        quota_ns: now.files.quota_ns,
        switch_cost,
        runq_wait,
        accept_wait,
    })
}

/// Sets the cgroups that each cgroup waited behind, among the present ones.
fn name_waits(cgroups: &mut [Cgroup], after: &Snapshot) {
    // Ascending, as in the snapshot.
    let ids: Vec<CgroupId> = cgroups.iter().map(|cgroup| cgroup.id).collect();
    let is_there = |one: &&WaitBehind| ids.binary_search(&one.id).is_ok();
    let mut states = after.cgroups.beside();
    for cgroup in cgroups {
        let all = cgroup.totals.wait_behind_ns.filter(|all| *all > Nanos::ZERO);
        if let Some((all, state)) = all.zip(states.get(cgroup.id)) {
            cgroup.waits_behind = worst(state.behind.iter().filter(is_there).copied().collect(), all);
        }
    }
}

fn host(before: &Snapshot, after: &Snapshot, cgroups: &[Cgroup], cpus: &[Cpu]) -> Host {
    let idle = after.idle.since(&before.idle);
    let mut totals: Totals = idle;
    for cgroup in cgroups {
        totals.add(&cgroup.totals);
    }
    let (now, then) = (&after.host, &before.host);
    Host {
        totals,
        times: HostTimes {
            busy_ns: cpus.iter().map(|cpu| cpu.totals.busy_ns).sum(),
            idle_ns: cpus.iter().map(|cpu| cpu.totals.idle_ns).sum(),
            steal_ns: now.steal_ns.zip(then.steal_ns).map(|(now, then)| now.saturating_sub(then)),
        },
        // The programs ran before the first reading too, but the time of a run is only known later.
        own_cost: now.own_cost.since(&then.own_cost),
        idle: Idle::from(&idle),
        cpus_online: now.cpus_online,
        pressure: now.pressure.zip(then.pressure).map(|(now, then)| now.since(&then)),
        lost: now.lost.since(&then.lost),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::{ByCpu, CpuReading, CpuTotals, Distribution, Tasks};

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
        let state = |totals| {
            Arc::new(CgroupState {
                counters: Arc::new(CgroupCounters { totals, ..CgroupCounters::default() }),
                ..CgroupState::default()
            })
        };
        Snapshot {
            at: Nanos(at),
            idle,
            cgroups: cgroups.iter().map(|&(id, totals)| (CgroupId(id), state(totals))).collect(),
            ..Snapshot::default()
        }
    }

    #[test]
    fn what_another_scheduler_does_not_call_is_not_measured() {
        let one = Totals { pick_function_ns: Some(Nanos(0)), ..totals(1, 10, 100, 0) };
        let at = |at: u64, name: &str, of: Totals| Snapshot {
            pick_function_way: Some("fentry:pick_next_task_fair".into()),
            sched_ext: Some(name.into()),
            ..snapshot(at, Totals { pick_function_ns: Some(Nanos(0)), ..totals(0, 0, 0, 0) }, &[(7, of)])
        };
        let between = |one: Snapshot, other: Snapshot| {
            Interval::between(0, Nanos::ZERO, &one, &other, &mut LoadCredits::default())
        };
        let later = Totals { pick_function_ns: Some(Nanos(5)), ..totals(3, 30, 300, 0) };
        let own = between(at(0, "", one), at(9, "", later));
        assert_eq!(own.host.totals.pick_function_ns, Some(Nanos(5)));
        for (before, after) in [("", "lags"), ("lags", "lags"), ("lags", "")] {
            let interval = between(at(0, before, one), at(9, after, later));
            assert_eq!((interval.host.totals.pick_function_ns, interval.pick_function_way), (None, None));
            assert_eq!(interval.cgroups[0].totals.pick_function_ns, None);
            assert_eq!(interval.host.totals.pick_ns, Some(Nanos(20)), "the switch is timed, whoever picks");
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
    fn a_wait_that_is_told_late_is_not_lost() {
        let with = |waits: u32| CgroupState {
            counters: Arc::new(CgroupCounters {
                runq_wait: Some(Distribution::of([(Nanos(5_000), waits)])),
                ..CgroupCounters::default()
            }),
            ..CgroupState::default()
        };
        let snapshot = |waits| Snapshot {
            cgroups: [(CgroupId(5), Arc::new(with(waits)))].into_iter().collect(),
            ..Snapshot::default()
        };
        let waits = |before, after| {
            let interval =
                Interval::between(0, Nanos::ZERO, &snapshot(before), &snapshot(after), &mut LoadCredits::default());
            interval.cgroups.iter().filter_map(|cgroup| Some(cgroup.runq_wait.as_ref()?.count())).collect::<Vec<_>>()
        };
        assert_eq!((waits(3, 4), waits(4, 4)), (vec![1], vec![]));
    }

    #[test]
    fn throttling_without_an_earlier_reading_is_unknown() {
        let mut before = snapshot(0, Totals::default(), &[(5, totals(1, 0, 0, 0))]);
        let mut after = snapshot(1, Totals::default(), &[(5, totals(2, 0, 0, 0))]);
        let reading = |n| FileCounters { nr_throttled: Some(n), ..FileCounters::default() };
        Arc::make_mut(after.cgroups.get_mut(&CgroupId(5)).unwrap()).files.counters = reading(30);
        let unknown = Interval::between(0, Nanos::ZERO, &before, &after, &mut LoadCredits::default());
        assert_eq!(unknown.cgroups[0].files.nr_throttled, None);
        Arc::make_mut(before.cgroups.get_mut(&CgroupId(5)).unwrap()).files.counters = reading(10);
        let known = Interval::between(0, Nanos::ZERO, &before, &after, &mut LoadCredits::default());
        assert_eq!(known.cgroups[0].files.nr_throttled, Some(20));
    }

    /// A cgroup's CPU time and run-queue wait on each CPU, in two readings.
    type OnCpus = Vec<(u64, u64)>;

    fn on_cpus(on: &[(u64, u64)]) -> CgroupState {
        let sum = |figure: fn(&(u64, u64)) -> u64| Nanos(on.iter().map(figure).sum());
        let totals = Totals { cpu_ns: sum(|on| on.0), runq_wait_ns: Some(sum(|on| on.1)), ..Totals::default() };
        let by_cpu = ByCpu::of(on, |&(time, wait)| (Nanos(time), Nanos(wait)), true);
        let counters = CgroupCounters { totals, by_cpu, ..CgroupCounters::default() };
        CgroupState { counters: Arc::new(counters), ..CgroupState::default() }
    }

    fn on_top(before: &OnCpus, on: &OnCpus) -> OnCpus {
        let len = before.len().max(on.len());
        let at = |all: &OnCpus, cpu: usize| all.get(cpu).copied().unwrap_or_default();
        (0..len).map(|cpu| (at(before, cpu).0 + at(on, cpu).0, at(before, cpu).1 + at(on, cpu).1)).collect()
    }

    fn cpu(busy: u64, idle: u64) -> CpuReading {
        let totals = CpuTotals { busy_ns: Nanos(busy), idle_ns: Nanos(idle), ..CpuTotals::default() };
        CpuReading { is_online: true, totals }
    }

    proptest! {
        #[test]
        fn crowds_never_exceed_what_a_cgroup_had(
            groups in prop::collection::vec(
                (prop::option::of(prop::collection::vec((0u64..9, 0u64..9), 0..5)),
                 prop::collection::vec((0u64..9, 0u64..9), 0..5)),
                0..Cpu::CROWD * 2,
            ),
        ) {
            let mut before = Snapshot { cpus: vec![cpu(1, 1); 4], ..Snapshot::default() };
            let mut after = Snapshot { at: Nanos(1), cpus: vec![cpu(2, 2); 4], ..Snapshot::default() };
            let (mut earlier, mut later) = (Vec::new(), Vec::new());
            for (id, (then, since)) in (0..).map(CgroupId).zip(&groups) {
                // Some are born in between.
                earlier.extend(then.as_ref().map(|then| (id, Arc::new(on_cpus(then)))));
                later.push((id, Arc::new(on_cpus(&on_top(then.as_ref().unwrap_or(&Vec::new()), since)))));
            }
            before.cgroups = earlier.into_iter().collect();
            after.cgroups = later.into_iter().collect();
            let interval = Interval::between(0, Nanos::ZERO, &before, &after, &mut LoadCredits::default());
            prop_assert_eq!(interval.cpus.len(), 4);
            for cgroup in &interval.cgroups {
                let parts = || interval.cpus.iter().flat_map(|cpu| &cpu.crowd).filter(|one| one.id == cgroup.id);
                let cpu_ns: Nanos = parts().map(|one| one.cpu_ns).sum();
                let wait: Nanos = parts().filter_map(|one| one.runq_wait_ns).sum();
                prop_assert!(cpu_ns <= cgroup.totals.cpu_ns && Some(wait) <= cgroup.totals.runq_wait_ns);
                // With no more of them than are named, all of it is there.
                if groups.len() <= Cpu::CROWD {
                    prop_assert_eq!((cpu_ns, Some(wait)), (cgroup.totals.cpu_ns, cgroup.totals.runq_wait_ns));
                }
            }
        }

        #[test]
        fn cpus_add_up_to_the_host(
            cpus in prop::collection::vec((any::<bool>(), 0u64..9, 0u64..9, 0u64..9, 0u64..9), 0..6),
        ) {
            let before = cpus.iter().map(|&(_, busy, idle, ..)| cpu(busy, idle)).collect();
            let after: Vec<CpuReading> = cpus
                .iter()
                .map(|&(is_online, busy, idle, more, rest)| CpuReading { is_online, ..cpu(busy + more, idle + rest) })
                .collect();
            let before = Snapshot { cpus: before, ..Snapshot::default() };
            let after = Snapshot { cpus: after, at: Nanos(1), ..Snapshot::default() };
            let interval = Interval::between(0, Nanos::ZERO, &before, &after, &mut LoadCredits::default());
            let passed: u64 = cpus.iter().map(|cpu| cpu.3 + cpu.4).sum();
            prop_assert_eq!(interval.host.capacity(), Nanos(passed));
            prop_assert_eq!(interval.cpus.iter().map(|cpu| cpu.totals.busy_ns.saturating_add(cpu.totals.idle_ns)).sum::<Nanos>(), Nanos(passed));
            let there = cpus.iter().filter(|cpu| cpu.0 || cpu.3 + cpu.4 > 0).count();
            prop_assert_eq!(interval.cpus.len(), there, "online at the end, or for a while");
        }

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
