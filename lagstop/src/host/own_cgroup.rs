//! Cgroups that lagstop makes for what it runs. They bear a mark that says whose they are, so that what is left of them where
//! lagstop was killed can be told from anybody else's.

use std::{
    fs::{self, File},
    io::{self, Write},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command},
    thread,
    time::Duration,
};

use rustix::{
    fs::{XattrFlags, getxattr, setxattr},
    process::{Pid, Signal, kill_process},
};

use super::{Hierarchy, Version, process::started};

/// A cgroup that whoever made it has to remove.
#[derive(Debug)]
pub struct OwnCgroup {
    directory: PathBuf,
}

impl OwnCgroup {
    /// The extended attribute that is the mark: purpose, process and when that started.
    const MARK: &str = "user.lagstop";
    const LONGEST_MARK: usize = 128;

    /// Makes it, for what `purpose` says in a word.
    ///
    /// # Errors
    /// Where it may not be made, or is there already.
    pub fn make(directory: PathBuf, purpose: &str) -> io::Result<Self> {
        fs::create_dir(&directory)?;
        let cgroup = Self { directory };
        let pid = std::process::id();
        let mark = format!("{purpose} {pid} {}", started(pid).unwrap_or_default());
        if let Err(error) = setxattr(&cgroup.directory, Self::MARK, mark.as_bytes(), XattrFlags::empty()) {
            cgroup.remove();
            return Err(error.into());
        }
        Ok(cgroup)
    }

    /// One inside of it, for the same purpose.
    ///
    /// # Errors
    /// As for the one that it is in.
    pub fn child(&self, name: &str, purpose: &str) -> io::Result<Self> {
        Self::make(self.directory.join(name), purpose)
    }

    /// Where it is.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Has the scheduler groups for those inside of it? In version 2 it has to be asked for.
    ///
    /// # Errors
    /// When that is refused.
    pub fn hand_down_cpu(&self, hierarchy: &Hierarchy) -> io::Result<()> {
        match hierarchy.version {
            Version::V1 => Ok(()),
            Version::V2 => fs::write(self.directory.join("cgroup.subtree_control"), "+cpu"),
        }
    }

    /// Runs `command` in it.
    ///
    /// # Errors
    /// When it cannot be run, or not there.
    pub fn spawn(&self, command: &mut Command) -> io::Result<Child> {
        let mut processes = File::options().write(true).open(self.directory.join("cgroup.procs"))?;
        // SAFETY: one system call, on what is open already.
        unsafe { command.pre_exec(move || processes.write_all(b"0")) };
        command.spawn()
    }

    /// Removes it once its processes are gone, for which it waits a moment. Gives whether it is gone.
    pub fn remove(&self) -> bool {
        const STEP: Duration = Duration::from_millis(20);
        const STEPS: u32 = 100;
        (0..STEPS).any(|_| {
            let is_gone = fs::remove_dir(&self.directory).is_ok() || !self.directory.exists();
            if !is_gone {
                thread::sleep(STEP);
            }
            is_gone
        })
    }

    /// Kills what is in it, and in those inside of it.
    pub fn kill(&self) {
        kill_in(&self.directory);
    }

    /// Kills what is in the cgroups directly below the root of `hierarchy` that were made for `purpose` by processes that are
    /// gone, and removes them. Gives their directories.
    ///
    /// # Errors
    /// When the hierarchy cannot be looked at.
    pub fn sweep(hierarchy: &Hierarchy, purpose: &str) -> io::Result<Vec<PathBuf>> {
        let mut swept = Vec::new();
        for entry in fs::read_dir(&hierarchy.mount)? {
            let directory = entry?.path();
            if Self::is_left(&directory, purpose) {
                kill_in(&directory);
                remove_below(&directory);
                swept.push(directory);
            }
        }
        Ok(swept)
    }

    /// Was it made for `purpose`, by a process that is gone?
    fn is_left(directory: &Path, purpose: &str) -> bool {
        let mut mark = [0; Self::LONGEST_MARK];
        let Ok(length) = getxattr(directory, Self::MARK, &mut mark[..]) else { return false };
        let Ok(mark) = str::from_utf8(&mark[..length.min(Self::LONGEST_MARK)]) else { return false };
        let mut words = mark.split(' ');
        let (Some(made_for), Some(pid), Some(when)) = (words.next(), words.next(), words.next()) else { return false };
        let Ok(pid) = pid.parse() else { return false };
        made_for == purpose && started(pid).is_none_or(|started| started.to_string() != when)
    }
}

/// Kills the processes in a cgroup and those below it.
fn kill_in(directory: &Path) {
    for child in directories(directory) {
        kill_in(&child);
    }
    let processes = fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default();
    for pid in processes.lines().filter_map(|line| line.parse().ok()).filter_map(Pid::from_raw) {
        // One that is gone meanwhile is as good.
        let _ = kill_process(pid, Signal::KILL);
    }
}

fn remove_below(directory: &Path) {
    for child in directories(directory) {
        remove_below(&child);
    }
    // Told by whether it is still there.
    OwnCgroup { directory: directory.to_owned() }.remove();
}

fn directories(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()).collect()
}
