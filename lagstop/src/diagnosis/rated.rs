//! Cgroups that are compared by their Load Credits.

use crate::model::{CgroupId, Interval};

/// Takes part in the comparison of Load Credits: the row of the cgroups that had none of their own is no cgroup, and the
/// root's tasks compete each for itself.
pub(super) const fn is_rated(id: CgroupId) -> bool {
    id.0 != CgroupId::OTHER.0 && id.0 != CgroupId::ROOT.0
}

/// The Load Credits of the cgroups that are compared by it, and their mean: the fair share, for equal weights.
pub(crate) fn credits(interval: &Interval) -> (Vec<(CgroupId, f64)>, f64) {
    let credits: Vec<(CgroupId, f64)> = interval
        .cgroups
        .iter()
        .filter(|cgroup| is_rated(cgroup.id))
        .filter_map(|cgroup| Some((cgroup.id, cgroup.load_credit?.0)))
        .filter(|(_, credit)| credit.is_finite())
        .collect();
    let fair = credits.iter().map(|(_, credit)| credit).sum::<f64>() / credits.len() as f64;
    (credits, fair)
}
