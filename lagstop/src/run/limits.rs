//! What disturbs a run, and how much of its time others may take before it counts as disturbed.

use schemars::JsonSchema;
use serde::Serialize;

use crate::units::Nanos;

/// What disturbs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Disturbance {
    /// `waited` + `crowded_out`.
    Wait,
    Throttled,
    Steal,
}

impl Disturbance {
    pub const ALL: [Self; 3] = [Self::Wait, Self::Throttled, Self::Steal];

    /// What it is called, before its share.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Wait => "waited because of others",
            Self::Throttled => "throttled",
            Self::Steal => "steal",
        }
    }

    /// What its share is of, for the docs.
    pub(crate) const fn meaning(self) -> &'static str {
        match self {
            Self::Wait => "waits behind others + crowded out",
            Self::Throttled => "waits because a quota was used up",
            Self::Steal => "steal / (busy + steal) of this host's CPUs; the least is three clock ticks",
        }
    }

    /// The flag that sets its limit.
    pub const fn flag(self) -> &'static str {
        match self {
            Self::Wait => "--max-wait",
            Self::Throttled => "--max-throttled",
            Self::Steal => "--max-steal",
        }
    }
}

/// Shares from which on a run is disturbed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Limits {
    /// Limit of `waited` + `crowded_out`: a share of the time in which the command's tasks ran or waited for a CPU.
    pub max_wait: f64,
    /// Time for which quotas kept them waiting, as a share of the same.
    pub max_throttled: f64,
    /// Time that a hypervisor took from this host's CPUs, as a share of the time in which they wanted to run.
    pub max_steal: f64,
}

impl Limits {
    /// Shorter runs are not judged. Chosen: a single wait at a bad moment would be a large share of them.
    pub const LEAST_TIME: Nanos = Nanos(10_000_000);
    /// The kernel shows stolen time in clock ticks of each CPU, 10 ms (`/proc/stat`: proc_stat(5), `USER_HZ`). Chosen: less than
    /// three of these is within what rounding makes.
    pub const LEAST_STEAL: Nanos = Nanos(30_000_000);

    /// The share of `cause` from which on it disturbs.
    pub const fn of(&self, cause: Disturbance) -> f64 {
        match cause {
            Disturbance::Wait => self.max_wait,
            Disturbance::Throttled => self.max_throttled,
            Disturbance::Steal => self.max_steal,
        }
    }
}

/// Chosen: docs/run.md has how often they are right on a quiet host (waits of 0.2 % at most) and beside a busy thread (36 % or more).
impl Default for Limits {
    fn default() -> Self {
        Self { max_wait: 0.01, max_throttled: 0.01, max_steal: 0.05 }
    }
}
