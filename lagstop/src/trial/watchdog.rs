//! The process that undoes a trial if the trial's own process is gone or stuck.
//!
//! It waits for its standard input. The other end belongs to the trial, and is closed however the trial ends. A running
//! trial writes a heartbeat there. Without heartbeats, the trial is stopped or stuck: the watchdog kills it, and then
//! undoes its changes. The watchdog has its own session, to survive and not be stopped by the terminal. It has its own
//! cgroup, to survive the killing of all processes in the trial's cgroup.

use std::{
    ffi::OsString,
    io::{self, BufRead, BufReader, Write},
    os::fd::AsFd,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{OFlags, fcntl_setfl},
    io::{Errno, read},
    process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal},
};

use super::{
    Attr, Journal, JournalError, Restored,
    shelter::{self, Shelter},
};
use crate::{
    display::plain,
    host::{is_stopped, started},
};

/// Its subcommand.
pub const WATCHDOG: &str = "trial-watchdog";
/// Written when it is ready.
const READY: &str = "ready";
/// Prefix of lines before that, which list the permissions that it lacks.
const NOTE: &str = "note: ";
/// Sent to the watchdog: the trial is running, and nothing is left to undo.
const BEAT: u8 = b'.';
const DONE: u8 = b'd';
/// Time between heartbeats of the trial, and the longest time without one.
const EVERY: Duration = Duration::from_millis(250);
const PATIENCE: Duration = Duration::from_secs(5);
const STEP: Duration = Duration::from_millis(10);

/// The watchdog, from the trial's side.
#[derive(Debug)]
pub(super) struct Watchdog {
    child: Child,
    stdin: Option<ChildStdin>,
    /// Time of the last heartbeat.
    told: Instant,
    /// Permissions that it lacks.
    notes: Vec<String>,
}

impl Watchdog {
    /// Starts it, and waits until it watches. Where others are made real-time, it `goes_first`.
    pub(super) fn start(journal: &Path, goes_first: bool) -> io::Result<Self> {
        let own = std::process::id();
        let when = started(own).ok_or(io::ErrorKind::NotFound)?;
        let watched = WatchedTrial { journal: journal.to_owned(), pid: own, started: when, goes_first };
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(WATCHDOG).arg("--").args(watched.into_arguments()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let stdout = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let (is_ready, notes) = hear(BufReader::new(stdout))?;
        let stdin = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        // One that does not read any more is not waited for.
        fcntl_setfl(&stdin, OFlags::NONBLOCK)?;
        if is_ready {
            Ok(Self { child, stdin: Some(stdin), told: Instant::now(), notes })
        } else {
            Err(io::Error::other("it does not respond"))
        }
    }

    /// What was refused to it, told once.
    pub(super) fn notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    /// Does it still watch?
    pub(super) fn is_there(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None)) && !is_stopped(self.child.id())
    }

    /// Tells it that the trial goes on. To be said often: it is not told each time.
    pub(super) fn beat(&mut self) {
        if self.told.elapsed() >= EVERY {
            self.told = Instant::now();
            // Whether it is there is looked at elsewhere.
            let _ = self.stdin.as_mut().map(|stdin| stdin.write_all(&[BEAT]));
        }
    }

    /// Lets it go: there is nothing to undo.
    pub(super) fn end(mut self) {
        if let Some(mut stdin) = self.stdin.take() {
            let _ = stdin.write_all(&[DONE]);
        }
        if is_stopped(self.child.id()) {
            // A stopped process does not notice that its input has ended.
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
        // One that was killed leaves its cgroup.
        shelter::sweep();
    }
}

/// Hears what a watchdog says until it watches: whether it does, and what was refused to it.
fn hear(said: impl BufRead) -> io::Result<(bool, Vec<String>)> {
    let mut notes = Vec::new();
    for line in said.lines() {
        let line = line?;
        match line.strip_prefix(NOTE) {
            Some(note) => notes.push(note.to_owned()),
            None => return Ok((line.trim() == READY, notes)),
        }
    }
    Ok((false, notes))
}

/// Removes cgroups that watchdogs have left, which were killed.
pub fn sweep() {
    shelter::sweep();
}

/// What a watchdog watches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedTrial {
    /// The journal of the trial.
    journal: PathBuf,
    /// Its process, and when that started, in clock ticks since boot: the number is used again.
    pid: u32,
    started: u64,
    /// Does it go before what the trial makes real-time?
    goes_first: bool,
}

impl WatchedTrial {
    /// For the command line of [`WATCHDOG`], behind `--`.
    fn into_arguments(self) -> [OsString; 4] {
        let Self { journal, pid, started, goes_first } = self;
        [journal.into(), pid.to_string().into(), started.to_string().into(), goes_first.to_string().into()]
    }

    /// From the command line of [`WATCHDOG`]; `None` where a trial did not write that.
    pub fn from_arguments(arguments: Vec<OsString>) -> Option<Self> {
        let [journal, pid, started, goes_first] = <[OsString; 4]>::try_from(arguments).ok()?;
        Some(Self {
            journal: journal.into(),
            pid: pid.to_str()?.parse().ok()?,
            started: started.to_str()?.parse().ok()?,
            goes_first: goes_first.to_str()?.parse().ok()?,
        })
    }
}

/// What became of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Became {
    /// It has undone everything.
    Done,
    /// Its process is gone.
    Gone,
    /// It stands still.
    Silent,
}

/// Watches until the trial is done, gone, or stands still, which ends it: then what is in its journal is undone. `stands_still` is
/// called before it is ended, with the time for which it gave no sign.
///
/// # Errors
/// When the journal cannot be read.
pub fn watch(watched: &WatchedTrial, stands_still: impl FnOnce(Duration)) -> Result<Option<Restored>, JournalError> {
    // The terminal's end is not its own. One that leads a session already is in one of its own.
    let _ = rustix::process::setsid();
    let mut notes = Vec::new();
    let _shelter = Shelter::take(&mut notes);
    if watched.goes_first
        && let Err(error) = Attr::go_first()
    {
        notes.push(format!("the watchdog is not real-time, so the policy may delay it: {}", plain(&error)));
    }
    let _ = say_ready(&notes);
    match wait(io::stdin(), PATIENCE) {
        Became::Done => return Ok(None),
        Became::Gone => {}
        Became::Silent => {
            stands_still(PATIENCE);
            end(watched.pid, watched.started);
        }
    }
    loop {
        match Journal::restore(&watched.journal) {
            Ok(restored) => return Ok(Some(restored)),
            // It was removed before it could be said.
            Err(JournalError::Nothing(_)) => return Ok(None),
            // It has let go of its end, and is about to be gone.
            Err(JournalError::Running(_)) => thread::sleep(STEP),
            Err(error) => return Err(error),
        }
    }
}

fn say_ready(notes: &[String]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    for note in notes {
        writeln!(stdout, "{NOTE}{}", note.replace('\n', " "))?;
    }
    writeln!(stdout, "{READY}")?;
    stdout.flush()
}

/// Waits until it is told that the trial is done, or nothing for longer than `patience`.
fn wait(told: impl AsFd, patience: Duration) -> Became {
    let patience = Timespec { tv_sec: patience.as_secs().cast_signed(), tv_nsec: patience.subsec_nanos().into() };
    let mut said = [0; 256];
    loop {
        match poll(&mut [PollFd::new(&told, PollFlags::IN)], Some(&patience)) {
            Ok(0) => return Became::Silent,
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            // What cannot be listened to says nothing.
            Err(_) => return Became::Silent,
        }
        match read(&told, &mut said) {
            Ok(0) => return Became::Gone,
            Ok(length) if said[..length].contains(&DONE) => return Became::Done,
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return Became::Gone,
        }
    }
}

/// Ends a process, if it is still the one that started then: also one that is stopped.
fn end(pid: u32, when: u64) {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return };
    // While the pidfd is open, it refers to the same process, even if its number is reused.
    let held = pidfd_open(pid, PidfdFlags::empty());
    if started(pid.as_raw_nonzero().get().unsigned_abs()) != Some(when) {
        return;
    }
    // A process that is already gone is fine. Before Linux 5.3, only its number can be used.
    let _ = match held {
        Ok(held) => pidfd_send_signal(held, Signal::KILL),
        Err(_) => kill_process(pid, Signal::KILL),
    };
}

#[cfg(test)]
mod tests {
    use std::os::unix::{ffi::OsStringExt, process::ExitStatusExt};

    use super::*;

    const SHORT: Duration = Duration::from_millis(300);

    #[test]
    fn what_was_refused_is_heard_before_it_watches() {
        let heard = |text: &str| hear(text.as_bytes()).unwrap();
        assert_eq!(heard("ready\n"), (true, Vec::new()));
        assert_eq!(heard("note: no cgroup\nready\n"), (true, vec!["no cgroup".to_owned()]));
        assert!(!heard("note: no cgroup\n").0 && !heard("").0 && !heard("what?\nready\n").0);
    }

    #[test]
    fn what_to_watch_is_the_same_when_it_is_read_again() {
        let journal = PathBuf::from(OsString::from_vec(b"/run/\xff journal".to_vec()));
        let watched = WatchedTrial { journal, pid: 7, started: u64::MAX, goes_first: true };
        let mut arguments = Vec::from(watched.clone().into_arguments());
        assert_eq!(WatchedTrial::from_arguments(arguments.clone()), Some(watched));
        arguments[1] = "-7".into();
        assert_eq!(WatchedTrial::from_arguments(arguments), None);
        assert_eq!(WatchedTrial::from_arguments(Vec::new()), None);
    }

    #[test]
    fn a_trial_goes_on_for_as_long_as_it_says_so() {
        let (told, mut says) = io::pipe().unwrap();
        let began = Instant::now();
        let trial = thread::spawn(move || {
            for _ in 0..8 {
                thread::sleep(SHORT / 4);
                says.write_all(&[BEAT]).unwrap();
            }
            says.write_all(&[BEAT, DONE]).unwrap();
        });
        assert_eq!(wait(&told, SHORT), Became::Done);
        assert!(began.elapsed() >= 2 * SHORT, "beats kept it going");
        trial.join().unwrap();
    }

    #[test]
    fn one_that_says_nothing_is_silent_and_one_that_is_gone_is_gone() {
        let (told, mut says) = io::pipe().unwrap();
        says.write_all(&[BEAT]).unwrap();
        assert_eq!(wait(&told, SHORT), Became::Silent);
        drop(says);
        assert_eq!(wait(&told, SHORT), Became::Gone);
    }

    #[test]
    fn it_ends_the_process_that_it_watches_and_no_other() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let when = started(child.id()).unwrap();
        kill_process(Pid::from_child(&child), Signal::STOP).unwrap();
        end(child.id(), when + 1);
        thread::sleep(SHORT);
        assert_eq!(child.try_wait().unwrap(), None, "it has the number of what was watched");
        end(child.id(), when);
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
        end(u32::MAX, 0);
    }
}
