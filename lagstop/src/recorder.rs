//! What the host does meanwhile: `lagstop record`, in a process of its own.

use std::{
    io::{self, BufRead, BufReader, Read},
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

use crate::{
    model::{Interval, Session},
    recording::Line,
};

/// `lagstop record`, which runs.
#[derive(Debug)]
pub(crate) struct Recorder {
    child: Child,
    lines: Receiver<(Instant, Line)>,
    session: Session,
}

impl Recorder {
    /// Attaching takes a second or so; on a host where nobody gets to run it takes longer.
    const PATIENCE: Duration = Duration::from_secs(30);
    const INTERVAL: &str = "500ms";

    /// Starts it, for so many cgroups, and waits until it measures.
    pub(crate) fn start(cgroups: u32) -> io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        // As the user would have it is not as it has to be here.
        command.args([
            "--config",
            "/dev/null",
            "record",
            "--group-by",
            "scheduler",
            "--interval",
            Self::INTERVAL,
            "--max-cgroups",
            &cgroups.to_string(),
        ]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Ctrl-C is for whoever started it, which ends it then.
        command.process_group(0);
        let mut child = command.spawn()?;
        let (sender, lines) = channel();
        if let Some(stdout) = child.stdout.take() {
            thread::spawn(move || {
                for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                    let Ok(line) = serde_json::from_str(&line) else { break };
                    if sender.send((Instant::now(), line)).is_err() {
                        break;
                    }
                }
            });
        }
        let mut this = Self { child, lines, session: Session::default() };
        match this.lines.recv_timeout(Self::PATIENCE) {
            Ok((_, Line::Header { session, .. })) => {
                this.session = session;
                Ok(this)
            }
            _ => Err(io::Error::other(this.last_words())),
        }
    }

    /// Does it still run?
    pub(crate) fn is_there(&mut self) -> io::Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(_) => Err(io::Error::other(self.last_words())),
        }
    }

    /// Ends it. Gives what it said was wrong.
    fn last_words(&mut self) -> String {
        let _ = self.child.kill();
        let mut said = String::new();
        self.child.stderr.take().map(|mut stderr| stderr.read_to_string(&mut said));
        match said.trim() {
            "" => "lagstop record did not start to measure".to_owned(),
            said => said.trim_start_matches("lagstop: ").to_owned(),
        }
    }

    /// How it measures.
    pub(crate) const fn session(&self) -> &Session {
        &self.session
    }

    /// The next interval, and when it came. `None` where none comes within `patience`.
    pub(crate) fn next(&self, patience: Duration) -> Option<(Instant, Interval)> {
        let until = Instant::now() + patience;
        loop {
            match self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok((came, Line::Interval(interval))) => return Some((came, *interval)),
                Ok(_) => {}
                Err(_) => return None,
            }
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.child), Signal::INT);
        let _ = self.child.wait();
    }
}
