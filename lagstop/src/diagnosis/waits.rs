//! What the wait of a cgroup was caused by, part by part.

use std::cmp::Reverse;

use crate::model::{Cgroup, CgroupId, Nanos, WaitCause};

/// What a part of a cgroup's wait is blamed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Blamed {
    /// Tasks of this cgroup ran.
    Cgroup(CgroupId),
    /// Something else; of other cgroups, those that are not among the worst.
    Cause(WaitCause),
}

impl Blamed {
    pub const fn culprit(self) -> Option<CgroupId> {
        match self {
            Self::Cgroup(id) => Some(id),
            Self::Cause(_) => None,
        }
    }

    /// What it is called, where it is no cgroup.
    pub const fn label(self) -> Option<&'static str> {
        match self {
            Self::Cgroup(_) => None,
            Self::Cause(cause) => Some(cause.label()),
        }
    }
}

/// A part of a cgroup's wait, with its cause.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wait {
    pub victim: CgroupId,
    pub blamed: Blamed,
    /// How long, summed over its tasks.
    pub time: Nanos,
    /// Of all that the victim waited.
    pub share: f64,
}

impl Wait {
    /// What stays the same from interval to interval.
    pub const fn key(&self) -> (CgroupId, Blamed) {
        (self.victim, self.blamed)
    }

    /// All that `cgroup` waited, by cause, the worst first. `None` where causes were not measured.
    pub fn parts(cgroup: &Cgroup) -> Option<Vec<Self>> {
        let all = cgroup.totals.runq_wait_ns?;
        let behind = cgroup.totals.wait_behind_ns?;
        let named: Nanos = cgroup.waits_behind.iter().map(|one| one.wait_ns).sum();
        let part = |(blamed, time): (Blamed, Nanos)| Self { victim: cgroup.id, blamed, time, share: time.cores(all).0 };
        let causes = WaitCause::ALL.map(|cause| {
            let time = match cause {
                WaitCause::OtherCgroups => behind.saturating_sub(named),
                _ => cause.of(&cgroup.totals).unwrap_or_default(),
            };
            (Blamed::Cause(cause), time)
        });
        let cgroups = cgroup.waits_behind.iter().map(|one| (Blamed::Cgroup(one.id), one.wait_ns));
        let mut parts: Vec<Self> = cgroups.chain(causes).filter(|(_, time)| *time > Nanos::ZERO).map(part).collect();
        Self::sort(&mut parts);
        Some(parts)
    }

    /// The longest first.
    pub fn sort(waits: &mut [Self]) {
        waits.sort_unstable_by_key(|wait| (Reverse(wait.time), wait.key()));
    }
}
