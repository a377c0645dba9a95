//! The rows of the table of cgroups: each cgroup by itself, or the tree of them.

mod tree;

use std::{cell::OnceCell, collections::HashSet, sync::Arc};

use super::{
    column::Column,
    figure::Cell,
    filter::Filter,
    frame::Frame,
    sort::{By, Rank, Sort},
    text,
};
use crate::model::{Cgroup, CgroupId, Distribution, Interval};

/// What a row stands for, from frame to frame.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum RowKey {
    Cgroup(CgroupId),
    /// A part of the tree in which nothing runs but below it.
    Path(Arc<str>),
}

/// A row.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) key: RowKey,
    /// What it is called; not yet harmless.
    pub(super) label: Arc<str>,
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

/// Several cgroups added up.
#[derive(Clone, Debug)]
struct Sum {
    /// Without distributions.
    cgroup: Cgroup,
    /// Positions in the interval.
    members: Vec<usize>,
    /// With distributions: merging them takes long, and most rows are never seen.
    whole: OnceCell<Box<Cgroup>>,
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
    /// The rows for `frame`.
    pub(super) fn rows(&self, frame: &Frame) -> Vec<Row> {
        let cgroups = &frame.interval.cgroups;
        let shown = |cgroup: &Cgroup| self.filter.as_ref().is_none_or(|filter| filter.matches(cgroup));
        let positions: Vec<usize> = (0..cgroups.len()).filter(|&n| shown(&cgroups[n])).collect();
        if self.tree {
            return tree::rows(&frame.interval, &positions, self);
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
            label: text::shared_name(&cgroups[n]),
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
            By::Figure(column) => cell(column).figure().map(super::figure::Figure::order),
        }
    }
}

impl Row {
    /// What `column` says of it.
    pub(super) fn cell(&self, column: Column, interval: &Interval) -> Cell {
        match &self.what {
            What::One(n) => interval.cgroups.get(*n).map_or(Cell::Nothing, |cgroup| column.cell(cgroup, interval)),
            What::Sum(sum) if column.is_of_distribution() => column.cell(sum.whole(interval), interval),
            What::Sum(sum) => column.cell(&sum.cgroup, interval),
        }
    }

    /// Is it one cgroup, and not a sum?
    pub(super) const fn is_one(&self) -> bool {
        matches!(self.what, What::One(_))
    }

    /// The cgroups that it stands for.
    pub(super) fn members<'a>(&'a self, interval: &'a Interval) -> impl Iterator<Item = &'a Cgroup> {
        let members = match &self.what {
            What::One(n) => std::slice::from_ref(n),
            What::Sum(sum) => &sum.members,
        };
        members.iter().filter_map(|&n| interval.cgroups.get(n))
    }
}

impl Sum {
    fn whole(&self, interval: &Interval) -> &Cgroup {
        self.whole.get_or_init(|| {
            let members = || self.members.iter().filter_map(|&n| interval.cgroups.get(n));
            // What one of them did not measure is not measured in the sum.
            let merged = |of: fn(&Cgroup) -> Option<&Distribution>| {
                members().map(of).collect::<Option<Vec<_>>>().map(Distribution::sum)
            };
            Box::new(Cgroup {
                switch_cost: merged(|cgroup| cgroup.switch_cost.as_ref()),
                runq_wait: merged(|cgroup| cgroup.runq_wait.as_ref()),
                accept_wait: merged(|cgroup| cgroup.accept_wait.as_ref()),
                ..self.cgroup.clone()
            })
        })
    }
}
