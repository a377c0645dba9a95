//! Whose a cgroup is, by where it is.
//!
//! Whoever may make cgroups may call them whatever he likes, and ids of containers are no secret: a name says something only
//! where nobody but a runtime, or root, could have given it. systemd delegates services and scopes and never slices, so what
//! only slices lead to is root's; of the directories without systemd there is a list. Once inside of a container, a service or
//! a user's own cgroups, no name is believed.

use super::{
    firecracker, libvirt, login,
    lxc::{self, Lxc},
    machined::{self, Machine},
    proxmox::{self, Proxmox},
};

/// The owner of a cgroup, or of the outermost one that it is inside of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner<'p> {
    /// Components of the path that lead to it. What comes after them is its own affair.
    pub(super) length: usize,
    pub(super) kind: Kind<'p>,
}

/// What can be told apart by paths. Names come from files, which are looked at only then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind<'p> {
    /// A pod of Kubernetes, and the container in it, if the path leads into one.
    Pod {
        uid: String,
        container: Option<Container<'p>>,
    },
    Container(Container<'p>),
    /// A pod of Podman's.
    PodmanPod(&'p str),
    /// Without systemd, one cgroup has the monitors of all containers of Podman's.
    PodmanMonitors,
    Machine(Machine),
    Libvirt(libvirt::Guest),
    Proxmox(Proxmox<'p>),
    Lxc(Lxc<'p>),
    MicroVm(&'p str),
    /// Something named as containerd names cgroups without systemd; it may be something else.
    Task {
        namespace: &'p str,
        id: &'p str,
    },
}

/// A container, as its cgroup is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Container<'p> {
    /// Who runs it, as he calls himself in cgroups.
    pub(super) runtime: &'p str,
    /// The cgroup that it is in, where runtimes name these.
    pub(super) directory: Option<&'p str>,
    pub(super) id: &'p str,
    /// Is it the process that looks after the container?
    pub(super) is_monitor: bool,
}

/// Top directories that runtimes make where they do without systemd: Docker's, Podman's, and containerd's after its namespaces.
const DIRECTORIES: [&str; 5] = ["docker", "libpod_parent", "default", "k8s.io", "moby"];
/// Runtimes that users run for themselves.
const ROOTLESS: [&str; 3] = ["libpod", "docker", "nerdctl"];
/// Between the kubelet's own cgroup and a pod's there is its class at most.
const CLASSES: usize = 1;

/// Possible owners of the cgroup that `components` lead to, the most certain first: only a runtime, or root, could have given the
/// names that say so.
pub(super) fn owners<'p>(components: &[&'p str]) -> Vec<Owner<'p>> {
    if let Some(length) = kubepods(components) {
        return in_kubepods(components, length).into_iter().collect();
    }
    let found = [
        by_runtime(components),
        podman_pod(components),
        libvirt::place(components).map(|(length, guest)| (length, Kind::Libvirt(guest))),
        machined::place(components).map(|(length, machine)| (length, Kind::Machine(machine))),
        proxmox::place(components).map(|(length, proxmox)| (length, Kind::Proxmox(proxmox))),
        lxc::place(components).map(|(length, lxc)| (length, Kind::Lxc(lxc))),
        firecracker::place(components).map(|(length, id)| (length, Kind::MicroVm(id))),
        task(components),
    ];
    found.into_iter().flatten().map(|(length, kind)| Owner { length, kind }).collect()
}

/// Whether one of the names says that it is a container's or a pod's.
pub(super) fn claims(components: &[&str]) -> bool {
    components.iter().any(|component| container(component).is_some() || pod_uid(component).is_some())
}

/// Whether it is below a user's own systemd, and claims to be no more than what users run.
pub(super) fn is_rootless(components: &[&str]) -> bool {
    let ["user.slice", _, manager, inside @ ..] = components else { return false };
    let is_users = |component: &&str| match container(component) {
        Some(Container { runtime, .. }) => ROOTLESS.contains(&runtime),
        None => pod_uid(component).is_none(),
    };
    manager.starts_with("user@") && manager.ends_with(".service") && inside.iter().all(is_users)
}

/// The user whose session or systemd it is inside of.
pub(super) fn login<'p>(components: &[&'p str]) -> Option<(usize, login::Login<'p>)> {
    login::place(components)
}

/// How many components lead to the kubelet's own cgroup, which is at the top, or below the `--cgroup-root` that kind gives it.
fn kubepods(components: &[&str]) -> Option<usize> {
    match components {
        ["kubepods" | "kubepods.slice", ..] => Some(1),
        ["kubelet", "kubepods", ..] | ["kubelet.slice", "kubelet-kubepods.slice", ..] => Some(2),
        _ => None,
    }
}

fn in_kubepods<'p>(components: &[&'p str], length: usize) -> Option<Owner<'p>> {
    let mut below = components.iter().enumerate().skip(length).take(CLASSES + 1);
    let (at, pod) = below.find_map(|(at, component)| Some((at, pod_uid(component)?)))?;
    let container = components.get(at + 1).and_then(|component| container(component));
    let length = at + 1 + usize::from(container.is_some());
    Some(Owner { length, kind: Kind::Pod { uid: pod, container } })
}

fn by_runtime<'p>(components: &[&'p str]) -> Option<(usize, Kind<'p>)> {
    let mut all = components.iter().enumerate();
    let (at, found) = all.find_map(|(at, component)| Some((at, container(component)?)))?;
    let above = &components[..at];
    let is_unit = components[at].ends_with(".scope");
    match above {
        // A pod's id looks like a container's: without systemd, its containers are one deeper.
        ["libpod_parent"] if components[at] == found.id => {
            let inside = components.get(at + 1).and_then(|component| container(component));
            let inside = inside.filter(|inside| inside.runtime == "libpod");
            return Some(inside.map_or((at + 1, Kind::PodmanPod(found.id)), |it| (at + 2, Kind::Container(it))));
        }
        ["docker"] if !is_unit => {
            return Some((at + 1, Kind::Container(Container { runtime: "docker", ..found })));
        }
        [parent] if !is_unit && DIRECTORIES.contains(parent) => {
            return Some((at + 1, Kind::Container(Container { directory: Some(parent), ..found })));
        }
        // Amazon's, by task.
        ["ecs", _] if !is_unit => {
            return Some((at + 1, Kind::Container(Container { directory: Some("ecs"), ..found })));
        }
        _ => {}
    }
    (is_unit && only_slices(above)).then_some((at + 1, Kind::Container(found)))
}

/// Podman's own slice of a pod, in `machine.slice`, and what looks after its containers.
fn podman_pod<'p>(components: &[&'p str]) -> Option<(usize, Kind<'p>)> {
    if let ["libpod_parent", "conmon", ..] = components {
        return Some((2, Kind::PodmanMonitors));
    }
    let mut all = components.iter().enumerate();
    let (at, id) = all.find_map(|(at, component)| {
        let (_, id) = component.strip_suffix(".slice")?.split_once("libpod_pod_")?;
        is_id(id).then_some((at, id))
    })?;
    only_slices(&components[..at]).then_some((at + 1, Kind::PodmanPod(id)))
}

/// containerd's, in the top directory of a namespace.
fn task<'p>(components: &[&'p str]) -> Option<(usize, Kind<'p>)> {
    let [namespace, id, ..] = components else { return None };
    let is_systemds = namespace.ends_with(".slice") || namespace.ends_with(".scope") || namespace.ends_with(".service");
    (!is_systemds && !is_id(id)).then_some((2, Kind::Task { namespace, id }))
}

/// Do only slices lead there, and none of users'?
fn only_slices(above: &[&str]) -> bool {
    above.first().is_some_and(|first| *first != "user.slice") && above.iter().all(|one| one.ends_with(".slice"))
}

/// The runtime and the id in `docker-<id>.scope`, `cri-containerd-<id>.scope`, `crio-<id>.scope`, `libpod-<id>.scope` under
/// systemd; without it in the same less `.scope`, or in the bare id. Monitors have the container's id too.
fn container(component: &str) -> Option<Container<'_>> {
    let bare = component.strip_suffix(".scope").unwrap_or(component);
    let (called, id) = bare.rsplit_once('-').unwrap_or(("container", bare));
    let monitored = called.strip_suffix("-conmon");
    let (runtime, is_monitor) = (monitored.unwrap_or(called), monitored.is_some());
    is_id(id).then_some(Container { runtime, directory: None, id, is_monitor })
}

/// The pod's uid in `kubepods-burstable-pod<uid>.slice`, there with underscores, under systemd; in `pod<uid>` without it.
fn pod_uid(component: &str) -> Option<String> {
    match component.strip_suffix(".slice") {
        Some(slice) => {
            let is_kubelets = slice.starts_with("kubepods") || slice.starts_with("kubelet-kubepods");
            Some(is_kubelets.then_some(slice)?.rsplit_once("-pod")?.1.replace('_', "-"))
        }
        None => Some(component.strip_prefix("pod").filter(|uid| uid.len() >= 32)?.to_owned()),
    }
}

/// Container ids are 64 hexadecimal digits in every runtime.
pub(super) fn is_id(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// `component` with the id in it, if there is one, cut down to its first `digits`.
pub(super) fn with_short_id(component: &str, digits: usize) -> String {
    match container(component) {
        Some(Container { id, .. }) => component.replacen(id, &id[..digits], 1),
        None => component.to_owned(),
    }
}
