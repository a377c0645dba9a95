//! All totals at one moment.

use std::sync::Arc;

use super::{
    ByCpu, ById, CgroupLabel, CpuTotals, Distribution, FileCounters, Level, Listener, Lost, Nanos, NetworkNamespace,
    OwnCost, Pressure, Totals, Traffic, WaitBehind,
};

/// All totals at one moment. Two of them subtract to an [`super::Interval`].
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// When it was taken, on a clock that only goes forward.
    pub at: Nanos,
    /// Measurement method of switch costs. `None` if they are not measured.
    pub switch_cost_way: Option<Arc<str>>,
    /// Measurement method of the cost of the pick function. `None` if it is not measured.
    pub pick_function_way: Option<Arc<str>>,
    /// See [`super::Interval::sched_ext`].
    pub sched_ext: Option<Arc<str>>,
    /// Switches were not timed since the snapshot before, so that the counters of their costs stood still.
    pub untimed: bool,
    /// The idle tasks.
    pub idle: Totals,
    /// Every cgroup that has been seen and still has a row; [`super::CgroupId::OTHER`] is what found no row. Shared with the snapshot
    /// before where nothing changed.
    pub cgroups: ById<Arc<CgroupState>>,
    /// CPUs, by number.
    pub cpus: Vec<CpuReading>,
    pub listening: Vec<Listener>,
    /// The network namespaces whose listening addresses these are.
    pub network_namespaces: Vec<NetworkNamespace>,
    /// What happened on the addresses that connections came to; `None` where TCP is not watched.
    pub traffic: Option<Vec<Traffic>>,
    /// Figures of the host that are not of a cgroup.
    pub host: HostFigures,
}

impl Snapshot {
    /// Is a `sched_ext` scheduler loaded, which does not call the pick function of the kernel's own?
    pub(super) fn is_scheduled_by_another(&self) -> bool {
        self.sched_ext.as_deref().is_some_and(|name| !name.is_empty())
    }
}

/// One cgroup at that moment.
#[derive(Clone, Debug, Default)]
pub struct CgroupState {
    pub label: Arc<CgroupLabel>,
    /// What was counted since it was first seen. Shared with the snapshot before where nothing was added.
    pub counters: Arc<CgroupCounters>,
    /// The cgroups that it waited behind since the snapshot before, by ascending id. Short waits are omitted.
    pub behind: Vec<WaitBehind>,
    pub files: Files,
}

/// What a cgroup's files tell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Files {
    pub counters: FileCounters,
    /// See [`super::Cgroup::quota_ns`].
    pub quota_ns: Option<Nanos>,
    /// See [`super::Cgroup::levels`].
    pub levels: Option<Arc<[Level]>>,
    /// See [`super::Cgroup::cpus`].
    pub cpus: Option<Arc<str>>,
}

impl CgroupState {
    /// The same as `before` if nothing changed.
    pub(crate) fn shared(self, before: Option<&Arc<Self>>) -> Arc<Self> {
        let is_same = |before: &&Arc<Self>| {
            Arc::ptr_eq(&before.label, &self.label)
                && Arc::ptr_eq(&before.counters, &self.counters)
                && before.behind.is_empty()
                && self.behind.is_empty()
                && before.files == self.files
        };
        match before.filter(is_same) {
            Some(before) => Arc::clone(before),
            None => Arc::new(self),
        }
    }

    /// Was nothing added since, so that its counters are still these?
    pub fn stands_at(&self, counters: &Arc<CgroupCounters>) -> bool {
        // Counters of a cgroup with two rows are summed at each snapshot.
        Arc::ptr_eq(&self.counters, counters) || self.counters == *counters
    }
}

/// What was counted for a cgroup.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CgroupCounters {
    pub totals: Totals,
    /// Cost of each switch away.
    pub switch_cost: Option<Distribution>,
    /// Each wait on a run queue.
    pub runq_wait: Option<Distribution>,
    pub accept_wait: Option<Distribution>,
    /// Its CPU time and run-queue wait on each CPU: its totals', taken apart.
    pub by_cpu: ByCpu,
}

impl CgroupCounters {
    /// Run-queue wait since `before`; all of it where there was none.
    pub fn waited_since(&self, before: Option<&Arc<CgroupState>>) -> Nanos {
        let wait = |counters: &Self| counters.totals.runq_wait_ns.unwrap_or_default();
        wait(self).saturating_sub(before.map(|before| wait(&before.counters)).unwrap_or_default())
    }

    /// What was added since `earlier`, the counters of the row's previous owner.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let [switch_cost, runq_wait, accept_wait] = self.distributions_since(earlier);
        let (totals, by_cpu) = (self.totals.since(&earlier.totals), self.by_cpu.since(&earlier.by_cpu));
        Self { totals, switch_cost, runq_wait, accept_wait, by_cpu }
    }

    /// What came on top of `earlier` in `switch_cost`, `runq_wait` and `accept_wait`.
    pub fn distributions_since(&self, earlier: &Self) -> [Option<Distribution>; 3] {
        let pairs = [
            (&self.switch_cost, &earlier.switch_cost),
            (&self.runq_wait, &earlier.runq_wait),
            (&self.accept_wait, &earlier.accept_wait),
        ];
        pairs.map(|pair| match pair {
            (Some(now), Some(then)) => Some(now.since(then)),
            (now, _) => now.clone(),
        })
    }

    /// Adds `other`, of the same cgroup.
    pub fn add(&mut self, other: &Self) {
        self.totals.add(&other.totals);
        for (mine, theirs) in [
            (&mut self.switch_cost, &other.switch_cost),
            (&mut self.runq_wait, &other.runq_wait),
            (&mut self.accept_wait, &other.accept_wait),
        ] {
            if let (Some(mine), Some(theirs)) = (mine, theirs) {
                mine.merge(theirs);
            }
        }
        self.by_cpu.add(&other.by_cpu);
    }
}

/// A CPU at that moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuReading {
    pub is_online: bool,
    pub totals: CpuTotals,
}

/// Figures of the host since some start of their own.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostFigures {
    pub cpus_online: u64,
    /// Steal time of all CPUs.
    pub steal_ns: Option<Nanos>,
    pub own_cost: OwnCost,
    pub pressure: Option<Pressure>,
    /// What could not be measured.
    pub lost: Lost,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::CgroupId;

    #[test]
    fn a_state_is_shared_only_while_nothing_of_it_changed() {
        let wait = WaitBehind { id: CgroupId(7), wait_ns: Nanos(1) };
        let before = Arc::new(CgroupState::default());
        let waited = Arc::new(CgroupState { behind: vec![wait], ..CgroupState::clone(&before) });
        let is_shared = |now: CgroupState, before: &Arc<CgroupState>| Arc::ptr_eq(&now.shared(Some(before)), before);
        assert!(is_shared(CgroupState::clone(&before), &before));
        assert!(!is_shared(CgroupState { behind: Vec::new(), ..CgroupState::clone(&waited) }, &waited));
        let throttled = FileCounters { nr_throttled: Some(1), ..FileCounters::default() };
        let files = [
            Files { counters: throttled, ..Files::default() },
            Files { quota_ns: Some(Nanos(1)), ..Files::default() },
            Files { levels: Some([Level::DEFAULT].into()), ..Files::default() },
            Files { cpus: Some("0".into()), ..Files::default() },
        ];
        let changed = files.map(|files| CgroupState { files, ..CgroupState::clone(&before) }).into_iter().chain([
            CgroupState { label: Arc::default(), ..CgroupState::clone(&before) },
            CgroupState { counters: Arc::default(), ..CgroupState::clone(&before) },
            CgroupState::clone(&waited),
        ]);
        for now in changed {
            assert!(!is_shared(now.clone(), &before), "{now:?}");
        }
    }
}
