//! systemd-nspawn's containers, and what else is a machine to systemd: their units are called like them.

use super::{Called, text::unescaped};

/// A machine, as its unit is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Machine {
    pub(super) runtime: &'static str,
    pub(super) name: String,
}

/// The name is taken from the unit and not from machined's files: since systemd 258 users may register machines, for units of
/// their own. systemd alone makes units in slices, and machined its scopes in `machine.slice`.
pub(super) fn place(components: &[&str]) -> Option<(usize, Machine)> {
    let slices = components.iter().take_while(|component| component.ends_with(".slice")).count();
    let unit = components.get(slices).filter(|_| slices > 0 && components[0] != "user.slice")?;
    let (runtime, name) = match unit.strip_prefix("systemd-nspawn@") {
        Some(rest) => ("nspawn", rest.strip_suffix(".service")?),
        None if components[0] == "machine.slice" => ("machine", unit.strip_prefix("machine-")?.strip_suffix(".scope")?),
        None => return None,
    };
    Some((slices + 1, Machine { runtime, name: unescaped(name)? }))
}

pub(super) fn called(machine: &Machine) -> Called {
    match machine.runtime {
        "nspawn" => Called::container(machine.runtime, &machine.name, false),
        // It may be a guest.
        runtime => Called::guest(runtime, &machine.name),
    }
}
