//! Files of a cgroup, read and written without following a link.

use std::{
    fs::File,
    io::{self, Read, Write},
    os::fd::OwnedFd,
    path::Path,
};

use rustix::{
    fs::{Mode, OFlags, fstat, fstatfs, open, openat},
    io::Errno,
};

/// The files that a trial may write, and nothing else: what a journal names otherwise is not undone.
pub(super) const FILES: [&str; 5] = [WEIGHT, SHARES, IDLE, BUDGET, LATENCY_AWARENESS];
/// What a cgroup of version 2 is entitled to.
pub(super) const WEIGHT: &str = "cpu.weight";
/// The same in version 1.
pub(super) const SHARES: &str = "cpu.shares";
/// The switch of a kernel with CFS-LAGS.
pub(super) const LATENCY_AWARENESS: &str = "cpu.latency_awareness";
/// Whether a cgroup is idle: its weight is lost while it is, and cannot be written (`sched_group_set_idle`, kernel/sched/fair.c).
pub(super) const IDLE: &str = "cpu.idle";
/// What real-time threads of a cgroup may run in a period, where those are grouped (`CONFIG_RT_GROUP_SCHED`).
pub(super) const BUDGET: &str = "cpu.rt_runtime_us";
/// `CGROUP_SUPER_MAGIC` and `CGROUP2_SUPER_MAGIC`, include/uapi/linux/magic.h.
const CGROUP_FILE_SYSTEMS: [u32; 2] = [0x27_e0eb, 0x6367_7270];

/// The weight that the kernel gives a cgroup that stops being idle. `None` if `file` is not a weight.
pub(super) fn usual_weight(file: &str) -> Option<&'static str> {
    match file {
        WEIGHT => Some("100"),
        SHARES => Some("1024"),
        _ => None,
    }
}

/// The directory of a cgroup, held open: it stays the same even if another cgroup gets its name.
#[derive(Debug)]
pub(super) struct Directory(OwnedFd);

impl Directory {
    /// `None` where it is gone, or where another has its name.
    pub(super) fn open(directory: &Path, inode: u64) -> io::Result<Option<Self>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match open(directory, flags, Mode::empty()) {
            Ok(fd) if fstat(&fd)?.st_ino == inode => Ok(Some(Self(fd))),
            Ok(_) | Err(Errno::NOENT | Errno::NODEV) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Is it in a cgroup file system?
    pub(super) fn is_of_cgroups(&self) -> io::Result<bool> {
        Ok(CGROUP_FILE_SYSTEMS.contains(&(fstatfs(&self.0)?.f_type as u32)))
    }

    /// Contents of a file. `None` if it does not exist.
    pub(super) fn read(&self, file: &str) -> io::Result<Option<String>> {
        let read = self.file(file, OFlags::RDONLY).and_then(|mut open| {
            let mut text = String::new();
            open.read_to_string(&mut text)?;
            Ok(text.trim().to_owned())
        });
        match read {
            Ok(text) => Ok(Some(text)),
            Err(error) if is_gone(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes `text` to a file, if that exists.
    pub(super) fn write(&self, file: &str, text: &str) -> io::Result<()> {
        let written = self.file(file, OFlags::WRONLY | OFlags::TRUNC);
        gone_is_fine(written.and_then(|mut open| open.write_all(text.as_bytes())))
    }

    fn file(&self, name: &str, flags: OFlags) -> io::Result<File> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(File::from(openat(&self.0, name, flags, Mode::empty())?))
    }
}

/// Does this error mean that a cgroup, or a thread, is gone?
pub(super) fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH | libc::ENODEV))
}

/// Ignores that a cgroup, or a thread, is gone: then there is nothing to change.
pub(super) fn gone_is_fine(done: io::Result<()>) -> io::Result<()> {
    done.or_else(|error| if is_gone(&error) { Ok(()) } else { Err(error) })
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{MetadataExt, symlink},
    };

    use super::*;

    #[test]
    fn no_link_is_followed() {
        let home = tempfile::tempdir().unwrap();
        let (group, other) = (home.path().join("group"), home.path().join("other"));
        fs::create_dir(&group).unwrap();
        fs::write(&other, "100").unwrap();
        symlink(&other, group.join("cpu.weight")).unwrap();
        let open = Directory::open(&group, fs::metadata(&group).unwrap().ino()).unwrap().unwrap();
        assert!(open.read("cpu.weight").is_err() && open.write("cpu.weight", "200").is_err());
        assert_eq!(fs::read_to_string(&other).unwrap(), "100");
        assert!(Directory::open(&group, 1).unwrap().is_none(), "another one");
    }
}
