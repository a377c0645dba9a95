//! What people call a cgroup: the systemd unit, the container, the pod, the guest, the user.
//!
//! A path alone tells whose a cgroup is (`names/subtree.rs`); files of that runtime, which only root can write, tell what he calls it.
//! No daemon is asked.

mod called;
mod containerd;
mod docker;
mod find;
mod firecracker;
mod kubelet;
mod libvirt;
mod login;
mod look;
mod lxc;
mod machined;
mod nameless;
mod podman;
mod proxmox;
mod stores;
mod subtree;
mod text;
mod trusted;

use std::{
    collections::{HashMap, HashSet},
    io,
    sync::Arc,
};

use self::{
    called::Called,
    kubelet::Kubelet,
    look::{Look, Watch},
    stores::Stores,
    subtree::{Container, Kind, Owner, claims, is_rootless, owners, with_short_id},
    trusted::{Stamp, Trusted},
};
use crate::model::{CgroupLabel, Vcpus, Workload};

pub use nameless::Nameless;

/// Digits of a container id that tell containers apart in practice; what `docker ps` shows.
const SHORT_ID: usize = 12;
/// Containers and the like whose names are kept. Beyond this number all are looked up again.
const MOST_KNOWN: usize = 16_384;

/// Names of containers, pods, guests and users, as the host's files have them.
#[derive(Debug)]
pub struct Names {
    trusted: Trusted,
    kubelet: Kubelet,
    /// containerd's namespaces: containers are looked for in no other directories.
    namespaces: Vec<String>,
    stores: Stores,
    /// By the path that leads to each.
    known: HashMap<String, Known>,
}

#[derive(Debug)]
struct Known {
    called: Option<Called>,
    /// The files that it is from, or would be.
    seen: Vec<Watch>,
}

impl Names {
    /// Those of the host.
    pub fn host() -> Self {
        Self::of(Trusted::host())
    }

    /// Those in a directory of a test.
    #[cfg(test)]
    pub(crate) fn at(root: &std::path::Path) -> Self {
        Self::of(Trusted::at(root))
    }

    fn of(trusted: Trusted) -> Self {
        let kubelet = Kubelet::read(&trusted).unwrap_or_default();
        let namespaces = containerd::namespaces(&trusted);
        Self { trusted, kubelet, namespaces, stores: Stores::default(), known: HashMap::new() }
    }

    /// Whether the kubelet's links can be read.
    ///
    /// # Errors
    /// Where they cannot, as where there is no kubelet.
    pub fn reads_links() -> io::Result<()> {
        Kubelet::read(&Trusted::host()).map(drop)
    }

    /// Looks at the files again. Gives whether any name may have changed.
    pub fn look(&mut self) -> bool {
        let Self { trusted, kubelet, namespaces, known, .. } = self;
        let links = Kubelet::read(trusted).unwrap_or_default();
        let of_containerd = containerd::namespaces(trusted);
        let is_otherwise = links != *kubelet || of_containerd != *namespaces;
        (*kubelet, *namespaces) = (links, of_containerd);
        if known.len() >= MOST_KNOWN {
            known.clear();
            return true;
        }
        // Many names are from the same file.
        let mut stamps: HashMap<&str, Option<Stamp>> = HashMap::new();
        let mut stale: HashSet<String> = HashSet::new();
        for (path, one) in known.iter() {
            for Watch { path: file, stamp } in &one.seen {
                if *stamps.entry(file).or_insert_with(|| trusted.stamp(file)) != *stamp {
                    stale.insert(path.clone());
                }
            }
        }
        known.retain(|path, _| !stale.contains(path));
        is_otherwise || !stale.is_empty()
    }

    /// What the cgroup at `path` is called. Where nothing better is known, by its path; so it is where a cgroup calls itself a
    /// container and is not where its runtime would have made it.
    pub fn label(&mut self, path: Arc<str>) -> CgroupLabel {
        let all = components(&path);
        for owner in owners(&all) {
            if let Some(called) = self.called(&all, &owner) {
                let inside = &all[owner.length..];
                let vcpus = match &owner.kind {
                    Kind::Libvirt(_) if libvirt::is_vcpu(inside) => Some(Vcpus::Own),
                    // Without the controller, virtual CPUs compete in the guest's group.
                    Kind::Libvirt(_) if inside.is_empty() => Some(Vcpus::Inside),
                    _ => called.vcpus.filter(|_| inside.is_empty()),
                };
                let workload = called.workload.map(Arc::new);
                return CgroupLabel { name: below(called.name, inside).into(), workload, vcpus, path };
            }
        }
        let name = self.without_owner(&path, &all).into();
        CgroupLabel { name, path, ..CgroupLabel::default() }
    }

    /// The name of a cgroup that is no container's, guest's or pod's.
    fn without_owner(&mut self, path: &str, all: &[&str]) -> String {
        if claims(all) && !is_rootless(all) {
            return path.to_owned();
        }
        if let Some((length, login)) = subtree::login(all) {
            let name = self.remembered(all, length, |look| {
                Some(Called { name: login::called(login, look)?, ..Called::default() })
            });
            if let Some(Called { name, .. }) = name {
                return below(name, &all[length..]);
            }
        }
        match unit(all) {
            Some(at) => below(all[at].to_owned(), &all[at + 1..]),
            None => path.to_owned(),
        }
    }

    /// What `owner` is called. `None` if it is not what its path suggests.
    fn called(&mut self, all: &[&str], owner: &Owner<'_>) -> Option<Called> {
        match &owner.kind {
            Kind::Pod { uid, container } => Some(self.in_pod(all, owner.length, uid, *container)),
            Kind::Task { namespace, .. } if !self.namespaces.iter().any(|known| known == namespace) => None,
            kind => self.remembered(all, owner.length, |look| find::called(kind, look)),
        }
    }

    /// What was found out about the first `length` components, or what `find` finds out now.
    fn remembered(
        &mut self,
        all: &[&str],
        length: usize,
        find: impl FnOnce(&mut Look<'_>) -> Option<Called>,
    ) -> Option<Called> {
        let Self { trusted, stores, known, .. } = self;
        let path = all[..length].join("/");
        if let Some(known) = known.get(&path) {
            return known.called.clone();
        }
        let mut look = Look::new(trusted, stores);
        let called = find(&mut look);
        let seen = look.seen;
        known.insert(path, Known { called: called.clone(), seen });
        called
    }

    /// What a pod or its container is called. Where no name is known: by the container's id, and the pod's uid.
    fn in_pod(&mut self, all: &[&str], length: usize, uid: &str, container: Option<Container<'_>>) -> Called {
        let Some(Container { runtime, id, is_monitor, .. }) = container else {
            let pod = self.kubelet.pod(uid);
            let name = pod.map_or_else(|| format!("pod:{uid}"), slashed);
            let unknown = || Workload { pod: Some(uid.into()), ..Workload::default() };
            return Called { name, workload: Some(pod.cloned().unwrap_or_else(unknown)), vcpus: None };
        };
        let linked = self.kubelet.container(uid, id).cloned();
        let known = linked.or_else(|| {
            let from_bundle = |look: &mut Look<'_>| {
                let workload = kubelet::from_bundle(runtime, id, uid, look)?;
                Some(Called { workload: Some(workload), ..Called::default() })
            };
            self.remembered(all, length, from_bundle)?.workload
        });
        // Only a sandbox has no container name.
        let named = known.as_ref().filter(|workload| workload.container.is_some());
        let name = named.map_or_else(|| called::by_id(called::people_call(runtime), id), slashed);
        let unknown = || Workload { pod: Some(uid.into()), ..Workload::default() };
        let pod = known.as_ref().or_else(|| self.kubelet.pod(uid)).cloned().unwrap_or_else(unknown);
        let container = pod.container.clone().or_else(|| Some(id[..SHORT_ID].into()));
        // What the monitor does is not the container's.
        let container = container.filter(|_| !is_monitor);
        Called {
            name: called::monitoring(name, is_monitor),
            workload: Some(Workload { container, ..pod }),
            vcpus: None,
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

/// The index of the unit that systemd's slices lead to, or of the last slice if they lead to none. What is inside of a unit may
/// call itself a unit, too.
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
