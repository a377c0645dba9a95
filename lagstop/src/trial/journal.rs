//! What was changed, written down before it is.

use std::{
    collections::HashSet,
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{
    Made, NotUndone, Policy, PolicyChange, Restored,
    journal_checks::{Disbelief, believe},
    undo::undo,
};
use crate::{
    display::plain,
    host::{Identity, started},
};

/// What was changed, a line each, in a file that is there for as long as there is something to undo.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    changes: Vec<PolicyChange>,
    /// How long the file is without changes.
    empty: u64,
}

/// Why there is no journal.
#[derive(Debug, Error)]
pub enum JournalError {
    /// Another trial has one.
    #[error("a trial is running already (process {0}): end it with Ctrl-C, or wait")]
    Running(u32),
    /// A trial did not end.
    #[error("a trial was interrupted: to undo its changes ({}), run sudo lagstop trial --restore", .0.display())]
    Interrupted(PathBuf),
    /// There is no journal to restore.
    #[error("there is nothing to undo: the journal {} does not exist", .0.display())]
    Nothing(PathBuf),
    /// Another user may have written it.
    #[error(
        "the journal {} is not trusted: {why}. Nothing was undone. Inspect the file and its directory, and remove what \
         root did not create",
        path.display()
    )]
    NotBelieved { path: PathBuf, why: Distrust },
    /// It cannot be read or written.
    #[error("the journal {} cannot be read or written: {}{}", path.display(), plain(source), as_root(source))]
    File { path: PathBuf, source: io::Error },
}

/// Why another user may have written a journal.
#[derive(Debug, Error)]
pub enum Distrust {
    #[error("it is a symbolic link")]
    Link,
    #[error("it is a directory")]
    Directory,
    #[error("{what} belongs to user {owner}, not to user {own}")]
    Owner {
        /// It, or its directory.
        what: &'static str,
        owner: u32,
        own: u32,
    },
    #[error("group or others may write to {0}")]
    Writable(&'static str),
    #[error("it is not a regular file")]
    NoFile,
}

/// The advice that follows an error.
fn as_root(error: &io::Error) -> &'static str {
    if error.kind() == io::ErrorKind::PermissionDenied { ". Run as root" } else { "" }
}

/// Whose journal it is: its first line.
#[derive(Debug, Serialize, Deserialize)]
struct Header {
    /// For people.
    policy: Option<String>,
    pid: u32,
    /// When that process started, in clock ticks since boot: the number is used again.
    #[serde(default)]
    started: Option<u64>,
    /// Which boot it is of: what a trial changes does not outlive one, and inodes and process numbers come again.
    #[serde(default)]
    boot: Option<String>,
}

impl Header {
    fn of(policy: Option<Policy>) -> Self {
        let pid = std::process::id();
        Self { policy: policy.map(|policy| policy.name().to_owned()), pid, started: started(pid), boot: boot() }
    }

    fn parse(text: &[u8]) -> Option<Self> {
        serde_json::from_slice(text.split(|&byte| byte == b'\n').next()?).ok()
    }

    fn is_of_another_boot(&self) -> bool {
        self.boot.is_some() && self.boot != boot()
    }

    /// Is its trial still there?
    fn runs(&self) -> bool {
        self.started.is_some() && started(self.pid) == self.started
    }
}

/// The id that the kernel has drawn for this boot.
fn boot() -> Option<String> {
    Identity::read().ok().map(|identity| identity.boot_id)
}

/// A line that says that changes are undone, by their numbers among the changes.
#[derive(Debug, Serialize, Deserialize)]
struct Settled {
    undone: Vec<usize>,
}

/// What a journal of a trial that is gone says.
#[derive(Debug, Default)]
struct Said<'t> {
    /// Its complete lines, the header included. A change whose line is incomplete was not made.
    whole: &'t [u8],
    /// Changes that are not undone, with their numbers.
    changes: Vec<(usize, PolicyChange)>,
    /// Lines that cannot be parsed.
    unread: Vec<&'t [u8]>,
}

impl<'t> Said<'t> {
    fn parse(text: &'t [u8]) -> Self {
        let lines = text.iter().rposition(|&byte| byte == b'\n').unwrap_or_default();
        let whole = text.get(..=lines).unwrap_or_default();
        let mut said = Self { whole, ..Self::default() };
        let (mut settled, mut number) = (HashSet::new(), 0);
        for line in text[..lines].split(|&byte| byte == b'\n').skip(1) {
            if let Ok(change) = serde_json::from_slice(line) {
                said.changes.push((number, change));
                number += 1;
            } else if let Ok(Settled { undone }) = serde_json::from_slice(line) {
                settled.extend(undone);
            } else {
                said.unread.push(line);
            }
        }
        said.changes.retain(|(number, _)| !settled.contains(number));
        said
    }
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
        believe_directory(path)?;
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
        let empty = append(&mut file, &Header::of(policy)).map_err(cannot)?;
        // Another process may have restored the journal before it was locked, while it was empty, and removed it.
        let is_there = fs::metadata(path).and_then(|there| Ok(there.ino() == file.metadata()?.ino())).unwrap_or(false);
        if is_there {
            Ok(Self { path: path.to_owned(), file, changes: Vec::new(), empty })
        } else {
            Err(JournalError::Interrupted(path.to_owned()))
        }
    }

    /// Locks the journal of a trial that is gone. Returns its contents, too.
    fn lock(path: &Path) -> Result<(File, Vec<u8>), JournalError> {
        let not_believed = |why| JournalError::NotBelieved { path: path.to_owned(), why };
        let cannot = |source: io::Error| match source.raw_os_error() {
            Some(libc::ENOENT) => JournalError::Nothing(path.to_owned()),
            Some(libc::ELOOP) => not_believed(Distrust::Link),
            Some(libc::EISDIR) => not_believed(Distrust::Directory),
            _ => JournalError::File { path: path.to_owned(), source },
        };
        let mut options = File::options();
        options.read(true).write(true).custom_flags(libc::O_NOFOLLOW);
        let mut file = options.open(path).map_err(cannot)?;
        believe_directory(path)?;
        believe_owner(path, &file.metadata().map_err(cannot)?)?;
        let locked = flock(&file, FlockOperation::NonBlockingLockExclusive);
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(cannot)?;
        match locked {
            Ok(()) => Ok((file, text)),
            Err(Errno::WOULDBLOCK) => Err(JournalError::Running(Header::parse(&text).map_or(0, |header| header.pid))),
            Err(error) => Err(cannot(error.into())),
        }
    }

    /// What to say where a trial is gone and has left something to put back. `None` where there is nothing, or nothing to be
    /// seen without privileges.
    pub fn left(path: &Path) -> Option<&'static str> {
        let mut options = File::options();
        // A pipe in its place is not waited for.
        let mut file = options.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path).ok()?;
        if !file.metadata().ok()?.is_file() {
            return None;
        }
        let mut text = Vec::new();
        file.read_to_end(&mut text).ok()?;
        let is_nothing = Header::parse(&text).is_some_and(|header| header.runs() || header.is_of_another_boot());
        (!is_nothing).then_some(
            "a trial was interrupted, and this host still has its changes. To undo them, run sudo lagstop trial --restore",
        )
    }

    /// Number of changes in a journal that would be undone. For fuzzing.
    #[doc(hidden)]
    pub fn believed(text: &[u8]) -> usize {
        let said = Said::parse(text);
        let is_old = Header::parse(text).is_none_or(|header| header.is_of_another_boot());
        if is_old { 0 } else { said.changes.iter().filter(|(_, change)| believe(change).is_ok()).count() }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a change to the journal, then makes it, unless another program changed the same since it was planned.
    ///
    /// # Errors
    /// When it cannot be written down, and then it is not made; or when the system refuses it.
    pub fn make(&mut self, change: PolicyChange) -> io::Result<Made> {
        if let Some(now) = change.changed_meanwhile()? {
            return Ok(Made::No(now));
        }
        append(&mut self.file, &change)?;
        let made = change.make();
        self.changes.push(change);
        made
    }

    /// Undoes all of it that is as the trial left it, the first change last, and calls `beat` after each. What cannot be
    /// undone stays in the journal.
    pub fn undo(&mut self, beat: &mut dyn FnMut()) -> Restored {
        let (restored, not_undone) = undo(&self.changes, beat);
        let mut number = 0..;
        self.changes.retain(|_| number.next().is_some_and(|number| not_undone.binary_search(&number).is_ok()));
        if self.changes.is_empty() {
            // To undo twice is harmless, and so is a file that stays longer.
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

    /// Undoes what a trial that is gone has left. It is believed only where a trial can have written it: else root would write
    /// wherever a file says.
    ///
    /// # Errors
    /// When there is nothing, when that trial still runs, or when the journal cannot be read or is not believed.
    pub fn restore(path: &Path) -> Result<Restored, JournalError> {
        Self::restore_what(path, &believe, false)
    }

    /// The same, and gives up what cannot be undone: `failed` of the answer is what was given up.
    ///
    /// # Errors
    /// As [`restore`](Self::restore).
    pub fn forget(path: &Path) -> Result<Restored, JournalError> {
        Self::restore_what(path, &believe, true)
    }

    fn restore_what(
        path: &Path,
        believe: &dyn Fn(&PolicyChange) -> Result<(), Disbelief>,
        forget: bool,
    ) -> Result<Restored, JournalError> {
        let (mut file, text) = Self::lock(path)?;
        let cannot = |source| JournalError::File { path: path.to_owned(), source };
        if Header::parse(&text).is_some_and(|header| header.is_of_another_boot()) {
            fs::remove_file(path).map_err(cannot)?;
            let discarded = Some("nothing to undo: the journal is from another boot, and a reboot undoes all changes");
            return Ok(Restored { discarded, ..Restored::default() });
        }
        let Said { whole, changes, unread } = Said::parse(&text);
        let mut restored = Restored::default();
        let (mut numbers, mut believed) = (Vec::new(), Vec::new());
        for (number, change) in changes {
            match believe(&change) {
                Ok(()) => {
                    numbers.push(number);
                    believed.push(change);
                }
                Err(source) => restored.failed.push(NotUndone::NotBelieved { change, source }),
            }
        }
        let (done, not_undone) = undo(&believed, &mut || {});
        restored.add(done);
        let unread = unread.into_iter().map(|line| String::from_utf8_lossy(line).into_owned());
        restored.failed.extend(unread.map(NotUndone::Unread));
        if restored.failed.is_empty() || forget {
            fs::remove_file(path).map_err(cannot)?;
            return Ok(restored);
        }
        // What is undone must not be undone again: by then somebody may have set it on purpose. A further line says so, which
        // keeps all that is still to be undone, whatever happens meanwhile.
        let is_undone = |at: &usize| not_undone.binary_search(at).is_err();
        let undone = (0..numbers.len()).filter(is_undone).map(|at| numbers[at]).collect();
        let ended = file.set_len(whole.len() as u64).and_then(|()| file.seek(SeekFrom::End(0)));
        ended.and_then(|_| append(&mut file, &Settled { undone })).map_err(cannot)?;
        Ok(restored)
    }
}

/// The directory counts, too: who may write to it may replace the file.
fn believe_directory(path: &Path) -> Result<(), JournalError> {
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let found = fs::metadata(directory).map_err(|source| JournalError::File { path: path.to_owned(), source })?;
    believe_owner(path, &found)
}

fn believe_owner(path: &Path, found: &fs::Metadata) -> Result<(), JournalError> {
    let what = if found.is_dir() { "its directory" } else { "it" };
    let own = rustix::process::geteuid().as_raw();
    let why = if found.uid() != own {
        Distrust::Owner { what, owner: found.uid(), own }
    } else if found.mode() & 0o022 != 0 {
        Distrust::Writable(what)
    } else if !found.is_dir() && !found.is_file() {
        Distrust::NoFile
    } else {
        return Ok(());
    };
    Err(JournalError::NotBelieved { path: path.to_owned(), why })
}

/// Appends a line and waits until it is stored. Returns the length of the file.
fn append(file: &mut File, what: &impl Serialize) -> io::Result<u64> {
    let mut line = serde_json::to_string(what)?;
    line.push('\n');
    file.write_all(line.as_bytes())?;
    file.sync_data()?;
    Ok(file.metadata()?.len())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use rustix::fs::Mode;

    use super::*;

    /// Its files are in no cgroup file system.
    fn restore(path: &Path) -> Result<Restored, JournalError> {
        Journal::restore_what(path, &|_| Ok(()), false)
    }

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

    fn change(home: &tempfile::TempDir, name: &str, weight: u32) -> PolicyChange {
        PolicyChange::file(&home.path().join(name), "cpu.weight", weight).unwrap()
    }

    #[test]
    fn whatever_was_made_is_undone_in_reverse() {
        let home = host(&["a", "b"]);
        let path = home.path().join("state/trial.journal");
        let mut journal = Journal::begin(&path, Some(Policy::Weight)).unwrap();
        for (name, to) in [("a", 200), ("b", 300), ("a", 400)] {
            assert_eq!(journal.make(change(&home, name, to)).unwrap(), Made::Yes);
        }
        assert_eq!((weight(&home, "a"), weight(&home, "b")), ("400".to_owned(), "300".to_owned()));
        let mut beats = 0;
        assert_eq!(journal.undo(&mut || beats += 1).undone, 3);
        assert_eq!(beats, 3);
        assert_eq!((weight(&home, "a"), weight(&home, "b")), ("100".to_owned(), "100".to_owned()));
        assert_eq!(journal.make(change(&home, "b", 500)).unwrap(), Made::Yes);
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
                    assert_eq!(journal.make(change(&home, name, *to)).unwrap(), Made::Yes);
                }
                if let (true, Some((name, to))) = (torn, steps.get(killed_at)) {
                    let line = serde_json::to_string(&change(&home, name, *to)).unwrap();
                    journal.file.write_all(&line.as_bytes()[..line.len() / 2]).unwrap();
                }
                drop(journal);
                let restored = restore(&path).unwrap();
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
        assert!(matches!(restore(&path), Err(JournalError::Running(_))), "it will undo that itself");
        drop(journal);
        assert!(matches!(Journal::begin(&path, Some(Policy::Idle)), Err(JournalError::Interrupted(_))));
        restore(&path).unwrap();
        assert!(matches!(restore(&path), Err(JournalError::Nothing(_))));
        fs::write(&path, "not a journal").unwrap();
        assert!(matches!(Journal::begin(&path, Some(Policy::Idle)), Err(JournalError::Interrupted(_))));
    }

    #[test]
    fn what_cannot_be_undone_stays_in_the_journal() {
        let home = host(&["a", "b"]);
        let path = home.path().join("trial.journal");
        let mut journal = Journal::begin(&path, Some(Policy::Weight)).unwrap();
        for name in ["a", "b"] {
            assert_eq!(journal.make(change(&home, name, 200)).unwrap(), Made::Yes);
        }
        drop(journal);
        let file = home.path().join("a/cpu.weight");
        fs::remove_file(&file).unwrap();
        fs::create_dir(&file).unwrap();
        let restored = restore(&path).unwrap();
        assert_eq!((restored.undone, restored.failed.len()), (1, 1), "{restored:?}");
        assert!(path.exists() && weight(&home, "b") == "100");
        // Somebody wants it as the trial did, by now.
        fs::write(home.path().join("b/cpu.weight"), "200").unwrap();
        fs::remove_dir(&file).unwrap();
        assert!(restore(&path).unwrap().failed.is_empty(), "it is gone: nothing to undo");
        assert!(!path.exists() && weight(&home, "b") == "200", "it was undone once");
    }

    /// The file is never shorter than what is still to be undone, whenever it is killed.
    #[test]
    fn what_is_undone_is_said_in_a_line_more() {
        let home = host(&["a", "b"]);
        let path = home.path().join("trial.journal");
        let mut journal = Journal::begin(&path, Some(Policy::Weight)).unwrap();
        for name in ["a", "b"] {
            assert_eq!(journal.make(change(&home, name, 200)).unwrap(), Made::Yes);
        }
        journal.file.write_all(b"{\"kind\":\"fi").unwrap();
        drop(journal);
        let before = fs::read_to_string(&path).unwrap();
        let no_b = |change: &PolicyChange| if change.what().contains("/b/") { Err(Disbelief::Name) } else { Ok(()) };
        let restored = Journal::restore_what(&path, &no_b, false).unwrap();
        assert_eq!((restored.undone, restored.failed.len()), (1, 1), "{restored:?}");
        let whole = &before[..=before.rfind('\n').unwrap()];
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("{whole}{{\"undone\":[0]}}\n"));
        assert_eq!(restore(&path).unwrap().undone, 1);
        assert_eq!((weight(&home, "a"), weight(&home, "b")), ("100".to_owned(), "100".to_owned()));
    }

    #[test]
    fn what_somebody_else_changed_since_it_was_planned_is_not_even_written_down() {
        let home = host(&["a"]);
        let path = home.path().join("trial.journal");
        let mut journal = Journal::begin(&path, Some(Policy::Weight)).unwrap();
        let planned = change(&home, "a", 200);
        fs::write(home.path().join("a/cpu.weight"), "700").unwrap();
        assert_eq!(journal.make(planned).unwrap(), Made::No("700".to_owned()));
        let restored = journal.end(&mut || {});
        assert!(restored.undone == 0 && restored.discarded.is_none(), "{restored:?}");
        assert!(restored.left.is_empty() && restored.failed.is_empty(), "{restored:?}");
        assert_eq!(weight(&home, "a"), "700");
    }

    /// What a byte that is no text names is not known: it is told, and not taken for a cgroup that is gone.
    #[test]
    fn a_line_that_is_no_text_is_told_and_the_others_are_undone() {
        let home = host(&["a", "b"]);
        let path = home.path().join("trial.journal");
        let mut journal = Journal::begin(&path, Some(Policy::Weight)).unwrap();
        for name in ["a", "b"] {
            assert_eq!(journal.make(change(&home, name, 200)).unwrap(), Made::Yes);
        }
        drop(journal);
        let mut bytes = fs::read(&path).unwrap();
        let at = bytes.windows(3).rposition(|bytes| bytes == b"/b\"").unwrap();
        bytes[at + 1] = 0xff;
        fs::write(&path, &bytes).unwrap();
        let restored = restore(&path).unwrap();
        assert_eq!((restored.undone, restored.failed.len()), (1, 1), "{restored:?}");
        assert!(matches!(restored.failed[..], [NotUndone::Unread(_)]), "{restored:?}");
        assert_eq!((weight(&home, "a"), weight(&home, "b")), ("100".to_owned(), "200".to_owned()));
    }

    /// A pipe is not waited for, and a link not followed.
    #[test]
    fn what_is_no_file_is_no_journal() {
        let home = host(&[]);
        let (pipe, link) = (home.path().join("pipe"), home.path().join("link"));
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        std::os::unix::fs::symlink("/dev/null", &link).unwrap();
        for (path, why) in [(&pipe, "regular file"), (&link, "symbolic link"), (&home.path().to_owned(), "a directory")]
        {
            assert_eq!(Journal::left(path), None);
            let error = restore(path).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn that_of_another_boot_is_discarded() {
        let home = host(&["a"]);
        let path = home.path().join("trial.journal");
        let mut journal = Journal::begin(&path, Some(Policy::Weight)).unwrap();
        assert_eq!(journal.make(change(&home, "a", 200)).unwrap(), Made::Yes);
        assert_eq!(Journal::left(&path), None, "its trial is there");
        drop(journal);
        let text = fs::read_to_string(&path).unwrap();
        let gone = text.replace(&format!("\"pid\":{}", std::process::id()), "\"pid\":4194303");
        fs::write(&path, &gone).unwrap();
        assert!(Journal::left(&path).unwrap().contains("sudo lagstop trial --restore"));
        fs::write(&path, gone.replace(&boot().unwrap(), "another")).unwrap();
        assert_eq!(Journal::left(&path), None);
        let restored = restore(&path).unwrap();
        assert!(restored.discarded.unwrap().contains("another boot") && !path.exists(), "{restored:?}");
        assert_eq!(weight(&home, "a"), "200", "it is not even looked at");
        assert_eq!(Journal::left(&path), None);
    }

    #[test]
    fn what_others_may_write_is_not_believed() {
        let home = host(&["a"]);
        let path = home.path().join("trial.journal");
        let mut journal = Journal::begin(&path, Some(Policy::Weight)).unwrap();
        assert_eq!(journal.make(change(&home, "a", 200)).unwrap(), Made::Yes);
        drop(journal);
        let mode = |path: &Path, mode: u32| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        let refused = || matches!(restore(&path), Err(JournalError::NotBelieved { .. }));
        mode(&path, 0o606);
        assert!(refused());
        mode(&path, 0o600);
        mode(home.path(), 0o777);
        assert!(refused());
        mode(home.path(), 0o700);
        fs::rename(&path, home.path().join("elsewhere")).unwrap();
        std::os::unix::fs::symlink("elsewhere", &path).unwrap();
        assert!(restore(&path).is_err(), "a link is not followed");
        assert_eq!(weight(&home, "a"), "200");
        fs::rename(home.path().join("elsewhere"), &path).unwrap();
        assert_eq!(restore(&path).unwrap().undone, 1);
    }

    #[test]
    fn what_can_never_be_undone_is_forgotten_and_the_rest_put_back() {
        let home = host(&["a", "b"]);
        let path = home.path().join("trial.journal");
        let mut journal = Journal::begin(&path, Some(Policy::Weight)).unwrap();
        for name in ["a", "b"] {
            assert_eq!(journal.make(change(&home, name, 200)).unwrap(), Made::Yes);
        }
        assert!(matches!(Journal::forget(&path), Err(JournalError::Running(_))));
        drop(journal);
        let no_b = |change: &PolicyChange| if change.what().contains("/b/") { Err(Disbelief::Name) } else { Ok(()) };
        let restored = Journal::restore_what(&path, &no_b, true).unwrap();
        assert_eq!((restored.undone, restored.failed.len()), (1, 1), "{restored:?}");
        assert!(!path.exists() && weight(&home, "a") == "100" && weight(&home, "b") == "200");
    }

    /// In a directory of a test nothing is a cgroup.
    #[test]
    fn files_that_are_no_cgroups_are_not_written_to() {
        let home = host(&["a"]);
        let path = home.path().join("trial.journal");
        let mut journal = Journal::begin(&path, Some(Policy::Weight)).unwrap();
        assert_eq!(journal.make(change(&home, "a", 200)).unwrap(), Made::Yes);
        drop(journal);
        let restored = Journal::restore(&path).unwrap();
        assert!(
            matches!(restored.failed[..], [NotUndone::NotBelieved { source: Disbelief::FileSystem, .. }]),
            "{restored:?}"
        );
        assert_eq!(weight(&home, "a"), "200");
    }
}
