//! The cgroup that lagstop itself runs in, by inode: in a cgroup namespace `/proc/self/cgroup` has another path than the host.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use super::cgroup_file::{SHARES, WEIGHT};
use crate::{host::Hierarchy, model::CgroupId};

/// The cgroup that this process is in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Own {
    /// It, and those that it is in, up to what is mounted. Empty where it is outside of that.
    all: Vec<CgroupId>,
    /// The nearest of them that the scheduler has a group for.
    group: Option<CgroupId>,
}

impl Own {
    /// Finds it: where `/proc/self/cgroup` says, if that one lists this process, or else by looking for the one that does.
    pub(super) fn find(hierarchy: &Hierarchy) -> Self {
        let said = fs::read("/proc/self/cgroup").unwrap_or_default();
        Self::of(&String::from_utf8_lossy(&said), std::process::id(), hierarchy)
    }

    fn of(said: &str, pid: u32, hierarchy: &Hierarchy) -> Self {
        let paths = said.lines().filter_map(|line| line.splitn(3, ':').nth(2));
        let directory = paths
            .filter_map(|path| hierarchy.directory(path))
            .find(|directory| lists(directory, pid))
            .or_else(|| look_for(&hierarchy.mount, pid));
        let Some(directory) = directory else { return Self::default() };
        let id = |directory: &Path| directory.metadata().ok().map(|found| CgroupId(found.ino()));
        let up = || directory.ancestors().take_while(|above| above.starts_with(&hierarchy.mount));
        let has_group = |above: &&Path| [WEIGHT, SHARES].iter().any(|file| above.join(file).exists());
        Self { all: up().filter_map(id).collect(), group: up().find(has_group).and_then(id) }
    }

    /// Does lagstop run in this cgroup, or in one inside of it?
    pub(super) fn is_inside(&self, cgroup: CgroupId) -> bool {
        self.all.contains(&cgroup)
    }

    /// Does lagstop compete as this one?
    pub(super) fn is_group(&self, cgroup: CgroupId) -> bool {
        self.group == Some(cgroup)
    }
}

/// Does the cgroup in `directory` list this process? In version 2, one of threads lists these alone.
fn lists(directory: &Path, pid: u32) -> bool {
    let read = |file| fs::read_to_string(directory.join(file)).ok();
    let list = read("cgroup.procs").or_else(|| read("cgroup.threads"));
    list.is_some_and(|list| list.lines().any(|line| line.parse() == Ok(pid)))
}

/// The cgroup below `mount` that lists this process.
fn look_for(mount: &Path, pid: u32) -> Option<PathBuf> {
    let mut next = vec![mount.to_owned()];
    while let Some(directory) = next.pop() {
        if lists(&directory, pid) {
            return Some(directory);
        }
        let entries = fs::read_dir(&directory).into_iter().flatten().flatten();
        next.extend(entries.filter(|it| it.file_type().is_ok_and(|kind| kind.is_dir())).map(|it| it.path()));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{host::Version, model::GroupBy};

    /// In a cgroup namespace with the host's cgroups its own path is `/`.
    #[test]
    fn it_is_known_whatever_its_path_is_called() {
        let home = tempfile::tempdir().unwrap();
        for path in ["", "pod", "pod/container", "pod/container/inner", "other"] {
            let directory = home.path().join(path);
            fs::create_dir_all(&directory).unwrap();
            let is_own = path.ends_with("inner");
            fs::write(directory.join("cgroup.procs"), if is_own { "12\n4711\n" } else { "4710\n" }).unwrap();
            if !path.is_empty() && !is_own {
                fs::write(directory.join("cpu.weight"), "100").unwrap();
            }
        }
        let hierarchy = Hierarchy::at(Version::V2, home.path(), GroupBy::Scheduler);
        let id = |path: &str| CgroupId(home.path().join(path).metadata().unwrap().ino());
        for said in ["0::/\n", "0::/pod/container/inner\n", "0::/../..\n", "0::/gone\n", ""] {
            let own = Own::of(said, 4_711, &hierarchy);
            for path in ["pod", "pod/container", "pod/container/inner"] {
                assert!(own.is_inside(id(path)), "{said:?}: {path}");
            }
            assert!(!own.is_inside(id("other")), "{said:?}");
            assert!(own.is_group(id("pod/container")) && !own.is_group(id("pod")), "{said:?}");
        }
        assert_eq!(Own::of("0::/pod\n", 4_712, &hierarchy), Own::default(), "it is outside of what is mounted");
    }
}
