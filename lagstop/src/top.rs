//! `lagstop top`: the intervals of a stream or a recording on the terminal.
//!
//! What a key or an interval does is decided in `state` over plain data; `timeline` keeps what was seen; `view` draws a
//! state and decides nothing. `app` holds the three together. Only `screen`, `input` and `signals` know the terminal and the
//! process.

mod app;
mod batch;
mod column;
mod error;
mod filter;
mod frame;
mod input;
mod keymap;
mod listeners;
mod mark;
mod quantity;
mod rows;
mod screen;
mod settings;
mod sort;
mod state;
#[cfg(test)]
mod tests;
mod text;
mod theme;
mod timeline;
mod view;
mod waits;
mod watch;

use std::{
    io::{IsTerminal, stdin, stdout},
    time::Duration,
};

pub use app::{App, KeyOutcome};
pub use batch::{Batch, BatchFormat, print};
pub use error::TopError;
pub use filter::NoRegex;
pub use keymap::{Key, markdown as key_table};
pub(crate) use mark::Mark;
pub use settings::{TopSettingError, TopSettings};

use crate::{
    model::{CloserLook, Nanos},
    recording::Reader,
    signals::{Endings, Stops},
    source::{Looks, Stream, changed},
};
use input::{Event, Input};
use screen::Screen;
use tokio::time::Instant;

/// Is there somebody to look at the screen and press keys? Worth asking before anything is measured.
///
/// # Errors
/// When stdin or stdout is no terminal.
pub fn check_terminal() -> Result<(), TopError> {
    if stdin().is_terminal() && stdout().is_terminal() { Ok(()) } else { Err(TopError::NotATerminal) }
}

/// Shows `stream` until the user quits, a signal asks to end, or the stream ends with an error. A stream that merely
/// ends leaves its last interval on the screen. The terminal is as before afterwards, whatever happened.
///
/// # Errors
/// When stdin or stdout is no terminal, when the terminal fails, or with the error that ended the stream.
pub async fn run(stream: Stream, settings: &TopSettings) -> Result<(), TopError> {
    let app = App::live(&stream.session, settings);
    on_screen(app, Some(stream)).await
}

/// Shows a recording until the user quits or a signal asks to end.
///
/// # Errors
/// When stdin or stdout is no terminal, when the terminal fails, or when the recording cannot be read.
pub async fn replay(recording: Reader, settings: &TopSettings) -> Result<(), TopError> {
    let app = App::replay(recording, settings)?;
    on_screen(app, None).await
}

async fn on_screen(app: App, stream: Option<Stream>) -> Result<(), TopError> {
    check_terminal()?;
    let endings = Endings::listen().map_err(TopError::Signals)?;
    let stops = Stops::listen().map_err(TopError::Signals)?;
    let mut screen = Screen::enter().map_err(TopError::Terminal)?;
    let shown = show(&mut screen, app, stream, endings, stops).await;
    screen.leave().map_err(TopError::Terminal).and(shown)
}

/// The loop: draw, wait for whatever comes first, let the app decide.
async fn show(
    screen: &mut Screen,
    mut app: App,
    mut stream: Option<Stream>,
    mut endings: Endings,
    mut stops: Stops,
) -> Result<(), TopError> {
    let mut looks = stream.as_mut().and_then(|stream| stream.looks.take());
    let mut link = stream.as_mut().and_then(|stream| stream.link.take());
    if let Some(link) = &mut link {
        app.on_link(link.borrow_and_update().clone());
    }
    let mut input = Input::start();
    // When a recording that plays shows its next interval.
    let mut turn = Instant::now();
    let mut playing = false;
    let mut is_new = true;
    // Until then, more keys of the same movement may come.
    let mut lull = Instant::now();
    loop {
        if app.stays().is_some() != playing {
            playing = !playing;
            turn = later(&app, Instant::now());
        }
        if std::mem::replace(&mut is_new, true) {
            screen.draw(|frame| app.draw(frame))?;
        }
        let mut suspend = None;
        let before = app.looked_at();
        tokio::select! {
            interval = next(&mut stream), if stream.is_some() && !app.ended() => match interval {
                Some(interval) => {
                    app.on_interval(interval?)?;
                    ask(&app, looks.as_ref());
                }
                None => app.on_end(),
            },
            event = input.next() => match event.map_err(TopError::Terminal)? {
                Event::Key(key) => {
                    lull = Instant::now() + LULL;
                    match app.on_key(key)? {
                        KeyOutcome::Quit => return Ok(()),
                        KeyOutcome::Suspend => suspend = Some(true),
                        KeyOutcome::Redraw | KeyOutcome::Ignored => {}
                    }
                }
                Event::Resize => {}
            },
            look = look(&mut looks), if looks.is_some() => match look {
                Some(look) => app.on_look(look),
                None => {
                    looks = None;
                    app.on_looks_end();
                }
            },
            Some(now) = changed(&mut link) => app.on_link(now),
            () = tokio::time::sleep_until(turn), if app.stays().is_some() => {
                app.play()?;
                turn = later(&app, turn);
            }
            () = nothing_else(lull), if app.is_behind() => is_new = app.catch_up()?,
            () = stops.wait() => suspend = Some(false),
            () = endings.wait() => return Ok(()),
        }
        if app.looked_at() != before {
            ask(&app, looks.as_ref());
        }
        if let Some(with_group) = suspend {
            screen.suspend(with_group).map_err(TopError::Terminal)?;
        }
    }
}

/// Keys that follow on each other faster than this are one movement.
const LULL: Duration = Duration::from_millis(150);

/// Waits until nothing else is to be done: `lull` is over, and whatever has come by then is handled.
async fn nothing_else(lull: Instant) {
    tokio::time::sleep_until(lull).await;
    tokio::task::yield_now().await;
}

/// When the interval that is shown since `since` has been shown for long enough.
fn later(app: &App, since: Instant) -> Instant {
    since + app.stays().map_or(Duration::ZERO, |stays| Duration::from_nanos(stays.0.min(LONGEST_STAY.0)))
}

/// A recording may claim any length of an interval: none is shown for longer than this.
const LONGEST_STAY: Nanos = Nanos(3_600 * Nanos::SECOND.0);

async fn next(stream: &mut Option<Stream>) -> Option<Result<crate::model::Interval, crate::source::SourceError>> {
    match stream {
        Some(stream) => stream.intervals.recv().await,
        None => None,
    }
}

async fn look(looks: &mut Option<Looks>) -> Option<CloserLook> {
    match looks {
        Some(looks) => looks.next().await,
        None => None,
    }
}

/// Asks for limits and threads of the cgroup that is looked at.
fn ask(app: &App, looks: Option<&Looks>) {
    if let Some((looks, (id, path))) = looks.zip(app.looked_at()) {
        looks.ask(id, path);
    }
}
