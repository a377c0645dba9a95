//! One change to the host, and how it is undone.

use std::{
    fs::{self, File},
    io::{self, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::Attr;
use crate::host::{Hierarchy, started, tids_inside};

/// One change to the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Change {
    /// A file of a cgroup says something else.
    File {
        /// The cgroup's directory.
        directory: PathBuf,
        /// Which one that is: another may get the name.
        inode: u64,
        /// The file's name.
        file: String,
        /// What it said.
        before: String,
        /// What it is to say.
        after: String,
    },
    /// A thread is scheduled otherwise.
    Thread {
        /// Its number.
        tid: u32,
        /// When it started: the number is used again.
        started: u64,
        /// How it was scheduled.
        before: Attr,
        /// How it is to be.
        after: Attr,
    },
}

impl Change {
    /// A file of a cgroup is to say `after`. `None` where it has no such file.
    pub fn file(directory: &Path, file: &str, after: impl ToString) -> Option<Self> {
        let before = fs::read_to_string(directory.join(file)).ok()?.trim().to_owned();
        let (file, after) = (file.to_owned(), after.to_string());
        Some(Self::File { directory: directory.to_owned(), inode: inode(directory).ok()?, file, before, after })
    }

    /// All threads in a cgroup and inside of it are to be scheduled as `change` says of what they are now; `None` of one leaves it alone. What
    /// they make is scheduled as usual.
    pub fn threads(hierarchy: &Hierarchy, directory: &Path, change: impl Fn(u32, Attr) -> Option<Attr>) -> Vec<Self> {
        // What has the usual slice has none of its own.
        let usual = Attr::of(0).map_or(0, |own| own.runtime);
        let thread = |tid: u32| {
            let (started, mut before) = (started(tid)?, Attr::of(tid).ok()?);
            // What is real-time already, or has a deadline, is somebody's decision.
            if before.policy != Attr::OTHER {
                return None;
            }
            if before.runtime == usual {
                before.runtime = 0;
            }
            let after = change(tid, before)?;
            let after = Attr { flags: after.flags | Attr::RESET_ON_FORK, ..after };
            (after != before).then_some(Self::Thread { tid, started, before, after })
        };
        // A cgroup that is gone has none.
        tids_inside(hierarchy, directory).unwrap_or_default().into_iter().filter_map(thread).collect()
    }

    /// Makes it.
    ///
    /// # Errors
    /// When the system refuses. What is gone is nothing to change.
    pub fn make(&self) -> io::Result<()> {
        match self {
            Self::File { directory, inode, file, after, .. } => write(directory, *inode, file, after),
            Self::Thread { tid, started, after, .. } => set(*tid, *started, *after),
        }
    }

    /// Undoes it, whether or not it was made.
    ///
    /// # Errors
    /// When the system refuses. What is gone is nothing to undo.
    pub fn undo(&self) -> io::Result<()> {
        match self {
            Self::File { directory, inode, file, before, .. } => write(directory, *inode, file, before),
            Self::Thread { tid, started, before, .. } => set(*tid, *started, *before),
        }
    }
}

/// For people.
impl std::fmt::Display for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File { directory, file, before, after, .. } => {
                write!(f, "{}: {after} instead of {before}", directory.join(file).display())
            }
            Self::Thread { tid, before, after, .. } => {
                write!(f, "thread {tid}: {} instead of {}", Said(*after), Said(*before))
            }
        }
    }
}

struct Said(Attr);

impl std::fmt::Display for Said {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Attr { policy: Attr::RR, priority, .. } => write!(f, "SCHED_RR {priority}"),
            Attr { policy: Attr::OTHER, runtime: 0, nice, .. } => write!(f, "SCHED_OTHER, nice {nice}"),
            Attr { policy: Attr::OTHER, runtime, nice, .. } => {
                write!(f, "SCHED_OTHER, nice {nice}, slice {}", crate::model::Nanos(runtime))
            }
            Attr { policy, .. } => write!(f, "policy {policy}"),
        }
    }
}

/// Writes to a file of a cgroup, if it is still that one. What says it already needs no writing, which may be refused.
fn write(directory: &Path, inode: u64, file: &str, text: &str) -> io::Result<()> {
    let path = directory.join(file);
    match self::inode(directory) {
        Ok(found) if found == inode => {}
        Ok(_) => return Ok(()),
        Err(error) => return gone_is_fine(Err(error)),
    }
    if fs::read_to_string(&path).is_ok_and(|says| says.trim() == text) {
        return Ok(());
    }
    // A file that is not there is not to be made.
    gone_is_fine(
        File::options().write(true).truncate(true).open(&path).and_then(|mut open| open.write_all(text.as_bytes())),
    )
}

fn set(tid: u32, when: u64, attr: Attr) -> io::Result<()> {
    if started(tid) == Some(when) { gone_is_fine(attr.set(tid)) } else { Ok(()) }
}

fn gone_is_fine(done: io::Result<()>) -> io::Result<()> {
    let is_gone = |error: &io::Error| matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH | libc::ENODEV));
    done.or_else(|error| if is_gone(&error) { Ok(()) } else { Err(error) })
}

fn inode(directory: &Path) -> io::Result<u64> {
    Ok(fs::metadata(directory)?.ino())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{host::Version, model::GroupBy};

    #[test]
    fn a_file_says_what_it_said() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("cpu.weight"), "100\n").unwrap();
        let change = Change::file(home.path(), "cpu.weight", 250).unwrap();
        let says = || fs::read_to_string(home.path().join("cpu.weight")).unwrap();
        change.make().unwrap();
        assert_eq!(says(), "250");
        change.undo().unwrap();
        assert_eq!(says(), "100");
        change.undo().unwrap();
        assert_eq!(Change::file(home.path(), "cpu.idle", 1), None, "no such file");
        let shown = change.to_string();
        assert!(shown.ends_with("cpu.weight: 250 instead of 100"), "{shown}");
    }

    #[test]
    fn what_has_the_name_but_is_another_is_left_alone() {
        let home = tempfile::tempdir().unwrap();
        let group = home.path().join("group");
        let make = |weight: &str| {
            fs::create_dir(&group).unwrap();
            fs::write(group.join("cpu.weight"), weight).unwrap();
        };
        make("100");
        let change = Change::file(&group, "cpu.weight", 250).unwrap();
        let Change::File { directory, inode, file, before, after } = change.clone() else { panic!("it is a file") };
        let other = Change::File { directory, inode: inode + 1, file, before, after };
        other.make().unwrap();
        assert_eq!(fs::read_to_string(group.join("cpu.weight")).unwrap(), "100");
        fs::remove_dir_all(&group).unwrap();
        change.undo().unwrap();
    }

    #[test]
    fn threads_of_cgroups_inside_are_changed_as_well() {
        let home = tempfile::tempdir().unwrap();
        let own = rustix::thread::gettid().as_raw_nonzero().get();
        let inner = home.path().join("inner");
        fs::create_dir(&inner).unwrap();
        fs::write(inner.join("cgroup.threads"), format!("{own}\n")).unwrap();
        let hierarchy = Hierarchy::at(Version::V2, home.path(), GroupBy::Scheduler);
        let changed = || {
            let nicer = |_, attr: Attr| Some(Attr { nice: attr.nice + 1, ..attr });
            Change::threads(&hierarchy, home.path(), nicer).len()
        };
        assert_eq!(changed(), 0, "it has no file of threads of its own: it is gone");
        fs::write(home.path().join("cgroup.threads"), "").unwrap();
        assert_eq!(changed(), 1);
        // A pod's are those of its containers.
        fs::write(inner.join("cpu.weight"), "100").unwrap();
        assert_eq!(changed(), 1);
    }

    #[test]
    fn a_thread_is_scheduled_as_it_was() {
        std::thread::spawn(|| {
            let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
            let before = Attr::of(tid).unwrap();
            let after = Attr { nice: before.nice + 3, ..before };
            let change = Change::Thread { tid, started: started(tid).unwrap(), before, after };
            change.make().unwrap();
            assert_eq!(Attr::of(tid).unwrap().nice, before.nice + 3);
            // Somebody else's thread by now.
            let Change::Thread { started, .. } = change else { panic!("it is a thread") };
            Change::Thread { tid, started: started + 1, before, after }.undo().unwrap();
            assert_eq!(Attr::of(tid).unwrap().nice, before.nice + 3);
        })
        .join()
        .unwrap();
    }
}
