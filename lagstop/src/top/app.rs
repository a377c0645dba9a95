//! The screen without a terminal: a state, what was seen, and who fetches the one from the other.

use std::{ops::Range, sync::Arc};

use ratatui::Frame as Canvas;

use super::{
    error::TopError,
    frame::Frame,
    keymap::Key,
    settings::TopSettings,
    state::{Action, Mode, State},
    theme::Theme,
    timeline::{HistoryLimits, Timeline},
    view::{self, Look},
};
use crate::{
    model::{CgroupId, CloserLook, Interval, Nanos, Session},
    recording::Reader,
    source::Link,
};

/// Time before an interval that is jumped to, which is read too for what only several intervals tell: six times as long as
/// roles remember.
const WARM_UP: Nanos = Nanos(30 * Nanos::SECOND.0);
/// Intervals that are read for that at most: there may be fifty in a second.
const MOST_WARM_UP: u64 = 120;
/// Where a jump goes less than this many intervals ahead, all in between are read.
const AHEAD: u64 = 120;
/// Bytes of a recording that are kept: what is in the file can be read again.
const KEPT_OF_RECORDING: usize = 24 << 20;
/// Intervals of one cgroup's history.
const TREND: usize = 240;

/// The screen without a terminal.
#[derive(Debug)]
pub struct App {
    state: State,
    timeline: Timeline,
    recording: Option<Reader>,
    /// Intervals of the recording that are still to be read, up to the one that is shown.
    behind: Range<u64>,
    look: Look,
    /// The cgroup whose history the state has been told, and up to which interval.
    told: Option<(CgroupId, u64)>,
}

/// What is to be done after a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyOutcome {
    /// Nothing: the key means nothing here.
    Ignored,
    Redraw,
    /// Go into the background.
    Suspend,
    Quit,
}

impl App {
    /// For intervals that come one by one.
    pub fn live(session: &Session, settings: &TopSettings) -> Self {
        Self::new(session, settings, Mode::Live)
    }

    /// For a recording; shows its first interval.
    ///
    /// # Errors
    /// When that cannot be read.
    pub fn replay(recording: Reader, settings: &TopSettings) -> Result<Self, TopError> {
        let mut app = Self::new(recording.session(), settings, Mode::Replay);
        app.state.on_recording(recording.len() as u64);
        app.recording = Some(recording);
        if app.state.span().is_some() {
            app.show(0)?;
        }
        Ok(app)
    }

    fn new(session: &Session, settings: &TopSettings, mode: Mode) -> Self {
        let settings = &settings.of_session(session);
        let history = match mode {
            Mode::Live => settings.history,
            Mode::Replay => HistoryLimits { bytes: settings.history.bytes.min(KEPT_OF_RECORDING), ..settings.history },
        };
        Self {
            state: State::new(session.clone(), mode, settings),
            timeline: Timeline::new(session, &settings.thresholds, history),
            recording: None,
            behind: 0..0,
            look: Look { theme: Theme::from_environment(settings.palette), ascii: settings.ascii },
            told: None,
        }
    }

    /// Takes in the next interval.
    ///
    /// # Errors
    /// When it cannot be kept: a fault of lagstop's own.
    pub fn on_interval(&mut self, interval: Interval) -> Result<(), TopError> {
        let frame = self.timeline.push(interval).map_err(TopError::Timeline)?;
        let first = self.timeline.kept().map_or(frame.n, |(first, _)| first);
        self.state.on_newest(first, frame);
        self.tell()
    }

    /// There will be no more intervals.
    pub const fn on_end(&mut self) {
        self.state.on_end();
    }

    /// The intervals come over a connection, which is so now.
    pub fn on_link(&mut self, link: Link) {
        self.state.on_link(link);
    }

    /// Limits and threads of a cgroup have been read.
    pub fn on_look(&mut self, look: CloserLook) {
        self.state.on_look(look);
    }

    /// Limits and threads will not be read any more: a fault of lagstop's own.
    pub fn on_looks_end(&mut self) {
        self.state.on_looks_end();
    }

    /// Does what `key` asks for.
    ///
    /// # Errors
    /// When an interval that is to be shown cannot be read.
    pub fn on_key(&mut self, key: Key) -> Result<KeyOutcome, TopError> {
        let outcome = match self.state.on_key(key) {
            Action::Ignore => KeyOutcome::Ignored,
            Action::Redraw => KeyOutcome::Redraw,
            Action::Suspend => KeyOutcome::Suspend,
            Action::Quit => KeyOutcome::Quit,
            Action::Show(n) => {
                self.show_or_complain(n)?;
                KeyOutcome::Redraw
            }
        };
        self.tell()?;
        Ok(outcome)
    }

    /// While a recording plays: how long the interval that is shown is to stay.
    pub fn stays(&self) -> Option<Nanos> {
        self.state.next_to_play().map(|(_, duration)| duration)
    }

    /// Shows the next interval of a recording that plays.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn play(&mut self) -> Result<(), TopError> {
        if let Some((n, _)) = self.state.next_to_play() {
            self.show_or_complain(n)?;
            self.tell()?;
        }
        Ok(())
    }

    /// Shows the `n`th interval of a recording, counted from 0.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn go_to(&mut self, n: u64) -> Result<(), TopError> {
        self.show(n)?;
        self.tell()
    }

    /// Is something still to be read that led up to the interval that is shown? Until then it is shown as if all began with it.
    pub fn is_behind(&self) -> bool {
        !self.behind.is_empty()
    }

    /// Reads the next of what led up to the interval that is shown. Gives whether there is more to be seen now.
    ///
    /// # Errors
    /// When it cannot be kept: a fault of lagstop's own.
    pub fn catch_up(&mut self) -> Result<bool, TopError> {
        let (Some(n), Some(recording)) = (self.behind.next(), &mut self.recording) else { return Ok(false) };
        match recording.interval(place(n)) {
            Ok(interval) => {
                let frame = self.timeline.push(interval).map_err(TopError::Timeline)?;
                if self.is_behind() {
                    return Ok(false);
                }
                self.state.show(frame);
            }
            Err(error) => {
                self.state.complain(error.to_string());
                // It cannot be read, and the intervals before it do not lead up to those after it.
                self.timeline.restart(n + 1);
            }
        }
        self.tell()?;
        Ok(true)
    }

    /// The cgroup that is looked at closely, with its path, if that is known.
    pub fn looked_at(&self) -> Option<(CgroupId, Arc<str>)> {
        self.state.detail().and_then(|detail| Some((detail.id, Arc::clone(detail.path.as_ref()?))))
    }

    /// Has an ended stream nothing more to show?
    pub const fn ended(&self) -> bool {
        self.state.ended()
    }

    pub fn draw(&mut self, canvas: &mut Canvas<'_>) {
        view::draw(canvas, &mut self.state, self.look);
    }

    /// For tests of what keys do.
    #[cfg(test)]
    pub(super) const fn state(&self) -> &State {
        &self.state
    }

    /// Shows the `n`th interval; where the recording is damaged there, stays with the one before and says so.
    fn show_or_complain(&mut self, n: u64) -> Result<(), TopError> {
        match self.show(n) {
            Err(TopError::Recording(error)) => {
                self.state.complain(error.to_string());
                Ok(())
            }
            shown => shown,
        }
    }

    fn show(&mut self, n: u64) -> Result<(), TopError> {
        let kept = self.timeline.frame(n).map_err(TopError::Timeline)?;
        let frame = match kept {
            Some(mut frame) => {
                // The recording still has the distributions that the timeline dropped.
                if let Some(recording) = self.recording.as_mut().filter(|_| !frame.has_shapes) {
                    frame.interval = recording.interval(place(n))?;
                    frame.has_shapes = true;
                }
                self.behind = 0..0;
                frame
            }
            None => match self.read(n)? {
                Some(frame) => frame,
                // Gone a moment ago: the view stays.
                None => return Ok(()),
            },
        };
        self.state.show(frame);
        Ok(())
    }

    /// Reads the `n`th interval of the recording. Intervals before it are needed to understand it, and can be many: they are
    /// read when there is time.
    fn read(&mut self, n: u64) -> Result<Option<Frame>, TopError> {
        let Some(recording) = &mut self.recording else { return Ok(None) };
        let interval = recording.interval(place(n))?;
        // Not far ahead: read all in between, so that nothing starts over.
        let next = self.timeline.kept().map(|(_, last)| last + 1).filter(|next| (*next..next + AHEAD).contains(&n));
        let first = next.unwrap_or_else(|| warm_up_from(n, |n| recording.start_of(place(n)).ok()));
        if next.is_none() {
            self.timeline.restart(first);
        }
        if first == n {
            self.behind = 0..0;
            return self.timeline.push(interval).map(Some).map_err(TopError::Timeline);
        }
        self.behind = first..n + 1;
        Ok(Some(self.timeline.glance(n, interval)))
    }

    /// Tells the state the past of the cgroup that is looked at, where it has not been told yet.
    fn tell(&mut self) -> Result<(), TopError> {
        if self.is_behind() {
            self.state.forget_history();
            self.told = None;
            return Ok(());
        }
        let of = self.state.detail().map(|detail| detail.id).zip(self.state.shown());
        if let Some((id, n)) = of.filter(|_| self.told != of) {
            let trend = self.timeline.trend(id, n, TREND).map_err(TopError::Timeline)?;
            self.state.on_history(trend, self.timeline.findings(id));
            // An idle one has a name in what was seen before.
            if let (None, Some((name, path))) = (self.looked_at(), self.timeline.label(id)) {
                self.state.on_label(name, path);
            }
        }
        self.told = of;
        Ok(())
    }
}

/// An interval by its number, for the recording.
fn place(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

/// The first interval to read where the `n`th is jumped to. `start_of` gives when an interval began, if that can be read.
fn warm_up_from(n: u64, mut start_of: impl FnMut(u64) -> Option<Nanos>) -> u64 {
    let Some(end) = start_of(n) else { return n };
    let mut first = n;
    let mut before = Nanos::ZERO;
    while before < WARM_UP
        && n - first < MOST_WARM_UP
        && let Some(earlier) = first.checked_sub(1)
        && let Some(start) = start_of(earlier)
    {
        (first, before) = (earlier, end.saturating_sub(start));
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jump_reads_as_much_time_whatever_the_length_of_intervals() {
        let from = |n: u64, millis: u64| warm_up_from(n, |n| Some(Nanos(n * millis * 1_000_000)));
        assert_eq!(from(500, 1_000), 470);
        assert_eq!(from(500, 10_000), 497);
        assert_eq!(from(500, 60_000), 499, "always one");
        assert_eq!(from(500, 20), 380, "not too many");
        assert_eq!(from(3, 1_000), 0);
        assert_eq!(warm_up_from(500, |n| (n > 490).then_some(Nanos::ZERO)), 491, "a damaged line ends it");
    }
}
