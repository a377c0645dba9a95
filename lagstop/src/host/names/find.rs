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

/// What all that is no pod of Kubernetes is called; `None` where it is not what its path could mean.
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

fn of_container(container: &Container<'_>, look: &mut Look<'_>) -> Called {
    let Container { runtime, directory, id, is_monitor } = *container;
    let found = match (runtime, directory) {
        ("docker", _) | (_, Some("ecs" | "moby")) => docker::name(id, look).map(|name| ("docker", name)),
        ("libpod", _) => podman::name(id, look).map(|name| ("podman", name)),
        ("nerdctl", namespace) | ("container", namespace @ Some(_)) => {
            containerd::nerdctl(namespace, id, look).map(|name| ("nerdctl", name))
        }
        _ => None,
    };
    match found {
        Some((runtime, name)) => Called::container(runtime, &name, is_monitor),
        None => {
            let workload = Workload { container: Some(id[..SHORT_ID].into()), ..Workload::default() };
            let name = monitoring(by_id(people_call(runtime), id), is_monitor);
            Called { name, workload: Some(workload).filter(|_| !is_monitor), vcpus: None }
        }
    }
}
