//! Docker's containers: `config.v2.json` of each, in the daemon's directory.

use serde::Deserialize;

use super::{look::Look, text::identifier};

/// Where Docker keeps containers, unless its settings say otherwise.
const DATA_ROOTS: [&str; 2] = ["/var/lib/docker", "/var/snap/docker/common/var-lib-docker"];
/// With `userns-remap`, directories of mapped users that are looked into at most.
const MOST_MAPPED: usize = 64;

#[derive(Debug, Deserialize)]
struct Config {
    #[serde(rename = "ID")]
    id: String,
    /// Given by whoever reaches the daemon, who is root's equal. Labels are not read: images set them too.
    #[serde(rename = "Name")]
    name: String,
}

#[derive(Debug, Deserialize)]
struct Daemon {
    #[serde(rename = "data-root")]
    data_root: Option<String>,
}

/// What Docker calls the container `id`.
pub(super) fn name(id: &str, look: &mut Look<'_>) -> Option<String> {
    let moved = look.json::<Daemon>("/etc/docker/daemon.json").and_then(|daemon| daemon.data_root);
    let roots: Vec<&str> = moved.as_deref().into_iter().chain(DATA_ROOTS).collect();
    roots.iter().find_map(|root| of(root, id, look)).or_else(|| {
        let mapped = |root: &str| {
            let all = look.trusted.list(root, MOST_MAPPED * 16).unwrap_or_default();
            let all = all.into_iter().filter(|name| is_mapped(name)).take(MOST_MAPPED);
            all.map(|name| format!("{root}/{name}")).collect::<Vec<_>>()
        };
        let mapped: Vec<String> = roots.iter().flat_map(|root| mapped(root)).collect();
        mapped.iter().find_map(|root| of(root, id, look))
    })
}

fn of(root: &str, id: &str, look: &mut Look<'_>) -> Option<String> {
    let config: Config = look.json(&format!("{root}/containers/{id}/config.v2.json"))?;
    identifier(config.name.trim_start_matches('/')).filter(|_| config.id == id).map(str::to_owned)
}

/// `<uid>.<gid>`.
fn is_mapped(name: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    name.split_once('.').is_some_and(|(uid, gid)| is_number(uid) && is_number(gid))
}
