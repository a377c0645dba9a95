//! What the host does meanwhile: `lagstop record`, in a process of its own.

use std::{
    io::{self, BufRead, BufReader, Read},
    ops::Range,
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
    origin: Origin,
}

/// When the recorder's clock began, on this process's: both go alike (`CLOCK_MONOTONIC`), but its lines come some time after
/// they say. The one that came soonest tells best; the error is what that one took, to the late side.
#[derive(Debug, Default)]
struct Origin(Option<Instant>);

impl Origin {
    /// When an interval was that came now.
    fn times(&mut self, came: Instant, interval: &Interval) -> Range<Instant> {
        let [start, duration] = [interval.start_ns, interval.duration_ns].map(|ns| Duration::from_nanos(ns.0));
        // Nobody measures since before the clock began.
        let heard = came.checked_sub(start + duration).unwrap_or(came);
        let origin = self.0.map_or(heard, |known| known.min(heard));
        self.0 = Some(origin);
        origin + start..origin + start + duration
    }
}

impl Recorder {
    /// Attaching takes a second or so; on a host where nobody gets to run it takes longer.
    const PATIENCE: Duration = Duration::from_secs(30);
    /// Intervals for whoever has time.
    pub(crate) const INTERVAL: Duration = Duration::from_millis(500);

    /// Starts it, for so many cgroups and with intervals of such a length, and waits until it measures.
    pub(crate) fn start(cgroups: u32, interval: Duration) -> io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        // As the user would have it is not as it has to be here.
        command.args([
            "--config",
            "/dev/null",
            "record",
            "--group-by",
            "scheduler",
            "--interval",
            &format!("{}ms", interval.as_millis()),
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
        let mut this = Self { child, lines, session: Session::default(), origin: Origin::default() };
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

    /// Why no interval has come for long.
    pub(crate) fn why_silent(&mut self) -> io::Error {
        match self.is_there() {
            Ok(()) => io::Error::other("lagstop record writes nothing any more"),
            Err(error) => error,
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

    /// The next interval, and when that was. `None` where none comes within `patience`.
    pub(crate) fn next(&mut self, patience: Duration) -> Option<(Range<Instant>, Interval)> {
        let until = Instant::now() + patience;
        loop {
            match self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok((came, Line::Interval(interval))) => {
                    return Some((self.origin.times(came, &interval), *interval));
                }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Nanos;

    #[test]
    fn when_an_interval_was_does_not_depend_on_when_it_came() {
        let began = Instant::now();
        let ms = Duration::from_millis;
        let mut origin = Origin::default();
        // Seconds, of which each comes so much later than it ended.
        let mut times = |second: u64, late: u64| {
            let interval =
                Interval { start_ns: Nanos(second * 1_000_000_000), duration_ns: Nanos::SECOND, ..Interval::default() };
            let times = origin.times(began + ms((second + 1) * 1_000 + late), &interval);
            assert_eq!(times.end - times.start, Duration::from_secs(1));
            times.start - began
        };
        assert_eq!(times(0, 40), ms(40), "nothing is known yet");
        assert_eq!(times(1, 3), ms(1_003));
        assert_eq!(times(2, 700), ms(2_003), "it was held up on the way");
    }
}
