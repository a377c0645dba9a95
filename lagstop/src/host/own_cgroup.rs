//! Cgroups that lagstop makes for what it runs. They bear a mark that says whose they are, so that what is left of them where
//! lagstop was killed can be told from anybody else's.

use std::{
    fs::{self, File},
    io::{self, Write},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command},
    thread,
    time::{Duration, Instant},
};

use rustix::{
    fs::{XattrFlags, getxattr, setxattr},
    process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal},
};

use super::{Hierarchy, Version, process::started};

/// A cgroup that its maker has to remove.
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

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Gives the cgroups inside of it groups of their own in the scheduler. Only version 2 has to be asked for that.
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
        self.take_in(command)?;
        command.spawn()
    }

    /// Has `command` enter it before it is executed.
    ///
    /// # Errors
    /// When nothing can be put there.
    pub fn take_in(&self, command: &mut Command) -> io::Result<()> {
        let mut processes = File::options().write(true).open(self.directory.join("cgroup.procs"))?;
        // SAFETY: one system call, on what is open already.
        unsafe { command.pre_exec(move || processes.write_all(b"0")) };
        Ok(())
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
        let left = Self::left(hierarchy, purpose)?;
        for directory in &left {
            kill_in(directory);
            remove_below(directory);
        }
        Ok(left)
    }

    /// Removes those of them in which nothing runs any more, and those inside of them. What runs is somebody's, and goes on.
    ///
    /// # Errors
    /// When the hierarchy cannot be looked at.
    pub fn sweep_empty(hierarchy: &Hierarchy, purpose: &str) -> io::Result<()> {
        for directory in Self::left(hierarchy, purpose)? {
            if processes_in(&directory).is_empty() {
                remove_empty(&directory);
            }
        }
        Ok(())
    }

    /// The cgroups directly below the root of `hierarchy` that were made for `purpose` by processes that are gone.
    fn left(hierarchy: &Hierarchy, purpose: &str) -> io::Result<Vec<PathBuf>> {
        let mut left = Vec::new();
        for entry in fs::read_dir(&hierarchy.mount)? {
            let directory = entry?.path();
            if Self::is_left(&directory, purpose) {
                left.push(directory);
            }
        }
        Ok(left)
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

/// Kills the processes in a cgroup and those below it, and whom they start meanwhile.
fn kill_in(directory: &Path) {
    const STEP: Duration = Duration::from_millis(5);
    /// After this time, those who start others faster than they are killed are left.
    const LIMIT: Duration = Duration::from_secs(2);
    // Version 2 has it from Linux 5.14 on, and none gets away.
    let all = File::options().write(true).open(directory.join("cgroup.kill"));
    if all.and_then(|mut all| all.write_all(b"1")).is_ok() {
        return;
    }
    let until = Instant::now() + LIMIT;
    loop {
        let listed = processes_in(directory);
        if listed.is_empty() || Instant::now() >= until {
            return;
        }
        kill_each(directory, &listed);
        thread::sleep(STEP);
    }
}

/// Kills those of `listed` that are still in the cgroup. A number may belong to another process since it was listed: one that is
/// listed again while its pidfd is held is the one meant.
fn kill_each(directory: &Path, listed: &[Pid]) {
    /// Any process may have this many files open. The others come next.
    const AT_ONCE: usize = 256;
    let held: Vec<_> =
        listed.iter().take(AT_ONCE).map(|&pid| (pid, pidfd_open(pid, PidfdFlags::empty()).ok())).collect();
    let inside = processes_in(directory);
    for (pid, held) in held.into_iter().filter(|(pid, _)| inside.contains(pid)) {
        // One that is gone meanwhile is as good.
        let _ = match held {
            Some(held) => pidfd_send_signal(held, Signal::KILL),
            None => kill_process(pid, Signal::KILL),
        };
    }
}

/// The processes in a cgroup and those below it. Those of other process namespaces have no number here.
fn processes_in(directory: &Path) -> Vec<Pid> {
    let text = fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default();
    let mut processes: Vec<Pid> = text.lines().filter_map(|line| line.parse().ok()).filter_map(Pid::from_raw).collect();
    for child in directories(directory) {
        processes.extend(processes_in(&child));
    }
    processes
}

/// Removes a cgroup and those below it, where they are empty.
fn remove_empty(directory: &Path) {
    for child in directories(directory) {
        remove_empty(&child);
    }
    // The kernel keeps one that is not: the next sweep asks again.
    let _ = fs::remove_dir(directory);
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

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    fn sleeper() -> Child {
        Command::new("sleep").arg("60").spawn().unwrap()
    }

    fn pid(child: &Child) -> Pid {
        Pid::from_child(child)
    }

    #[test]
    fn whoever_got_the_number_of_one_that_left_is_not_killed() {
        let cgroup = tempfile::tempdir().unwrap();
        let inner = cgroup.path().join("inner");
        fs::create_dir(&inner).unwrap();
        let (mut stays, mut other) = (sleeper(), sleeper());
        fs::write(cgroup.path().join("cgroup.procs"), "").unwrap();
        fs::write(inner.join("cgroup.procs"), format!("0\n{}\n", stays.id())).unwrap();
        assert_eq!(processes_in(cgroup.path()), [pid(&stays)], "0 is of another namespace");
        kill_each(cgroup.path(), &[pid(&stays), pid(&other)]);
        assert_eq!(stays.wait().unwrap().signal(), Some(libc::SIGKILL));
        assert!(other.try_wait().unwrap().is_none());
        other.kill().unwrap();
        other.wait().unwrap();
    }

    #[test]
    fn the_kernel_kills_all_of_them_where_it_can() {
        let cgroup = tempfile::tempdir().unwrap();
        fs::write(cgroup.path().join("cgroup.kill"), "").unwrap();
        fs::write(cgroup.path().join("cgroup.procs"), format!("{}\n", i32::MAX)).unwrap();
        let began = Instant::now();
        kill_in(cgroup.path());
        assert_eq!(fs::read_to_string(cgroup.path().join("cgroup.kill")).unwrap(), "1");
        assert!(began.elapsed() < Duration::from_secs(2), "nobody is waited for");
    }

    #[test]
    fn who_does_not_end_is_waited_for_up_to_a_limit() {
        let cgroup = tempfile::tempdir().unwrap();
        fs::write(cgroup.path().join("cgroup.procs"), format!("{}\n", i32::MAX)).unwrap();
        let began = Instant::now();
        kill_in(cgroup.path());
        assert!(began.elapsed() < Duration::from_secs(30));
        assert!(!cgroup.path().join("cgroup.kill").exists(), "it is not made where it is missing");
    }

    #[test]
    fn empty_ones_are_removed_from_within() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("lagstop-command-1");
        fs::create_dir_all(directory.join("a/b")).unwrap();
        fs::create_dir_all(directory.join("c")).unwrap();
        remove_empty(&directory);
        assert!(!directory.exists());
    }
}
