//! The choice of columns.

use crate::top::{column::Column, keymap::Side};

/// All columns in an order, and which of them are shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::top) struct Picker {
    columns: Vec<(Column, bool)>,
    first: Vec<Column>,
}

impl Picker {
    /// Shows `columns`; the others come after them.
    pub(super) fn new(columns: Vec<Column>) -> Self {
        let hidden = Column::all().filter(|column| !columns.contains(column)).map(|column| (column, false));
        let all = columns.iter().map(|&column| (column, true)).chain(hidden).collect();
        Self { columns: all, first: columns }
    }

    /// All columns, and whether each is shown.
    pub(in crate::top) fn columns(&self) -> &[(Column, bool)] {
        &self.columns
    }

    /// Those that are shown.
    pub(super) fn chosen(&self) -> Vec<Column> {
        self.columns.iter().filter(|(_, shown)| *shown).map(|(column, _)| *column).collect()
    }

    /// Were any shown, hidden or moved?
    pub(super) fn is_changed(&self) -> bool {
        self.chosen() != self.first
    }

    /// Shows or hides one. The last one stays: a table without figures says nothing.
    pub(super) fn toggle(&mut self, at: usize) {
        let shown = self.columns.iter().filter(|(_, shown)| *shown).count();
        if let Some((_, is_shown)) = self.columns.get_mut(at)
            && (shown > 1 || !*is_shown)
        {
            *is_shown = !*is_shown;
        }
    }

    /// Moves one; gives its new place.
    pub(super) fn shift(&mut self, at: usize, side: Side) -> usize {
        let to = match side {
            Side::Left => at.saturating_sub(1),
            Side::Right => (at + 1).min(self.columns.len() - 1),
        };
        if at < self.columns.len() {
            self.columns.swap(at, to);
        }
        to
    }

    /// As at the start.
    pub(super) fn reset(&mut self) {
        *self = Self::new(self.first.clone());
    }
}
