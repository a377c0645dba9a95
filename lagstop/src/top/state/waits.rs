//! The list of waits: which rows there are, and which is selected.

use super::{List, Scroll};
use crate::{
    model::{CgroupId, Interval},
    top::{
        filter::Filter,
        keymap::Move,
        waits::{self, Blamed, Wait},
    },
};

/// The list of waits. The selection stays with its victim and cause.
#[derive(Debug, Default)]
pub(in crate::top) struct WaitList {
    rows: Vec<Wait>,
    list: List<(CgroupId, Blamed)>,
}

impl WaitList {
    /// Takes in the waits as they are now.
    pub(super) fn arrange(&mut self, interval: &Interval, filter: Option<&Filter>) {
        self.rows = waits::all(interval, filter);
        self.list.follow(self.rows.iter().map(Wait::key));
    }

    pub(super) fn go(&mut self, to: Move) {
        self.list.go(to, self.rows.iter().map(Wait::key));
    }

    pub(super) fn fit(&mut self, page: usize) {
        self.list.scroll.fit_rows(page, self.rows.len());
    }

    pub(super) fn selected(&self) -> Option<&Wait> {
        self.rows.get(self.list.scroll.selected)
    }

    pub(in crate::top) fn rows(&self) -> &[Wait] {
        &self.rows
    }

    pub(in crate::top) const fn scroll(&self) -> &Scroll {
        &self.list.scroll
    }
}
