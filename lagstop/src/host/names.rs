//! What people call a cgroup: the systemd unit, the container, the pod.

use std::{collections::HashMap, fs, path::Path};

/// Where the kubelet links the logs of containers.
const CONTAINER_LOGS: &str = "/var/log/containers";
/// Digits of a container id that tell containers apart in practice; what `docker ps` shows.
const SHORT_ID: usize = 12;

/// Names of containers and pods, learnt from the kubelet's log links where they can be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// `namespace/pod/container` by container id.
    containers: HashMap<String, String>,
    /// `namespace/pod` by pod uid.
    pods: HashMap<String, String>,
}

impl Names {
    /// Reads the kubelet's links; knows nothing where there are none.
    pub fn read() -> Self {
        let mut names = Self::default();
        for entry in fs::read_dir(CONTAINER_LOGS).into_iter().flatten().flatten() {
            let target = fs::read_link(entry.path()).unwrap_or_default();
            names.learn(&entry.file_name().to_string_lossy(), &target);
        }
        names
    }

    /// A link is called `<pod>_<namespace>_<container>-<container id>.log` and leads to
    /// `/var/log/pods/<namespace>_<pod>_<pod uid>/<container>/<n>.log`.
    fn learn(&mut self, link: &str, target: &Path) {
        let parse = || {
            let (rest, id) = link.strip_suffix(".log")?.rsplit_once('-')?;
            let mut parts = rest.splitn(3, '_');
            let (pod, namespace, container) = (parts.next()?, parts.next()?, parts.next()?);
            is_id(id).then(|| (id.to_owned(), format!("{namespace}/{pod}"), container.to_owned()))
        };
        let Some((id, pod, container)) = parse() else { return };
        let uid = target.iter().rev().nth(2).and_then(|pod| pod.to_str()).and_then(|pod| pod.rsplit_once('_'));
        if let Some((_, uid)) = uid {
            self.pods.insert(uid.to_owned(), pod.clone());
        }
        self.containers.insert(id, format!("{pod}/{container}"));
    }

    /// The name of the cgroup at `path`. Where nothing better is known, the path.
    pub fn of(&self, path: &str) -> String {
        let components: Vec<&str> = path.split('/').filter(|component| !component.is_empty()).collect();
        // The innermost part that means something, and what is below it.
        for (depth, component) in components.iter().enumerate().rev() {
            let parent = depth.checked_sub(1).map(|parent| components[parent]);
            if let Some(name) = self.component(component, parent) {
                return std::iter::once(name.as_str())
                    .chain(components[depth + 1..].iter().copied())
                    .collect::<Vec<_>>()
                    .join("/");
            }
        }
        path.to_owned()
    }

    fn component(&self, component: &str, parent: Option<&str>) -> Option<String> {
        self.container(component, parent).or_else(|| self.pod(component)).or_else(|| unit(component))
    }

    /// `docker-<id>.scope`, `cri-containerd-<id>.scope`, `crio-<id>.scope`, `libpod-<id>.scope` under systemd; the bare id
    /// without it.
    fn container(&self, component: &str, parent: Option<&str>) -> Option<String> {
        let (runtime, id) = match component.strip_suffix(".scope").and_then(|scope| scope.rsplit_once('-')) {
            Some((runtime, id)) => (runtime, id),
            None => (parent.filter(|parent| *parent == "docker").unwrap_or("container"), component),
        };
        if !is_id(id) {
            return None;
        }
        let known = self.containers.get(id).cloned();
        Some(known.unwrap_or_else(|| format!("{}:{}", runtime.trim_start_matches("cri-"), &id[..SHORT_ID])))
    }

    /// `kubepods-burstable-pod<uid>.slice`, the uid with underscores, under systemd; `pod<uid>` without it.
    fn pod(&self, component: &str) -> Option<String> {
        let uid = match component.strip_suffix(".slice") {
            Some(slice) => slice.starts_with("kubepods").then_some(slice)?.rsplit_once("-pod")?.1.replace('_', "-"),
            None => component.strip_prefix("pod").filter(|uid| uid.len() >= 32)?.to_owned(),
        };
        Some(self.pods.get(&uid).cloned().unwrap_or_else(|| format!("pod:{uid}")))
    }
}

/// Container ids are 64 hexadecimal digits in every runtime.
fn is_id(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// `nginx.service` and the like, systemd.unit(5).
fn unit(component: &str) -> Option<String> {
    const KINDS: [&str; 7] = [".service", ".scope", ".slice", ".socket", ".mount", ".swap", ".timer"];
    KINDS.iter().any(|kind| component.ends_with(kind)).then(|| component.to_owned())
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

    #[test]
    fn links_that_mean_nothing_teach_nothing() {
        let mut names = Names::default();
        for link in ["", "x.log", "a_b_c-123.log", "no-underscores.log", &format!("{ID}.log")] {
            names.learn(link, Path::new("/"));
        }
        assert_eq!(names, Names::default());
    }
}
