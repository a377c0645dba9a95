//! One change to the host, and how it is undone.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::{
    Attr,
    cgroup_file::{Directory, FILES, gone_is_fine, is_gone},
};
use crate::host::{Hierarchy, started, tids_inside};

/// One change to the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum PolicyChange {
    /// Another value in a file of a cgroup.
    File {
        /// The cgroup's directory.
        directory: PathBuf,
        /// Inode number of the directory, because another cgroup may get its name.
        inode: u64,
        file: String,
        /// Value before the change.
        before: String,
        /// Value after the change.
        after: String,
    },
    /// Other scheduling attributes of a thread.
    Thread {
        tid: u32,
        /// Start time of the thread, because its id may be reused.
        started: u64,
        /// Attributes before the change.
        before: Attr,
        /// Attributes after the change.
        after: Attr,
    },
}

impl PolicyChange {
    /// One of `FILES` of a cgroup is to say `after`. `None` where it has no such file, and of any other, which could not be
    /// undone.
    pub fn file(directory: &Path, file: &str, after: impl ToString) -> Option<Self> {
        FILES.contains(&file).then_some(())?;
        let before = fs::read_to_string(directory.join(file)).ok()?.trim().to_owned();
        let (file, after) = (file.to_owned(), after.to_string());
        Some(Self::File { directory: directory.to_owned(), inode: inode(directory).ok()?, file, before, after })
    }

    /// All threads in a cgroup and inside of it are to be scheduled as `change` says of what they are now; `None` of one leaves
    /// it alone. What they make is scheduled as usual, a nice value below 0 included.
    pub fn threads(hierarchy: &Hierarchy, directory: &Path, change: impl Fn(u32, Attr) -> Option<Attr>) -> Vec<Self> {
        let thread = |tid: u32| {
            let (started, mut before) = (started(tid)?, Attr::of(tid).ok()?);
            // Threads that are already real-time or deadline were set up deliberately: leave them alone.
            if before.policy != Attr::OTHER {
                return None;
            }
            // What has the usual slice has none of its own.
            before.runtime = before.slice();
            let after = change(tid, before)?;
            let after = Attr { flags: after.flags | Attr::RESET_ON_FORK, ..after };
            (after != before).then_some(Self::Thread { tid, started, before, after })
        };
        // A cgroup that is gone has none.
        tids_inside(hierarchy, directory).unwrap_or_default().into_iter().filter_map(thread).collect()
    }

    /// Makes it, where what it changes still is what it was when it was planned.
    ///
    /// # Errors
    /// When the system refuses. What is gone is nothing to change.
    pub fn make(&self) -> io::Result<Made> {
        if let Some(now) = self.changed_meanwhile()? {
            return Ok(Made::No(now));
        }
        match self {
            Self::File { directory, inode, file, after, .. } => {
                if let Some(directory) = Directory::open(directory, *inode)?
                    && directory.read(file)?.is_some_and(|says| says != *after)
                {
                    // Only if it says something else: to write may be refused.
                    directory.write(file, after)?;
                }
            }
            Self::Thread { tid, started: when, after, .. } => {
                if started(*tid) == Some(*when) {
                    gone_is_fine(after.set(*tid))?;
                }
            }
        }
        Ok(Made::Yes)
    }

    /// The current value, if another program changed it since this was planned: neither `before` nor `after`.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(super) fn changed_meanwhile(&self) -> io::Result<Option<String>> {
        match self {
            Self::File { directory, inode, file, before, after } => {
                let Some(directory) = Directory::open(directory, *inode)? else { return Ok(None) };
                Ok(directory.read(file)?.filter(|now| now != before && now != after))
            }
            Self::Thread { tid, started: when, before, after } => {
                if started(*tid) != Some(*when) {
                    return Ok(None);
                }
                match Attr::of(*tid) {
                    Ok(now) if now.is_like(*before) || now.is_like(*after) => Ok(None),
                    Ok(now) => Ok(Some(now.to_string())),
                    Err(error) if is_gone(&error) => Ok(None),
                    Err(error) => Err(error),
                }
            }
        }
    }

    /// The cgroup's directory, if it is a change to a file.
    pub(super) fn directory(&self) -> Option<&Path> {
        match self {
            Self::File { directory, .. } => Some(directory),
            Self::Thread { .. } => None,
        }
    }

    /// What it changes, for people.
    pub(super) fn what(&self) -> String {
        match self {
            Self::File { directory, file, .. } => directory.join(file).display().to_string(),
            Self::Thread { tid, .. } => format!("thread {tid}"),
        }
    }
}

/// Whether a change was made.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Made {
    /// It was, or what it changes is gone.
    Yes,
    /// Not made, because another program had changed it to this value.
    No(String),
}

impl std::fmt::Display for PolicyChange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File { before, after, .. } => write!(f, "{}: {after} instead of {before}", self.what()),
            Self::Thread { before, after, .. } => write!(f, "{}: {after} instead of {before}", self.what()),
        }
    }
}

impl std::fmt::Display for Attr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Self { policy: Self::RR, priority, .. } => write!(f, "SCHED_RR {priority}"),
            Self { policy: Self::FIFO, priority, .. } => write!(f, "SCHED_FIFO {priority}"),
            Self { policy: Self::OTHER, nice, .. } => {
                write!(f, "SCHED_OTHER, nice {nice}")?;
                match self.slice() {
                    0 => Ok(()),
                    slice => write!(f, ", slice {}", crate::model::Nanos(slice)),
                }
            }
            Self { policy, .. } => write!(f, "policy {policy}"),
        }
    }
}

fn inode(directory: &Path) -> io::Result<u64> {
    Ok(fs::metadata(directory)?.ino())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{host::Version, model::GroupBy};

    #[test]
    fn a_file_says_what_it_is_to_say() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("cpu.weight"), "100\n").unwrap();
        let change = PolicyChange::file(home.path(), "cpu.weight", 250).unwrap();
        let says = || fs::read_to_string(home.path().join("cpu.weight")).unwrap();
        assert_eq!((change.make().unwrap(), says().as_str()), (Made::Yes, "250"));
        assert_eq!((change.make().unwrap(), says().as_str()), (Made::Yes, "250"), "it says it already");
        assert_eq!(PolicyChange::file(home.path(), "cpu.idle", 1), None, "no such file");
        fs::write(home.path().join("cpu.max"), "max").unwrap();
        assert_eq!(PolicyChange::file(home.path(), "cpu.max", "1000"), None, "a journal that names it is not believed");
        let shown = change.to_string();
        assert!(shown.ends_with("cpu.weight: 250 instead of 100"), "{shown}");
    }

    #[test]
    fn what_somebody_else_changed_since_it_was_planned_is_left() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("cpu.weight");
        fs::write(&file, "100\n").unwrap();
        let change = PolicyChange::file(home.path(), "cpu.weight", 250).unwrap();
        fs::write(&file, "700\n").unwrap();
        assert_eq!(change.make().unwrap(), Made::No("700".to_owned()));
        assert_eq!(fs::read_to_string(&file).unwrap(), "700\n");
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
        let change = PolicyChange::file(&group, "cpu.weight", 250).unwrap();
        let PolicyChange::File { directory, inode, file, before, after } = change.clone() else {
            panic!("it is a file")
        };
        let other = PolicyChange::File { directory, inode: inode + 1, file, before, after };
        assert_eq!(other.make().unwrap(), Made::Yes, "it is gone");
        assert_eq!(fs::read_to_string(group.join("cpu.weight")).unwrap(), "100");
        fs::remove_dir_all(&group).unwrap();
        assert_eq!(change.make().unwrap(), Made::Yes);
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
            PolicyChange::threads(&hierarchy, home.path(), nicer).len()
        };
        assert_eq!(changed(), 0, "it has no file of threads of its own: it is gone");
        fs::write(home.path().join("cgroup.threads"), "").unwrap();
        assert_eq!(changed(), 1);
        // A pod's are those of its containers.
        fs::write(inner.join("cpu.weight"), "100").unwrap();
        assert_eq!(changed(), 1);
    }

    #[test]
    fn a_thread_is_scheduled_as_it_is_to_be_unless_somebody_else_came_first() {
        std::thread::spawn(|| {
            let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
            let before = Attr::of(tid).unwrap();
            let after = Attr { nice: before.nice + 3, ..before };
            let change = PolicyChange::Thread { tid, started: started(tid).unwrap(), before, after };
            assert_eq!(change.make().unwrap(), Made::Yes);
            assert_eq!(Attr::of(tid).unwrap().nice, before.nice + 3);
            Attr { nice: before.nice + 5, ..before }.set(tid).unwrap();
            let said = format!("SCHED_OTHER, nice {}", before.nice + 5);
            assert_eq!(change.make().unwrap(), Made::No(said));
            // Somebody else's thread by now.
            let PolicyChange::Thread { started, .. } = change else { panic!("it is a thread") };
            let other = PolicyChange::Thread { tid, started: started + 1, before, after };
            assert_eq!(other.make().unwrap(), Made::Yes);
            assert_eq!(Attr::of(tid).unwrap().nice, before.nice + 5);
        })
        .join()
        .unwrap();
    }
}
