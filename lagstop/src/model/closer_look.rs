//! What only the running host can tell of one cgroup, asked for when somebody looks at it.

use std::{error::Error, sync::Arc};

use super::{CgroupId, Nanos};

/// Limits and threads of one cgroup, read from its files.
#[derive(Clone, Debug)]
pub struct CloserLook {
    pub id: CgroupId,
    /// What it may use.
    pub limits: CgroupLimits,
    /// Its threads; or why they cannot be listed.
    pub threads: Result<Vec<Thread>, Arc<dyn Error + Send + Sync>>,
    /// Time since the look before, that the threads' figures are of. `None` in the first look, whose threads have no
    /// figures yet.
    pub over_ns: Option<Nanos>,
}

/// What a cgroup may use, as its files say. `None` where there is no such file or it cannot be read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CgroupLimits {
    pub quota: Option<Quota>,
    /// `cpu.weight`: 1 to 10,000, 100 by default. In v1 `cpu.shares`: 2 to 262,144, 1,024 by default.
    pub weight: Option<u64>,
    /// What the weight is by default in that version.
    pub default_weight: u64,
    /// Runs only when nobody else wants to: `cpu.idle`.
    pub idle: Option<bool>,
    /// The CPUs it may run on, as the kernel writes lists.
    pub cpus: Option<String>,
}

/// Bandwidth control of a cgroup: `cpu.max`, or `cpu.cfs_quota_us` and `cpu.cfs_period_us`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// CPU time in each period; `None` is unlimited.
    pub quota_ns: Option<Nanos>,
    pub period_ns: Nanos,
}

impl Quota {
    /// CPU time in each second. `None` where it is unlimited.
    pub fn per_second(&self) -> Option<Nanos> {
        let quota = u128::from(self.quota_ns?.0) * u128::from(Nanos::SECOND.0);
        let rate = quota.checked_div(u128::from(self.period_ns.0))?;
        Some(Nanos(u64::try_from(rate).unwrap_or(u64::MAX)))
    }
}

/// A thread. Its figures are those since the look before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Thread {
    pub tid: u32,
    /// Its name. May hold anything.
    pub name: String,
    /// CPU time. `None` where it was not there before.
    pub cpu_ns: Option<Nanos>,
    pub runq_wait_ns: Option<Nanos>,
}
