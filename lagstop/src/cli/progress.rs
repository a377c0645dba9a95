//! What the person at the terminal sees while it takes long.

use std::{
    io::{self, IsTerminal, Write},
    sync::mpsc::{SyncSender, sync_channel},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use super::say;

/// Shows the progress on standard error, if that is a terminal and the work takes long.
pub(super) struct Progress {
    what: &'static str,
    is_live: bool,
    next: Instant,
    is_shown: bool,
}

impl Progress {
    /// Work that is done within this time shows no progress.
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

/// Clears the line.
impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_shown {
            say(format_args!("\r\x1b[K"));
        }
    }
}

/// Shows a line with the progress on standard error, if that is a terminal. A separate thread writes it, so that a
/// stopped terminal (Ctrl-S) blocks nothing else.
pub(super) struct StatusLine {
    says: Option<SyncSender<String>>,
    writes: Option<JoinHandle<()>>,
}

impl StatusLine {
    /// With nothing on it yet.
    pub(super) fn new() -> Self {
        if io::stderr().is_terminal() { Self::on(io::stderr()) } else { Self { says: None, writes: None } }
    }

    fn on(mut terminal: impl Write + Send + 'static) -> Self {
        let (says, lines) = sync_channel::<String>(1);
        // Without a thread, nothing is said.
        let writes = thread::Builder::new().spawn(move || {
            for line in lines {
                let _ = write!(terminal, "\r\x1b[K{line}").and_then(|()| terminal.flush());
            }
            // Clears the line.
            let _ = write!(terminal, "\r\x1b[K").and_then(|()| terminal.flush());
        });
        Self { says: Some(says), writes: writes.ok() }
    }

    /// Shows `line`, unless the terminal still takes the previous one.
    pub(super) fn say(&self, line: String) {
        // A line that is not taken now would be outdated later.
        self.says.as_ref().map(|says| says.try_send(line));
    }
}

/// Waits until the line is cleared. Callers that have something to undo do that first.
impl Drop for StatusLine {
    fn drop(&mut self) {
        self.says = None;
        // Nothing in the thread panics.
        self.writes.take().map(JoinHandle::join);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex, mpsc::Receiver};

    use super::*;

    /// A terminal that takes nothing until it is told to.
    struct Stopped {
        goes_on: Receiver<()>,
        written: Arc<Mutex<Vec<u8>>>,
    }

    impl Write for Stopped {
        fn write(&mut self, text: &[u8]) -> io::Result<usize> {
            // Blocks until it is told to go on, and then never again.
            let _ = self.goes_on.recv();
            self.written.lock().unwrap().extend_from_slice(text);
            Ok(text.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn nobody_waits_for_a_terminal_that_is_stopped() {
        let (go, goes_on) = std::sync::mpsc::channel();
        let written = Arc::new(Mutex::new(Vec::new()));
        let line = StatusLine::on(Stopped { goes_on, written: Arc::clone(&written) });
        for step in 0..1_000 {
            line.say(format!("step {step}"));
        }
        assert!(written.lock().unwrap().is_empty(), "it has got here all the same");
        drop(go);
        drop(line);
        let written = String::from_utf8(written.lock().unwrap().clone()).unwrap();
        assert!(written.starts_with("\r\x1b[Kstep 0") && written.ends_with("\r\x1b[K"), "{written:?}");
        assert!(written.matches("step").count() <= 2, "the others were old by then");
    }
}
