//! A place for the watchdog that outlives the trial's: who ends a service or a session, or where memory runs out, kills all
//! that is in its cgroup.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::{display::plain, host::Hierarchy, model::GroupBy};

/// Cgroups of watchdogs are called so, and by their processes.
const NAME: &str = "lagstop-trial-watchdog-";
/// Where systemd has the cgroups of version 1 by which it ends services.
const SYSTEMD: &str = "/sys/fs/cgroup/systemd";
/// `OOM_SCORE_ADJ_MIN`, include/uapi/linux/oom.h: it is not killed where memory runs out.
const NEVER_KILLED: &str = "-1000";

/// Cgroups of this process alone, below the roots of their hierarchies. Dropping it leaves and removes them.
#[derive(Debug, Default)]
pub(super) struct Shelter {
    cgroups: Vec<Cgroup>,
}

#[derive(Debug)]
struct Cgroup {
    root: PathBuf,
    directory: PathBuf,
}

impl Shelter {
    /// Goes there, and removes what watchdogs that were killed have left. Says in `notes` what was refused: it goes on without.
    pub(super) fn take(notes: &mut Vec<String>) -> Self {
        sweep();
        let mut this = Self::default();
        let roots = roots();
        if roots.is_empty() {
            notes.push("the watchdog has no cgroup of its own: no cgroup root is visible here".to_owned());
        }
        for root in roots {
            match Cgroup::enter(&root, std::process::id()) {
                Ok(cgroup) => this.cgroups.push(cgroup),
                Err(error) => notes.push(format!(
                    "the watchdog has no cgroup of its own in {}: {}. Killing all of lagstop's cgroup kills it too",
                    root.display(),
                    plain(&error)
                )),
            }
        }
        if let Err(error) = fs::write("/proc/self/oom_score_adj", NEVER_KILLED) {
            notes.push(format!("the OOM killer may kill the watchdog: oom_score_adj cannot be set: {}", plain(&error)));
        }
        this
    }
}

impl Cgroup {
    fn enter(root: &Path, pid: u32) -> io::Result<Self> {
        let directory = root.join(format!("{NAME}{pid}"));
        fs::create_dir(&directory)?;
        let this = Self { root: root.to_owned(), directory };
        // If this fails, dropping `this` removes the directory.
        fs::write(this.directory.join("cgroup.procs"), "0")?;
        Ok(this)
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // A cgroup with processes cannot be removed. The next watchdog removes it.
        let _ = fs::write(self.root.join("cgroup.procs"), "0");
        let _ = fs::remove_dir(&self.directory);
    }
}

/// Removes cgroups of watchdogs that are gone. The kernel does not remove cgroups with processes.
pub(super) fn sweep() {
    roots().iter().for_each(|root| sweep_below(root));
}

fn sweep_below(root: &Path) {
    let is_one = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with(NAME);
    for left in fs::read_dir(root).into_iter().flatten().flatten().filter(is_one) {
        let _ = fs::remove_dir(left.path());
    }
}

/// Roots of the hierarchies that matter: the one that CPU time is shared by, and those by which processes are killed together.
fn roots() -> Vec<PathBuf> {
    let mut roots = Vec::new();
    for by in [GroupBy::Leaf, GroupBy::Scheduler] {
        // A new cgroup has no real-time budget: who is in it cannot go first.
        let is_fit = |it: &Hierarchy| it.is_whole() && !it.mount.join("cpu.rt_runtime_us").exists();
        roots.extend(Hierarchy::find(by).ok().filter(is_fit).map(|hierarchy| hierarchy.mount));
    }
    if Path::new(SYSTEMD).join("release_agent").exists() {
        roots.push(SYSTEMD.into());
    }
    roots.dedup();
    roots
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cgroups_of_watchdogs_that_are_gone_are_removed_and_no_others() {
        let root = tempfile::tempdir().unwrap();
        for name in ["lagstop-trial-watchdog-7", "lagstop-trial-watchdog-8", "web"] {
            fs::create_dir(root.path().join(name)).unwrap();
        }
        // Somebody is in there.
        fs::create_dir(root.path().join("lagstop-trial-watchdog-8/inner")).unwrap();
        sweep_below(root.path());
        let there = |name: &str| root.path().join(name).exists();
        assert!(!there("lagstop-trial-watchdog-7") && there("lagstop-trial-watchdog-8") && there("web"));
    }

    #[test]
    fn one_that_is_refused_is_said_and_leaves_nothing() {
        let root = tempfile::tempdir().unwrap();
        let taken = root.path().join("lagstop-trial-watchdog-7");
        fs::create_dir(&taken).unwrap();
        assert!(Cgroup::enter(root.path(), 7).is_err(), "it is another's");
        let entered = Cgroup::enter(root.path(), 8).unwrap();
        assert_eq!(fs::read_to_string(entered.directory.join("cgroup.procs")).unwrap(), "0");
        fs::remove_file(entered.directory.join("cgroup.procs")).unwrap();
        drop(entered);
        assert!(!root.path().join("lagstop-trial-watchdog-8").exists() && taken.exists());
    }
}
