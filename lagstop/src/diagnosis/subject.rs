//! Whom a finding is about.

use std::{fmt, net::SocketAddr, sync::Arc};

use schemars::JsonSchema;
use serde::Serialize;

use crate::model::CgroupId;

/// Whom a finding is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Subject {
    /// The host.
    Host,
    /// A cgroup. Path and name are as they are on the host: they may hold anything.
    Cgroup {
        /// Inode number of its directory. `None` of one that only others are inside of, which is not measured itself.
        id: Option<CgroupId>,
        /// Path from the root of its hierarchy.
        path: Arc<str>,
        /// What people call it.
        name: Arc<str>,
    },
    /// A listening TCP address.
    Listener {
        /// Inode number of its network namespace.
        netns: u32,
        /// Address and port.
        address: SocketAddr,
        /// Inode number of the directory of the cgroup that accepts. `None` where it is not known.
        id: Option<CgroupId>,
        path: Option<Arc<str>>,
    },
}

impl Subject {
    /// Path of the cgroup that it is, or that accepts at it.
    pub fn path(&self) -> Option<&str> {
        match self {
            Self::Cgroup { path, .. } => Some(path),
            Self::Listener { path, .. } => path.as_deref(),
            Self::Host => None,
        }
    }

    /// The cgroup's, where it is one that is measured itself.
    pub fn id(&self) -> Option<CgroupId> {
        match self {
            Self::Cgroup { id, .. } | Self::Listener { id, .. } => *id,
            Self::Host => None,
        }
    }

    /// So that it can be found on the host: with path and inode number, or network namespace.
    pub fn exactly(&self) -> String {
        match self {
            Self::Host => "host".to_owned(),
            Self::Cgroup { path, id, .. } => match id {
                Some(id) => format!("cgroup {path} (inode {})", id.0),
                None => format!("cgroup {path}"),
            },
            Self::Listener { netns, address, path, .. } => {
                let cgroup = path.as_ref().map(|path| format!(", cgroup {path}")).unwrap_or_default();
                format!("listener {address} (network namespace {netns}{cgroup})")
            }
        }
    }
}

/// "host", what people call the cgroup, or the address.
impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host => f.pad("host"),
            Self::Listener { address, .. } => f.pad(&address.to_string()),
            Self::Cgroup { id: Some(CgroupId::OTHER), .. } => f.pad("(other)"),
            Self::Cgroup { name, path, id } => match (&**name, &**path) {
                ("", "") => f.pad(&format!("cgroup {}", id.map_or(0, |id| id.0))),
                ("", path) => f.pad(path),
                (name, _) => f.pad(name),
            },
        }
    }
}
