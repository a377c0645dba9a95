//! What the wait of a cgroup was caused by, part by part.

use std::cmp::Reverse;

use crate::model::{Cgroup, CgroupId, Nanos, Totals};

/// What a part of a cgroup's wait was caused by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WaitCause {
    /// Tasks of this cgroup ran.
    Behind(CgroupId),
    /// Tasks of other cgroups ran that are not among the worst.
    BehindOthers,
    OwnThreads,
    KernelThreads,
    IdleCpu,
    Throttled,
    OtherCpu,
    Unknown,
}

impl WaitCause {
    /// What it is called, where it is no cgroup. In brackets: a cgroup may have any name.
    pub const fn label(self) -> Option<&'static str> {
        match self {
            Self::Behind(_) => None,
            Self::BehindOthers => Some("(lesser culprits)"),
            Self::OwnThreads => Some("(its own threads)"),
            Self::KernelThreads => Some("(kernel threads)"),
            Self::IdleCpu => Some("(CPU idle or waking)"),
            Self::Throttled => Some("(throttled by quota)"),
            Self::OtherCpu => Some("(on another CPU)"),
            Self::Unknown => Some("(unknown)"),
        }
    }
}

/// A part of a cgroup's wait, with its cause.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wait {
    /// Who waited.
    pub victim: CgroupId,
    /// What for.
    pub cause: WaitCause,
    /// How long, summed over its tasks.
    pub time: Nanos,
    /// Of all that the victim waited.
    pub share: f64,
}

impl Wait {
    /// What stays the same from interval to interval.
    pub const fn key(&self) -> (CgroupId, WaitCause) {
        (self.victim, self.cause)
    }

    /// All that `cgroup` waited, by cause, the worst first. `None` where causes were not measured.
    pub fn parts(cgroup: &Cgroup) -> Option<Vec<Self>> {
        let all = cgroup.totals.runq_wait_ns?;
        let behind = cgroup.totals.wait_behind_ns?;
        let named: Nanos = cgroup.waits_behind.iter().map(|one| one.wait_ns).sum();
        let part =
            |(cause, time): (WaitCause, Nanos)| Self { victim: cgroup.id, cause, time, share: time.cores(all).0 };
        let mut parts: Vec<Self> = cgroup
            .waits_behind
            .iter()
            .map(|one| (WaitCause::Behind(one.id), one.wait_ns))
            .chain([(WaitCause::BehindOthers, behind.saturating_sub(named))])
            .chain(without_culprit(&cgroup.totals))
            .filter(|(_, time)| *time > Nanos::ZERO)
            .map(part)
            .collect();
        Self::sort(&mut parts);
        Some(parts)
    }

    /// The longest first.
    pub fn sort(waits: &mut [Self]) {
        waits.sort_unstable_by_key(|wait| (Reverse(wait.time), wait.key()));
    }
}

/// Waits that no other cgroup caused.
fn without_culprit(totals: &Totals) -> [(WaitCause, Nanos); 6] {
    [
        (WaitCause::OwnThreads, totals.wait_self_ns),
        (WaitCause::KernelThreads, totals.wait_kernel_ns),
        (WaitCause::IdleCpu, totals.wait_idle_ns),
        (WaitCause::Throttled, totals.wait_throttled_ns),
        (WaitCause::OtherCpu, totals.wait_elsewhere_ns),
        (WaitCause::Unknown, totals.wait_unknown_ns),
    ]
    .map(|(cause, time)| (cause, time.unwrap_or_default()))
}
