//! A name, as it is shown: who runs it, and what he calls it.

use super::SHORT_ID;
use crate::model::{Vcpus, Workload};

/// A name, and what it is the name of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Called {
    pub(super) name: String,
    /// Where it is a container or a pod.
    pub(super) workload: Option<Workload>,
    /// Where it is a guest.
    pub(super) vcpus: Option<Vcpus>,
}

impl Called {
    /// A container, or what looks after it.
    pub(super) fn container(runtime: &str, name: &str, is_monitor: bool) -> Self {
        let workload = Workload { container: Some(name.into()), ..Workload::default() };
        Self {
            name: monitoring(format!("{runtime}:{name}"), is_monitor),
            workload: Some(workload).filter(|_| !is_monitor),
            vcpus: None,
        }
    }

    /// A guest, or a machine of another kind.
    pub(super) fn guest(runtime: &str, name: &str) -> Self {
        Self { name: format!("{runtime}:{name}"), workload: None, vcpus: None }
    }
}

/// What is shown where no name is known.
pub(super) fn by_id(runtime: &str, id: &str) -> String {
    format!("{runtime}:{}", &id[..SHORT_ID])
}

/// Runtimes call themselves otherwise in cgroups than people do.
pub(super) fn people_call(runtime: &str) -> &str {
    match runtime {
        "libpod" => "podman",
        other => other.trim_start_matches("cri-"),
    }
}

/// conmon and its like have a cgroup of their own beside the container's.
pub(super) fn monitoring(name: String, is_monitor: bool) -> String {
    if is_monitor { name + " (monitor)" } else { name }
}
