//! The cgroups that a cgroup waits behind.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CgroupId, Nanos};

/// Time that tasks of a cgroup waited while tasks of another cgroup ran on their CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WaitBehind {
    /// The cgroup that ran. It is in the same interval.
    pub id: CgroupId,
    /// Waiting time: a whole number of thousandths of `wait_behind_ns`, rounded down to nanoseconds.
    pub wait_ns: Nanos,
}

impl WaitBehind {
    /// The most cgroups that are listed as waited behind.
    pub const NAMED: usize = 4;

    /// A wait behind the cgroup `id` of this many `thousandths` of `all` wait behind others.
    pub(crate) fn of(id: CgroupId, thousandths: u64, all: Nanos) -> Self {
        Self { id, wait_ns: Nanos((u128::from(all.0) * u128::from(thousandths) / 1_000) as u64) }
    }

    /// The sums of these waits behind each cgroup, by ascending ids.
    pub(crate) fn summed<'w>(waits: impl IntoIterator<Item = &'w Self>) -> Vec<Self> {
        let mut sum = BehindSum::default();
        waits.into_iter().for_each(|one| sum.add(one.id, one.wait_ns));
        sum.waits()
    }

    /// The wait in thousandths of `all`.
    pub(crate) fn thousandths(&self, all: Nanos) -> u64 {
        (u128::from(self.wait_ns.min(all).0) * 1_000).div_ceil(u128::from(all.0.max(1))) as u64
    }
}

/// The longest of these waits, longest first. Their sum is limited to `all` wait behind others, because pairs and totals are
/// not read at the same time.
pub(super) fn worst(mut these: Vec<WaitBehind>, all: Nanos) -> Vec<WaitBehind> {
    let longest_first = |one: &WaitBehind| (std::cmp::Reverse(one.wait_ns), one.id);
    these.sort_unstable_by_key(longest_first);
    these.truncate(WaitBehind::NAMED);
    let mut left = 1_000;
    for one in &mut these {
        // The largest number whose time does not exceed the wait. Values that are already in thousandths do not change.
        let most = ((u128::from(one.wait_ns.0) + 1) * 1_000 - 1) / u128::from(all.0.max(1));
        let thousandths = most.min(left);
        *one = WaitBehind::of(one.id, thousandths as u64, all);
        left -= thousandths;
    }
    these.retain(|one| one.wait_ns > Nanos::ZERO);
    // Waits that differed by less than a thousandth may be equal now.
    these.sort_unstable_by_key(longest_first);
    these
}

/// Sum of the waits over several intervals or cgroups.
#[derive(Clone, Debug, Default)]
pub(super) struct BehindSum(BTreeMap<CgroupId, Nanos>);

impl BehindSum {
    pub(super) fn add(&mut self, id: CgroupId, wait_ns: Nanos) {
        let sum = self.0.entry(id).or_default();
        *sum = sum.saturating_add(wait_ns);
    }

    /// The longest waits. Their sum is limited to `all` wait behind others.
    pub(super) fn worst(self, all: Nanos) -> Vec<WaitBehind> {
        worst(self.waits(), all)
    }

    fn waits(self) -> Vec<WaitBehind> {
        self.0.into_iter().map(|(id, wait_ns)| WaitBehind { id, wait_ns }).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn behind(all: &[(u64, u64)]) -> Vec<WaitBehind> {
        all.iter().map(|&(id, us)| WaitBehind { id: CgroupId(id), wait_ns: Nanos(us * 1_000) }).collect()
    }

    #[test]
    fn the_worst_are_named_first_and_no_more_than_a_few() {
        let these = behind(&[(2, 10), (3, 20), (4, 90), (5, 5), (9, 70)]);
        assert_eq!(worst(these, Nanos(1_000_000)), behind(&[(4, 90), (9, 70), (3, 20), (2, 10)]));
    }

    #[test]
    fn waits_behind_the_same_cgroup_are_summed() {
        assert_eq!(
            WaitBehind::summed(&behind(&[(3, 20), (4, 1), (2, 10), (3, 5)])),
            behind(&[(2, 10), (3, 25), (4, 1)])
        );
    }

    #[test]
    fn waits_that_are_equal_in_thousandths_are_in_the_order_of_their_ids() {
        let all = Nanos(1_734_560_637);
        let waits = [(2, 869_014_877), (3, 869_014_878)];
        let now = waits.map(|(id, ns)| WaitBehind { id: CgroupId(id), wait_ns: Nanos(ns) });
        let named = worst(now.to_vec(), all);
        assert_eq!(named, [2, 3].map(|id| WaitBehind::of(CgroupId(id), 500, all)));
        assert_eq!(worst(named.clone(), all), named);
    }

    proptest! {
        #[test]
        fn no_more_is_named_than_was_waited(
            waits in prop::collection::btree_map(2u64..40, 0u64..2_000_000_000, 0..20),
            all in 0u64..3_000_000_000,
        ) {
            let now: Vec<WaitBehind> =
                waits.iter().map(|(&id, &ns)| WaitBehind { id: CgroupId(id), wait_ns: Nanos(ns) }).collect();
            let named = worst(now, Nanos(all));
            prop_assert!(named.len() <= WaitBehind::NAMED);
            prop_assert!(named.iter().map(|one| one.wait_ns).sum::<Nanos>() <= Nanos(all));
            prop_assert_eq!(&worst(named.clone(), Nanos(all)), &named, "what was named once stays as it is");
            for one in &named {
                prop_assert!(one.wait_ns <= Nanos(waits[&one.id.0]));
                // What a recording keeps of it.
                prop_assert_eq!(*one, WaitBehind::of(one.id, one.thousandths(Nanos(all)), Nanos(all)));
            }
        }
    }
}
