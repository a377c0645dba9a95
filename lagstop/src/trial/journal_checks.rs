//! Which changes of a journal are undone: root does it, and others may have written there.

use std::{fs, io};

use thiserror::Error;

use super::{
    Attr, PolicyChange,
    cgroup_file::{Directory, FILES, is_gone},
};
use crate::display::plain;

/// Why a change is not believed.
#[derive(Debug, Error)]
pub enum Disbelief {
    #[error("a trial never changes a thread that was real-time before")]
    RealTime,
    #[error("a trial never changes a file of that name")]
    Name,
    #[error("its original value is not a number")]
    Value,
    #[error("its path contains a symbolic link")]
    Link,
    #[error("it is not in a cgroup file system")]
    FileSystem,
    #[error("{}", plain(.0))]
    Unreadable(#[from] io::Error),
}

/// Is what a journal says something that a trial can have changed? It is undone by root: nothing else is to be written to.
///
/// # Errors
/// Why it is not believed.
pub(super) fn believe(change: &PolicyChange) -> Result<(), Disbelief> {
    let (directory, inode, file, says) = match change {
        PolicyChange::Thread { before, .. } if before.policy == Attr::OTHER => return Ok(()),
        PolicyChange::Thread { .. } => return Err(Disbelief::RealTime),
        PolicyChange::File { directory, inode, file, before, .. } => (directory, *inode, file, before),
    };
    if !FILES.contains(&file.as_str()) {
        return Err(Disbelief::Name);
    }
    if !says.chars().all(|one| one.is_ascii_digit() || one == '-') {
        return Err(Disbelief::Value);
    }
    match fs::canonicalize(directory) {
        Ok(real) if real == *directory => {}
        Ok(_) => return Err(Disbelief::Link),
        // What is gone is nothing to undo.
        Err(error) if is_gone(&error) => return Ok(()),
        Err(error) => return Err(error.into()),
    }
    match Directory::open(directory, inode).and_then(|open| open.map(|open| open.is_of_cgroups()).transpose()) {
        Ok(None | Some(true)) => Ok(()),
        Ok(Some(false)) => Err(Disbelief::FileSystem),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        os::unix::fs::{MetadataExt, symlink},
        path::Path,
    };

    use super::*;

    #[test]
    fn only_what_a_trial_changes_is_believed() {
        let home = tempfile::tempdir().unwrap();
        let real = home.path().canonicalize().unwrap();
        fs::write(real.join("cpu.weight"), "200").unwrap();
        fs::write(real.join("passwd"), "root").unwrap();
        symlink(&real, real.join("link")).unwrap();
        let why = |directory: &Path, file: &str, before: &str| {
            let inode = fs::metadata(&real).unwrap().ino();
            let (directory, file) = (directory.to_owned(), file.to_owned());
            believe(&PolicyChange::File { directory, inode, file, before: before.to_owned(), after: "200".to_owned() })
        };
        assert_eq!(why(&real, "cpu.weight", "100").unwrap_err().to_string(), "it is not in a cgroup file system");
        assert!(matches!(why(&real, "passwd", "100"), Err(Disbelief::Name)));
        assert!(matches!(why(&real, "../passwd", "100"), Err(Disbelief::Name)));
        assert!(matches!(why(&real, "cpu.weight", "x; reboot"), Err(Disbelief::Value)));
        assert!(matches!(why(&real.join("link"), "cpu.weight", "100"), Err(Disbelief::Link)));
        assert!(why(&real.join("gone"), "cpu.weight", "100").is_ok(), "nothing to undo");
        let thread = |policy| {
            let before = Attr { policy, ..Attr::default() };
            believe(&PolicyChange::Thread { tid: 1, started: 1, before, after: before })
        };
        assert!(thread(Attr::OTHER).is_ok() && thread(Attr::FIFO).is_err());
    }
}
