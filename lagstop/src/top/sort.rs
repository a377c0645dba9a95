//! The order of the rows.

use std::cmp::Ordering;

use super::column::Column;

/// What the rows are sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    Name,
    Column(Column),
}

impl By {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Column(column) => column.name(),
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
        Self { by: By::Column(Column::SwitchCost), reversed: false }
    }
}

/// What a row is sorted by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rank<'a> {
    pub(super) figure: Option<f64>,
    pub(super) name: &'a str,
    pub(super) id: u64,
}

impl Sort {
    /// By the next of `columns` to the right; by name after the last.
    pub(super) fn next(self, columns: &[Column]) -> Self {
        self.step(columns, 1)
    }

    /// By the next column to the left.
    pub(super) fn previous(self, columns: &[Column]) -> Self {
        self.step(columns, columns.len())
    }

    fn step(self, columns: &[Column], by: usize) -> Self {
        let all: Vec<By> = std::iter::once(By::Name).chain(columns.iter().copied().map(By::Column)).collect();
        // A column that is not shown is before the first.
        let at = all.iter().position(|by| *by == self.by).unwrap_or(0);
        Self { by: all[(at + by) % all.len()], reversed: false }
    }

    /// Whether what is greater stands further down.
    pub(super) const fn ascending(self) -> bool {
        matches!(self.by, By::Name) != self.reversed
    }

    /// Which of two rows comes first. What has no figure comes last either way; what is equal goes by name, so that rows do
    /// not change places without a reason.
    pub(super) fn compare(self, a: &Rank<'_>, b: &Rank<'_>) -> Ordering {
        let turned = |ordering: Ordering| if self.ascending() { ordering } else { ordering.reverse() };
        let figures = match (a.figure, b.figure) {
            (Some(a), Some(b)) => turned(a.total_cmp(&b)),
            (a, b) => b.is_some().cmp(&a.is_some()),
        };
        let names = a.name.cmp(b.name).then(a.id.cmp(&b.id));
        figures.then(if self.by == By::Name { turned(names) } else { names })
    }
}
