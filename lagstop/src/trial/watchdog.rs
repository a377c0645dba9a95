//! The process that undoes a trial whose own process is gone.
//!
//! It waits at its standard input, whose other end is the trial's, and is closed however that ends. In a session of its own it
//! outlives the terminal.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
    thread,
    time::Duration,
};

use super::{Journal, JournalError, Restored};

/// The subcommand that it is.
pub const WATCHDOG: &str = "trial-watchdog";
/// Said when it watches, and to it when there is nothing to undo any more.
const READY: &str = "ready";
const DONE: &str = "done";
const STEP: Duration = Duration::from_millis(10);

/// The watchdog of a trial, from that one's side.
#[derive(Debug)]
pub(super) struct Watchdog {
    child: Child,
    stdin: Option<ChildStdin>,
}

impl Watchdog {
    /// Starts it, and waits until it watches.
    pub(super) fn start(journal: &Path) -> io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(WATCHDOG).arg("--journal").arg(journal).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let mut line = String::new();
        let stdout = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        BufReader::new(stdout).read_line(&mut line)?;
        let stdin = child.stdin.take();
        if line.trim() == READY { Ok(Self { child, stdin }) } else { Err(io::Error::other("it does not answer")) }
    }

    /// Does it still watch?
    pub(super) fn is_there(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Lets it go: there is nothing to undo.
    pub(super) fn end(mut self) {
        if let Some(mut stdin) = self.stdin.take() {
            let _ = writeln!(stdin, "{DONE}");
        }
        let _ = self.child.wait();
    }
}

/// Watches until the trial is done, or gone: then what is in its journal is undone.
///
/// # Errors
/// When the journal cannot be read.
pub fn watch(journal: &Path) -> Result<Option<Restored>, JournalError> {
    // The terminal's end is not its own. One that leads a session already is in one of its own.
    let _ = rustix::process::setsid();
    let _ = writeln!(io::stdout(), "{READY}").and_then(|()| io::stdout().flush());
    let mut told = String::new();
    let _ = io::stdin().read_to_string(&mut told);
    if told.trim() == DONE {
        return Ok(None);
    }
    loop {
        match Journal::restore(journal) {
            Ok(restored) => return Ok(Some(restored)),
            // It was removed before it could be said.
            Err(JournalError::Nothing(_)) => return Ok(None),
            // It has let go of its end, and is about to be gone.
            Err(JournalError::Running(_)) => thread::sleep(STEP),
            Err(error) => return Err(error),
        }
    }
}
