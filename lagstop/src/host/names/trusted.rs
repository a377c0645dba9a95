//! Files that root alone can have written.
//!
//! A reader with CAP_DAC_READ_SEARCH is a deputy: what it reads and shows, somebody may have put there to be shown, or to be read
//! for him. So nothing is read that any other user could replace: the file, and each directory on the way to it, are root's, and
//! nobody else may write to them.

use std::{
    collections::VecDeque,
    ffi::{OsStr, OsString},
    fs,
    io::{self, Read},
    os::{
        fd::OwnedFd,
        unix::{ffi::OsStrExt, fs::MetadataExt},
    },
    path::{Component, Path, PathBuf},
};

use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, open, openat, readlinkat};

/// Links on the way that are followed at most. Only root's, in root's directories.
const MOST_LINKS: usize = 8;

/// A host's files, below a directory.
#[derive(Clone, Debug)]
pub(super) struct Trusted {
    root: PathBuf,
    /// Who is believed: root.
    uid: u32,
}

/// Tells whether a file is still the same, and unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Trusted {
    pub(super) fn host() -> Self {
        Self { root: PathBuf::from("/"), uid: 0 }
    }

    /// Those of a test, which are its user's.
    #[cfg(test)]
    pub(super) fn at(root: &Path) -> Self {
        Self { root: root.to_owned(), uid: rustix::process::geteuid().as_raw() }
    }

    /// Where `path` is, for uses that need no trust.
    pub(super) fn place(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// Reads a file of up to `most` bytes.
    ///
    /// # Errors
    /// When it is not there, cannot be read, is larger, is no regular file, or not root's alone to write.
    pub(super) fn read(&self, path: &str, most: u64) -> io::Result<Vec<u8>> {
        let path = Path::new(path);
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let directory = self.open_directory(parent)?;
        // A pipe that somebody put there must not make this wait.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = openat(&directory, name, flags, Mode::empty())?;
        let stat = fstat(&file)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || !self.is_roots(&stat) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        if stat.st_size.unsigned_abs() > most {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let mut bytes = Vec::new();
        // It may have grown since.
        fs::File::from(file).take(most).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// The names in a directory of root's, `most` at most, in order.
    ///
    /// # Errors
    /// When it is not there, or not root's alone to write.
    pub(super) fn list(&self, path: &str, most: usize) -> io::Result<Vec<String>> {
        let directory = self.open_directory(Path::new(path))?;
        let directory = openat(&directory, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let entries = rustix::fs::Dir::read_from(directory)?.flatten();
        let names = entries.filter_map(|entry| entry.file_name().to_str().ok().map(str::to_owned));
        let mut names: Vec<String> = names.filter(|name| name != "." && name != "..").take(most).collect();
        names.sort_unstable();
        Ok(names)
    }

    /// Is there a directory in one of root's? It may itself be somebody else's: only root can have made it.
    pub(super) fn has_directory(&self, path: &str) -> bool {
        let path = Path::new(path);
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return false };
        let Ok(directory) = self.open_directory(parent) else { return false };
        let found = openat(&directory, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty());
        let is_directory = |stat: Stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        found.is_ok_and(|found| fstat(found).is_ok_and(is_directory))
    }

    /// The stamp of `path`. `None` if nothing is there.
    pub(super) fn stamp(&self, path: &str) -> Option<Stamp> {
        let found = fs::symlink_metadata(self.place(path)).ok()?;
        Some(Stamp {
            inode: found.ino(),
            size: found.size(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
        })
    }

    const fn is_roots(&self, stat: &Stat) -> bool {
        stat.st_uid == self.uid && stat.st_mode & 0o022 == 0
    }

    /// Opens a directory by way of directories that are all root's. A link on the way may be followed where it is root's, in a
    /// directory of root's: many hosts have moved `/var/lib/docker` so.
    fn open_directory(&self, path: &Path) -> io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let root = || open(&self.root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        let mut at = root()?;
        let mut left = parts(path)?;
        let mut links = 0;
        while let Some(part) = left.pop_front() {
            let next = openat(&at, &part, flags, Mode::empty())?;
            let stat = fstat(&next)?;
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory if self.is_roots(&stat) => at = next,
                FileType::Symlink if stat.st_uid == self.uid && links < MOST_LINKS => {
                    links += 1;
                    let target = readlinkat(&next, "", Vec::new())?;
                    let target = Path::new(OsStr::from_bytes(target.as_bytes()));
                    if target.is_absolute() {
                        at = root()?;
                    }
                    let mut all = parts(target)?;
                    all.append(&mut left);
                    left = all;
                }
                _ => return Err(io::ErrorKind::PermissionDenied.into()),
            }
        }
        Ok(at)
    }
}

/// The components of a path that goes only down.
fn parts(path: &Path) -> io::Result<VecDeque<OsString>> {
    let mut parts = VecDeque::new();
    for component in path.components() {
        match component {
            Component::Normal(part) => parts.push_back(part.to_owned()),
            Component::RootDir | Component::CurDir => {}
            Component::ParentDir | Component::Prefix(_) => return Err(io::ErrorKind::InvalidInput.into()),
        }
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    const MOST: u64 = 100;

    fn host() -> (tempfile::TempDir, Trusted) {
        let home = tempfile::tempdir().unwrap();
        let trusted = Trusted::at(home.path());
        fs::create_dir_all(home.path().join("var/lib")).unwrap();
        fs::write(home.path().join("var/lib/file"), "text").unwrap();
        (home, trusted)
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn what_root_alone_can_write_is_read() {
        let (_home, trusted) = host();
        assert_eq!(trusted.read("/var/lib/file", MOST).unwrap(), b"text");
        assert_eq!(trusted.list("/var", 9).unwrap(), ["lib"]);
        assert!(trusted.has_directory("/var/lib") && !trusted.has_directory("/var/lib/file"));
        assert!(trusted.read("/var/lib/none", MOST).is_err() && !trusted.has_directory("/var/none"));
    }

    #[test]
    fn what_others_can_write_is_not() {
        for (what, mode) in [("var/lib/file", 0o666), ("var/lib/file", 0o620), ("var/lib", 0o777), ("var", 0o775)] {
            let (home, trusted) = host();
            set_mode(&home.path().join(what), mode);
            let error = trusted.read("/var/lib/file", MOST).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{what} {mode:o}");
        }
        let (_home, trusted) = host();
        let others = Trusted { uid: trusted.uid + 1, ..trusted };
        assert_eq!(others.read("/var/lib/file", MOST).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        assert!(others.list("/var", 9).is_err() && !others.has_directory("/var/lib"));
    }

    #[test]
    fn no_link_is_followed_to_a_file_and_none_out_of_roots_hands() {
        let (home, trusted) = host();
        symlink("file", home.path().join("var/lib/link")).unwrap();
        assert!(trusted.read("/var/lib/link", MOST).is_err(), "the last one never");
        symlink("/var/lib", home.path().join("moved")).unwrap();
        assert_eq!(trusted.read("/moved/file", MOST).unwrap(), b"text", "root's own, below the same root");
        symlink("../var/lib", home.path().join("var/up")).unwrap();
        symlink("round", home.path().join("round")).unwrap();
        set_mode(&home.path().join("var/lib"), 0o777);
        for path in ["/var/up/file", "/round/file", "/moved/file", "/var/../var/lib/file"] {
            assert!(trusted.read(path, MOST).is_err(), "{path}");
        }
    }

    #[test]
    fn neither_pipes_nor_what_is_too_large_are_read() {
        let (home, trusted) = host();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            home.path().join("var/lib/pipe"),
            FileType::Fifo,
            Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        assert!(trusted.read("/var/lib/pipe", MOST).is_err());
        assert_eq!(trusted.read("/var/lib/file", 3).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        assert!(trusted.read("/", MOST).is_err() && trusted.read("/var/lib", MOST).is_err());
    }
}
