//! A list whose order changes while it is looked at.

use super::Scroll;
use crate::top::keymap::Move;

/// A list in which the selection stays with what was selected, wherever that goes. `K` tells its rows apart.
#[derive(Clone, Debug)]
pub(in crate::top) struct List<K> {
    pub(in crate::top) scroll: Scroll,
    /// `None` until the user moves: the first row then, whichever it is.
    selected: Option<K>,
}

impl<K> Default for List<K> {
    fn default() -> Self {
        Self { scroll: Scroll::default(), selected: None }
    }
}

impl<K: PartialEq> List<K> {
    /// Moves the selection. `rows` are all there are.
    pub(super) fn go(&mut self, to: Move, mut rows: impl Iterator<Item = K>) {
        self.scroll.go(to);
        self.selected = rows.nth(self.scroll.selected);
    }

    /// Takes in the rows as they are now.
    pub(super) fn follow(&mut self, mut rows: impl Iterator<Item = K>) {
        let place = self.selected.as_ref().and_then(|selected| rows.position(|row| row == *selected));
        self.scroll.selected = place.unwrap_or(self.scroll.selected);
    }
}
