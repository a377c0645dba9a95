//! Cgroups with processes, as loads have them. Nothing of them is left, whatever happens: dropping them removes them, their
//! processes are killed where this one dies, and what is left of cgroups where it was killed is removed by the next run.

use std::{
    collections::BTreeMap,
    fs, io,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use lagstop::{
    host::{Hierarchy, HostError, OwnCgroup, Version},
    model::GroupBy,
};
use rustix::process::{Signal, set_parent_process_death_signal};

/// Why the cgroups cannot be made, or their processes not be started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TenantsError {
    #[error("{what}: {source}")]
    File { what: String, source: io::Error },
    #[error(transparent)]
    Host(#[from] HostError),
}

impl TenantsError {
    fn file(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        |source| Self::File { what, source }
    }
}

/// The cgroups and their processes.
pub(crate) struct Tenants {
    hierarchy: Hierarchy,
    purpose: &'static str,
    /// By path below the top cgroup, whose own path is empty. A cgroup comes after all that contain it.
    cgroups: BTreeMap<String, OwnCgroup>,
    children: Vec<(String, Child)>,
}

impl Tenants {
    /// Makes one cgroup called `name` below the root, which contains all others.
    pub(crate) fn make(name: &str, purpose: &'static str) -> Result<Self, TenantsError> {
        let hierarchy = Hierarchy::find(GroupBy::Scheduler)?;
        OwnCgroup::sweep(&hierarchy, purpose).map_err(TenantsError::file(hierarchy.mount.display().to_string()))?;
        if hierarchy.version == Version::V2 {
            write(&hierarchy.mount.join("cgroup.subtree_control"), "+cpu")?;
        }
        let mut tenants = Self { hierarchy, purpose, cgroups: BTreeMap::new(), children: Vec::new() };
        tenants.add("", tenants.hierarchy.mount.join(name))?;
        Ok(tenants)
    }

    pub(crate) const fn hierarchy(&self) -> &Hierarchy {
        &self.hierarchy
    }

    /// The directory of the cgroup that all are in.
    pub(crate) fn top(&self) -> &Path {
        self.cgroups.get("").map_or(&self.hierarchy.mount, OwnCgroup::directory)
    }

    /// The cgroups that processes were started in: directories.
    pub(crate) fn inhabited(&self) -> Vec<PathBuf> {
        let mut paths: Vec<&str> = self.children.iter().map(|(path, _)| path.as_str()).collect();
        paths.sort_unstable();
        paths.dedup();
        paths.into_iter().map(|path| self.top().join(path)).collect()
    }

    /// The cgroup at this path below the top one. Makes it, and those above it, where they do not exist.
    pub(crate) fn cgroup(&mut self, path: &str) -> Result<&Path, TenantsError> {
        if !self.cgroups.contains_key(path) {
            let above = path.rsplit_once('/').map_or("", |(above, _)| above);
            self.cgroup(above)?;
            if let Some(above) = self.cgroups.get(above) {
                let what = above.directory().display().to_string();
                above.hand_down_cpu(&self.hierarchy).map_err(TenantsError::file(what))?;
            }
            self.add(path, self.top().join(path))?;
        }
        Ok(self.cgroups.get(path).map_or(&self.hierarchy.mount, OwnCgroup::directory))
    }

    fn add(&mut self, path: &str, directory: PathBuf) -> Result<(), TenantsError> {
        let what = directory.display().to_string();
        let cgroup = OwnCgroup::make(directory, self.purpose).map_err(TenantsError::file(what))?;
        self.cgroups.insert(path.to_owned(), cgroup);
        Ok(())
    }

    /// Sets its share of the CPUs relative to its siblings, as `cpu.shares` of version 1, where 1,024 is the default.
    pub(crate) fn set_shares(&mut self, path: &str, shares: u64) -> Result<(), TenantsError> {
        match self.hierarchy.version {
            Version::V1 => self.set(path, "cpu.shares", &shares.to_string()),
            Version::V2 => self.set(path, "cpu.weight", &weight(shares).to_string()),
        }
    }

    /// Sets the most that it gets, in CPUs.
    pub(crate) fn set_quota(&mut self, path: &str, cpus: f64) -> Result<(), TenantsError> {
        const PERIOD_US: u32 = 100_000;
        let quota = (cpus * f64::from(PERIOD_US)).round();
        match self.hierarchy.version {
            Version::V1 => self
                .set(path, "cpu.cfs_period_us", &PERIOD_US.to_string())
                .and_then(|()| self.set(path, "cpu.cfs_quota_us", &quota.to_string())),
            Version::V2 => self.set(path, "cpu.max", &format!("{quota} {PERIOD_US}")),
        }
    }

    fn set(&mut self, path: &str, file: &str, value: &str) -> Result<(), TenantsError> {
        let file = self.cgroup(path)?.join(file);
        write(&file, value)
    }

    /// Runs it in the cgroup at `path`. What it prints is dropped, unless `command` sends it somewhere.
    pub(crate) fn spawn(&mut self, path: &str, command: &mut Command) -> Result<(), TenantsError> {
        self.cgroup(path)?;
        let Some(cgroup) = self.cgroups.get(path) else { return Ok(()) };
        // SAFETY: one system call, which allocates nothing.
        unsafe { command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::KILL))?)) };
        let what = command.get_program().to_string_lossy().into_owned();
        let child = cgroup.spawn(command).map_err(TenantsError::file(what))?;
        self.children.push((path.to_owned(), child));
        Ok(())
    }

    /// The path of a cgroup in which a process has ended already.
    pub(crate) fn ended(&mut self) -> Option<String> {
        let ended =
            |(path, child): &'_ mut (String, Child)| (!matches!(child.try_wait(), Ok(None))).then(|| path.clone());
        self.children.iter_mut().find_map(ended)
    }
}

impl Drop for Tenants {
    fn drop(&mut self) {
        if let Some(top) = self.cgroups.get("") {
            // With the processes that they have started.
            top.kill();
        }
        for (_, child) in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
        for cgroup in self.cgroups.values().rev() {
            if !cgroup.remove() {
                eprintln!("{} cannot be removed: something is still in it", cgroup.directory().display());
            }
        }
    }
}

/// A command whose input is empty and whose output nobody reads.
pub(crate) fn quiet(mut command: Command) -> Command {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn write(file: &Path, text: &str) -> Result<(), TenantsError> {
    fs::write(file, text).map_err(TenantsError::file(file.display().to_string()))
}

/// What Kubernetes makes of shares on version 2 (`ConvertCPUSharesToCgroupV2Value` of runc's libcontainer).
const fn weight(shares: u64) -> u64 {
    1 + shares.saturating_sub(2) * 9_999 / 262_142
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_weights_of_version_2() {
        assert_eq!([2, 1_024, 262_144].map(weight), [1, 39, 10_000]);
    }
}
