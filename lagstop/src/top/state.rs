//! What the screen shows, and what keys and frames do to it. Plain data: no terminal, no clock, no files.

mod detail;
mod list;
mod picker;
mod prompt;
mod scroll;
mod table;
mod waits;

pub(super) use detail::Detail;
pub(super) use list::List;
pub(super) use picker::Picker;
pub(super) use prompt::Prompt;
pub(super) use scroll::Scroll;
pub(super) use table::Table;
pub(super) use waits::WaitList;

use std::{net::SocketAddr, sync::Arc};

use super::{
    column::Column,
    frame::{ActiveAlert, Frame},
    keymap::{self, Command, Context, Key, Move, Step, View},
    rows::RowKey,
    settings::TopSettings,
    timeline::TrendPoint,
};
use crate::{
    diagnosis::{AlertKind, AlertSubject, Finding, Span},
    model::{CloserLook, Listener, Nanos, Session},
    source::Link,
};

/// What the loop does after a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// The key means nothing here.
    Ignore,
    Redraw,
    /// Fetch this interval and show it.
    Show(u64),
    Suspend,
    Quit,
}

/// What lies over the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Overlay {
    Verdict,
    Help,
    Hooks,
    Columns,
}

/// How much there is room for. Known only where it is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Room {
    /// Lines of the view that are seen at once, and lines that it has.
    pub(super) view: (usize, usize),
    /// The same, of what lies over it.
    pub(super) overlay: (usize, usize),
}

/// Where the intervals come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Each comes when it is over.
    Live,
    /// All have been there from the start.
    Replay,
}

/// What the screen shows.
#[derive(Debug)]
pub(super) struct State {
    session: Session,
    mode: Mode,
    frame: Option<Frame>,
    /// The first and the last interval that can be shown.
    span: Option<(u64, u64)>,
    newest_end: Nanos,
    /// Live: shows each interval as it comes. Replay: plays.
    running: bool,
    ended: bool,
    view: View,
    pub(super) table: Table,
    pub(super) cpus: Scroll,
    pub(super) listeners: List<(u32, SocketAddr)>,
    pub(super) alerts: List<(AlertSubject, AlertKind)>,
    pub(super) waits: WaitList,
    detail: Option<Detail>,
    /// State of the connection over which intervals come, if they come over one.
    link: Option<Link>,
    /// Whether limits and threads will not be read any more.
    looks_ended: bool,
    /// Whether the worst alerts are shown below the view.
    alerts_below: bool,
    /// Whether the verdict is selected, and not a row.
    on_verdict: bool,
    overlay: Option<Overlay>,
    overlay_scroll: Scroll,
    prompt: Option<Prompt>,
    picker: Picker,
    /// Whether nobody chose the columns, and no guest was seen yet.
    adds_columns: bool,
    /// What went wrong with the last key.
    notice: Option<String>,
}

impl State {
    pub(super) fn new(session: Session, mode: Mode, settings: &TopSettings) -> Self {
        Self {
            session,
            mode,
            frame: None,
            span: None,
            newest_end: Nanos::ZERO,
            running: mode == Mode::Live,
            ended: false,
            view: settings.view,
            table: Table::new(settings),
            cpus: Scroll::default(),
            listeners: List::default(),
            alerts: List::default(),
            waits: WaitList::default(),
            detail: None,
            link: None,
            looks_ended: false,
            alerts_below: settings.alerts,
            on_verdict: false,
            overlay: None,
            overlay_scroll: Scroll::default(),
            prompt: None,
            picker: Picker::new(settings.columns.clone()),
            adds_columns: settings.adds_columns,
            notice: None,
        }
    }

    /// A new interval has come, the last that can be shown now; `first` is the first. Takes in its frame, unless the
    /// view is held.
    pub(super) fn on_newest(&mut self, first: u64, frame: Frame) {
        self.span = Some((first, frame.n));
        self.newest_end = frame.end();
        if self.running || self.frame.is_none() {
            self.show(frame);
        }
    }

    /// A recording with so many intervals is shown.
    pub(super) const fn on_recording(&mut self, intervals: u64) {
        self.span = match intervals.checked_sub(1) {
            Some(last) => Some((0, last)),
            None => None,
        };
        self.ended = intervals == 0;
    }

    pub(super) fn show(&mut self, frame: Frame) {
        if self.mode == Mode::Replay {
            self.newest_end = self.newest_end.max(frame.end());
            self.ended = self.span.is_some_and(|(_, last)| frame.n == last);
            self.running &= !self.ended;
        }
        if let Some(detail) = &mut self.detail {
            detail.see(&frame);
        }
        self.listeners.follow(super::listeners::sorted(&frame).into_iter().map(listener_key));
        self.alerts.follow(frame.alerts().iter().map(alert_key));
        self.add_columns(&frame);
        self.frame = Some(frame);
        self.arrange();
    }

    /// Shows one more column where guests run, unless columns were chosen.
    fn add_columns(&mut self, frame: &Frame) {
        self.adds_columns &= !self.picker.is_changed();
        if !self.adds_columns {
            return;
        }
        if let Some(columns) = Column::with_guests(self.table.columns(), &frame.interval) {
            self.picker = Picker::new(columns.clone());
            self.table.set_columns(columns);
            self.adds_columns = false;
        }
    }

    /// Filters and sorts the rows.
    fn arrange(&mut self) {
        let Some(frame) = &self.frame else { return };
        self.table.arrange(frame);
        // Only where they are shown: on a dense host there are very many waits.
        if self.view == View::Waits {
            self.waits.arrange(&frame.interval, self.table.filter());
        }
    }

    /// Says why what was asked for cannot be shown, and holds the view.
    pub(super) fn complain(&mut self, notice: String) {
        self.notice = Some(notice);
        self.running = false;
    }

    /// There will be no more intervals.
    pub(super) const fn on_end(&mut self) {
        self.ended = true;
    }

    pub(super) fn on_link(&mut self, link: Link) {
        self.link = Some(link);
    }

    /// Limits and threads have been read.
    pub(super) fn on_look(&mut self, look: CloserLook) {
        // A view that is held stays as it is, once it has everything.
        let is_held = !self.running;
        let wanted = |detail: &&mut Detail| detail.id == look.id && !(is_held && detail.look.is_some());
        if let Some(detail) = self.detail.as_mut().filter(wanted) {
            detail.look = Some(look);
        }
    }

    /// Limits and threads will not be read any more; those that were read are not those of now.
    pub(super) fn on_looks_end(&mut self) {
        self.looks_ended = true;
        if let Some(detail) = &mut self.detail {
            detail.look = None;
        }
    }

    /// Takes in the name and path that the cgroup that is looked at had when it was busy.
    pub(super) fn on_label(&mut self, name: &str, path: &Arc<str>) {
        if let Some(detail) = &mut self.detail {
            detail.learn(name, path);
        }
    }

    /// Takes in the history of the cgroup that is looked at.
    pub(super) fn on_history(&mut self, trend: Vec<TrendPoint>, (findings, span): (Vec<Finding>, Span)) {
        if let Some(detail) = &mut self.detail {
            (detail.trend, detail.findings, detail.found_over) = (trend, findings, Some(span));
        }
    }

    /// Its history is not known for now.
    pub(super) fn forget_history(&mut self) {
        if let Some(detail) = &mut self.detail {
            (detail.trend, detail.findings, detail.found_over) = (Vec::new(), Vec::new(), None);
        }
    }

    /// The next interval while a recording plays, and how long it took.
    pub(super) fn next_to_play(&self) -> Option<(u64, Nanos)> {
        let frame = self.frame.as_ref().filter(|_| self.mode == Mode::Replay && self.running)?;
        let (_, last) = self.span?;
        (frame.n < last).then_some((frame.n + 1, frame.interval.duration_ns))
    }

    pub(super) fn on_key(&mut self, key: Key) -> Action {
        let Some(command) = keymap::command(self.context(), key) else {
            return match (&mut self.prompt, key) {
                (Some(prompt), Key::Char(char)) => {
                    prompt.push(char);
                    self.filter();
                    Action::Redraw
                }
                _ => Action::Ignore,
            };
        };
        self.obey(command)
    }

    fn context(&self) -> Context {
        match (&self.prompt, self.overlay) {
            (Some(_), _) => Context::Filter,
            (None, Some(Overlay::Columns)) => Context::Columns,
            _ => Context::Anywhere,
        }
    }

    /// Is `command` about the table of cgroups, which is not to be seen?
    fn is_about_what_is_hidden(&self, command: Command) -> bool {
        let of_table = matches!(
            command,
            Command::NextSort
                | Command::PreviousSort
                | Command::Reverse
                | Command::Tree
                | Command::Fold
                | Command::Sideways(_)
        );
        of_table && (self.detail.is_some() || self.view != View::Cgroups)
    }

    fn obey(&mut self, command: Command) -> Action {
        self.notice = None;
        if self.is_about_what_is_hidden(command) {
            return Action::Ignore;
        }
        match command {
            Command::Quit => return Action::Quit,
            Command::Suspend => return Action::Suspend,
            Command::Back => return self.back(),
            Command::Pause => return self.pause(),
            Command::Step(step) => return self.step(step),
            Command::Move(to) => self.go(to),
            Command::Open => self.open(),
            Command::Sideways(side) => self.table.sideways(side),
            Command::View(view) => self.turn_to(view),
            Command::NextView => self.turn_to(self.view.next()),
            Command::NextSort => self.table.sort_by(|sort, columns| sort.next(columns)),
            Command::PreviousSort => self.table.sort_by(|sort, columns| sort.previous(columns)),
            Command::Reverse => {
                self.table.sort_by(|sort, _| super::sort::Sort { reversed: !sort.reversed, ..sort });
            }
            Command::Tree => self.table.turn_tree(),
            Command::Fold => self.table.fold(),
            Command::Filter | Command::Regex => {
                let start = if command == Command::Regex { "/" } else { "" };
                self.prompt = Some(Prompt::new(self.table.filter_text(), start));
                self.filter();
            }
            Command::Alerts => self.alerts_below = !self.alerts_below,
            Command::Columns => self.toggle(Overlay::Columns),
            Command::Verdict => self.toggle(Overlay::Verdict),
            Command::Help => self.toggle(Overlay::Help),
            Command::Hooks => self.toggle(Overlay::Hooks),
            Command::Toggle => self.picker.toggle(self.overlay_scroll.selected),
            Command::Shift(side) => {
                self.overlay_scroll.selected = self.picker.shift(self.overlay_scroll.selected, side);
            }
            Command::Reset => self.picker.reset(),
            // With an error the filter is not the one that is shown: the prompt stays.
            Command::Accept => self.prompt = self.prompt.take().filter(|prompt| prompt.error.is_some()),
            Command::Cancel => {
                let before = self.prompt.take().map(|prompt| prompt.before).unwrap_or_default();
                self.table.set_filter(&before);
            }
            Command::Erase | Command::Clear => {
                if let Some(prompt) = &mut self.prompt {
                    if command == Command::Clear { prompt.clear() } else { prompt.erase() }
                }
                self.filter();
            }
        }
        self.table.set_columns(self.picker.chosen());
        if !matches!(command, Command::Move(_)) {
            self.arrange();
        }
        Action::Redraw
    }

    fn back(&mut self) -> Action {
        if self.overlay.take().is_some() || self.detail.take().is_some() {
            return Action::Redraw;
        }
        if self.table.filter_text().is_empty() {
            return Action::Quit;
        }
        self.table.set_filter("");
        self.arrange();
        Action::Redraw
    }

    /// Holds the view, or lets it go: back to the newest interval, or on with the recording.
    fn pause(&mut self) -> Action {
        self.running = !self.running;
        match (self.mode, self.span) {
            (Mode::Live, Some((_, last))) if self.running && self.shown().is_some_and(|n| n != last) => {
                Action::Show(last)
            }
            // From the start again.
            (Mode::Replay, Some((first, _))) if self.running && self.ended => Action::Show(first),
            _ => Action::Redraw,
        }
    }

    fn step(&mut self, step: Step) -> Action {
        let Some(((first, last), frame)) = self.span.zip(self.frame.as_ref()) else { return Action::Ignore };
        let minute = (60.0 / frame.interval.duration_ns.seconds().max(1e-3)).round().max(1.0) as u64;
        let to = match step {
            Step::Back => frame.n.saturating_sub(1),
            Step::Forth => frame.n.saturating_add(1),
            Step::MinuteBack => frame.n.saturating_sub(minute),
            Step::MinuteForth => frame.n.saturating_add(minute),
        };
        let (to, from) = (to.clamp(first, last), frame.n);
        self.running = false;
        // The interval that is shown may be older than all that are kept: a step back would go forth.
        let is_other_way = (to > from) != matches!(step, Step::Forth | Step::MinuteForth);
        if to == from || is_other_way { Action::Redraw } else { Action::Show(to) }
    }

    fn go(&mut self, to: Move) {
        let frame = self.frame.as_ref();
        match (&mut self.detail, self.overlay, self.view) {
            (_, Some(_), _) => self.overlay_scroll.go(to),
            (Some(detail), None, _) => detail.scroll.go(to),
            (None, None, View::Cgroups) => {
                let is_first = self.table.selected_row().is_none_or(|row| row == 0);
                // The verdict stands above the first row.
                match (self.on_verdict, to) {
                    (false, Move::Up) if is_first => self.on_verdict = true,
                    (true, Move::Up) => {}
                    (true, Move::Down) => self.on_verdict = false,
                    _ => {
                        self.on_verdict = false;
                        self.table.select(to);
                    }
                }
            }
            (None, None, View::Cpus) => self.cpus.go(to),
            (None, None, View::Listeners) => {
                let rows = frame.map(super::listeners::sorted).unwrap_or_default();
                self.listeners.go(to, rows.into_iter().map(listener_key));
            }
            (None, None, View::Alerts) => {
                self.alerts.go(to, frame.map(Frame::alerts).unwrap_or_default().iter().map(alert_key));
            }
            (None, None, View::Waits) => self.waits.go(to),
        }
    }

    fn open(&mut self) {
        if self.overlay.is_some() {
            self.overlay = None;
            return;
        }
        if self.detail.is_some() {
            return;
        }
        if self.is_on_verdict() {
            return self.toggle(Overlay::Verdict);
        }
        let Some(frame) = &self.frame else { return };
        let subject = match self.view {
            View::Cgroups => match self.table.selected_key() {
                Some(RowKey::Cgroup(id)) => Some(AlertSubject::Cgroup(id)),
                Some(RowKey::Path(_)) => return self.table.fold(),
                None => None,
            },
            View::Cpus => None,
            View::Listeners => {
                let selected = super::listeners::sorted(frame).get(self.listeners.scroll.selected).copied();
                selected.map(|it| AlertSubject::Listener(it.netns, it.address))
            }
            View::Alerts => frame.alerts().get(self.alerts.scroll.selected).map(|active| active.alert.subject),
            View::Waits => self.waits.selected().map(|wait| AlertSubject::Cgroup(wait.victim)),
        };
        match subject.map(|subject| (subject, frame.owner(subject))) {
            Some((_, Some(id))) => self.detail = Some(Detail::new(id, frame)),
            Some((AlertSubject::Host, None)) => self.notice = Some("see the top of the screen for the host".to_owned()),
            Some((_, None)) => self.notice = Some("the cgroup of this listener is unknown".to_owned()),
            None => {}
        }
    }

    fn turn_to(&mut self, view: View) {
        self.view = view;
        self.detail = None;
        self.overlay = None;
    }

    fn toggle(&mut self, overlay: Overlay) {
        self.overlay = (self.overlay != Some(overlay)).then_some(overlay);
        self.overlay_scroll = Scroll::default();
    }

    /// Filters by what is in the prompt, as far as it can be read.
    fn filter(&mut self) {
        if let Some(prompt) = &mut self.prompt {
            prompt.error = self.table.set_filter(prompt.text());
        }
        self.arrange();
    }

    /// Learns how much room there is, and keeps what is selected in sight.
    pub(super) fn fit(&mut self, room: Room) {
        let (seen, lines) = room.view;
        match (&mut self.detail, self.view) {
            (Some(detail), _) => detail.scroll.fit_lines(seen, lines),
            (None, View::Cgroups) => self.table.fit(seen),
            (None, View::Cpus) => self.cpus.fit_lines(seen, lines),
            (None, View::Listeners) => self.listeners.scroll.fit_rows(seen, lines),
            (None, View::Alerts) => self.alerts.scroll.fit_rows(seen, lines),
            (None, View::Waits) => self.waits.fit(seen),
        }
        let (seen, lines) = room.overlay;
        match self.overlay {
            Some(Overlay::Columns) => self.overlay_scroll.fit_rows(seen, lines),
            _ => self.overlay_scroll.fit_lines(seen, lines),
        }
    }

    pub(super) const fn session(&self) -> &Session {
        &self.session
    }

    pub(super) const fn frame(&self) -> Option<&Frame> {
        self.frame.as_ref()
    }

    /// The interval that is shown.
    pub(super) fn shown(&self) -> Option<u64> {
        self.frame.as_ref().map(|frame| frame.n)
    }

    pub(super) const fn mode(&self) -> Mode {
        self.mode
    }

    pub(super) const fn running(&self) -> bool {
        self.running
    }

    pub(super) const fn ended(&self) -> bool {
        self.ended
    }

    /// How long before the newest interval that was seen the one that is shown ended.
    pub(super) fn behind(&self) -> Nanos {
        self.frame.as_ref().map_or(Nanos::ZERO, |frame| self.newest_end.saturating_sub(frame.end()))
    }

    pub(super) const fn span(&self) -> Option<(u64, u64)> {
        self.span
    }

    pub(super) const fn view(&self) -> View {
        self.view
    }

    pub(super) const fn detail(&self) -> Option<&Detail> {
        self.detail.as_ref()
    }

    pub(super) const fn link(&self) -> Option<&Link> {
        self.link.as_ref()
    }

    pub(super) const fn looks_ended(&self) -> bool {
        self.looks_ended
    }

    /// Are the worst alerts shown below the view? Not where all are.
    pub(super) fn shows_alerts_below(&self) -> bool {
        self.alerts_below && (self.detail.is_some() || self.view != View::Alerts)
    }

    pub(super) fn is_on_verdict(&self) -> bool {
        self.on_verdict && self.detail.is_none() && self.view == View::Cgroups
    }

    pub(super) const fn overlay(&self) -> Option<Overlay> {
        self.overlay
    }

    pub(super) const fn overlay_scroll(&self) -> &Scroll {
        &self.overlay_scroll
    }

    pub(super) const fn prompt(&self) -> Option<&Prompt> {
        self.prompt.as_ref()
    }

    pub(super) fn notice(&self) -> Option<&str> {
        self.notice.as_deref()
    }

    pub(super) const fn picker(&self) -> &Picker {
        &self.picker
    }
}

fn listener_key(listener: &Listener) -> (u32, SocketAddr) {
    (listener.netns, listener.address)
}

fn alert_key(active: &ActiveAlert) -> (AlertSubject, AlertKind) {
    (active.alert.subject, active.alert.kind)
}
