//! containerd's containers, nerdctl's and ctr's: the bundles of those that run, and nerdctl's list of names.

use serde::Deserialize;

use super::{look::Look, text::identifier, trusted::Trusted};

/// Where containerd keeps what runs: its own place, and those of k3s, k0s and MicroK8s.
pub(super) const STATES: [&str; 4] =
    ["/run/containerd", "/run/k3s/containerd", "/run/k0s/containerd", "/var/snap/microk8s/common/run/containerd"];
/// Where nerdctl keeps names, by the address of containerd.
const NERDCTL: &str = "/var/lib/nerdctl";
/// Entries of a directory that are looked into at most.
const MOST: usize = 4_096;

#[derive(Debug, Default, Deserialize)]
struct Annotations {
    /// Set after the image's labels: an image cannot give itself a name.
    #[serde(rename = "nerdctl/name")]
    name: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Bundle {
    #[serde(default)]
    annotations: Annotations,
}

/// What nerdctl calls the container `id`, in `namespace` where that is known.
pub(super) fn nerdctl(namespace: Option<&str>, id: &str, look: &mut Look<'_>) -> Option<String> {
    let namespaces = match namespace {
        Some(namespace) => vec![namespace.to_owned()],
        None => look.trusted.list(&tasks(STATES[0]), MOST).unwrap_or_default(),
    };
    namespaces.iter().find_map(|namespace| {
        let Bundle { annotations } = look.json(&bundle(STATES[0], namespace, id))?;
        let started_as = annotations.name.filter(|name| identifier(name).is_some())?;
        Some(renamed(namespace, id, &started_as, look).unwrap_or(started_as))
    })
}

/// The name that nerdctl has for `id` now: a file called so, with the id in it. Most were never renamed.
fn renamed(namespace: &str, id: &str, started_as: &str, look: &mut Look<'_>) -> Option<String> {
    let addresses = look.trusted.list(NERDCTL, MOST).unwrap_or_default();
    addresses.iter().map(|address| format!("{NERDCTL}/{address}/names/{namespace}")).find_map(|names| {
        look.watch(&names);
        let is_it = |name: &str, look: &mut Look<'_>| {
            let bytes = look.trusted.read(&format!("{names}/{name}"), 256).unwrap_or_default();
            bytes.trim_ascii() == id.as_bytes()
        };
        if is_it(started_as, look) {
            return Some(started_as.to_owned());
        }
        let all = look.trusted.list(&names, MOST).unwrap_or_default();
        all.into_iter().find(|name| identifier(name).is_some() && is_it(name, look))
    })
}

/// The namespaces in which something runs or ran.
pub(super) fn namespaces(trusted: &Trusted) -> Vec<String> {
    STATES.iter().flat_map(|state| trusted.list(&tasks(state), MOST).unwrap_or_default()).collect()
}

/// Is `id` what containerd runs in `namespace`? Its cgroup is called as ctr's user wishes.
pub(super) fn runs(namespace: &str, id: &str, look: &mut Look<'_>) -> bool {
    let are_names = identifier(namespace).is_some() && identifier(id).is_some();
    are_names && STATES.iter().any(|state| look.has_directory(&format!("{}/{namespace}/{id}", tasks(state))))
}

/// The specification of what containerd runs as `id`.
pub(super) fn bundle(state: &str, namespace: &str, id: &str) -> String {
    format!("{}/{namespace}/{id}/config.json", tasks(state))
}

fn tasks(state: &str) -> String {
    format!("{state}/io.containerd.runtime.v2.task")
}
