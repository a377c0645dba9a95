//! Which of the measured cgroups a socket belongs to.

use std::{
    collections::HashMap,
    fs,
    os::{fd::AsRawFd, unix::fs::MetadataExt},
    path::{Path, PathBuf},
};

use super::hierarchy::{Hierarchy, Version};
use crate::model::CgroupId;

/// Cgroups that are deeper are taken for none.
const DEEPEST: usize = 64;

/// A socket knows the cgroup of version 2 of the task that made it. Where the measured hierarchy is of version 2, the
/// scheduler's group of that cgroup can be found out, whether or not it has run: it has one of its own, or it is in that of
/// the next above it that has one.
///
/// Where the measured hierarchy is of version 1 nothing can be said: ids of one hierarchy mean nothing in another, and are
/// often the same.
#[derive(Debug)]
pub struct Owners {
    hierarchy: Hierarchy,
    known: HashMap<u64, Option<CgroupId>>,
}

impl Owners {
    pub fn new(hierarchy: Hierarchy) -> Self {
        Self { hierarchy, known: HashMap::new() }
    }

    /// The measured cgroup of a socket in the cgroup of version 2 with this id. `None` where it cannot be told, or is gone.
    pub(super) fn of(&mut self, socket: u64) -> Option<CgroupId> {
        *self.known.entry(socket).or_insert_with(|| owner(&self.hierarchy, socket))
    }

    /// Forgets all owners: cgroups come and go, and groups are switched on and off.
    pub(super) fn forget(&mut self) {
        self.known.clear();
    }
}

fn owner(hierarchy: &Hierarchy, socket: u64) -> Option<CgroupId> {
    if hierarchy.version == Version::V1 {
        return None;
    }
    let directory = hierarchy.open(CgroupId(socket)).ok()?;
    let device = fs::metadata(&hierarchy.mount).ok()?.dev();
    group(hierarchy, device, Path::new(&format!("/proc/self/fd/{}", directory.as_raw_fd())))
}

/// The cgroup in `directory`, or the next above it, that the scheduler has a group for.
fn group(hierarchy: &Hierarchy, device: u64, directory: &Path) -> Option<CgroupId> {
    let mut at = PathBuf::from(directory);
    for _ in 0..DEEPEST {
        let found = fs::metadata(&at).ok()?;
        // Where a part of the hierarchy is mounted, what is above that part is another file system.
        if found.dev() != device {
            return None;
        }
        let id = CgroupId(found.ino());
        if id == CgroupId::ROOT || hierarchy.has_group(&at) {
            return Some(id);
        }
        at.push("..");
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::GroupBy;

    #[test]
    fn the_next_above_that_has_a_group_owns_it() {
        let home = tempfile::tempdir().unwrap();
        let inner = home.path().join("service/payload/deep");
        fs::create_dir_all(&inner).unwrap();
        fs::write(home.path().join("service/cpu.weight"), "100\n").unwrap();
        let found = fs::metadata(home.path()).unwrap();
        let id = |path: &Path| Some(CgroupId(fs::metadata(path).unwrap().ino()));
        let service = home.path().join("service");
        for (group_by, owner) in [(GroupBy::Scheduler, &service), (GroupBy::Leaf, &inner)] {
            let hierarchy = Hierarchy::at(Version::V2, home.path(), group_by);
            assert_eq!(group(&hierarchy, found.dev(), &inner), id(owner));
            assert_eq!(group(&hierarchy, found.dev() + 1, &inner), None, "another file system");
        }
    }

    #[test]
    fn version_1_says_nothing() {
        let hierarchy = Hierarchy::at(Version::V1, Path::new("/"), GroupBy::Scheduler);
        assert_eq!(Owners::new(hierarchy).of(1), None);
    }
}
