//! Why the screen cannot be shown, or ended.

use std::io;

use crate::{display::plain, recording::ReadError, source::SourceError};

/// Why `lagstop top` ended without being asked to.
#[derive(Debug, thiserror::Error)]
pub enum TopError {
    /// Nobody could see it or press a key.
    #[error(
        "lagstop top needs a terminal on stdin and stdout. In scripts and pipes, use `lagstop top --once` or `lagstop record`; \
         with ssh or docker exec, request a terminal with -t"
    )]
    NotATerminal,
    /// The terminal failed.
    #[error("cannot use the terminal: {}. If it looks wrong, run `reset`", plain(.0))]
    Terminal(#[source] io::Error),
    /// The signals that end it cannot be heard.
    #[error("cannot listen for the signals that end lagstop top: {}", plain(.0))]
    Signals(#[source] io::Error),
    /// A part of the process panicked, and its message is on the terminal.
    #[error("lagstop panicked and closed the screen. Please report it with the message above")]
    Panicked,
    /// What was seen cannot be kept or read back.
    #[error("cannot store or read the history: {0}. This is a bug in lagstop. Please report it")]
    Timeline(#[source] io::Error),
    /// The output takes no more text.
    #[error("cannot write the output: {}", plain(.0))]
    Output(#[source] io::Error),
    #[error(transparent)]
    Recording(#[from] ReadError),
    /// What was shown ended.
    #[error(transparent)]
    Source(#[from] SourceError),
}
