//! The rows of the table of cgroups: each cgroup by itself, or the tree of them.

mod forest;
mod label;
mod sum;
mod tree;

use std::{collections::HashSet, sync::Arc};

pub(super) use forest::Forest;
use label::Label;
use sum::Sum;

use super::{
    column::Column,
    filter::Filter,
    frame::Frame,
    quantity::Cell,
    sort::{By, Rank, Sort},
    text, waits,
};
use crate::{
    display::display_name,
    model::{Cgroup, CgroupId, Interval},
};

/// What a row stands for, from frame to frame.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum RowKey {
    Cgroup(CgroupId),
    /// A part of the tree in which nothing runs but below it.
    Path(Arc<str>),
}

#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) key: RowKey,
    label: Label,
    pub(super) path: Arc<str>,
    pub(super) depth: u16,
    /// Whether what is below it is hidden; `None` where there is nothing below it.
    pub(super) folded: Option<bool>,
    what: What,
}

#[derive(Clone, Debug)]
enum What {
    /// One cgroup, by its position in the interval.
    One(usize),
    Sum(Box<Sum>),
}

/// What decides which rows there are and how they are ordered.
#[derive(Clone, Debug, Default)]
pub(super) struct Arrangement {
    pub(super) sort: Sort,
    pub(super) tree: bool,
    pub(super) filter: Option<Filter>,
    /// Paths of the tree below which nothing is shown.
    pub(super) folded: HashSet<Arc<str>>,
}

impl Arrangement {
    /// The rows for `frame`. `forest` is the tree of the frame before, which is kept if `frame` has the same cgroups.
    pub(super) fn rows(&self, frame: &Frame, forest: &mut Arc<Forest>) -> Vec<Row> {
        let cgroups = &frame.interval.cgroups;
        let shown = |cgroup: &Cgroup| self.filter.as_ref().is_none_or(|filter| filter.matches(cgroup));
        let positions: Vec<usize> = (0..cgroups.len()).filter(|&n| shown(&cgroups[n])).collect();
        if self.tree {
            return tree::rows(&frame.interval, &positions, self, forest);
        }
        let mut ranked: Vec<(Rank<'_>, usize)> = positions
            .into_iter()
            .map(|n| {
                let cgroup = &cgroups[n];
                let figure = self.figure(|column| column.cell(cgroup, &frame.interval));
                (Rank { figure, name: text::name(cgroup), id: cgroup.id.0 }, n)
            })
            .collect();
        ranked.sort_unstable_by(|(a, _), (b, _)| self.sort.compare(a, b));
        let row = |(_, n): (Rank<'_>, usize)| Row {
            key: RowKey::Cgroup(cgroups[n].id),
            label: Label::Name(text::shared_name(&cgroups[n])),
            path: Arc::clone(&cgroups[n].path),
            depth: 0,
            folded: None,
            what: What::One(n),
        };
        ranked.into_iter().map(row).collect()
    }

    fn figure(&self, cell: impl Fn(Column) -> Cell) -> Option<f64> {
        match self.sort.by {
            By::Name => None,
            By::Column(column) => cell(column).figure().map(super::quantity::Quantity::order),
        }
    }
}

impl Row {
    /// What it is called; not yet harmless.
    pub(super) fn label(&self) -> &str {
        self.label.text(&self.path)
    }

    pub(super) fn cell(&self, column: Column, interval: &Interval) -> Cell {
        match &self.what {
            What::One(n) => interval.cgroups.get(*n).map_or(Cell::Nothing, |cgroup| column.cell(cgroup, interval)),
            What::Sum(sum) => sum.cell(column, interval),
        }
    }

    /// The name of the culprit whose share `column` shows; harmless.
    pub(super) fn culprit(&self, column: Column, interval: &Interval) -> Option<String> {
        let has_one = column == Column::Behind && self.cell(column, interval).figure().is_some();
        let culprit = has_one.then(|| waits::culprit(self.members(interval))).flatten();
        culprit.map(|culprit| display_name(&text::name_of(culprit.id, interval)).into_owned())
    }

    /// Is it one cgroup, and not a sum?
    pub(super) const fn is_one(&self) -> bool {
        matches!(self.what, What::One(_))
    }

    /// The cgroups that it stands for.
    pub(super) fn members<'a>(&'a self, interval: &'a Interval) -> impl Iterator<Item = &'a Cgroup> {
        let (one, sum) = match &self.what {
            What::One(n) => (interval.cgroups.get(*n), None),
            What::Sum(sum) => (None, Some(sum.members(interval))),
        };
        one.into_iter().chain(sum.into_iter().flatten())
    }
}
