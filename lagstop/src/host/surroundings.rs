//! What of the host this process can see.

use std::{fs, io};

use super::{Hierarchy, HostError, Identity, Nameless, Names, Version, sock_diag};
use crate::model::GroupBy;

/// What of the host this process can see.
#[derive(Debug)]
pub struct Surroundings {
    /// The host's name, where it is told.
    pub hostname: String,
    /// The hierarchy that the scheduler groups by; or why there is none.
    pub hierarchy: Result<SeenHierarchy, HostError>,
    /// Whether the kernel tells how long tasks waited for a CPU.
    pub has_pressure: bool,
    /// Whether the kernel lists the sockets that listen; or why not.
    pub lists_listeners: Result<(), io::Error>,
    /// Whether the pods that run here have names. `None` where there are no pods; an error says why there are no names.
    pub names_pods: Option<Result<(), io::Error>>,
    /// Containers that run here without names, by runtime.
    pub nameless: Vec<Nameless>,
}

/// The hierarchy that the scheduler groups by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenHierarchy {
    /// Version of its interface: 1 or 2.
    pub version: u8,
    pub mount: String,
    /// Whether the root of the hierarchy is seen there, and not a part of it.
    pub is_whole: bool,
    /// Whether cgroups below the root are groups to the scheduler too: of version 2, only where the `cpu` controller is
    /// handed down. `None` where that is not to be seen.
    pub groups_tasks: Option<bool>,
}

impl Surroundings {
    pub fn look() -> Self {
        let hierarchy = Hierarchy::find(GroupBy::Scheduler);
        let has_pods = hierarchy.as_ref().is_ok_and(has_pods);
        Self {
            hostname: Identity::read().map(|identity| identity.hostname).unwrap_or_default(),
            names_pods: has_pods.then(Names::reads_links),
            nameless: hierarchy.as_ref().map(nameless).unwrap_or_default(),
            hierarchy: hierarchy.map(|found| SeenHierarchy::from(&found)),
            has_pressure: fs::read_to_string("/proc/pressure/cpu").is_ok(),
            lists_listeners: sock_diag::listening().map(drop),
        }
    }
}

/// Whether the kubelet has made its cgroup: `kubepods`, or `kubepods.slice` with systemd.
fn has_pods(hierarchy: &Hierarchy) -> bool {
    ["kubepods", "kubepods.slice"].iter().any(|name| hierarchy.mount.join(name).is_dir())
}

fn nameless(hierarchy: &Hierarchy) -> Vec<Nameless> {
    // Where the cgroups cannot be listed, that is told by itself.
    let groups = hierarchy.groups().unwrap_or_default();
    Names::host().nameless(groups.iter().map(|group| &*group.path))
}

impl From<&Hierarchy> for SeenHierarchy {
    fn from(hierarchy: &Hierarchy) -> Self {
        let handed_down = || {
            let controllers = fs::read_to_string(hierarchy.mount.join("cgroup.subtree_control")).ok()?;
            Some(controllers.split_whitespace().any(|controller| controller == "cpu"))
        };
        let is_whole = hierarchy.is_whole();
        let (version, groups_tasks) = match hierarchy.version {
            Version::V1 => (1, Some(true)),
            Version::V2 => (2, if is_whole { handed_down() } else { None }),
        };
        Self { version, mount: hierarchy.mount.display().to_string(), is_whole, groups_tasks }
    }
}
