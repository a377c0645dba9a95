//! What the person at the terminal sees during a recording.

use std::{
    fmt,
    io::{self, IsTerminal},
    path::Path,
};

use super::ring::DumpCause;
use crate::{
    cli::{Failure, behind, output::is_stdout, say, sentinel::watching},
    model::{Interval, Session},
    recording::{Footer, Gap},
    source::SentinelState,
    units::{if_measured, percent},
};

/// What the person at the terminal sees during a recording.
pub(super) struct RecordProgress {
    output: String,
    /// Is the progress shown? That takes a terminal. Otherwise there is a line at the beginning, and messages.
    live: bool,
    /// Were programs attached at the last report of a sentinel?
    is_attached: bool,
}

impl RecordProgress {
    pub(super) fn new(output: &Path) -> Self {
        let to_terminal = is_stdout(output) && io::stdout().is_terminal();
        let output = if is_stdout(output) { "standard output".to_owned() } else { output.display().to_string() };
        Self { output, live: io::stderr().is_terminal() && !to_terminal, is_attached: false }
    }

    /// The name of the output, for people.
    pub(super) fn output(&self) -> &str {
        &self.output
    }

    pub(super) fn started(&self, session: &Session) {
        say(format_args!("recording to {} (Ctrl-C ends){}\n", self.output, behind(session.not_measured())));
    }

    pub(super) fn interval(&self, interval: &Interval, count: u64) {
        if self.live {
            let overhead = if_measured(interval.host.overhead(), percent);
            let cgroups = interval.cgroups.len();
            say(format_args!("\r\x1b[K{count} intervals, {cgroups} cgroups, overhead {overhead}"));
        }
    }

    /// Reports a gap, even without a terminal.
    pub(super) fn gap(&self, gap: &Gap) {
        self.message(format_args!("lagstop: gap in the recording: {}, {}", gap.reason, gap.duration_ns));
    }

    /// Reports that a sentinel begins to measure, or ends it.
    pub(super) fn watched(&mut self, now: &SentinelState) {
        if std::mem::replace(&mut self.is_attached, now.is_attached) != now.is_attached {
            self.message(format_args!("lagstop: {}", watching(now)));
        }
    }

    pub(super) fn dumped(&self, path: &Path, why: DumpCause) {
        self.message(format_args!("{why}: wrote {}", path.display()));
    }

    /// What is in memory could not be written.
    pub(super) fn not_dumped(&self, why: DumpCause, error: &Failure) {
        self.message(format_args!("lagstop: {why}: {error}. The intervals stay in memory"));
    }

    /// The output of the command continues below this message.
    pub(super) fn failed_while_the_command_runs(&self, error: &Failure) {
        self.message(format_args!("lagstop: {error}. The recording has ended; the command continues"));
    }

    /// Replaces the line of progress.
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
