//! Capabilities of this process, capabilities(7).

use std::{fmt, io};

use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_no_new_privs};
use serde::{Deserialize, Serialize};

/// A capability that lagstop can make use of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capability {
    /// For loading programs and maps.
    Bpf,
    /// For attaching programs to tracepoints and functions.
    Perfmon,
    /// For reading cgroups, and names of containers, that only root may read.
    DacReadSearch,
    /// For locked memory, which maps are before Linux 5.11.
    SysResource,
    /// For timing lagstop's own programs, for mounting tracefs where the host has not, and for kprobes where
    /// `kernel.perf_event_paranoid` is 3. Stands in for the first two.
    SysAdmin,
    /// For reading on time on a crowded host.
    SysNice,
    /// For finding the network namespaces of other users' processes.
    SysPtrace,
}

impl Capability {
    pub const ALL: [Self; 7] = [
        Self::Bpf,
        Self::Perfmon,
        Self::DacReadSearch,
        Self::SysResource,
        Self::SysAdmin,
        Self::SysNice,
        Self::SysPtrace,
    ];

    /// What a binary that other users than root run is to be given: to load and to attach, and to read what only root may.
    pub const GIVEN: [Self; 3] = [Self::Bpf, Self::Perfmon, Self::DacReadSearch];

    /// As capabilities(7) calls it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bpf => "CAP_BPF",
            Self::Perfmon => "CAP_PERFMON",
            Self::DacReadSearch => "CAP_DAC_READ_SEARCH",
            Self::SysResource => "CAP_SYS_RESOURCE",
            Self::SysAdmin => "CAP_SYS_ADMIN",
            Self::SysNice => "CAP_SYS_NICE",
            Self::SysPtrace => "CAP_SYS_PTRACE",
        }
    }

    const fn set(self) -> CapabilitySet {
        match self {
            Self::Bpf => CapabilitySet::BPF,
            Self::Perfmon => CapabilitySet::PERFMON,
            Self::DacReadSearch => CapabilitySet::DAC_READ_SEARCH,
            Self::SysResource => CapabilitySet::SYS_RESOURCE,
            Self::SysAdmin => CapabilitySet::SYS_ADMIN,
            Self::SysNice => CapabilitySet::SYS_NICE,
            Self::SysPtrace => CapabilitySet::SYS_PTRACE,
        }
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The argument of setcap(8) that gives a file these capabilities.
pub fn setcap(given: &[Capability]) -> String {
    let names: Vec<String> = given.iter().map(|capability| capability.name().to_lowercase()).collect();
    format!("{}+ep", names.join(","))
}

/// The capabilities that a thread can use: its effective set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Capabilities(u64);

impl Capabilities {
    pub const FULL: Self = Self(u64::MAX);
    pub const NONE: Self = Self(0);
    /// For opening files, and for making some, where only their owners may.
    pub const ANY_FILE: Self = Self(CapabilitySet::DAC_OVERRIDE.bits());

    /// Those of this thread. Where they cannot be told, all: the kernel will say what is missing.
    pub fn held() -> Self {
        capabilities(None).map_or(Self::FULL, |sets| Self(sets.effective.bits()))
    }

    /// These and `capability`.
    #[must_use]
    pub const fn with(self, capability: Capability) -> Self {
        Self(self.0 | capability.set().bits())
    }

    /// These and `others`.
    #[must_use]
    pub const fn and(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// These, but not `capability`.
    #[must_use]
    pub const fn without(self, capability: Capability) -> Self {
        Self(self.0 & !capability.set().bits())
    }

    /// Those of them that are also in `held`.
    #[must_use]
    pub const fn among(self, held: Self) -> Self {
        Self(self.0 & held.0)
    }

    /// Leaves this thread, and those that it starts, with no other capabilities, for good.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn keep_only(self) -> io::Result<()> {
        let bits = CapabilitySet::from_bits_retain(self.0);
        let empty = CapabilitySet::empty();
        set_no_new_privs(true)?;
        Ok(set_capabilities(None, CapabilitySets { effective: bits, permitted: bits, inheritable: empty })?)
    }

    /// Calls `task` with no other capabilities in force, and puts those back that were.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn try_with<T>(self, task: impl FnOnce() -> T) -> io::Result<T> {
        let before = capabilities(None)?;
        let effective = CapabilitySet::from_bits_retain(self.0);
        set_capabilities(None, CapabilitySets { effective, ..before })?;
        let result = task();
        set_capabilities(None, before)?;
        Ok(result)
    }

    /// The names of those that lagstop can make use of.
    pub fn names(self) -> Vec<&'static str> {
        Capability::ALL.into_iter().filter(|capability| self.has(*capability)).map(Capability::name).collect()
    }

    pub const fn has(self, capability: Capability) -> bool {
        self.0 & capability.set().bits() != 0
    }

    /// What loading and attaching programs needs and is not held.
    pub fn missing(self) -> Vec<Capability> {
        let is_missing = |capability: &Capability| !self.has(*capability) && !self.has(Capability::SysAdmin);
        [Capability::Bpf, Capability::Perfmon].into_iter().filter(is_missing).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_told_from_the_effective_set() {
        assert_eq!(Capabilities::FULL.missing(), []);
        assert_eq!(Capabilities::NONE.with(Capability::SysAdmin).missing(), [], "it stands in for both");
        assert_eq!(Capabilities::NONE.with(Capability::Bpf).missing(), [Capability::Perfmon]);
        assert_eq!(Capabilities::NONE.missing(), [Capability::Bpf, Capability::Perfmon]);
        assert!(!Capabilities::NONE.has(Capability::SysNice));
        let one = Capabilities::NONE.with(Capability::Bpf);
        let both = one.with(Capability::SysAdmin);
        assert_eq!(both.without(Capability::SysAdmin), one);
        assert_eq!(one.without(Capability::SysAdmin), one);
    }
}
