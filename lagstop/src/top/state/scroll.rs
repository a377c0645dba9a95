//! Lines of which only some are seen.

use crate::top::keymap::Move;

/// Where a list is scrolled to, and which of its lines is selected where it has such a thing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::top) struct Scroll {
    /// The first line that is seen.
    pub(in crate::top) top: usize,
    /// The line that is selected; where lines are only read, the same as `top`.
    pub(in crate::top) selected: usize,
    /// Lines that are seen at once.
    page: usize,
    /// Where the selection can go.
    places: usize,
}

impl Scroll {
    pub(in crate::top) fn go(&mut self, to: Move) {
        self.selected = moved(self.selected, to, self.page, self.places);
    }

    /// The first row that is seen and the one after the last.
    pub(in crate::top) fn seen(&self) -> (usize, usize) {
        (self.top, (self.top + self.page).min(self.places))
    }

    /// Keeps the selected one of `lines` in sight.
    pub(in crate::top) fn fit_rows(&mut self, page: usize, lines: usize) {
        (self.page, self.places) = (page, lines);
        self.selected = self.selected.min(lines.saturating_sub(1));
        self.top = follow(self.top, self.selected, page, lines);
    }

    /// Keeps the page full of `lines` that are only read.
    pub(in crate::top) fn fit_lines(&mut self, page: usize, lines: usize) {
        (self.page, self.places) = (page, lines.saturating_sub(page) + 1);
        self.selected = self.selected.min(self.places - 1);
        self.top = self.selected;
    }
}

/// The first line to see, so that `selected` is among those that are seen and the page is full.
pub(super) fn follow(top: usize, selected: usize, page: usize, lines: usize) -> usize {
    top.min(lines.saturating_sub(page)).clamp((selected + 1).saturating_sub(page).min(selected), selected)
}

/// Where a move from `from` ends among `count` places of which `page` are seen at once.
pub(super) fn moved(from: usize, to: Move, page: usize, count: usize) -> usize {
    // A line of the page before stays in sight.
    let page = page.saturating_sub(1).max(1);
    let to = match to {
        Move::Up => from.saturating_sub(1),
        Move::Down => from.saturating_add(1),
        Move::PageUp => from.saturating_sub(page),
        Move::PageDown => from.saturating_add(page),
        Move::First => 0,
        Move::Last => count,
    };
    to.min(count.saturating_sub(1))
}
