//! Behind whom a cgroup waited, over a recording.

use std::collections::BTreeMap;

use crate::model::{Cgroup, CgroupId, Nanos};

/// The waits of a cgroup by culprit, in the intervals in which their causes were measured.
#[derive(Clone, Debug, Default)]
pub(in crate::diagnosis) struct Behind {
    culprits: BTreeMap<CgroupId, Culprit>,
    /// Intervals in which it waited.
    pub(in crate::diagnosis) intervals: u64,
}

/// One that others wait behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::diagnosis) struct Culprit {
    pub(in crate::diagnosis) wait_ns: Nanos,
    /// Intervals in which more was waited behind it than behind any other.
    pub(in crate::diagnosis) worst_in: u64,
}

/// Culprits that are kept: those behind whom hardly anything is waited come and go.
const KEPT: usize = 32;

impl Behind {
    /// Adds the next interval.
    pub(super) fn add(&mut self, cgroup: &Cgroup) {
        if cgroup.totals.wait_behind_ns.is_none() || cgroup.totals.runq_wait_ns.unwrap_or_default() == Nanos::ZERO {
            return;
        }
        self.intervals += 1;
        for (place, one) in cgroup.waits_behind.iter().enumerate() {
            let culprit = self.culprits.entry(one.id).or_default();
            culprit.wait_ns = culprit.wait_ns.saturating_add(one.wait_ns);
            culprit.worst_in += u64::from(place == 0);
        }
        if self.culprits.len() > 2 * KEPT {
            let mut waits: Vec<Nanos> = self.culprits.values().map(|culprit| culprit.wait_ns).collect();
            waits.sort_unstable_by(|a, b| b.cmp(a));
            self.culprits.retain(|_, culprit| culprit.wait_ns > waits[KEPT]);
        }
    }

    pub(in crate::diagnosis) fn culprits(&self) -> impl Iterator<Item = (CgroupId, Culprit)> {
        self.culprits.iter().map(|(&id, &culprit)| (id, culprit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Totals, WaitBehind};

    fn waits(behind: &[(u64, u64)]) -> Cgroup {
        let ms = |ms: u64| Nanos(ms * 1_000_000);
        let all = Some(ms(behind.iter().map(|(_, ms)| ms).sum()));
        Cgroup {
            totals: Totals { runq_wait_ns: all, wait_behind_ns: all, ..Totals::default() },
            waits_behind: behind.iter().map(|&(id, time)| WaitBehind { id: CgroupId(id), wait_ns: ms(time) }).collect(),
            ..Cgroup::default()
        }
    }

    #[test]
    fn waits_are_added_up_by_culprit() {
        let mut behind = Behind::default();
        for cgroup in [waits(&[(7, 5), (8, 4)]), waits(&[(7, 5), (8, 4)]), waits(&[(8, 9), (7, 1)]), waits(&[])] {
            behind.add(&cgroup);
        }
        behind.add(&Cgroup { totals: Totals { wait_behind_ns: None, ..waits(&[(9, 9)]).totals }, ..waits(&[(9, 9)]) });
        let culprit = |ms: u64, worst_in| Culprit { wait_ns: Nanos(ms * 1_000_000), worst_in };
        let expected = [(CgroupId(7), culprit(11, 2)), (CgroupId(8), culprit(17, 1))];
        assert_eq!((behind.culprits().collect::<Vec<_>>(), behind.intervals), (expected.to_vec(), 3));
    }

    #[test]
    fn of_many_that_come_and_go_the_worst_stay() {
        let mut behind = Behind::default();
        behind.add(&waits(&[(7, 1_000)]));
        (100..1_000).for_each(|id| behind.add(&waits(&[(id, id)])));
        assert!(behind.culprits().count() <= 2 * KEPT);
        assert!(behind.culprits().any(|(id, _)| id == CgroupId(7)));
    }
}
