//! What was changed, written down before it is.

use std::{
    fs::{self, File},
    io::{self, Read, Seek, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{Change, Policy};
use crate::plain::plain;

/// What was changed, a line each, in a file that is there for as long as there is something to undo.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    changes: Vec<Change>,
    /// How long the file is without changes.
    empty: u64,
}

/// What was put back, and what could not be.
#[derive(Debug, Default)]
pub struct Restored {
    /// Changes that are undone.
    pub undone: usize,
    /// What could not be undone, and why.
    pub failed: Vec<String>,
}

/// Why there is no journal.
#[derive(Debug, Error)]
pub enum JournalError {
    /// Another trial has one.
    #[error("a trial is running already (process {0}): end it with Ctrl-C, or wait")]
    Running(u32),
    /// A trial did not end.
    #[error("a trial was interrupted, and {} says what is to be put back: run lagstop trial --restore", .0.display())]
    Interrupted(PathBuf),
    /// There is none to restore.
    #[error("there is nothing to put back: {} is not there", .0.display())]
    Nothing(PathBuf),
    /// It cannot be read or written.
    #[error("the journal {} cannot be kept: {}. Run as root", path.display(), plain(source))]
    File {
        /// Where it is.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Whose journal it is.
#[derive(Debug, Serialize, Deserialize)]
struct Header {
    policy: Option<Policy>,
    pid: u32,
}

impl Journal {
    /// Where it is, unless said otherwise: what is there is gone after a reboot, as what it would undo is.
    pub const PATH: &str = "/run/lagstop/trial.journal";

    /// Begins one. There is one at a time.
    ///
    /// # Errors
    /// When there is one, or it cannot be kept.
    pub fn begin(path: &Path, policy: Option<Policy>) -> Result<Self, JournalError> {
        let cannot = |source| JournalError::File { path: path.to_owned(), source };
        if let Some(directory) = path.parent() {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(cannot)?;
        }
        let mut file = match File::options().append(true).create_new(true).mode(0o600).open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(match Self::lock(path) {
                    Ok(_) => JournalError::Interrupted(path.to_owned()),
                    Err(error) => error,
                });
            }
            Err(error) => return Err(cannot(error)),
        };
        // Held for as long as it is open, which ends with the process at the latest.
        flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|error| cannot(error.into()))?;
        let empty = append(&mut file, &Header { policy, pid: std::process::id() }).map_err(cannot)?;
        // Somebody may have put nothing back before it was locked, and taken it away.
        let is_there = fs::metadata(path).and_then(|there| Ok(there.ino() == file.metadata()?.ino())).unwrap_or(false);
        if is_there {
            Ok(Self { path: path.to_owned(), file, changes: Vec::new(), empty })
        } else {
            Err(JournalError::Interrupted(path.to_owned()))
        }
    }

    /// That of a trial that is gone, and what is in it.
    fn lock(path: &Path) -> Result<(File, String), JournalError> {
        let cannot = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => JournalError::Nothing(path.to_owned()),
            _ => JournalError::File { path: path.to_owned(), source },
        };
        let mut file = File::options().read(true).write(true).open(path).map_err(cannot)?;
        let locked = flock(&file, FlockOperation::NonBlockingLockExclusive);
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(cannot)?;
        match locked {
            Ok(()) => Ok((file, text)),
            Err(Errno::WOULDBLOCK) => {
                let header = text.lines().next().and_then(|line| serde_json::from_str::<Header>(line).ok());
                Err(JournalError::Running(header.map_or(0, |header| header.pid)))
            }
            Err(error) => Err(cannot(error.into())),
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a change down, and makes it.
    ///
    /// # Errors
    /// When it cannot be written down, and then it is not made; or when the system refuses it.
    pub fn make(&mut self, change: Change) -> io::Result<()> {
        append(&mut self.file, &change)?;
        let made = change.make();
        self.changes.push(change);
        made
    }

    /// Undoes all of it, the last first, and calls `beat` after each. What cannot be undone stays in the journal.
    pub fn undo(&mut self, beat: &mut dyn FnMut()) -> Restored {
        let (restored, left) = undo(std::mem::take(&mut self.changes), beat);
        self.changes = left;
        if self.changes.is_empty() {
            // Undone twice it is the same: a longer file does no harm.
            let _ = self.file.set_len(self.empty);
        }
        restored
    }

    /// Undoes what is left to undo, as [`undo`](Self::undo) does, and ends it if there is nothing left then.
    pub fn end(mut self, beat: &mut dyn FnMut()) -> Restored {
        let restored = self.undo(beat);
        if self.changes.is_empty() {
            let _ = fs::remove_file(&self.path);
        }
        restored
    }

    /// Undoes what a trial that is gone has left.
    ///
    /// # Errors
    /// When there is nothing, when that trial still runs, or when the journal cannot be read.
    pub fn restore(path: &Path) -> Result<Restored, JournalError> {
        let (file, text) = Self::lock(path)?;
        // What was not written to its end was not made either.
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let (mut changes, mut unread) = (Vec::new(), Vec::new());
        for line in whole.lines().skip(1) {
            match serde_json::from_str(line) {
                Ok(change) => changes.push(change),
                Err(_) => unread.push(line),
            }
        }
        let (mut restored, left) = undo(changes, &mut || {});
        restored.failed.extend(unread.iter().map(|line| format!("a line of the journal cannot be read: {line}")));
        let cannot = |source| JournalError::File { path: path.to_owned(), source };
        if left.is_empty() && unread.is_empty() {
            fs::remove_file(path).map_err(cannot)?;
        } else {
            // What is undone is not to be undone again: it may be changed by somebody else until then.
            let mut lines = vec![whole.lines().next().unwrap_or_default().to_owned()];
            lines.extend(unread.into_iter().map(str::to_owned));
            for change in &left {
                lines.push(serde_json::to_string(change).map_err(|error| cannot(error.into()))?);
            }
            rewrite(file, &lines).map_err(cannot)?;
        }
        Ok(restored)
    }
}

/// Has the file say these lines, and nothing else.
fn rewrite(mut file: File, lines: &[String]) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    file.write_all((lines.join("\n") + "\n").as_bytes())?;
    file.sync_data()
}

/// Undoes changes, the last first. Gives those that could not be undone.
fn undo(changes: Vec<Change>, beat: &mut dyn FnMut()) -> (Restored, Vec<Change>) {
    let (mut restored, mut left) = (Restored::default(), Vec::new());
    for change in changes.into_iter().rev() {
        match change.undo() {
            Ok(()) => restored.undone += 1,
            Err(error) => {
                restored.failed.push(format!("{change}: cannot be undone: {}", plain(&error)));
                left.push(change);
            }
        }
        beat();
    }
    left.reverse();
    (restored, left)
}

/// Appends a line that is there whatever happens then. Gives how long the file is.
fn append(file: &mut File, what: &impl Serialize) -> io::Result<u64> {
    let mut line = serde_json::to_string(what)?;
    line.push('\n');
    file.write_all(line.as_bytes())?;
    file.sync_data()?;
    Ok(file.metadata()?.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cgroups by name, each with a weight of 100.
    fn host(names: &[&str]) -> tempfile::TempDir {
        let home = tempfile::tempdir().unwrap();
        for name in names {
            fs::create_dir(home.path().join(name)).unwrap();
            fs::write(home.path().join(name).join("cpu.weight"), "100").unwrap();
        }
        home
    }

    fn weight(home: &tempfile::TempDir, name: &str) -> String {
        fs::read_to_string(home.path().join(name).join("cpu.weight")).unwrap()
    }

    fn change(home: &tempfile::TempDir, name: &str, weight: u32) -> Change {
        Change::file(&home.path().join(name), "cpu.weight", weight).unwrap()
    }

    #[test]
    fn whatever_was_made_is_undone_in_reverse() {
        let home = host(&["a", "b"]);
        let path = home.path().join("state/trial.journal");
        let mut journal = Journal::begin(&path, Some(Policy::Weight)).unwrap();
        for (name, to) in [("a", 200), ("b", 300), ("a", 400)] {
            journal.make(change(&home, name, to)).unwrap();
        }
        assert_eq!((weight(&home, "a"), weight(&home, "b")), ("400".to_owned(), "300".to_owned()));
        let mut beats = 0;
        assert_eq!(journal.undo(&mut || beats += 1).undone, 3);
        assert_eq!(beats, 3);
        assert_eq!((weight(&home, "a"), weight(&home, "b")), ("100".to_owned(), "100".to_owned()));
        journal.make(change(&home, "b", 500)).unwrap();
        journal.end(&mut || {});
        assert_eq!(weight(&home, "b"), "100");
        assert!(!path.exists());
    }

    /// At each step, before and after it is made, and in the middle of a line.
    #[test]
    fn a_trial_that_is_killed_at_any_step_is_undone() {
        let steps = [("a", 200), ("b", 300), ("a", 400), ("c", 50)];
        for killed_at in 0..=steps.len() {
            for torn in [false, true] {
                let home = host(&["a", "b", "c"]);
                let path = home.path().join("trial.journal");
                let mut journal = Journal::begin(&path, Some(Policy::Weight)).unwrap();
                for (name, to) in &steps[..killed_at] {
                    journal.make(change(&home, name, *to)).unwrap();
                }
                if let (true, Some((name, to))) = (torn, steps.get(killed_at)) {
                    let line = serde_json::to_string(&change(&home, name, *to)).unwrap();
                    journal.file.write_all(&line.as_bytes()[..line.len() / 2]).unwrap();
                }
                drop(journal);
                let restored = Journal::restore(&path).unwrap();
                assert!(restored.failed.is_empty(), "{restored:?}");
                assert_eq!(["a", "b", "c"].map(|name| weight(&home, name)), ["100", "100", "100"], "{killed_at}");
                assert!(!path.exists());
            }
        }
    }

    #[test]
    fn there_is_one_at_a_time() {
        let home = host(&["a"]);
        let path = home.path().join("trial.journal");
        let journal = Journal::begin(&path, Some(Policy::Weight)).unwrap();
        assert!(matches!(Journal::begin(&path, Some(Policy::Idle)), Err(JournalError::Running(_))));
        assert!(matches!(Journal::restore(&path), Err(JournalError::Running(_))), "it will undo that itself");
        drop(journal);
        assert!(matches!(Journal::begin(&path, Some(Policy::Idle)), Err(JournalError::Interrupted(_))));
        Journal::restore(&path).unwrap();
        assert!(matches!(Journal::restore(&path), Err(JournalError::Nothing(_))));
        fs::write(&path, "not a journal").unwrap();
        assert!(matches!(Journal::begin(&path, Some(Policy::Idle)), Err(JournalError::Interrupted(_))));
    }

    #[test]
    fn what_cannot_be_undone_stays_in_the_journal() {
        let home = host(&["a", "b"]);
        let path = home.path().join("trial.journal");
        let mut journal = Journal::begin(&path, Some(Policy::Weight)).unwrap();
        journal.make(change(&home, "a", 200)).unwrap();
        journal.make(change(&home, "b", 200)).unwrap();
        drop(journal);
        let file = home.path().join("a/cpu.weight");
        fs::remove_file(&file).unwrap();
        fs::create_dir(&file).unwrap();
        let restored = Journal::restore(&path).unwrap();
        assert_eq!((restored.undone, restored.failed.len()), (1, 1), "{restored:?}");
        assert!(path.exists() && weight(&home, "b") == "100");
        // Somebody wants it otherwise by now.
        fs::write(home.path().join("b/cpu.weight"), "700").unwrap();
        fs::remove_dir(&file).unwrap();
        assert!(Journal::restore(&path).unwrap().failed.is_empty(), "it is gone: nothing to undo");
        assert!(!path.exists() && weight(&home, "b") == "700");
    }
}
