//! Why the screen cannot be shown, or ended.

use std::io;

use crate::{display::plain, recording::ReadError, source::SourceError};

/// Why `lagstop top` ended without being asked to.
#[derive(Debug, thiserror::Error)]
pub enum TopError {
    /// Nobody could see it or press a key.
    #[error(
        "lagstop top needs a terminal on stdin and stdout; in scripts and pipes use `lagstop top --once` or \
         `lagstop record`, over ssh or docker exec ask for a terminal with -t"
    )]
    NotATerminal,
    /// The terminal failed.
    #[error("the terminal cannot be used: {}; `reset` brings it back should it look wrong", plain(.0))]
    Terminal(#[source] io::Error),
    /// The signals that end it cannot be heard.
    #[error("cannot listen for the signals that end lagstop top: {}", plain(.0))]
    Signals(#[source] io::Error),
    /// A part of the process panicked, and its message is on the terminal.
    #[error("a part of lagstop panicked, and the screen was given up so that its message above can be read")]
    Panicked,
    /// What was seen cannot be kept or read back.
    #[error("what was seen cannot be kept or read back ({0}): a fault of lagstop's own. Please report it")]
    Timeline(#[source] io::Error),
    /// The output takes no more text.
    #[error("the output cannot be written: {}", plain(.0))]
    Output(#[source] io::Error),
    #[error(transparent)]
    Recording(#[from] ReadError),
    /// What was shown ended.
    #[error(transparent)]
    Source(#[from] SourceError),
}
