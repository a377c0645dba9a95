//! What holds for all intervals of one stream.

use serde::{Deserialize, Serialize};

use super::{GroupBy, Hook, HookState, LoadCredits, Nanos, Place};

/// Where and how a stream of intervals was measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// Version of the lagstop that measured.
    pub lagstop_version: String,
    /// When the first interval began, RFC 3339.
    pub started_at: String,
    /// The host's name.
    pub hostname: String,
    /// Tells boots of a host apart.
    pub boot_id: String,
    /// `uname -r`
    pub kernel: String,
    /// CPUs online when it began.
    pub cpus_online: u64,
    /// CPUs that may ever be online.
    pub cpus_possible: u64,
    /// Intended length of an interval.
    pub interval_ns: Nanos,
    /// What groups tasks.
    pub group_by: GroupBy,
    /// Time constant of Load Credit.
    #[serde(default = "load_credit_time")]
    pub load_credit_time_ns: Nanos,
    /// Where the hierarchy is mounted whose groups these are. Empty where it was not recorded.
    #[serde(default)]
    pub cgroup_mount: String,
    /// Version of its interface: 1 or 2.
    #[serde(default = "version_2")]
    pub cgroup_version: u8,
    /// Where the CPUs sit that may ever be online.
    #[serde(default)]
    pub topology: Vec<Place>,
    /// Why only files of the kernel are read and nothing is measured in it, and what to do. `None` where it is measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restricted: Option<String>,
    /// What the figures come from, and what is missing and why.
    pub hooks: Vec<Hook>,
}

const fn load_credit_time() -> Nanos {
    LoadCredits::TIME_CONSTANT
}

const fn version_2() -> u8 {
    2
}

impl Session {
    /// Hooks that this kernel lacks or refused.
    pub fn missing_hooks(&self) -> impl Iterator<Item = &Hook> {
        self.hooks.iter().filter(|hook| hook.state == HookState::Off)
    }
}
