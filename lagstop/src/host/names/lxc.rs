//! Containers of LXC, Incus and LXD: liblxc gives their names to cgroups, and directories say whose they are.

use super::{Called, look::Look, text::identifier};

/// A cgroup of liblxc's, as it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lxc<'p> {
    name: &'p str,
    is_monitor: bool,
    /// Is it only one if there is a container called so? With `lxc.cgroup.pattern`, and before LXC 4, cgroups say no more.
    is_to_be_found: bool,
}

/// LXC starts from the root of the hierarchy.
pub(super) fn place<'p>(components: &[&'p str]) -> Option<(usize, Lxc<'p>)> {
    let (length, name, is_monitor) = match components {
        ["lxc", name, "monitor", ..] => (3, name, true),
        ["lxc", name, "payload", ..] => (3, name, false),
        ["lxc", name, ..] => (2, name, false),
        [first, ..] => {
            let payload = first.strip_prefix("lxc.payload.").map(|name| (name, false));
            let (name, is_monitor) = payload.or_else(|| Some((first.strip_prefix("lxc.monitor.")?, true)))?;
            return identifier(name).map(|name| (1, Lxc { name, is_monitor, is_to_be_found: false }));
        }
        [] => return None,
    };
    identifier(name).map(|name| (length, Lxc { name, is_monitor, is_to_be_found: true }))
}

/// Its name, with the runtime that it belongs to.
pub(super) fn called(lxc: Lxc<'_>, look: &mut Look<'_>) -> Option<Called> {
    let Lxc { name, is_monitor, is_to_be_found } = lxc;
    let owner = owner(name, look);
    if owner.is_none() && is_to_be_found {
        return None;
    }
    let (runtime, name) = owner.unwrap_or_else(|| ("lxc", name.to_owned()));
    Some(Called::container(runtime, &name, is_monitor))
}

/// Who has a container of that name, and what he calls it. liblxc adds `-1` and on where there is a cgroup of that name already.
fn owner(name: &str, look: &mut Look<'_>) -> Option<(&'static str, String)> {
    let without_number = name.rsplit_once('-').filter(|(_, number)| number.parse::<u16>().is_ok_and(|n| n < 1_000));
    [Some(name), without_number.map(|(name, _)| name)].into_iter().flatten().find_map(|name| {
        for (directory, runtime) in
            [("/run/incus", "incus"), ("/var/log/lxd", "lxd"), ("/var/snap/lxd/common/lxd/logs", "lxd")]
        {
            if look.has_directory(&format!("{directory}/{name}")) {
                // Neither has projects or instances with underscores.
                return Some((runtime, name.replacen('_', "/", 1)));
            }
        }
        look.has_directory(&format!("/var/lib/lxc/{name}")).then(|| ("lxc", name.to_owned()))
    })
}
