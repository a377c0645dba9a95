//! What the person at the terminal sees while a recording is read.

use std::{
    io::{self, IsTerminal},
    time::{Duration, Instant},
};

use super::say;

/// How far it is, on standard error, where that is a terminal and it takes long.
pub(super) struct Progress {
    what: &'static str,
    is_live: bool,
    next: Instant,
    is_shown: bool,
}

impl Progress {
    /// Nobody waits for less in vain.
    const PATIENCE: Duration = Duration::from_millis(700);
    const STEP: Duration = Duration::from_millis(200);

    /// Begins `what`, as in "reading".
    pub(super) fn new(what: &'static str) -> Self {
        Self { what, is_live: io::stderr().is_terminal(), next: Instant::now() + Self::PATIENCE, is_shown: false }
    }

    /// Says that `done` of `all` steps are done.
    pub(super) fn step(&mut self, done: usize, all: usize) {
        let now = Instant::now();
        if self.is_live && now >= self.next {
            self.next = now + Self::STEP;
            self.is_shown = true;
            let percent = 100 * done as u128 / all.max(1) as u128;
            say(format_args!("\r\x1b[K{}: {percent} %", self.what));
        }
    }
}

/// The line it was on is free again.
impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_shown {
            say(format_args!("\r\x1b[K"));
        }
    }
}
