//! What of the host this process can see.

use std::fs;

use super::{Hierarchy, Identity, Version, sock_diag};
use crate::{model::GroupBy, plain::plain};

/// What of the host this process can see.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// The host's name, where it is told.
    pub hostname: String,
    /// The hierarchy that the scheduler groups by; or why there is none.
    pub hierarchy: Result<Seen, String>,
    /// Whether the kernel tells how long tasks waited for a CPU.
    pub has_pressure: bool,
    /// Whether the kernel lists the sockets that listen; or why not.
    pub lists_listeners: Result<(), String>,
}

/// The hierarchy that the scheduler groups by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Version of its interface: 1 or 2.
    pub version: u8,
    /// Where it is mounted.
    pub mount: String,
    /// Whether the root of the hierarchy is seen there, and not a part of it.
    pub is_whole: bool,
    /// Whether cgroups below the root are groups to the scheduler too: of version 2, only where the `cpu` controller is
    /// handed down. `None` where that is not to be seen.
    pub groups_tasks: Option<bool>,
}

impl Surroundings {
    /// Looks around.
    pub fn look() -> Self {
        Self {
            hostname: Identity::read().map(|identity| identity.hostname).unwrap_or_default(),
            hierarchy: Hierarchy::find(GroupBy::Scheduler).map(|found| Seen::from(&found)).map_err(|e| e.to_string()),
            has_pressure: fs::read_to_string("/proc/pressure/cpu").is_ok(),
            lists_listeners: sock_diag::listening().map(drop).map_err(|error| plain(&error)),
        }
    }
}

impl From<&Hierarchy> for Seen {
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
