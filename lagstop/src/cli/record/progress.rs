//! What the person at the terminal sees while it goes on.

use std::{
    fmt,
    io::{self, IsTerminal},
    path::Path,
};

use super::ring::Cause;
use crate::{
    cli::{Failure, output::is_stdout, say, sentinel::watching},
    model::{Interval, Session},
    recording::{Footer, Gap},
    source::Watched,
};

/// What the person at the terminal sees while it goes on.
pub(super) struct Progress {
    output: String,
    /// Only a terminal gets more than a line at the beginning.
    live: bool,
    /// Were programs attached when a sentinel was heard of last?
    is_attached: bool,
}

impl Progress {
    pub(super) fn new(output: &Path) -> Self {
        let to_terminal = is_stdout(output) && io::stdout().is_terminal();
        let output = if is_stdout(output) { "standard output".to_owned() } else { output.display().to_string() };
        Self { output, live: io::stderr().is_terminal() && !to_terminal, is_attached: false }
    }

    /// Where it goes, for people.
    pub(super) fn output(&self) -> &str {
        &self.output
    }

    pub(super) fn started(&self, session: &Session) {
        say(format_args!("recording to {} (Ctrl-C ends){}\n", self.output, session.not_measured()));
    }

    pub(super) fn interval(&self, interval: &Interval, count: u64) {
        if self.live {
            let overhead = interval.host.overhead().map_or("n/a".to_owned(), |share| format!("{:.2} %", share * 100.0));
            let cgroups = interval.cgroups.len();
            say(format_args!("\r\x1b[K{count} intervals, {cgroups} cgroups, overhead {overhead}"));
        }
    }

    /// A time of which nothing is known, said also where no terminal is.
    pub(super) fn gap(&self, gap: &Gap) {
        self.message(format_args!("lagstop: gap in the recording: {}, {}", gap.reason, gap.duration_ns));
    }

    /// A sentinel begins to measure, or ends it.
    pub(super) fn watched(&mut self, now: &Watched) {
        if std::mem::replace(&mut self.is_attached, now.is_attached) != now.is_attached {
            self.message(format_args!("lagstop: {}", watching(now)));
        }
    }

    /// What was in memory is in a file now.
    pub(super) fn dumped(&self, path: &Path, why: Cause) {
        self.message(format_args!("{why}: wrote {}", path.display()));
    }

    /// What is in memory could not be written.
    pub(super) fn not_dumped(&self, why: Cause, error: &Failure) {
        self.message(format_args!("lagstop: {why}: {error}. The intervals stay in memory"));
    }

    /// The command's output goes on below.
    pub(super) fn failed_while_the_command_runs(&self, error: &Failure) {
        self.message(format_args!("lagstop: {error}. The recording has ended; the command continues"));
    }

    /// In place of the line of progress.
    fn message(&self, text: fmt::Arguments<'_>) {
        let clear = if self.live { "\r\x1b[K" } else { "" };
        say(format_args!("{clear}{text}\n"));
    }

    pub(super) fn ended(&self, footer: &Footer) {
        if self.live {
            say(format_args!("\r\x1b[K{} intervals in {}\n", footer.intervals, self.output));
        }
    }
}
