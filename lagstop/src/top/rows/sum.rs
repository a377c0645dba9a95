//! Several cgroups added up.

use std::{cell::OnceCell, sync::Arc};

use super::forest::Forest;
use crate::{
    model::{Cgroup, Cores, Distribution, Interval, Tasks},
    top::{
        column::{Column, Durations},
        quantity::Cell,
    },
};

/// What is in a part of the tree, added up.
#[derive(Clone, Debug)]
pub(super) struct Sum {
    /// Without distributions, and without anything that identifies a single cgroup.
    figures: Cgroup,
    /// The part of the tree.
    forest: Arc<Forest>,
    node: usize,
    /// Distributions are merged when somebody looks: that takes long, and most rows are never seen.
    switch_cost: OnceCell<Option<Distribution>>,
    runq_wait: OnceCell<Option<Distribution>>,
}

impl Sum {
    /// Begins with one cgroup, or with the sum of a part that is below `node`.
    pub(super) fn new(first: &Cgroup, forest: &Arc<Forest>, node: usize) -> Self {
        let figures = Cgroup {
            totals: first.totals,
            runnable_load: first.runnable_load,
            load_credit: first.load_credit,
            entitled_cpu: first.entitled_cpu,
            files: first.files,
            ..Cgroup::default()
        };
        Self { figures, forest: Arc::clone(forest), node, switch_cost: OnceCell::new(), runq_wait: OnceCell::new() }
    }

    pub(super) fn add(&mut self, more: &Cgroup) {
        let tasks = |a: Option<Tasks>, b: Option<Tasks>| a.zip(b).map(|(a, b)| Tasks(a.0 + b.0));
        let sum = &mut self.figures;
        sum.totals.add(&more.totals);
        sum.runnable_load = tasks(sum.runnable_load, more.runnable_load);
        sum.load_credit = tasks(sum.load_credit, more.load_credit);
        sum.entitled_cpu = sum.entitled_cpu.zip(more.entitled_cpu).map(|(a, b)| Cores(a.0 + b.0));
        sum.files.add_beside(&more.files);
    }

    pub(super) fn cell(&self, column: Column, interval: &Interval) -> Cell {
        match (column, column.quantile()) {
            (_, Some((durations, share))) => Cell::quantile(self.merged(durations, interval), share),
            (Column::Behind, None) => Column::behind(&self.figures.totals, self.members(interval)),
            (_, None) => column.cell(&self.figures, interval),
        }
    }

    /// The durations of all of them. What one of them did not measure is not measured in the sum.
    fn merged(&self, durations: Durations, interval: &Interval) -> Option<&Distribution> {
        let merged = match durations {
            Durations::SwitchCost => &self.switch_cost,
            Durations::RunqWait => &self.runq_wait,
        };
        let merge = || {
            let all: Option<Vec<_>> = self.members(interval).map(|cgroup| durations.of(cgroup)).collect();
            all.map(Distribution::sum)
        };
        merged.get_or_init(merge).as_ref()
    }

    /// All but distributions.
    pub(super) const fn figures(&self) -> &Cgroup {
        &self.figures
    }

    pub(super) fn members<'a>(&'a self, interval: &'a Interval) -> impl Iterator<Item = &'a Cgroup> {
        self.forest.members(self.node).filter_map(|n| interval.cgroups.get(n))
    }
}
