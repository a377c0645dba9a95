//! Pods and their containers: the kubelet's links to logs, and where these do not tell, what the runtime was told to start.

use std::{collections::HashMap, fs, io, path::Path};

use serde::Deserialize;

use super::{containerd, look::Look, subtree::is_id, trusted::Trusted};
use crate::model::Workload;

/// Where the kubelet links the logs of containers.
const CONTAINER_LOGS: &str = "/var/log/containers";

/// What the kubelet's links tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Kubelet {
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

impl Kubelet {
    /// Reads the links.
    ///
    /// # Errors
    /// Where their directory cannot be read, as where there is no kubelet.
    pub(super) fn read(trusted: &Trusted) -> io::Result<Self> {
        let mut kubelet = Self::default();
        for entry in fs::read_dir(trusted.place(CONTAINER_LOGS))?.flatten() {
            let target = fs::read_link(entry.path()).unwrap_or_default();
            kubelet.learn(&entry.file_name().to_string_lossy(), &target);
        }
        Ok(kubelet)
    }

    /// A link is called `<pod>_<namespace>_<container>-<container id>.log` and leads to
    /// `/var/log/pods/<namespace>_<pod>_<pod uid>/<container>/<n>.log`. The kubelet cuts its name down to 251 bytes and `.log`
    /// (`pkg/kubelet/kuberuntime/legacy.go`, `logSymlink`): then the pod is known and the container's id is not.
    pub(super) fn learn(&mut self, link: &str, target: &Path) {
        let Some(name) = link.strip_suffix(".log") else { return };
        let mut parts = name.splitn(3, '_');
        let (Some(pod), Some(namespace), Some(rest)) = (parts.next(), parts.next(), parts.next()) else { return };
        let uid = target.iter().rev().nth(2).and_then(|pod| pod.to_str());
        let uid = uid.and_then(|directory| directory.strip_prefix(namespace)?.strip_prefix('_'));
        let uid = uid.and_then(|directory| directory.strip_prefix(pod)?.strip_prefix('_'));
        let uid = uid.map(str::to_owned).filter(|uid| !uid.is_empty());
        let pod = Workload { namespace: Some(namespace.into()), pod: Some(pod.into()), container: None };
        if let Some((container, id)) = rest.rsplit_once('-').filter(|(_, id)| is_id(id)) {
            let workload = Workload { container: Some(container.into()), ..pod.clone() };
            self.containers.insert(id.to_owned(), Member { pod: uid.clone(), workload });
        }
        if let Some(uid) = uid {
            self.pods.insert(uid, pod);
        }
    }

    /// The names of the container `id`, unless it belongs to another pod than `uid`.
    pub(super) fn container(&self, uid: &str, id: &str) -> Option<&Workload> {
        let Member { pod, workload } = self.containers.get(id)?;
        pod.as_ref().is_none_or(|pod| pod == uid).then_some(workload)
    }

    pub(super) fn pod(&self, uid: &str) -> Option<&Workload> {
        self.pods.get(uid)
    }
}

/// What the runtime was told about a container. These keys alone are not the pod's author's to set: containerd writes its own
/// last, and the kubelet overrides the user's labels.
#[derive(Debug, Default, Deserialize)]
struct Annotations {
    #[serde(rename = "io.kubernetes.cri.sandbox-namespace")]
    sandbox_namespace: Option<String>,
    #[serde(rename = "io.kubernetes.cri.sandbox-name")]
    sandbox_name: Option<String>,
    #[serde(rename = "io.kubernetes.cri.sandbox-uid")]
    sandbox_uid: Option<String>,
    #[serde(rename = "io.kubernetes.cri.container-name")]
    cri_container: Option<String>,
    #[serde(rename = "io.kubernetes.pod.namespace")]
    namespace: Option<String>,
    #[serde(rename = "io.kubernetes.pod.name")]
    pod: Option<String>,
    #[serde(rename = "io.kubernetes.pod.uid")]
    uid: Option<String>,
    #[serde(rename = "io.kubernetes.container.name")]
    container: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Bundle {
    #[serde(default)]
    annotations: Annotations,
}

/// What the bundle of the container `id` says that it is, if it is one of the pod `uid`.
pub(super) fn from_bundle(runtime: &str, id: &str, uid: &str, look: &mut Look<'_>) -> Option<Workload> {
    let is_crio = runtime == "crio";
    let paths: Vec<String> = if is_crio {
        vec![format!("/run/containers/storage/overlay-containers/{id}/userdata/config.json")]
    } else {
        containerd::STATES.map(|state| containerd::bundle(state, "k8s.io", id)).into()
    };
    let Annotations { sandbox_namespace, sandbox_name, sandbox_uid, cri_container, namespace, pod, uid: of, container } =
        paths.iter().find_map(|path| look.json::<Bundle>(path))?.annotations;
    let (namespace, pod, of, container) = if is_crio {
        (namespace, pod, of, container)
    } else {
        (sandbox_namespace, sandbox_name, sandbox_uid, cri_container)
    };
    let name = |text: String| is_dns_name(&text).then(|| text.as_str().into());
    let workload = Workload {
        namespace: Some(name(namespace?)?),
        pod: Some(name(pod?)?),
        // A pod's sandbox has none.
        container: container.filter(|name| !name.is_empty()).and_then(name),
    };
    (of? == uid).then_some(workload)
}

/// What the API server takes for a name.
fn is_dns_name(text: &str) -> bool {
    let is_ordinary = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
    (1..=253).contains(&text.len()) && text.bytes().all(is_ordinary)
}
