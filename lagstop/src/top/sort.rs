//! The order of the rows.

use std::cmp::Ordering;

use super::{column::Column, text};
use crate::model::Interval;

/// What the rows are sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    Name,
    Figure(Column),
}

impl By {
    /// From left to right.
    fn all() -> Vec<Self> {
        [Self::Name].into_iter().chain(Column::ALL.map(Self::Figure)).collect()
    }

    /// In full.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Figure(column) => column.name(),
        }
    }
}

/// A column, and which end of it is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sort {
    pub(super) by: By,
    /// Not the usual way: names from the end, figures from the smallest.
    pub(super) reversed: bool,
}

impl Default for Sort {
    fn default() -> Self {
        Self { by: By::Figure(Column::SwitchCost), reversed: false }
    }
}

impl Sort {
    /// By the next column to the right; the first after the last.
    pub(super) fn next(self) -> Self {
        self.step(1)
    }

    /// By the next column to the left.
    pub(super) fn previous(self) -> Self {
        self.step(Column::ALL.len())
    }

    fn step(self, by: usize) -> Self {
        let all = By::all();
        let by = all.iter().cycle().skip_while(|by| **by != self.by).nth(by).copied();
        Self { by: by.unwrap_or(self.by), reversed: false }
    }

    /// Whether what is greater stands further down.
    pub(super) const fn ascending(self) -> bool {
        matches!(self.by, By::Name) != self.reversed
    }

    /// Positions of `interval`'s cgroups in this order. What has no figure comes last either way; what is equal goes by
    /// name, so that rows do not change places without a reason.
    pub(super) fn order(self, interval: &Interval) -> Vec<usize> {
        let mut rows: Vec<_> = interval
            .cgroups
            .iter()
            .enumerate()
            .map(|(position, cgroup)| {
                let figure = match self.by {
                    By::Name => None,
                    By::Figure(column) => column.cell(cgroup, interval).figure().map(super::figure::Figure::order),
                };
                (position, figure, text::name(cgroup), cgroup.id)
            })
            .collect();
        let turned = |ordering: Ordering| if self.ascending() { ordering } else { ordering.reverse() };
        rows.sort_unstable_by(|(_, a, a_name, a_id), (_, b, b_name, b_id)| {
            let figures = match (a, b) {
                (Some(a), Some(b)) => turned(a.total_cmp(b)),
                (a, b) => b.is_some().cmp(&a.is_some()),
            };
            let names = a_name.cmp(b_name).then(a_id.cmp(b_id));
            figures.then(if self.by == By::Name { turned(names) } else { names })
        });
        rows.into_iter().map(|(position, ..)| position).collect()
    }
}
