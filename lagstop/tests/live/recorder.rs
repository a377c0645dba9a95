//! `lagstop record` as a test runs it: gone when the test ends, also when it fails.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex},
    thread::{self, JoinHandle},
};

use lagstop::{
    model::Interval,
    recording::{Footer, Reader},
};
use rustix::process::{Pid, Signal, kill_process};

use crate::{command::lagstop, fixture::eventually};

/// A recorder, and what it says on standard error.
pub(crate) struct Recorder {
    child: Child,
    said: Arc<Mutex<String>>,
    listener: Option<JoinHandle<()>>,
}

impl Recorder {
    /// Starts to record, and waits until it does.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let recorder = Self::run(Command::new(lagstop()).arg("record").args(arguments));
        eventually("a recording", || recorder.says("recording to"));
        recorder
    }

    pub(crate) fn run(command: &mut Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let (stderr, said) = (BufReader::new(child.stderr.take().unwrap()), Arc::default());
        let all: Arc<Mutex<String>> = Arc::clone(&said);
        let listener = thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                *all.lock().unwrap() += &(line + "\n");
            }
        });
        Self { child, said, listener: Some(listener) }
    }

    pub(crate) fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// What it has said.
    pub(crate) fn said(&self) -> String {
        self.said.lock().unwrap().clone()
    }

    /// Has it said `text`?
    pub(crate) fn says(&self, text: &str) -> bool {
        self.count(text) > 0
    }

    /// How often it has said `text`.
    pub(crate) fn count(&self, text: &str) -> usize {
        self.said.lock().unwrap().matches(text).count()
    }

    /// Waits for its end, and for the end of what it said.
    pub(crate) fn end(&mut self) -> (ExitStatus, String) {
        let mut status = None;
        eventually("the end of the recorder", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        self.listener.take().unwrap().join().unwrap();
        (status.unwrap(), self.said.lock().unwrap().clone())
    }

    /// Ends it as Ctrl-C does.
    pub(crate) fn interrupt(&mut self) -> String {
        self.signal(Signal::INT);
        let (status, said) = self.end();
        assert!(status.success(), "{status}: {said}");
        said
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A recording, read back as users of it do.
pub(crate) struct Recording {
    pub(crate) intervals: Vec<Interval>,
    pub(crate) gaps: usize,
    /// `None`: it was cut off.
    pub(crate) footer: Option<Footer>,
}

impl Recording {
    pub(crate) fn read(path: &Path) -> Self {
        let mut reader = Reader::open(path).unwrap_or_else(|error| panic!("{error}"));
        let intervals = (0..reader.len()).map(|n| reader.interval(n).unwrap()).collect();
        Self { intervals, gaps: reader.gaps().len(), footer: reader.footer().cloned() }
    }

    /// Why it ended.
    pub(crate) fn reason(&self) -> &str {
        &self.footer.as_ref().expect("a footer").reason
    }

    pub(crate) fn nanos(&self) -> u64 {
        self.intervals.iter().map(|interval| interval.duration_ns.0).sum()
    }

    /// Asserts that each interval begins where the one before ended.
    pub(crate) fn is_without_holes(&self) {
        for pair in self.intervals.windows(2) {
            let end = pair[0].start_ns.saturating_add(pair[0].duration_ns);
            assert_eq!((pair[1].seq, pair[1].start_ns), (pair[0].seq + 1, end));
        }
    }
}
