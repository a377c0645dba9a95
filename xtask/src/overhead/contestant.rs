//! Who is measured: programs that attach to the scheduler while the pairs run. Every child is ended on every way out, by its own
//! pid.

use std::{
    io::{BufRead, BufReader, Read},
    path::Path,
    process::{self, Command, ExitStatus, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;

use super::error::Error;
use crate::command::not_started;

const ATTACH_TIMEOUT: Duration = Duration::from_secs(10);
/// lagstop has the kernel time its programs in the first moments, which is expensive and not what it costs later.
const WARM_UP: Duration = Duration::from_secs(3);
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// Run-queue latency as bpftrace's own runqlat.bt measures it.
const BPFTRACE: &str = "tracepoint:sched:sched_wakeup, tracepoint:sched:sched_wakeup_new { @q[args->pid] = nsecs; } \
                        tracepoint:sched:sched_switch { if (args->prev_state == 0) { @q[args->prev_pid] = nsecs; } \
                        $n = @q[args->next_pid]; if ($n) { @usecs = hist((nsecs - $n) / 1000); } \
                        delete(@q[args->next_pid]); } BEGIN { printf(\"start\\n\"); }";

/// The CPU that they themselves run on: not that of the pairs.
const CPU: &str = "1";

/// Who attaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Contestant {
    /// On lagstop's hooks, programs that read the clock and return: no tool that measures can cost less there.
    Clock,
    Lagstop,
    /// lagstop without the causes of waits.
    WithoutBlame,
    /// The same as `clock` on the hooks of `--light`.
    LightClock,
    Light,
    /// A script of bpftrace that measures run-queue latency.
    Bpftrace,
}

impl Contestant {
    pub(super) const ALL: [Self; 6] =
        [Self::Clock, Self::Lagstop, Self::WithoutBlame, Self::LightClock, Self::Light, Self::Bpftrace];

    pub(super) const fn describe(self) -> &'static str {
        match self {
            Self::Clock => "clock reads alone",
            Self::Lagstop => "lagstop",
            Self::WithoutBlame => "lagstop --hooks blame=off",
            Self::LightClock => "clock reads alone, --light",
            Self::Light => "lagstop --light",
            Self::Bpftrace => "bpftrace, run-queue latency",
        }
    }

    /// lagstop's options. `None` where the contestant is not lagstop.
    pub(super) const fn options(self) -> Option<&'static [&'static str]> {
        match self {
            Self::Clock => Some(&["--clock-only"]),
            Self::Lagstop => Some(&[]),
            Self::WithoutBlame => Some(&["--hooks", "blame=off"]),
            Self::LightClock => Some(&["--clock-only", "--light"]),
            Self::Light => Some(&["--light"]),
            Self::Bpftrace => None,
        }
    }

    const fn name(self) -> &'static str {
        if self.options().is_some() { "lagstop" } else { "bpftrace" }
    }

    /// The start of the line that it prints once it is attached.
    const fn ready(self) -> &'static str {
        if self.options().is_some() { "recording" } else { "start" }
    }

    fn command(self, lagstop: &Path) -> Command {
        let mut command = Command::new("taskset");
        command.args(["-c", CPU]);
        match self.options() {
            Some(options) => {
                command.arg(lagstop).args(["record", "--duration", "10m", "--output", "/dev/null"]).args(options);
            }
            None if Path::new("/sys/kernel/tracing/events").is_dir() => {
                command.args(["bpftrace", "-e", BPFTRACE]);
            }
            None => {
                // In a mount namespace of its own, so that the machine is left as it was.
                let script = "mount -t tracefs tracefs /sys/kernel/tracing && exec bpftrace -e \"$0\"";
                command.args(["unshare", "-m", "sh", "-c", script, BPFTRACE]);
            }
        }
        command
    }
}

/// One that is attached.
pub(super) struct Running {
    child: Child,
    output: Receiver<String>,
}

impl Running {
    /// Starts it and waits until it is attached.
    pub(super) fn start(contestant: Contestant, lagstop: &Path) -> Result<Self, Error> {
        let command = contestant.command(lagstop);
        let running = Self::start_command(contestant.name(), contestant.ready(), command, ATTACH_TIMEOUT)?;
        thread::sleep(WARM_UP);
        Ok(running)
    }

    fn start_command(name: &'static str, ready: &str, mut command: Command, timeout: Duration) -> Result<Self, Error> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|source| not_started(&command, source))?;
        let (sender, output) = mpsc::channel();
        if let Some(stdout) = child.stdout.take() {
            forward(stdout, sender.clone());
        }
        if let Some(stderr) = child.stderr.take() {
            forward(stderr, sender);
        }
        let running = Self { child: Child::new(name, child), output };
        let deadline = Instant::now() + timeout;
        let mut printed = String::new();
        loop {
            match running.output.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) if line.starts_with(ready) => return Ok(running),
                Ok(line) => {
                    printed.push_str(&line);
                    printed.push('\n');
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    return Err(Error::NotAttached { load: name, seconds: timeout.as_secs(), output: printed });
                }
            }
        }
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.child.id()
    }

    /// Ends it as Ctrl-C does and waits until its programs are detached.
    pub(super) fn stop(mut self) -> Result<(), Error> {
        if let Some(status) = self.child.ended()? {
            let output = self.output.try_iter().collect::<Vec<_>>().join("\n");
            return Err(Error::Ended { load: self.child.name, status, output });
        }
        self.child.interrupt(STOP_TIMEOUT)
    }
}

/// Reads lines in a thread that ends with the program.
fn forward(stream: impl Read + Send + 'static, sender: mpsc::Sender<String>) {
    thread::spawn(move || {
        // Read to the end even when nobody listens: a full pipe would stop the program.
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
    });
}

/// A child that is killed and waited for when dropped.
struct Child {
    name: &'static str,
    child: process::Child,
}

impl Child {
    const fn new(name: &'static str, child: process::Child) -> Self {
        Self { name, child }
    }

    fn ended(&mut self) -> Result<Option<ExitStatus>, Error> {
        self.child.try_wait().map_err(|source| Error::Process { load: self.name, source })
    }

    /// SIGINT, and time to end in; what is still there afterwards is killed when dropped.
    fn interrupt(&mut self, timeout: Duration) -> Result<(), Error> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // Not waited for yet, so the pid is still the child's own.
            kill_process(pid, Signal::INT).map_err(|error| Error::Process { load: self.name, source: error.into() })?;
        }
        let deadline = Instant::now() + timeout;
        while Instant::now() < deadline && self.ended()?.is_none() {
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // Neither can fail for a child that is still there, and one that is gone needs neither.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_load_is_waited_for_and_interrupted() {
        let command = shell("echo warming up >&2; echo start; exec sleep 60");
        let running = Running::start_command("test", "start", command, ATTACH_TIMEOUT).unwrap();
        let started = Instant::now();
        running.stop().unwrap();
        assert!(started.elapsed() < Duration::from_secs(5));
    }

    #[test]
    fn a_load_that_does_not_attach_shows_what_it_printed() {
        let error = Running::start_command("test", "start", shell("echo no such hook >&2; exit 1"), ATTACH_TIMEOUT);
        assert!(error.err().unwrap().to_string().contains("no such hook"));
        let silent = Running::start_command("test", "start", shell("exec sleep 60"), Duration::from_millis(50));
        assert!(matches!(silent.err().unwrap(), Error::NotAttached { .. }));
    }

    #[test]
    fn a_load_that_ends_early_spoils_the_round() {
        let running = Running::start_command("test", "start", shell("echo start"), ATTACH_TIMEOUT).unwrap();
        thread::sleep(Duration::from_millis(200));
        assert!(matches!(running.stop().unwrap_err(), Error::Ended { .. }));
    }
}
