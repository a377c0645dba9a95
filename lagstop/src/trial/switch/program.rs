//! A program that loads a sched_ext scheduler and ends it when it is interrupted, as those of the scx project do.

use std::{
    ffi::OsString,
    io::{self, Read as _},
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Child, ChildStderr, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process_group, set_parent_process_death_signal};
use thiserror::Error;

use super::PATIENCE;
use crate::{
    display::short_name,
    kernel::{is_scheduler_enabled, loaded_scheduler},
    trial::NoProgram,
};

/// Why a program's scheduler is not, or no longer, in force.
#[derive(Debug, Error)]
pub enum ProgramError {
    #[error(transparent)]
    NotFound(#[from] NoProgram),
    #[error("{name} ended: {status}{said}")]
    Ended { name: String, status: ExitStatus, said: String },
    #[error("{name} has not loaded a scheduler within {PATIENCE:?}{said}")]
    NotLoaded { name: String, said: String },
    #[error("it was interrupted")]
    Interrupted,
    #[error(
        "the kernel has not taken its own scheduler back within {PATIENCE:?} after {0} ended. To force that: echo S | sudo tee /proc/sysrq-trigger"
    )]
    NotBack(String),
}

/// A program whose scheduler is in force.
#[derive(Debug)]
pub(super) struct Loaded {
    name: String,
    child: Child,
    said: Arc<Mutex<Vec<u8>>>,
}

/// Time between looks at what is waited for.
const STEP: Duration = Duration::from_millis(20);
/// How long it may take to end once it is interrupted, before it is killed.
const TO_END: Duration = Duration::from_secs(10);

impl Loaded {
    /// Starts it, and waits until the kernel has switched to its scheduler.
    pub(super) fn start(
        path: &Path,
        arguments: &[OsString],
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<Self, ProgramError> {
        let name = short_name(&path.file_name().unwrap_or_default().to_string_lossy(), 64).into_owned();
        let mut command = Command::new(path);
        // Ctrl-C is for the trial, which ends it then.
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).process_group(0);
        let own = rustix::process::getpid();
        let dies_with_us = move || {
            // However this process ends: the kernel takes its own scheduler back then.
            set_parent_process_death_signal(Some(Signal::KILL))?;
            // It may have ended before.
            if rustix::process::getppid() == Some(own) { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
        };
        // SAFETY: it makes two system calls.
        unsafe { command.pre_exec(dies_with_us) };
        let cannot = |source| NoProgram::NotRun { path: path.to_string_lossy().into_owned(), source };
        let mut child = command.spawn().map_err(cannot)?;
        let said = Arc::new(Mutex::new(Vec::new()));
        if let Some(stderr) = child.stderr.take() {
            let said = Arc::clone(&said);
            thread::spawn(move || keep_the_last(stderr, &said));
        }
        let mut loaded = Self { name, child, said };
        let until = Instant::now() + PATIENCE;
        while !is_scheduler_enabled() {
            loaded.look()?;
            if !goes_on() {
                return Err(ProgramError::Interrupted);
            }
            if Instant::now() > until {
                return Err(ProgramError::NotLoaded { name: loaded.name.clone(), said: loaded.said() });
            }
            thread::sleep(STEP);
        }
        Ok(loaded)
    }

    /// An error when it has ended.
    pub(super) fn look(&mut self) -> Result<(), ProgramError> {
        match self.child.try_wait() {
            Ok(Some(status)) => Err(ProgramError::Ended { name: self.name.clone(), status, said: self.said() }),
            _ => Ok(()),
        }
    }

    /// Interrupts it, or kills it where that does not help, and waits until the kernel's own scheduler is back.
    pub(super) fn end(mut self, beat: &mut dyn FnMut()) -> Result<(), ProgramError> {
        self.look()?;
        self.signal(Signal::INT);
        let asked = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) {
            if asked.elapsed() > TO_END {
                self.signal(Signal::KILL);
            }
            beat();
            thread::sleep(STEP);
        }
        let until = Instant::now() + PATIENCE;
        while loaded_scheduler().is_some_and(|name| !name.is_empty()) {
            if Instant::now() > until {
                return Err(ProgramError::NotBack(self.name.clone()));
            }
            beat();
            thread::sleep(STEP);
        }
        Ok(())
    }

    /// To it, and to what it has started.
    fn signal(&self, signal: Signal) {
        // One that is gone needs none.
        let _ = kill_process_group(Pid::from_child(&self.child), signal);
    }

    /// Its last line, if it said any.
    fn said(&self) -> String {
        // What it said last is on its way.
        thread::sleep(STEP);
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        // Many write in colours.
        let text = anstream::adapter::strip_str(&String::from_utf8_lossy(&said)).to_string();
        match text.lines().rev().map(str::trim).find(|line| !line.is_empty()) {
            Some(line) => format!(". Its last line was: {}", short_name(line, 200)),
            None => String::new(),
        }
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.signal(Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

/// Reads to the end, and keeps the last few lines.
fn keep_the_last(mut stderr: ChildStderr, said: &Mutex<Vec<u8>>) {
    const MOST: usize = 4_096;
    let mut piece = [0; 1_024];
    while let Ok(length @ 1..) = stderr.read(&mut piece) {
        let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
        said.extend_from_slice(&piece[..length]);
        let surplus = said.len().saturating_sub(MOST);
        said.drain(..surplus);
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _, path::PathBuf};

    use super::*;

    fn script(directory: &Path, name: &str, text: &str) -> PathBuf {
        let path = directory.join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    #[test]
    fn one_that_ends_at_once_is_said_with_its_last_words() {
        let home = tempfile::tempdir().unwrap();
        let path = script(home.path(), "scx_bad", "echo \"$1\" >&2\nprintf 'no\\033[31m such\\n' >&2\nexit 3");
        let arguments = ["; touch nothing".into()];
        let said = Loaded::start(&path, &arguments, &mut || true).unwrap_err().to_string();
        assert!(said == "scx_bad ended: exit status: 3. Its last line was: no such", "{said}");
    }

    #[test]
    fn one_that_is_not_wanted_any_more_is_gone() {
        let home = tempfile::tempdir().unwrap();
        let path = script(home.path(), "scx_slow", &format!("echo $$ > {}/pid\nsleep 60", home.path().display()));
        let wrote = || fs::read_to_string(home.path().join("pid")).ok().filter(|text| text.ends_with('\n'));
        let error = Loaded::start(&path, &[], &mut || wrote().is_none()).unwrap_err();
        assert!(matches!(error, ProgramError::Interrupted));
        let pid = wrote().unwrap().trim().parse().unwrap();
        assert_eq!(crate::host::started(pid), None, "it was waited for");
    }

    #[test]
    fn only_the_last_words_are_kept() {
        let script = "yes 'a line' | head -n 5000 >&2; echo end >&2";
        let mut child = Command::new("sh").args(["-c", script]).stderr(Stdio::piped()).spawn().unwrap();
        let said = Mutex::new(Vec::new());
        keep_the_last(child.stderr.take().unwrap(), &said);
        child.wait().unwrap();
        let said = said.into_inner().unwrap();
        assert!(said.len() <= 4_096 && said.ends_with(b"a line\nend\n"));
    }
}
