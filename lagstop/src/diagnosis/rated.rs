//! Cgroups that are compared by their Load Credits.

use crate::model::{CgroupId, Interval};

/// Are Load Credits of this cgroup compared? The row `(other)` is no single cgroup, and tasks in the root compete each
/// for itself.
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
