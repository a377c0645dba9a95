//! Names of cgroups, each kept once however many intervals have it.

use std::{collections::HashMap, sync::Arc};

use crate::model::{Cgroup, CgroupId, Level, Workload};

/// What rarely changes about a cgroup.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Label {
    pub(super) id: CgroupId,
    pub(super) path: Arc<str>,
    pub(super) name: Arc<str>,
    pub(super) workload: Option<Arc<Workload>>,
    pub(super) levels: Option<Arc<[Level]>>,
    pub(super) cpus: Option<Arc<str>>,
}

/// Labels by number.
#[derive(Debug, Default)]
pub(super) struct Labels {
    numbers: HashMap<Label, u32>,
    /// With the interval that used each last.
    labels: HashMap<u32, (Label, u64)>,
    next: u32,
}

impl Labels {
    /// The number of the label of `cgroup`, which the `n`th interval uses.
    pub(super) fn number(&mut self, cgroup: &Cgroup, n: u64) -> u32 {
        let label = Label {
            id: cgroup.id,
            path: Arc::clone(&cgroup.path),
            name: Arc::clone(&cgroup.name),
            workload: cgroup.workload.clone(),
            levels: cgroup.levels.clone(),
            cpus: cgroup.cpus.clone(),
        };
        let number = *self.numbers.entry(label.clone()).or_insert_with(|| {
            self.next = self.next.wrapping_add(1);
            self.next
        });
        self.labels.insert(number, (label, n));
        number
    }

    pub(super) fn get(&self, number: u32) -> Option<&Label> {
        self.labels.get(&number).map(|(label, _)| label)
    }

    /// The numbers under which a cgroup was known.
    pub(super) fn of(&self, id: CgroupId) -> Vec<u32> {
        self.labels.iter().filter(|(_, (label, _))| label.id == id).map(|(&number, _)| number).collect()
    }

    /// The label that a cgroup had last.
    pub(super) fn last_of(&self, id: CgroupId) -> Option<&Label> {
        let of = self.labels.values().filter(|(label, _)| label.id == id);
        of.max_by_key(|(_, last)| *last).map(|(label, _)| label)
    }

    /// Forgets those that no interval from the `n`th on uses.
    pub(super) fn forget(&mut self, n: u64) {
        self.labels.retain(|_, (_, last)| *last >= n);
        let kept = &self.labels;
        self.numbers.retain(|_, number| kept.contains_key(number));
    }
}
