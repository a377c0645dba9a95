//! Files of a cgroup, read and written without following a link.

use std::{
    fs::{self, File},
    io::{self, Read, Write},
    os::fd::OwnedFd,
    path::Path,
};

use rustix::{
    fs::{Mode, OFlags, fstat, fstatfs, open, openat},
    io::Errno,
};

use super::{Attr, Change};
use crate::display::plain;

/// Whether a cgroup is idle: its weight is lost while it is, and cannot be written (`sched_group_set_idle`, kernel/sched/fair.c).
pub(super) const IDLE: &str = "cpu.idle";
/// What real-time threads of a cgroup may run in a period, where those are grouped (`CONFIG_RT_GROUP_SCHED`).
pub(super) const BUDGET: &str = "cpu.rt_runtime_us";
/// What a trial may have changed. A journal that names anything else is not believed.
const NAMES: [&str; 5] = ["cpu.weight", "cpu.shares", IDLE, BUDGET, "cpu.latency_awareness"];
/// `CGROUP_SUPER_MAGIC` and `CGROUP2_SUPER_MAGIC`, include/uapi/linux/magic.h.
const CGROUP_FILE_SYSTEMS: [u32; 2] = [0x27_e0eb, 0x6367_7270];

/// The weight that the kernel gives a cgroup that stops being idle, `None` where `file` is no weight.
pub(super) fn usual_weight(file: &str) -> Option<&'static str> {
    match file {
        "cpu.weight" => Some("100"),
        "cpu.shares" => Some("1024"),
        _ => None,
    }
}

/// Is what a journal says something that a trial can have changed? It is undone by root: nothing else is to be written to.
///
/// # Errors
/// Why it is not believed.
pub(super) fn believe(change: &Change) -> Result<(), String> {
    let (directory, inode, file, says) = match change {
        Change::Thread { before, .. } if before.policy == Attr::OTHER => return Ok(()),
        Change::Thread { .. } => return Err("a trial never changes a thread that was real-time before".to_owned()),
        Change::File { directory, inode, file, before, .. } => (directory, *inode, file, before),
    };
    if !NAMES.contains(&file.as_str()) {
        return Err("a trial never changes a file of that name".to_owned());
    }
    if !says.chars().all(|one| one.is_ascii_digit() || one == '-') {
        return Err("its original value is not a number".to_owned());
    }
    match fs::canonicalize(directory) {
        Ok(real) if real == *directory => {}
        Ok(_) => return Err("its path contains a symbolic link".to_owned()),
        // What is gone is nothing to undo.
        Err(error) if is_gone(&error) => return Ok(()),
        Err(error) => return Err(plain(&error)),
    }
    match Directory::open(directory, inode).and_then(|open| open.map(|open| open.is_of_cgroups()).transpose()) {
        Ok(None | Some(true)) => Ok(()),
        Ok(Some(false)) => Err("it is not in a cgroup file system".to_owned()),
        Err(error) => Err(plain(&error)),
    }
}

/// The directory of a cgroup, held open: it stays the same one, whoever gets its name.
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
    fn is_of_cgroups(&self) -> io::Result<bool> {
        Ok(CGROUP_FILE_SYSTEMS.contains(&(fstatfs(&self.0)?.f_type as u32)))
    }

    /// What a file says. `None` where there is none.
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

    /// Has a file say something. One that is not there is not made.
    pub(super) fn write(&self, file: &str, text: &str) -> io::Result<()> {
        let written = self.file(file, OFlags::WRONLY | OFlags::TRUNC);
        gone_is_fine(written.and_then(|mut open| open.write_all(text.as_bytes())))
    }

    fn file(&self, name: &str, flags: OFlags) -> io::Result<File> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(File::from(openat(&self.0, name, flags, Mode::empty())?))
    }
}

/// Does the system say that a cgroup, or a thread, is gone?
pub(super) fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH | libc::ENODEV))
}

/// What is gone is nothing to change.
pub(super) fn gone_is_fine(done: io::Result<()>) -> io::Result<()> {
    done.or_else(|error| if is_gone(&error) { Ok(()) } else { Err(error) })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, symlink};

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
            believe(&Change::File { directory, inode, file, before: before.to_owned(), after: "200".to_owned() })
        };
        assert_eq!(why(&real, "cpu.weight", "100").unwrap_err(), "it is not in a cgroup file system");
        assert!(why(&real, "passwd", "100").unwrap_err().contains("name"));
        assert!(why(&real, "../passwd", "100").unwrap_err().contains("name"));
        assert!(why(&real, "cpu.weight", "x; reboot").unwrap_err().contains("not a number"));
        assert!(why(&real.join("link"), "cpu.weight", "100").unwrap_err().contains("link"));
        assert_eq!(why(&real.join("gone"), "cpu.weight", "100"), Ok(()), "nothing to undo");
        let thread = |policy| {
            let before = Attr { policy, ..Attr::default() };
            believe(&Change::Thread { tid: 1, started: 1, before, after: before })
        };
        assert!(thread(Attr::OTHER).is_ok() && thread(Attr::FIFO).is_err());
    }

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
