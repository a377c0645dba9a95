//! Whose a cgroup is, by where it is.
//!
//! Whoever may make cgroups may call them whatever he likes, and ids of containers are no secret: a name says something only
//! where nobody but a runtime, or root, could have given it. systemd delegates services and scopes and never slices, so what
//! only slices lead to is root's; of the directories without systemd there is a list. Once inside of a container, a service or
//! a user's own cgroups, no name is believed.

/// The pod and the container that a cgroup is, or that it is inside of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner<'p> {
    /// Components of the path that lead to it. What comes after them is its own affair.
    pub(super) length: usize,
    /// The uid of the pod.
    pub(super) pod: Option<String>,
    /// The container, outside of which there is none.
    pub(super) container: Option<Container<'p>>,
}

/// A container, as its cgroup is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Container<'p> {
    /// Who runs it.
    pub(super) runtime: &'p str,
    pub(super) id: &'p str,
}

/// Top directories that runtimes make where they do without systemd: Docker's, Podman's, and containerd's after its namespaces.
const DIRECTORIES: [&str; 5] = ["docker", "libpod_parent", "default", "k8s.io", "moby"];
/// Runtimes that users run for themselves.
const ROOTLESS: [&str; 3] = ["libpod", "docker", "nerdctl"];
/// Between the kubelet's own cgroup and a pod's there is its class at most.
const CLASSES: usize = 1;

/// Whose the cgroup is that `components` lead to, where only a runtime could have made what says so.
pub(super) fn owner<'p>(components: &[&'p str]) -> Option<Owner<'p>> {
    match kubepods(components) {
        Some(length) => in_kubepods(components, length),
        None => by_runtime(components),
    }
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
    Some(Owner { length: at + 1 + usize::from(container.is_some()), pod: Some(pod), container })
}

fn by_runtime<'p>(components: &[&'p str]) -> Option<Owner<'p>> {
    let mut all = components.iter().enumerate();
    let (at, found) = all.find_map(|(at, component)| Some((at, container(component)?)))?;
    let above = &components[..at];
    let is_unit = components[at].ends_with(".scope");
    let container = match above {
        ["docker"] if !is_unit => Container { runtime: "docker", ..found },
        [parent] if !is_unit && DIRECTORIES.contains(parent) => found,
        // Amazon's, by task.
        ["ecs", _] if !is_unit => found,
        [first, ..] if is_unit && *first != "user.slice" && above.iter().all(|one| one.ends_with(".slice")) => found,
        _ => return None,
    };
    Some(Owner { length: at + 1, pod: None, container: Some(container) })
}

/// The runtime and the id in `docker-<id>.scope`, `cri-containerd-<id>.scope`, `crio-<id>.scope`, `libpod-<id>.scope` under
/// systemd; without it in the same less `.scope`, or in the bare id.
fn container(component: &str) -> Option<Container<'_>> {
    let bare = component.strip_suffix(".scope").unwrap_or(component);
    let (runtime, id) = bare.rsplit_once('-').unwrap_or(("container", bare));
    is_id(id).then_some(Container { runtime, id })
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
