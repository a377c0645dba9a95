//! `lagstop top`: the intervals of a stream on the terminal, as they come.
//!
//! What a key or an interval does is decided in `state` over plain data. `view` draws a state and decides nothing. Only
//! `screen`, `input` and `signals` know the terminal and the process.

mod column;
mod error;
mod figure;
mod input;
mod keymap;
mod screen;
mod sort;
mod state;
#[cfg(test)]
mod tests;
mod text;
mod theme;
mod view;

use std::io::{IsTerminal, stdin, stdout};

pub use error::TopError;

use crate::{signals::Endings, source::Stream};
use input::Input;
use screen::Screen;
use state::{Action, State};
use theme::Theme;

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
pub async fn run(stream: Stream) -> Result<(), TopError> {
    check_terminal()?;
    let signals = Endings::listen().map_err(TopError::Signals)?;
    let mut screen = Screen::enter().map_err(TopError::Terminal)?;
    let shown = show(&mut screen, stream, signals).await;
    screen.leave().map_err(TopError::Terminal).and(shown)
}

/// The loop: draw, wait for whatever comes first, let the state decide.
async fn show(screen: &mut Screen, stream: Stream, mut signals: Endings) -> Result<(), TopError> {
    let Stream { session, mut intervals, stop: _stop, .. } = stream;
    let mut state = State::new(session);
    let theme = Theme::from_environment();
    let mut input = Input::start();
    loop {
        screen.draw(|frame| view::draw(frame, &mut state, &theme))?;
        tokio::select! {
            interval = intervals.recv(), if !state.ended() => match interval {
                Some(interval) => state.on_interval(interval?),
                None => state.on_end(),
            },
            event = input.next() => match event.map_err(TopError::Terminal)? {
                input::Event::Key(key) => if state.on_key(key) == Action::Quit {
                    return Ok(());
                },
                input::Event::Resize => {}
            },
            () = signals.wait() => return Ok(()),
        }
    }
}
