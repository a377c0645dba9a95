//! What the waits of a row were caused by, as far as it is known by now.
//!
//! A sampled charge stands for a step of waits, which may be more than have ended by now, or for less. What was charged beyond the
//! waits that there were is owed: it is told when there are waits for it. Waits for which nothing was charged by now have no known
//! cause. So causes add up to the waits exactly, and none is favoured: not even that others ran.

use std::{collections::BTreeMap, sync::Arc};

use lagstop_ebpf::{CAUSES, Cause};

use crate::model::{CgroupId, Nanos, WaitBehind};

/// Updates without a wait behind a culprit, after which it is no longer told.
const QUIET_UPDATES: u32 = 30;

/// Waits that ended, by cause.
#[derive(Default)]
pub(super) struct Causes {
    /// Charged so far, and the part of it that is not told yet.
    charged: [u64; CAUSES],
    owed: [u64; CAUSES],
    /// Told so far.
    told: [u64; CAUSES],
    culprits: BTreeMap<CgroupId, Culprit>,
}

/// A cgroup that the row's owner waited behind.
#[derive(Default)]
struct Culprit {
    owed: u64,
    told: u64,
    /// Updates since anything was charged to it.
    quiet: u32,
}

impl Causes {
    /// `waits_ns` have ended by now, and `charged` are their causes; `behind` is what was charged to each culprit since the last
    /// update.
    pub(super) fn update(&mut self, charged: &[u64; CAUSES], waits_ns: u64, behind: &[WaitBehind]) {
        for ((owed, before), now) in self.owed.iter_mut().zip(&mut self.charged).zip(charged) {
            *owed += now.saturating_sub(*before);
            *before = *now;
        }
        let room = waits_ns.saturating_sub(self.told.iter().sum());
        let mut told = [0; CAUSES];
        settle(&mut self.owed, &mut told, room);
        for (sum, told) in self.told.iter_mut().zip(&told) {
            *sum += told;
        }
        self.told[Cause::Unknown as usize] += room - told.iter().sum::<u64>();
        self.name(behind, told[Cause::Behind as usize]);
    }

    /// Tells, of `room` ns of waits, behind whom they were.
    fn name(&mut self, behind: &[WaitBehind], room: u64) {
        self.culprits.values_mut().for_each(|culprit| culprit.quiet += 1);
        for one in behind {
            let culprit = self.culprits.entry(one.id).or_default();
            culprit.owed += one.wait_ns.0;
            culprit.quiet = 0;
        }
        let mut owed: Vec<u64> = self.culprits.values().map(|culprit| culprit.owed).collect();
        let mut told = vec![0; owed.len()];
        settle(&mut owed, &mut told, room);
        for ((culprit, owed), told) in self.culprits.values_mut().zip(owed).zip(told) {
            culprit.owed = owed;
            culprit.told += told;
        }
        self.culprits.retain(|_, culprit| culprit.quiet < QUIET_UPDATES);
    }

    /// The row has a new owner: what is owed is the last one's.
    pub(super) fn pass_on(&mut self) {
        self.owed = [0; CAUSES];
        self.culprits.clear();
    }

    pub(super) fn of(&self, cause: Cause) -> Nanos {
        Nanos(self.told[cause as usize])
    }

    /// Waits behind each culprit, by ascending ids.
    pub(super) fn culprits(&self) -> Arc<[WaitBehind]> {
        self.culprits.iter().map(|(&id, culprit)| WaitBehind { id, wait_ns: Nanos(culprit.told) }).collect()
    }
}

/// Takes as much from `owed` as there is `room` for, of each the same part, and says in `taken` what that was.
fn settle(owed: &mut [u64], taken: &mut [u64], room: u64) {
    let all: u128 = owed.iter().map(|&owed| u128::from(owed)).sum();
    let mut left = room.min(u64::try_from(all).unwrap_or(u64::MAX));
    let has_room = all <= u128::from(room);
    for (taken, &owed) in taken.iter_mut().zip(&*owed) {
        *taken = if has_room { owed } else { (u128::from(owed) * u128::from(room) / all) as u64 };
        left -= *taken;
    }
    // What rounding left: less than a nanosecond of each.
    for (taken, owed) in taken.iter_mut().zip(owed) {
        let more = left.min(*owed - *taken).min(1);
        *taken += more;
        left -= more;
        *owed -= *taken;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn charged(own: u64, behind: u64) -> [u64; CAUSES] {
        let mut all = [0; CAUSES];
        (all[Cause::Own as usize], all[Cause::Behind as usize]) = (own, behind);
        all
    }

    fn behind(all: &[(u64, u64)]) -> Vec<WaitBehind> {
        all.iter().map(|&(id, ns)| WaitBehind { id: CgroupId(id), wait_ns: Nanos(ns) }).collect()
    }

    fn told(causes: &Causes) -> [u64; 3] {
        [Cause::Own, Cause::Behind, Cause::Unknown].map(|cause| causes.of(cause).0)
    }

    #[test]
    fn what_was_charged_beyond_the_waits_is_told_when_there_are_more() {
        let mut causes = Causes::default();
        causes.update(&charged(0, 8), 2, &behind(&[(7, 8)]));
        assert_eq!((told(&causes), &*causes.culprits()), ([0, 2, 0], &*behind(&[(7, 2)])));
        causes.update(&charged(0, 8), 6, &[]);
        assert_eq!((told(&causes), &*causes.culprits()), ([0, 6, 0], &*behind(&[(7, 6)])));
        causes.update(&charged(8, 8), 12, &[]);
        assert_eq!(told(&causes), [5, 7, 0], "of 2 and 8 that are owed there is room for 6");
    }

    #[test]
    fn waits_for_which_nothing_was_charged_are_not_put_down_to_others() {
        let mut causes = Causes::default();
        causes.update(&charged(0, 0), 5, &[]);
        assert_eq!(told(&causes), [0, 0, 5]);
        causes.update(&charged(8, 0), 8, &[]);
        assert_eq!(told(&causes), [3, 0, 5]);
    }

    #[test]
    fn a_new_owner_owes_nothing() {
        let mut causes = Causes::default();
        causes.update(&charged(100, 50), 10, &behind(&[(7, 50)]));
        causes.pass_on();
        let before = told(&causes);
        causes.update(&charged(100, 60), 20, &behind(&[(8, 10)]));
        assert_eq!(told(&causes), [before[0], before[1] + 10, 0]);
        assert_eq!(*causes.culprits(), *behind(&[(8, 10)]));
    }

    #[test]
    fn a_culprit_that_comes_again_begins_at_nothing() {
        let mut causes = Causes::default();
        causes.update(&charged(0, 5), 5, &behind(&[(7, 5)]));
        for _ in 0..QUIET_UPDATES {
            causes.update(&charged(0, 5), 5, &[]);
        }
        assert_eq!(*causes.culprits(), []);
        causes.update(&charged(0, 8), 8, &behind(&[(7, 3)]));
        assert_eq!(*causes.culprits(), *behind(&[(7, 3)]));
    }

    proptest! {
        #[test]
        fn causes_add_up_to_the_waits_and_culprits_to_the_part_behind_others(
            steps in prop::collection::vec((0u64..1_000, 0u64..3, 0u64..2_000), 1..40),
        ) {
            let mut causes = Causes::default();
            let (mut all, mut waits) = (charged(0, 0), 0);
            for (wait, whom, step) in steps {
                waits += wait;
                let mut pairs = Vec::new();
                match whom {
                    0 => all[Cause::Own as usize] += step,
                    id => {
                        all[Cause::Behind as usize] += step;
                        pairs = behind(&[(id, step)]);
                    }
                }
                causes.update(&all, waits, &pairs);
                prop_assert_eq!(causes.told.iter().sum::<u64>(), waits);
                let named: u64 = causes.culprits().iter().map(|one| one.wait_ns.0).sum();
                prop_assert!(named <= causes.of(Cause::Behind).0);
                prop_assert!(causes.told.iter().zip(&all).take(Cause::Unknown as usize).all(|(told, all)| told <= all));
            }
        }

        #[test]
        fn of_what_is_owed_each_gives_the_same_part(owed in prop::collection::vec(0u64..1 << 40, 0..9), room in 0u64..1 << 42) {
            let (mut left, mut taken) = (owed.clone(), vec![0; owed.len()]);
            settle(&mut left, &mut taken, room);
            let all: u64 = owed.iter().sum();
            prop_assert_eq!(taken.iter().sum::<u64>(), room.min(all));
            for ((owed, left), taken) in owed.iter().zip(left).zip(taken) {
                prop_assert_eq!(left + taken, *owed);
                prop_assert!(all == 0 || (taken as f64 - *owed as f64 * room.min(all) as f64 / all as f64).abs() <= 1.5);
            }
        }
    }
}
