//! Whom to ask for a name: the files of whoever runs it.

use super::{
    SHORT_ID,
    called::{Called, by_id, monitoring, people_call},
    containerd, docker, firecracker, libvirt,
    look::Look,
    lxc, machined, podman, proxmox,
    subtree::{Container, Kind},
};
use crate::model::Workload;

/// The name of anything but a pod of Kubernetes; `None` if it is not what its path suggests.
pub(super) fn called(kind: &Kind<'_>, look: &mut Look<'_>) -> Option<Called> {
    match kind {
        Kind::Container(container) => Some(of_container(container, look)),
        Kind::PodmanPod(id) => Some(Called { name: by_id("podman-pod", id), ..Called::default() }),
        Kind::PodmanMonitors => Some(Called { name: "podman (monitors)".to_owned(), ..Called::default() }),
        Kind::Machine(machine) => Some(machined::called(machine)),
        Kind::Libvirt(guest) => Some(libvirt::called(guest, look)),
        Kind::Proxmox(proxmox) => proxmox::called(*proxmox, look),
        Kind::Lxc(lxc) => lxc::called(*lxc, look),
        Kind::MicroVm(id) => Some(firecracker::called(id)),
        Kind::Task { namespace, id } => containerd::runs(namespace, id, look).then(|| {
            let name = if *namespace == "default" { (*id).to_owned() } else { format!("{namespace}/{id}") };
            Called::container("containerd", &name, false)
        }),
        Kind::Pod { .. } => None,
    }
}

/// Programs that keep names of containers in files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Engine {
    Docker,
    Podman,
    Nerdctl,
}

impl Engine {
    /// Who keeps `container`'s name. `None` if its path does not tell.
    pub(super) fn of(container: &Container<'_>) -> Option<Self> {
        Some(match (container.runtime, container.directory) {
            ("docker", _) | (_, Some("ecs" | "moby")) => Self::Docker,
            ("libpod", _) => Self::Podman,
            ("nerdctl", _) | ("container", Some(_)) => Self::Nerdctl,
            _ => return None,
        })
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Podman => "podman",
            Self::Nerdctl => "nerdctl",
        }
    }

    /// Where the files are, unless settings say otherwise: what has to be mounted where lagstop itself runs in a container.
    pub(super) const fn directory(self) -> &'static str {
        match self {
            Self::Docker => "/var/lib/docker/containers",
            Self::Podman => "/var/lib/containers/storage/overlay-containers",
            Self::Nerdctl => "/run/containerd/io.containerd.runtime.v2.task",
        }
    }
}

/// The name of `container`, and who keeps it.
pub(super) fn named(container: &Container<'_>, look: &mut Look<'_>) -> Option<(Engine, String)> {
    let engine = Engine::of(container)?;
    let name = match engine {
        Engine::Docker => docker::name(container.id, look),
        Engine::Podman => podman::name(container.id, look),
        Engine::Nerdctl => containerd::nerdctl(container.directory, container.id, look),
    };
    Some((engine, name?))
}

fn of_container(container: &Container<'_>, look: &mut Look<'_>) -> Called {
    let Container { runtime, id, is_monitor, .. } = *container;
    match named(container, look) {
        Some((engine, name)) => Called::container(engine.name(), &name, is_monitor),
        None => {
            let workload = Workload { container: Some(id[..SHORT_ID].into()), ..Workload::default() };
            let name = monitoring(by_id(people_call(runtime), id), is_monitor);
            Called { name, workload: Some(workload).filter(|_| !is_monitor), vcpus: None }
        }
    }
}
