//! What this kernel and this process have, found out once.

use std::{fs, path::Path};

use lagstop_ebpf::Offsets;

use super::{btf::Btf, error::KernelError, offsets};

/// What is known before anything is loaded.
#[derive(Debug)]
pub struct Facts {
    /// `uname -r`
    pub release: String,
    /// Capabilities that loading needs and that this process lacks.
    pub missing_capabilities: Vec<MissingCapability>,
    /// Tracepoints that are there.
    pub tracepoints: Vec<&'static str>,
    pub(super) offsets: Offsets,
    /// Fields that this kernel's BTF does not have.
    pub missing_fields: Vec<&'static str>,
}

/// A capability that is needed and not held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingCapability {
    /// For loading programs and maps.
    Bpf,
    /// For attaching them to tracepoints.
    Perfmon,
}

impl MissingCapability {
    /// As capabilities(7) calls it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bpf => "CAP_BPF",
            Self::Perfmon => "CAP_PERFMON",
        }
    }

    /// Bit in a capability set, `include/uapi/linux/capability.h`.
    const fn bit(self) -> u32 {
        match self {
            Self::Bpf => 39,
            Self::Perfmon => 38,
        }
    }
}

/// Stands in for both of the above.
const CAP_SYS_ADMIN: u32 = 21;

/// Tracepoints that a plan may want.
pub(super) const TRACEPOINTS: [&str; 5] =
    ["sched_switch", "sched_entry_tp", "sched_exit_tp", "sched_migrate_task", "inet_sock_set_state"];

impl Facts {
    /// Looks at the running kernel and this process.
    ///
    /// # Errors
    /// When the kernel's BTF cannot be read.
    pub fn probe() -> Result<Self, KernelError> {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let btf = Btf::read(Path::new(Btf::VMLINUX)).map_err(KernelError::NoBtf)?;
        Ok(Self::from(
            rustix::system::uname().release().to_string_lossy().into_owned(),
            missing_capabilities(&status),
            &btf,
        ))
    }

    fn from(release: String, missing_capabilities: Vec<MissingCapability>, btf: &Btf) -> Self {
        let (offsets, missing_fields) = offsets::resolve(btf);
        let tracepoints = TRACEPOINTS.into_iter().filter(|name| btf.has_tracepoint(name)).collect();
        Self { release, missing_capabilities, tracepoints, offsets, missing_fields }
    }
}

/// What `/proc/self/status` says is missing. Where it says nothing, the kernel will.
fn missing_capabilities(status: &str) -> Vec<MissingCapability> {
    let effective = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|set| u64::from_str_radix(set.trim(), 16).ok())
        .unwrap_or(u64::MAX);
    let has = |bit: u32| effective >> bit & 1 == 1;
    [MissingCapability::Bpf, MissingCapability::Perfmon]
        .into_iter()
        .filter(|capability| !has(capability.bit()) && !has(CAP_SYS_ADMIN))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_read_from_the_effective_set() {
        let of = |set: &str| missing_capabilities(&format!("Name:\tx\nCapPrm:\t0\nCapEff:\t{set}\n"));
        assert_eq!(of("000001ffffffffff"), []);
        assert_eq!(of("0000000000200000"), [], "CAP_SYS_ADMIN stands in for both");
        assert_eq!(of("0000008000000000"), [MissingCapability::Perfmon]);
        assert_eq!(of("0000000000000000"), [MissingCapability::Bpf, MissingCapability::Perfmon]);
        assert_eq!(missing_capabilities(""), [], "not known to be missing");
    }
}
