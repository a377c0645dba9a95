//! Who goes first.

use std::cmp::Ordering;

/// Who goes first on a CPU. Cgroups of one rank share it: equally, whatever they are and however many tasks they have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Policy<'a> {
    /// All share: fair scheduling with equal weights.
    Sharing,
    /// The one with the lowest Load Credit (CFS-LAGS paper, arXiv 2508.15703, §4.2).
    LightestFirst,
    /// These, by their number, before the others (CFS-LAGS-static, §4.1).
    First(&'a [bool]),
}

/// The lower, the earlier.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rank(f64);

impl Policy<'_> {
    /// The rank of the cgroup with this number and Load Credit.
    pub(super) fn rank(self, group: usize, credit: f64) -> Rank {
        Rank(match self {
            Self::Sharing => 0.0,
            Self::LightestFirst => credit,
            Self::First(first) => f64::from(u8::from(!first.get(group).copied().unwrap_or(false))),
        })
    }
}

impl Ord for Rank {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Rank {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Rank {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Rank {}
