//! What people call a cgroup: the systemd unit, the container, the pod.

use std::{collections::HashMap, fs, io, path::Path};

use crate::model::Workload;

/// Where the kubelet links the logs of containers.
const CONTAINER_LOGS: &str = "/var/log/containers";
/// Digits of a container id that tell containers apart in practice; what `docker ps` shows.
const SHORT_ID: usize = 12;

/// Names of containers and pods, learnt from the kubelet's log links where they can be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// By container id: namespace, pod and container.
    containers: HashMap<String, Workload>,
    /// By pod uid: namespace and pod.
    pods: HashMap<String, Workload>,
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
            let pod = Workload { namespace: Some(namespace.into()), pod: Some(pod.into()), container: None };
            is_id(id).then(|| (id.to_owned(), pod, container))
        };
        let Some((id, pod, container)) = parse() else { return };
        let uid = target.iter().rev().nth(2).and_then(|pod| pod.to_str()).and_then(|pod| pod.rsplit_once('_'));
        if let Some((_, uid)) = uid {
            self.pods.insert(uid.to_owned(), pod.clone());
        }
        self.containers.insert(id, Workload { container: Some(container.into()), ..pod });
    }

    /// The name of the cgroup at `path`. Where nothing better is known, the path.
    pub fn of(&self, path: &str) -> String {
        let components = components(path);
        // The innermost part that means something, and what is below it.
        for (depth, component) in components.iter().enumerate().rev() {
            if let Some(name) = self.component(component, parent(&components, depth)) {
                return std::iter::once(name.as_str())
                    .chain(components[depth + 1..].iter().copied())
                    .collect::<Vec<_>>()
                    .join("/");
            }
        }
        path.to_owned()
    }

    /// The container and the pod that the cgroup at `path` is, or that it is inside of; the innermost of each. Where no name is
    /// known, the container's id as [`Names::of`] shows it, and the pod's uid.
    pub fn workload(&self, path: &str) -> Option<Workload> {
        let components = components(path);
        let container = (0..components.len()).rev().find_map(|depth| {
            let (_, id) = container(components[depth], parent(&components, depth))?;
            Some((depth, id))
        });
        let outside = container.map_or(components.len(), |(depth, _)| depth);
        let pod = || {
            let uid = components[..outside].iter().rev().find_map(|component| pod_uid(component))?;
            let unknown = || Workload { pod: Some(uid.as_str().into()), ..Workload::default() };
            Some(self.pods.get(&uid).cloned().unwrap_or_else(unknown))
        };
        let Some((_, id)) = container else { return pod() };
        let known = self.containers.get(id).cloned();
        known.or_else(|| Some(Workload { container: Some(id[..SHORT_ID].into()), ..pod().unwrap_or_default() }))
    }

    fn component(&self, component: &str, parent: Option<&str>) -> Option<String> {
        self.container(component, parent).or_else(|| self.pod(component)).or_else(|| unit(component))
    }

    fn container(&self, component: &str, parent: Option<&str>) -> Option<String> {
        let (runtime, id) = container(component, parent)?;
        let known = self.containers.get(id).map(slashed);
        Some(known.unwrap_or_else(|| format!("{}:{}", runtime.trim_start_matches("cri-"), &id[..SHORT_ID])))
    }

    fn pod(&self, component: &str) -> Option<String> {
        let uid = pod_uid(component)?;
        Some(self.pods.get(&uid).map_or_else(|| format!("pod:{uid}"), slashed))
    }
}

fn components(path: &str) -> Vec<&str> {
    path.split('/').filter(|component| !component.is_empty()).collect()
}

fn parent<'p>(components: &[&'p str], depth: usize) -> Option<&'p str> {
    depth.checked_sub(1).map(|parent| components[parent])
}

/// `namespace/pod/container`, as far as it goes.
fn slashed(workload: &Workload) -> String {
    let Workload { namespace, pod, container } = workload;
    [namespace, pod, container].into_iter().flatten().map(|part| &**part).collect::<Vec<_>>().join("/")
}

/// The runtime and the id in `docker-<id>.scope`, `cri-containerd-<id>.scope`, `crio-<id>.scope`, `libpod-<id>.scope` under
/// systemd; in the bare id without it.
fn container<'c>(component: &'c str, parent: Option<&'c str>) -> Option<(&'c str, &'c str)> {
    let (runtime, id) = match component.strip_suffix(".scope").and_then(|scope| scope.rsplit_once('-')) {
        Some((runtime, id)) => (runtime, id),
        None => (parent.filter(|parent| *parent == "docker").unwrap_or("container"), component),
    };
    is_id(id).then_some((runtime, id))
}

/// The pod's uid in `kubepods-burstable-pod<uid>.slice`, there with underscores, under systemd; in `pod<uid>` without it.
fn pod_uid(component: &str) -> Option<String> {
    match component.strip_suffix(".slice") {
        Some(slice) => Some(slice.starts_with("kubepods").then_some(slice)?.rsplit_once("-pod")?.1.replace('_', "-")),
        None => Some(component.strip_prefix("pod").filter(|uid| uid.len() >= 32)?.to_owned()),
    }
}

/// Container ids are 64 hexadecimal digits in every runtime.
fn is_id(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The innermost systemd unit on the way to the cgroup at `path`.
pub fn last_unit(path: &str) -> Option<&str> {
    path.rsplit('/').find(|component| is_unit(component))
}

fn unit(component: &str) -> Option<String> {
    is_unit(component).then(|| component.to_owned())
}

/// `nginx.service` and the like, systemd.unit(5).
fn is_unit(component: &str) -> bool {
    const KINDS: [&str; 7] = [".service", ".scope", ".slice", ".socket", ".mount", ".swap", ".timer"];
    KINDS.iter().any(|kind| component.ends_with(kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    const UID: &str = "11111111-2222-3333-4444-555555555555";

    fn kubernetes() -> Names {
        let mut names = Names::default();
        names.learn(
            &format!("web-7d9_shop_nginx-{ID}.log"),
            Path::new(&format!("/var/log/pods/shop_web-7d9_{UID}/nginx/0.log")),
        );
        names
    }

    #[test]
    fn units_containers_and_pods_are_named_as_people_know_them() {
        let plain = Names::default();
        for (path, name) in [
            ("/", "/"),
            ("/func-3", "/func-3"),
            ("/faas/func-3", "/faas/func-3"),
            ("/system.slice/nginx.service", "nginx.service"),
            ("/system.slice/app.service/payload", "app.service/payload"),
            ("/user.slice/user-1000.slice/session-3.scope", "session-3.scope"),
            (&format!("/system.slice/docker-{ID}.scope"), "docker:0123456789ab"),
            (&format!("/docker/{ID}"), "docker:0123456789ab"),
            (&format!("/machine.slice/libpod-{ID}.scope"), "libpod:0123456789ab"),
            (&format!("/kubepods/burstable/pod{UID}/{ID}"), "container:0123456789ab"),
            (&format!("/kubepods/burstable/pod{UID}"), &format!("pod:{UID}")),
        ] {
            assert_eq!(plain.of(path), name, "{path}");
        }
    }

    #[test]
    fn the_kubelets_links_give_namespace_pod_and_container() {
        let names = kubernetes();
        let slice = format!("kubepods-burstable-pod{}.slice", UID.replace('-', "_"));
        for (path, name) in [
            (
                format!("/kubepods.slice/kubepods-burstable.slice/{slice}/cri-containerd-{ID}.scope"),
                "shop/web-7d9/nginx",
            ),
            (format!("/kubepods/pod{UID}/{ID}"), "shop/web-7d9/nginx"),
            (format!("/kubepods.slice/kubepods-burstable.slice/{slice}"), "shop/web-7d9"),
            ("/kubepods.slice".to_owned(), "kubepods.slice"),
        ] {
            assert_eq!(names.of(&path), name, "{path}");
        }
    }

    fn workload(names: &Names, path: &str) -> Option<[Option<String>; 3]> {
        let Workload { namespace, pod, container } = names.workload(path)?;
        Some([namespace, pod, container].map(|part| part.map(|part| part.to_string())))
    }

    #[test]
    fn what_is_inside_of_a_container_belongs_to_it() {
        let names = kubernetes();
        let slice = format!("kubepods-burstable-pod{}.slice", UID.replace('-', "_"));
        let whole = Some(["shop", "web-7d9", "nginx"].map(|part| Some(part.to_owned())));
        for path in [
            format!("/kubepods.slice/kubepods-burstable.slice/{slice}/cri-containerd-{ID}.scope"),
            format!("/kubepods.slice/{slice}/cri-containerd-{ID}.scope/system.slice/app.service"),
            format!("/kubepods/pod{UID}/{ID}"),
            format!("/kubepods/pod{UID}/{ID}/payload"),
        ] {
            assert_eq!(workload(&names, &path), whole, "{path}");
        }
        let pod = Some([Some("shop".to_owned()), Some("web-7d9".to_owned()), None]);
        assert_eq!(workload(&names, &format!("/kubepods.slice/{slice}")), pod);
        for path in ["/", "/kubepods.slice", "/system.slice/nginx.service"] {
            assert_eq!(workload(&names, path), None, "{path}");
        }
    }

    #[test]
    fn a_container_without_a_name_has_its_id() {
        let plain = Names::default();
        let id = Some("0123456789ab".to_owned());
        let alone = Some([None, None, id.clone()]);
        for path in [
            format!("/system.slice/docker-{ID}.scope"),
            format!("/docker/{ID}/nested"),
            format!("/machine.slice/libpod-{ID}.scope/container"),
        ] {
            assert_eq!(workload(&plain, &path), alone, "{path}");
        }
        let uid = Some(UID.to_owned());
        let path = format!("/kubepods/burstable/pod{UID}/{ID}");
        assert_eq!(workload(&plain, &path), Some([None, uid.clone(), id.clone()]));
        assert_eq!(workload(&plain, &format!("/kubepods/burstable/pod{UID}")), Some([None, uid, None]));
        // A pod's name is known from its other containers.
        let other = ID.replace("0123", "ffff");
        let named = Some([Some("shop".to_owned()), Some("web-7d9".to_owned()), Some("ffff456789ab".to_owned())]);
        assert_eq!(workload(&kubernetes(), &format!("/kubepods/pod{UID}/{other}")), named);
    }

    #[test]
    fn the_innermost_container_is_the_one() {
        let inner = ID.replace("0123", "ffff");
        let path = format!("/kubepods/pod{UID}/{ID}/docker/{inner}/x");
        assert_eq!(
            workload(&kubernetes(), &path),
            Some([Some("shop".to_owned()), Some("web-7d9".to_owned()), Some("ffff456789ab".to_owned())])
        );
    }

    #[test]
    fn the_innermost_unit_is_found() {
        for (path, unit) in [
            ("/", None),
            ("/func-3", None),
            ("/system.slice/app.service/payload/x", Some("app.service")),
            ("/user.slice/user-1000.slice/session-3.scope", Some("session-3.scope")),
        ] {
            assert_eq!(last_unit(path), unit, "{path}");
        }
    }

    #[test]
    fn links_that_mean_nothing_teach_nothing() {
        let mut names = Names::default();
        for link in ["", "x.log", "a_b_c-123.log", "no-underscores.log", &format!("{ID}.log")] {
            names.learn(link, Path::new("/"));
        }
        assert_eq!(names, Names::default());
    }
}
