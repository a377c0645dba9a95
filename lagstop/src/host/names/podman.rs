//! Podman's containers: `containers.json` of root's storage, which has all of them.

use std::{collections::HashMap, sync::Arc};

use serde::Deserialize;

use super::{
    look::{Look, SMALL},
    stores::Store,
    text::{identifier, setting},
};

/// Largest file of all containers.
const LARGEST: u64 = 32 << 20;

#[derive(Debug, Deserialize)]
struct Stored {
    id: String,
    #[serde(default)]
    names: Option<Vec<String>>,
}

/// What Podman calls the container `id`. Users' own storage is not looked into: it is theirs to write.
pub(super) fn name(id: &str, look: &mut Look<'_>) -> Option<String> {
    let settings = ["/etc/containers/storage.conf", "/usr/share/containers/storage.conf"];
    let settings = settings.iter().find_map(|path| look.text(path, SMALL)).unwrap_or_default();
    let set = |key, default: &str| setting(&settings, "storage", key).unwrap_or_else(|| default.to_owned());
    let graph = set("graphroot", "/var/lib/containers/storage");
    let run = set("runroot", "/run/containers/storage");
    let mut drivers = vec![set("driver", "overlay"), "overlay".to_owned(), "vfs".to_owned()];
    drivers.retain(|driver| identifier(driver).is_some());
    drivers.dedup();
    drivers.iter().find_map(|driver| {
        // Containers made with --rm, as those of quadlets, are volatile.
        [
            format!("{graph}/{driver}-containers/containers.json"),
            format!("{graph}/{driver}-containers/volatile-containers.json"),
            format!("{run}/{driver}-containers/volatile-containers.json"),
        ]
        .iter()
        .find_map(|path| stored(path, look).get(id).cloned())
    })
}

/// The first name of each container in a store, by id.
fn stored(path: &str, look: &mut Look<'_>) -> Arc<HashMap<String, String>> {
    let stamp = look.watch(path);
    if let Some(known) = look.stores.0.get(path)
        && known.stamp == stamp
    {
        return Arc::clone(&known.names);
    }
    let stored =
        look.trusted.read(path, LARGEST).ok().and_then(|bytes| serde_json::from_slice::<Vec<Stored>>(&bytes).ok());
    let name = |Stored { id, names }| Some((id, identifier(names?.first()?)?.to_owned()));
    let names: Arc<HashMap<_, _>> = Arc::new(stored.unwrap_or_default().into_iter().filter_map(name).collect());
    look.stores.0.insert(path.to_owned(), Store { stamp, names: Arc::clone(&names) });
    names
}
