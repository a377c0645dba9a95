//! What the screen shows, and what keys and intervals do to it. Plain data: no terminal, no clock.

use super::{
    keymap::{self, Command, Key, Move},
    sort::Sort,
};
use crate::model::{Cgroup, CgroupId, Interval, Session};

/// What the loop does after a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// The key means nothing here.
    Ignore,
    Redraw,
    Quit,
}

/// What lies over the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Overlay {
    Help,
    Hooks,
}

/// How much of it there is room for. Known only where it is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Room {
    /// Rows of the table that are seen at once.
    pub(super) rows: usize,
    /// Lines of what lies over it that are seen at once.
    pub(super) overlay: usize,
    /// Lines that are out of sight when its first is seen.
    pub(super) overlay_hidden: usize,
}

/// What the screen shows.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct State {
    session: Session,
    /// The interval that is shown.
    interval: Option<Interval>,
    /// The newest that came while the view was held.
    held_back: Option<Interval>,
    paused: bool,
    ended: bool,
    sort: Sort,
    /// Positions in the interval's cgroups, in the order of the rows.
    rows: Vec<usize>,
    /// `None` until the user moves: the first row then, whichever it is.
    selected: Option<CgroupId>,
    /// Where the selected cgroup was last: moves start from there while it is idle and has no row.
    cursor: usize,
    /// The first row that is seen.
    top: usize,
    overlay: Option<Overlay>,
    /// The first line of the overlay that is seen.
    overlay_top: usize,
    room: Room,
}

impl State {
    pub(super) fn new(session: Session) -> Self {
        Self {
            session,
            interval: None,
            held_back: None,
            paused: false,
            ended: false,
            sort: Sort::default(),
            rows: Vec::new(),
            selected: None,
            cursor: 0,
            top: 0,
            overlay: None,
            overlay_top: 0,
            room: Room::default(),
        }
    }

    /// Takes in the next interval: shows it, or keeps it until the view is let go.
    pub(super) fn on_interval(&mut self, interval: Interval) {
        if self.paused {
            self.held_back = Some(interval);
        } else {
            self.interval = Some(interval);
            self.arrange();
        }
    }

    /// There will be no more intervals.
    pub(super) const fn on_end(&mut self) {
        self.ended = true;
    }

    pub(super) fn on_key(&mut self, key: Key) -> Action {
        let Some(command) = keymap::command(key) else { return Action::Ignore };
        match command {
            Command::Quit => return Action::Quit,
            Command::Back if self.overlay.is_none() => return Action::Quit,
            Command::Back => self.overlay = None,
            Command::Move(to) if self.overlay.is_some() => self.scroll(to),
            Command::Move(to) => self.select(to),
            Command::NextSort => self.sort_by(self.sort.next()),
            Command::PreviousSort => self.sort_by(self.sort.previous()),
            Command::Reverse => self.sort_by(Sort { reversed: !self.sort.reversed, ..self.sort }),
            Command::Pause => self.pause(),
            Command::Help => self.toggle(Overlay::Help),
            Command::Hooks => self.toggle(Overlay::Hooks),
        }
        Action::Redraw
    }

    /// Learns how much room there is, and keeps the selection in sight.
    pub(super) fn fit(&mut self, room: Room) {
        self.room = room;
        self.overlay_top = self.overlay_top.min(room.overlay_hidden);
        self.top = self.top.min(self.rows.len().saturating_sub(room.rows));
        if let Some(row) = self.selected_row() {
            self.top = self.top.clamp((row + 1).saturating_sub(room.rows), row);
        }
    }

    fn sort_by(&mut self, sort: Sort) {
        self.sort = sort;
        self.arrange();
    }

    fn pause(&mut self) {
        self.paused = !self.paused;
        if let Some(interval) = self.held_back.take() {
            self.interval = Some(interval);
            self.arrange();
        }
    }

    fn toggle(&mut self, overlay: Overlay) {
        self.overlay = (self.overlay != Some(overlay)).then_some(overlay);
        self.overlay_top = 0;
    }

    /// Brings the rows into order. The selection stays with its cgroup.
    fn arrange(&mut self) {
        self.rows = self.interval.as_ref().map_or_else(Vec::new, |interval| self.sort.order(interval));
        self.cursor = self.selected_row().unwrap_or(self.cursor).min(self.rows.len().saturating_sub(1));
    }

    fn select(&mut self, to: Move) {
        self.cursor = moved(self.selected_row().unwrap_or(self.cursor), to, self.room.rows, self.rows.len());
        self.selected = self.row(self.cursor).map(|cgroup| cgroup.id).or(self.selected);
    }

    fn scroll(&mut self, to: Move) {
        self.overlay_top = moved(self.overlay_top, to, self.room.overlay, self.room.overlay_hidden + 1);
    }

    fn row(&self, row: usize) -> Option<&Cgroup> {
        self.interval.as_ref()?.cgroups.get(*self.rows.get(row)?)
    }

    /// The row that is selected. None while the selected cgroup is idle.
    pub(super) fn selected_row(&self) -> Option<usize> {
        let Some(selected) = self.selected else { return (!self.rows.is_empty()).then_some(0) };
        let cgroups = &self.interval.as_ref()?.cgroups;
        self.rows.iter().position(|&position| cgroups.get(position).is_some_and(|cgroup| cgroup.id == selected))
    }

    /// The rows that are seen, with their numbers.
    pub(super) fn rows_in_sight(&self) -> impl Iterator<Item = (usize, &Cgroup)> {
        (self.top..self.top + self.room.rows).map_while(|row| Some((row, self.row(row)?)))
    }

    pub(super) const fn row_count(&self) -> usize {
        self.rows.len()
    }

    pub(super) const fn session(&self) -> &Session {
        &self.session
    }

    pub(super) const fn interval(&self) -> Option<&Interval> {
        self.interval.as_ref()
    }

    pub(super) const fn sort(&self) -> Sort {
        self.sort
    }

    pub(super) const fn paused(&self) -> bool {
        self.paused
    }

    pub(super) const fn ended(&self) -> bool {
        self.ended
    }

    pub(super) const fn overlay(&self) -> Option<Overlay> {
        self.overlay
    }

    pub(super) const fn overlay_top(&self) -> usize {
        self.overlay_top
    }
}

/// Where a move from `from` ends among `count` things of which `page` are seen at once.
fn moved(from: usize, to: Move, page: usize, count: usize) -> usize {
    // A line of the page before stays in sight.
    let page = page.saturating_sub(1).max(1);
    let to = match to {
        Move::Up => from.saturating_sub(1),
        Move::Down => from + 1,
        Move::PageUp => from.saturating_sub(page),
        Move::PageDown => from + page,
        Move::First => 0,
        Move::Last => count,
    };
    to.min(count.saturating_sub(1))
}
