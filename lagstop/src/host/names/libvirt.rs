//! Guests of libvirt: the state file of each, which has the name that its scope has only in part.

use super::{
    Called,
    look::{Look, SMALL},
    text::{foreign, unescaped},
};

/// Guests that are looked through at most.
const MOST: usize = 8_192;
/// Longest name of a machine.
const LONGEST: usize = 64;

/// A guest, as its cgroup is called: `qemu-<id>-<what is left of the name>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Guest {
    driver: &'static str,
    id: String,
    machine: String,
}

/// A scope of machined's, or where there is no systemd, a directory. The threads' cgroups are inside, since libvirt 7.1 one
/// deeper.
pub(super) fn place(components: &[&str]) -> Option<(usize, Guest)> {
    let machine = match components {
        ["machine.slice", scope, ..] => unescaped(scope.strip_prefix("machine-")?.strip_suffix(".scope")?)?,
        ["machine", group, ..] => {
            let name = group.strip_suffix(".libvirt-qemu").or_else(|| group.strip_suffix(".libvirt-lxc"))?;
            name.to_owned()
        }
        _ => return None,
    };
    let (driver, rest) = ["qemu", "lxc"].iter().find_map(|driver| Some((*driver, machine.strip_prefix(driver)?)))?;
    let (id, _) = rest.strip_prefix('-')?.split_once('-')?;
    let is_number = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit());
    let id = is_number.then(|| id.to_owned())?;
    let length = 2 + usize::from(components.get(2) == Some(&"libvirt"));
    Some((length, Guest { driver, id, machine }))
}

/// Is the cgroup that `inside` leads to, from a guest's, a vCPU's alone?
pub(super) fn is_vcpu(inside: &[&str]) -> bool {
    let [thread] = inside else { return false };
    thread.strip_prefix("vcpu").is_some_and(|n| !n.is_empty() && n.bytes().all(|byte| byte.is_ascii_digit()))
}

/// What the guest is called; where no file tells, as the machine.
pub(super) fn called(guest: &Guest, look: &mut Look<'_>) -> Called {
    let runtime = if guest.driver == "qemu" { "libvirt" } else { "libvirt-lxc" };
    match name(guest, look).and_then(|name| foreign(&name)) {
        Some(name) => Called::guest(runtime, &name),
        None => Called::guest("machine", &guest.machine),
    }
}

fn name(guest: &Guest, look: &mut Look<'_>) -> Option<String> {
    let directory = format!("/run/libvirt/{}", guest.driver);
    let files = look.trusted.list(&directory, MOST).ok()?;
    let names = files.iter().filter_map(|file| file.strip_suffix(".xml"));
    names.filter(|name| machine(guest, name) == guest.machine).map(str::to_owned).find(|name| {
        let state = look.text(&format!("{directory}/{name}.xml"), SMALL);
        state.is_some_and(|state| domain(&state) == Some((guest.id.clone(), name.clone())))
    })
}

/// What libvirt tells machined that a guest of this name is called (`src/hypervisor/domain_driver.c`,
/// `virDomainMachineNameAppendValid`).
fn machine(guest: &Guest, name: &str) -> String {
    let mut machine = format!("{}-{}-", guest.driver, guest.id);
    let mut skip = true;
    for c in name.chars() {
        if machine.len() >= LONGEST {
            break;
        }
        let is_separator = matches!(c, '.' | '-');
        if if is_separator { !skip } else { c.is_ascii_alphanumeric() } {
            machine.push(c);
        }
        skip = is_separator;
    }
    machine.trim_end_matches(['-', '.']).to_owned()
}

/// The id and the name in a guest's state. What follows them is up to whoever defined the guest; nothing else in it, such as
/// passwords, is looked at.
fn domain(state: &str) -> Option<(String, String)> {
    let (_, rest) = state.split_once("<domain ")?;
    let (attributes, rest) = rest.split_once('>')?;
    let id = ['\'', '"'].iter().find_map(|quote| {
        let (_, value) = attributes.split_once(&format!("id={quote}"))?;
        value.split_once(*quote).map(|(id, _)| id.to_owned())
    })?;
    let (name, _) = rest.split_once("<name>")?.1.split_once("</name>")?;
    let plain = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")];
    Some((id, plain.iter().fold(name.to_owned(), |name, (escaped, plain)| name.replace(escaped, plain))))
}
