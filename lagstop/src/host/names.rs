//! What people call a cgroup: the systemd unit, the container, the pod.

mod subtree;

use std::{collections::HashMap, fs, io, path::Path};

use self::subtree::{Container, Owner, claims, is_id, is_rootless, owner, with_short_id};
use crate::model::Workload;

/// Where the kubelet links the logs of containers.
const CONTAINER_LOGS: &str = "/var/log/containers";
/// Digits of a container id that tell containers apart in practice; what `docker ps` shows.
const SHORT_ID: usize = 12;

/// Names of containers and pods, learnt from the kubelet's log links where they can be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// By container id.
    containers: HashMap<String, Member>,
    /// By pod uid: namespace and pod.
    pods: HashMap<String, Workload>,
}

/// A container of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Member {
    /// The pod's uid; `None` where nobody told.
    pod: Option<String>,
    /// Namespace, pod and container.
    workload: Workload,
}

impl Names {
    /// Reads the kubelet's links.
    ///
    /// # Errors
    ///
    /// Where their directory cannot be read, as where there is no kubelet.
    pub fn read() -> io::Result<Self> {
        let mut names = Self::default();
        for entry in fs::read_dir(CONTAINER_LOGS)?.flatten() {
            let target = fs::read_link(entry.path()).unwrap_or_default();
            names.learn(&entry.file_name().to_string_lossy(), &target);
        }
        Ok(names)
    }

    /// A link is called `<pod>_<namespace>_<container>-<container id>.log` and leads to
    /// `/var/log/pods/<namespace>_<pod>_<pod uid>/<container>/<n>.log`.
    fn learn(&mut self, link: &str, target: &Path) {
        let parse = || {
            let (rest, id) = link.strip_suffix(".log")?.rsplit_once('-')?;
            let mut parts = rest.splitn(3, '_');
            let (pod, namespace, container) = (parts.next()?, parts.next()?, parts.next()?);
            Some((id.to_owned(), namespace, pod, container))
        };
        let Some((id, namespace, pod, container)) = parse().filter(|(id, ..)| is_id(id)) else { return };
        let uid = target.iter().rev().nth(2).and_then(|pod| pod.to_str()).and_then(|pod| pod.rsplit_once('_'));
        let uid = uid.map(|(_, uid)| uid.to_owned()).filter(|uid| !uid.is_empty());
        let pod = Workload { namespace: Some(namespace.into()), pod: Some(pod.into()), container: None };
        let workload = Workload { container: Some(container.into()), ..pod.clone() };
        self.containers.insert(id, Member { pod: uid.clone(), workload });
        if let Some(uid) = uid {
            self.pods.insert(uid, pod);
        }
    }

    /// The name of the cgroup at `path`. Where nothing better is known, the path; so it is where a cgroup calls itself a
    /// container and is not where its runtime would have made it.
    pub fn of(&self, path: &str) -> String {
        let components = components(path);
        if let Some(owner) = owner(&components) {
            return below(self.called(&owner), &components[owner.length..]);
        }
        if claims(&components) && !is_rootless(&components) {
            return path.to_owned();
        }
        match unit(&components) {
            Some(at) => below(components[at].to_owned(), &components[at + 1..]),
            None => path.to_owned(),
        }
    }

    /// The container and the pod that the cgroup at `path` is, or that it is inside of; the outermost of each. Where no name is
    /// known, the container's id as [`Names::of`] shows it, and the pod's uid.
    pub fn workload(&self, path: &str) -> Option<Workload> {
        let owner = owner(&components(path))?;
        if let Some(known) = self.container(&owner) {
            return Some(known.clone());
        }
        let pod = owner.pod.as_ref().map(|uid| {
            let unknown = || Workload { pod: Some(uid.as_str().into()), ..Workload::default() };
            self.pods.get(uid).cloned().unwrap_or_else(unknown)
        });
        let container = owner.container.map(|Container { id, .. }| id[..SHORT_ID].into());
        Some(Workload { container, ..pod.unwrap_or_default() })
    }

    /// What the kubelet calls the container: one of the pod that it is in, and of no other.
    fn container(&self, owner: &Owner<'_>) -> Option<&Workload> {
        let uid = owner.pod.as_ref()?;
        let Member { pod, workload } = self.containers.get(owner.container?.id)?;
        pod.as_ref().is_none_or(|pod| pod == uid).then_some(workload)
    }

    /// The name of a container or a pod.
    fn called(&self, owner: &Owner<'_>) -> String {
        if let Some(known) = self.container(owner) {
            return slashed(known);
        }
        match (&owner.container, &owner.pod) {
            (Some(Container { runtime, id }), _) => {
                format!("{}:{}", runtime.trim_start_matches("cri-"), &id[..SHORT_ID])
            }
            (None, Some(uid)) => self.pods.get(uid).map_or_else(|| format!("pod:{uid}"), slashed),
            (None, None) => String::new(),
        }
    }
}

fn components(path: &str) -> Vec<&str> {
    path.split('/').filter(|component| !component.is_empty()).collect()
}

/// `name`, and what leads from there to a cgroup inside of it.
fn below(name: String, inside: &[&str]) -> String {
    inside.iter().fold(name, |name, component| name + "/" + &with_short_id(component, SHORT_ID))
}

/// `namespace/pod/container`, as far as it goes.
fn slashed(workload: &Workload) -> String {
    let Workload { namespace, pod, container } = workload;
    [namespace, pod, container].into_iter().flatten().map(|part| &**part).collect::<Vec<_>>().join("/")
}

/// The innermost systemd unit on the way to the cgroup at `path`.
pub fn last_unit(path: &str) -> Option<&str> {
    path.rsplit('/').find(|component| is_unit(component))
}

/// Where the unit is that systemd's slices lead to; the last of these where they lead to none. What is inside of a unit may call
/// itself one.
fn unit(components: &[&str]) -> Option<usize> {
    let slices = components.iter().take_while(|component| component.ends_with(".slice")).count();
    match components.get(slices) {
        Some(component) if is_unit(component) => Some(slices),
        _ => slices.checked_sub(1),
    }
}

/// `nginx.service` and the like, systemd.unit(5).
fn is_unit(component: &str) -> bool {
    const KINDS: [&str; 7] = [".service", ".scope", ".slice", ".socket", ".mount", ".swap", ".timer"];
    KINDS.iter().any(|kind| component.ends_with(kind))
}

#[cfg(test)]
mod tests;
