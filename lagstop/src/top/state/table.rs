//! The table of cgroups: which rows there are, which is selected, what of it is seen.

use std::sync::Arc;

use super::scroll::{follow, moved};
use crate::top::{
    column::Column,
    filter::Filter,
    frame::Frame,
    keymap::{Move, Side},
    rows::{Arrangement, Forest, Row, RowKey},
    settings::TopSettings,
    sort::Sort,
};

/// What the selection stays with.
#[derive(Debug)]
struct Selected {
    key: RowKey,
    /// The cgroup at this path may fall idle while those below it do not, or be made again with another id.
    path: Arc<str>,
}

#[derive(Debug)]
pub(in crate::top) struct Table {
    arrangement: Arrangement,
    filter_text: String,
    columns: Vec<Column>,
    /// Columns that are out of sight at the left.
    skipped: usize,
    rows: Vec<Row>,
    /// What the rows of a tree are made from, which stays while the same cgroups are busy.
    forest: Arc<Forest>,
    /// `None` until the user moves: the first row then, whichever it is.
    selected: Option<Selected>,
    /// Where the selected row was last: moves start from there while it is idle and has no row.
    cursor: usize,
    /// The first row that is seen.
    top: usize,
    /// Rows that are seen at once.
    page: usize,
}

impl Table {
    pub(super) fn new(settings: &TopSettings) -> Self {
        Self {
            arrangement: Arrangement {
                sort: settings.sort,
                tree: settings.tree,
                // It was parsed without an error when it was set.
                filter: Filter::parse(&settings.filter).unwrap_or_default(),
                ..Arrangement::default()
            },
            filter_text: settings.filter.clone(),
            columns: settings.columns.clone(),
            skipped: 0,
            rows: Vec::new(),
            forest: Arc::default(),
            selected: None,
            cursor: 0,
            top: 0,
            page: 0,
        }
    }

    /// Brings the rows into order. The selection stays with its cgroup.
    pub(super) fn arrange(&mut self, frame: &Frame) {
        // The new rows use the same memory.
        self.rows.clear();
        self.rows = self.arrangement.rows(frame, &mut self.forest);
        self.cursor = self.selected_row().unwrap_or(self.cursor).min(self.rows.len().saturating_sub(1));
    }

    pub(super) fn sort_by(&mut self, sort: impl Fn(Sort, &[Column]) -> Sort) {
        self.arrangement.sort = sort(self.arrangement.sort, &self.columns);
    }

    pub(super) fn turn_tree(&mut self) {
        self.arrangement.tree = !self.arrangement.tree;
    }

    /// Folds or unfolds the selected part of the tree.
    pub(super) fn fold(&mut self) {
        let Some(row) = self.selected_row().and_then(|row| self.rows.get(row)) else { return };
        if row.folded.is_some() && !self.arrangement.folded.remove(&row.path) {
            self.arrangement.folded.insert(Arc::clone(&row.path));
        }
    }

    /// Shows what matches `text`; what cannot be read changes nothing, and the reason is given.
    pub(super) fn set_filter(&mut self, text: &str) -> Option<String> {
        match Filter::parse(text) {
            Ok(filter) => {
                self.arrangement.filter = filter;
                text.clone_into(&mut self.filter_text);
                None
            }
            Err(error) => Some(error.to_string()),
        }
    }

    pub(super) fn set_columns(&mut self, columns: Vec<Column>) {
        self.columns = columns;
        self.skipped = self.skipped.min(self.columns.len().saturating_sub(1));
    }

    pub(super) fn sideways(&mut self, side: Side) {
        self.skipped = match side {
            Side::Left => self.skipped.saturating_sub(1),
            Side::Right => (self.skipped + 1).min(self.columns.len().saturating_sub(1)),
        };
    }

    pub(super) fn select(&mut self, to: Move) {
        self.cursor = moved(self.selected_row().unwrap_or(self.cursor), to, self.page, self.rows.len());
        let selected = |row: &Row| Selected { key: row.key.clone(), path: Arc::clone(&row.path) };
        self.selected = self.rows.get(self.cursor).map(selected).or_else(|| self.selected.take());
    }

    pub(super) fn fit(&mut self, page: usize) {
        self.page = page;
        let row = self.selected_row().unwrap_or(self.cursor.min(self.rows.len().saturating_sub(1)));
        self.top = follow(self.top, row, page, self.rows.len());
    }

    /// The row that is selected. None while the selected cgroup is idle.
    pub(in crate::top) fn selected_row(&self) -> Option<usize> {
        match &self.selected {
            None => (!self.rows.is_empty()).then_some(0),
            Some(Selected { key, path }) => {
                let at_path = || self.rows.iter().position(|row| !path.is_empty() && row.path == *path);
                self.rows.iter().position(|row| row.key == *key).or_else(at_path)
            }
        }
    }

    pub(super) fn selected_key(&self) -> Option<RowKey> {
        self.selected_row().and_then(|row| self.rows.get(row)).map(|row| row.key.clone())
    }

    /// The rows that are seen, with their numbers.
    pub(in crate::top) fn rows_in_sight(&self) -> impl Iterator<Item = (usize, &Row)> {
        self.rows.iter().enumerate().skip(self.top).take(self.page)
    }

    pub(in crate::top) fn rows(&self) -> &[Row] {
        &self.rows
    }

    pub(in crate::top) const fn sort(&self) -> Sort {
        self.arrangement.sort
    }

    pub(in crate::top) const fn is_tree(&self) -> bool {
        self.arrangement.tree
    }

    pub(super) const fn filter(&self) -> Option<&Filter> {
        self.arrangement.filter.as_ref()
    }

    pub(in crate::top) fn filter_text(&self) -> &str {
        &self.filter_text
    }

    pub(in crate::top) fn columns(&self) -> &[Column] {
        &self.columns
    }

    pub(in crate::top) const fn skipped(&self) -> usize {
        self.skipped
    }
}
