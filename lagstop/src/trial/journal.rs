//! What was changed, written down before it is.

use std::{
    fs::{self, File},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{Change, Policy};
use crate::{host::started, plain::plain};

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
    policy: Policy,
    pid: u32,
    started: u64,
}

impl Journal {
    /// Where it is, unless said otherwise: what is there is gone after a reboot, as what it would undo is.
    pub const PATH: &str = "/run/lagstop/trial.journal";

    /// Begins one. There is one at a time.
    ///
    /// # Errors
    /// When there is one, or it cannot be kept.
    pub fn begin(path: &Path, policy: Policy) -> Result<Self, JournalError> {
        let cannot = |source| JournalError::File { path: path.to_owned(), source };
        if let Some(directory) = path.parent() {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(cannot)?;
        }
        let mut file = match File::options().append(true).create_new(true).mode(0o600).open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(Self::in_the_way(path)),
            Err(error) => return Err(cannot(error)),
        };
        let pid = std::process::id();
        let header = Header { policy, pid, started: started(pid).unwrap_or_default() };
        let empty = append(&mut file, &header).map_err(cannot)?;
        Ok(Self { path: path.to_owned(), file, changes: Vec::new(), empty })
    }

    fn in_the_way(path: &Path) -> JournalError {
        let header =
            fs::read_to_string(path).ok().and_then(|text| serde_json::from_str::<Header>(text.lines().next()?).ok());
        match header {
            Some(Header { pid, started: when, .. }) if started(pid) == Some(when) => JournalError::Running(pid),
            _ => JournalError::Interrupted(path.to_owned()),
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

    /// Undoes all of it, the last first. What cannot be undone stays in the journal.
    pub fn undo(&mut self) -> Restored {
        let (restored, left) = undo(std::mem::take(&mut self.changes));
        self.changes = left;
        if self.changes.is_empty() {
            // Undone twice it is the same: a longer file does no harm.
            let _ = self.file.set_len(self.empty);
        }
        restored
    }

    /// Ends it, if there is nothing left to undo.
    pub fn end(mut self) -> Restored {
        let restored = self.undo();
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
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(JournalError::Nothing(path.to_owned()));
            }
            Err(source) => return Err(JournalError::File { path: path.to_owned(), source }),
        };
        if let running @ JournalError::Running(_) = Self::in_the_way(path) {
            return Err(running);
        }
        // What was not written to its end was not made either.
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let mut unread = Vec::new();
        let changes = whole.lines().skip(1).filter_map(|line| {
            serde_json::from_str(line)
                .map_err(|_| unread.push(format!("a line of the journal cannot be read: {line}")))
                .ok()
        });
        let (mut restored, left) = undo(changes.collect());
        restored.failed.extend(unread);
        if left.is_empty() {
            fs::remove_file(path).map_err(|source| JournalError::File { path: path.to_owned(), source })?;
        }
        Ok(restored)
    }
}

/// Undoes changes, the last first. Gives those that could not be undone.
fn undo(changes: Vec<Change>) -> (Restored, Vec<Change>) {
    let (mut restored, mut left) = (Restored::default(), Vec::new());
    for change in changes.into_iter().rev() {
        match change.undo() {
            Ok(()) => restored.undone += 1,
            Err(error) => {
                restored.failed.push(format!("{change}: cannot be undone: {}", plain(&error)));
                left.push(change);
            }
        }
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
        let mut journal = Journal::begin(&path, Policy::Weight).unwrap();
        for (name, to) in [("a", 200), ("b", 300), ("a", 400)] {
            journal.make(change(&home, name, to)).unwrap();
        }
        assert_eq!((weight(&home, "a"), weight(&home, "b")), ("400".to_owned(), "300".to_owned()));
        assert_eq!(journal.undo().undone, 3);
        assert_eq!((weight(&home, "a"), weight(&home, "b")), ("100".to_owned(), "100".to_owned()));
        journal.make(change(&home, "b", 500)).unwrap();
        journal.end();
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
                let mut journal = Journal::begin(&path, Policy::Weight).unwrap();
                for (name, to) in &steps[..killed_at] {
                    journal.make(change(&home, name, *to)).unwrap();
                }
                if let (true, Some((name, to))) = (torn, steps.get(killed_at)) {
                    let line = serde_json::to_string(&change(&home, name, *to)).unwrap();
                    journal.file.write_all(&line.as_bytes()[..line.len() / 2]).unwrap();
                }
                drop(journal);
                of_another_process(&path);
                let restored = Journal::restore(&path).unwrap();
                assert!(restored.failed.is_empty(), "{restored:?}");
                assert_eq!(["a", "b", "c"].map(|name| weight(&home, name)), ["100", "100", "100"], "{killed_at}");
                assert!(!path.exists());
            }
        }
    }

    /// The header names a process that is gone.
    fn of_another_process(path: &Path) {
        let text = fs::read_to_string(path).unwrap();
        let (header, rest) = text.split_once('\n').unwrap();
        let mut header: Header = serde_json::from_str(header).unwrap();
        header.started += 1;
        fs::write(path, format!("{}\n{rest}", serde_json::to_string(&header).unwrap())).unwrap();
    }

    #[test]
    fn there_is_one_at_a_time() {
        let home = host(&["a"]);
        let path = home.path().join("trial.journal");
        let journal = Journal::begin(&path, Policy::Weight).unwrap();
        assert!(matches!(Journal::begin(&path, Policy::Idle), Err(JournalError::Running(_))));
        assert!(matches!(Journal::restore(&path), Err(JournalError::Running(_))), "it will undo that itself");
        of_another_process(&path);
        assert!(matches!(Journal::begin(&path, Policy::Idle), Err(JournalError::Interrupted(_))));
        drop(journal);
        Journal::restore(&path).unwrap();
        assert!(matches!(Journal::restore(&path), Err(JournalError::Nothing(_))));
        fs::write(&path, "not a journal").unwrap();
        assert!(matches!(Journal::begin(&path, Policy::Idle), Err(JournalError::Interrupted(_))));
    }

    #[test]
    fn what_cannot_be_undone_stays_in_the_journal() {
        let home = host(&["a", "b"]);
        let path = home.path().join("trial.journal");
        let mut journal = Journal::begin(&path, Policy::Weight).unwrap();
        journal.make(change(&home, "a", 200)).unwrap();
        journal.make(change(&home, "b", 200)).unwrap();
        drop(journal);
        of_another_process(&path);
        let file = home.path().join("a/cpu.weight");
        fs::remove_file(&file).unwrap();
        fs::create_dir(&file).unwrap();
        let restored = Journal::restore(&path).unwrap();
        assert_eq!((restored.undone, restored.failed.len()), (1, 1), "{restored:?}");
        assert!(path.exists() && weight(&home, "b") == "100");
        fs::remove_dir(&file).unwrap();
        assert!(Journal::restore(&path).unwrap().failed.is_empty(), "it is gone: nothing to undo");
        assert!(!path.exists());
    }
}
