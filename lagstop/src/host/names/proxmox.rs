//! Guests and containers of Proxmox VE. `/etc/pve` is not read: it is a daemon's.

use std::{fs, io::Read};

use super::{
    Called,
    look::{Look, SMALL},
    text::foreign,
};
use crate::model::Vcpus;

/// What Proxmox runs, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Proxmox<'p> {
    Guest(&'p str),
    Container { id: &'p str, is_monitor: bool },
}

/// Scopes of guests are in a slice of their own; cgroups of containers are LXC's, and have numbers.
pub(super) fn place<'p>(components: &[&'p str]) -> Option<(usize, Proxmox<'p>)> {
    let (length, found) = match components {
        ["qemu.slice", scope, ..] => (2, Proxmox::Guest(scope.strip_suffix(".scope")?)),
        ["lxc", id, "ns", ..] => (3, Proxmox::Container { id, is_monitor: false }),
        ["lxc", id, ..] => (2, Proxmox::Container { id, is_monitor: false }),
        ["lxc.monitor", id, ..] => (2, Proxmox::Container { id, is_monitor: true }),
        _ => return None,
    };
    let (Proxmox::Guest(id) | Proxmox::Container { id, .. }) = found;
    let is_number = (3..=9).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then_some((length, found))
}

/// What it is called: its name, and the number that administrators know.
pub(super) fn called(proxmox: Proxmox<'_>, look: &mut Look<'_>) -> Option<Called> {
    // Others may have such cgroups too.
    if !look.has_directory("/var/lib/pve-cluster") {
        return None;
    }
    let shown = |name: Option<String>, id: &str| name.map_or_else(|| id.to_owned(), |name| format!("{name} ({id})"));
    Some(match proxmox {
        Proxmox::Guest(id) => {
            Called { vcpus: Some(Vcpus::Inside), ..Called::guest("proxmox", &shown(guest(id, look), id)) }
        }
        Proxmox::Container { id, is_monitor } => {
            Called::container("proxmox", &shown(container(id, look), id), is_monitor)
        }
    })
}

/// Reads the name from liblxc's configuration, which Proxmox writes each time it starts the container.
fn container(id: &str, look: &mut Look<'_>) -> Option<String> {
    let config = look.text(&format!("/var/lib/lxc/{id}/config"), SMALL)?;
    let name = config.lines().find_map(|line| line.strip_prefix("lxc.uts.name")?.trim_start().strip_prefix('='))?;
    foreign(name)
}

/// Reads the name from the arguments of its process, which is in the scope. A guest that broke out can choose its own name there.
fn guest(id: &str, look: &mut Look<'_>) -> Option<String> {
    let pid: u32 = look.text(&format!("/run/qemu-server/{id}.pid"), 64)?.trim().parse().ok()?;
    let proc = |file: &str| {
        let file = fs::File::open(look.trusted.place(&format!("/proc/{pid}/{file}"))).ok()?;
        let mut bytes = Vec::new();
        file.take(SMALL).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    };
    let cgroup = String::from_utf8_lossy(&proc("cgroup")?).into_owned();
    let scope = format!("/qemu.slice/{id}.scope");
    cgroup.lines().any(|line| line.ends_with(&scope)).then_some(())?;
    let line = proc("cmdline")?;
    let mut arguments = line.split(|byte| *byte == 0);
    arguments.find(|argument| *argument == b"-name")?;
    let name = String::from_utf8_lossy(arguments.next()?).into_owned();
    let name = name.split(',').next()?;
    foreign(name.strip_prefix("guest=").unwrap_or(name))
}
