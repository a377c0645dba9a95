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
    host::is_stopped,
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
    /// To end takes it less, unless something is wrong.
    const LAST_READING: Duration = Duration::from_secs(10);
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
        end(&mut self.child, Self::LAST_READING);
    }
}

/// Ends a process as Ctrl-C does; for good where it does not end in time, or cannot because it is stopped.
fn end(child: &mut Child, patience: Duration) {
    /// Time for the kernel to end what was killed. Where it takes longer, whoever waits here ends no sooner than that.
    const UNTIL_DEAD: Duration = Duration::from_secs(2);
    // The number of one that was waited for may be another's by now. Until then it is its own: nobody else waits for it.
    if has_ended(child, Duration::ZERO) {
        return;
    }
    let _ = kill_process(Pid::from_child(child), Signal::INT);
    if !has_ended(child, patience) {
        // Sends nothing to one that was waited for.
        let _ = child.kill();
        has_ended(child, UNTIL_DEAD);
    }
}

/// Waits so long for it to end, unless it is stopped. One that cannot be waited for counts as ended.
fn has_ended(child: &mut Child, patience: Duration) -> bool {
    const STEP: Duration = Duration::from_millis(10);
    let until = Instant::now() + patience;
    loop {
        if !matches!(child.try_wait(), Ok(None)) {
            return true;
        }
        if Instant::now() >= until || is_stopped(child.id()) {
            return false;
        }
        thread::sleep(STEP);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;
    use crate::model::Nanos;

    /// A shell that has said that it is ready.
    fn shell(script: &str) -> Child {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdout(Stdio::piped());
        // A shell cannot trap what whoever runs the tests ignores.
        let heed = || {
            // SAFETY: one system call, with a signal and a disposition that there are.
            unsafe { libc::signal(libc::SIGINT, libc::SIG_DFL) };
            Ok(())
        };
        // SAFETY: it allocates nothing and takes no lock.
        let mut child = unsafe { command.pre_exec(heed) }.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        child
    }

    #[test]
    fn one_that_can_ends_by_itself() {
        let mut child = shell("trap 'exit 7' INT; echo ready; while :; do sleep 0.05; done");
        end(&mut child, Duration::from_secs(20));
        assert_eq!(child.try_wait().unwrap().unwrap().code(), Some(7));
    }

    #[test]
    fn one_that_is_stopped_or_does_not_want_to_is_killed() {
        for (script, patience) in [
            ("trap '' INT; echo ready; kill -STOP $$; sleep 60", Duration::from_secs(60)),
            ("trap '' INT; echo ready; while :; do sleep 0.05; done", Duration::from_millis(200)),
        ] {
            let mut child = shell(script);
            let began = Instant::now();
            end(&mut child, patience);
            assert_eq!(child.try_wait().unwrap().unwrap().signal(), Some(libc::SIGKILL), "{script}");
            assert!(began.elapsed() < Duration::from_secs(30), "{script}");
        }
    }

    /// Whoever has its number now is somebody else.
    #[test]
    fn one_that_was_waited_for_gets_no_signal() {
        let mut child = Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        let began = Instant::now();
        end(&mut child, Duration::from_secs(60));
        assert!(began.elapsed() < Duration::from_secs(30));
    }

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
