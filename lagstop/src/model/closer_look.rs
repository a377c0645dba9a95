//! Details of one cgroup from the running host, read when a user opens it.

use std::{error::Error, sync::Arc};

use super::{CgroupId, Nanos};

/// Limits and threads of one cgroup, read from its files.
#[derive(Clone, Debug)]
pub struct CloserLook {
    pub id: CgroupId,
    pub limits: CgroupLimits,
    /// Its threads, or why they cannot be listed.
    pub threads: Result<Vec<Thread>, Arc<dyn Error + Send + Sync>>,
    /// Time since the previous look, which the threads' values cover. `None` in the first look, in which threads have
    /// no values yet.
    pub over_ns: Option<Nanos>,
}

/// Limits of a cgroup, from its files. `None` if the file does not exist or cannot be read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CgroupLimits {
    pub quota: Option<Quota>,
    /// `cpu.weight`: 1 to 10,000, 100 by default. In v1 `cpu.shares`: 2 to 262,144, 1,024 by default.
    pub weight: Option<u64>,
    /// Default weight in this cgroup version.
    pub default_weight: u64,
    /// Whether it runs only when no sibling is runnable: `cpu.idle`.
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

/// A thread. Its values cover the time since the previous look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Thread {
    pub tid: u32,
    /// Its name. May hold anything.
    pub name: String,
    /// CPU time. `None` if the thread is new.
    pub cpu_ns: Option<Nanos>,
    pub runq_wait_ns: Option<Nanos>,
}
