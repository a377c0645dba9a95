//! What the waits of a row were caused by, as far as it is known by now.
//!
//! A sampled charge stands for a step of waits, which may be more than have ended by now, or for less. What was charged beyond the
//! waits that there were is owed: it is told when there are waits for it. Waits for which nothing was charged by now have no known
//! cause. So causes add up to the waits exactly, and none is favoured: not even that others ran.

use lagstop_ebpf::{CAUSES, Cause};
use smallvec::{SmallVec, smallvec};

use crate::model::{CgroupId, Nanos, WaitBehind};

/// Updates without a wait behind a culprit, after which what is owed for it is no longer told.
const QUIET_UPDATES: u32 = 30;

/// Waits that ended, by cause.
#[derive(Default)]
pub(super) struct Causes {
    /// Charged so far, and the part of it that is not told yet.
    charged: [u64; CAUSES],
    owed: [u64; CAUSES],
    /// Told so far.
    told: [u64; CAUSES],
    /// Those for whom something is owed, by ascending ids.
    culprits: Vec<Culprit>,
}

/// A cgroup that the row's owner waited behind.
struct Culprit {
    id: CgroupId,
    owed: u64,
    /// Updates since anything was charged to it.
    quiet: u32,
}

/// A figure of each culprit: there are few.
type OfEach = SmallVec<[u64; 16]>;

impl Causes {
    /// `waits_ns` have ended by now, and `charged` are their causes; `behind` is what was charged to each culprit since the last
    /// update. Gives, by ascending ids, behind whom the waits were that ended since.
    pub(super) fn update(&mut self, charged: &[u64; CAUSES], waits_ns: u64, behind: &[WaitBehind]) -> Vec<WaitBehind> {
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
        self.charge(behind);
        self.name(told[Cause::Behind as usize])
    }

    /// Adds what was charged to culprits.
    fn charge(&mut self, behind: &[WaitBehind]) {
        self.culprits.iter_mut().for_each(|culprit| culprit.quiet += 1);
        for &WaitBehind { id, wait_ns: Nanos(owed) } in behind {
            match self.culprits.binary_search_by_key(&id, |culprit| culprit.id) {
                Ok(place) => {
                    let known = &mut self.culprits[place];
                    *known = Culprit { id, owed: known.owed + owed, quiet: 0 };
                }
                Err(place) => self.culprits.insert(place, Culprit { id, owed, quiet: 0 }),
            }
        }
    }

    /// Tells, of `room` ns of waits, behind whom they were.
    fn name(&mut self, room: u64) -> Vec<WaitBehind> {
        let mut owed: OfEach = self.culprits.iter().map(|culprit| culprit.owed).collect();
        let mut told: OfEach = smallvec![0; owed.len()];
        settle(&mut owed, &mut told, room);
        for (culprit, owed) in self.culprits.iter_mut().zip(owed) {
            culprit.owed = owed;
        }
        let told = self.culprits.iter().zip(told).filter(|(_, told)| *told > 0);
        let told = told.map(|(culprit, told)| WaitBehind { id: culprit.id, wait_ns: Nanos(told) }).collect();
        self.culprits.retain(|culprit| culprit.owed > 0 && culprit.quiet < QUIET_UPDATES);
        told
    }

    /// The row has a new owner: what is owed is the last one's.
    pub(super) fn pass_on(&mut self) {
        self.owed = [0; CAUSES];
        self.culprits.clear();
    }

    pub(super) fn of(&self, cause: Cause) -> Nanos {
        Nanos(self.told[cause as usize])
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
        assert_eq!(causes.update(&charged(0, 8), 2, &behind(&[(7, 8)])), behind(&[(7, 2)]));
        assert_eq!(causes.update(&charged(0, 8), 6, &[]), behind(&[(7, 4)]));
        assert_eq!(told(&causes), [0, 6, 0]);
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
        assert_eq!(causes.update(&charged(100, 60), 20, &behind(&[(8, 10)])), behind(&[(8, 10)]));
        assert_eq!(told(&causes), [before[0], before[1] + 10, 0]);
    }

    #[test]
    fn only_what_is_owed_is_kept_and_not_for_ever() {
        let mut causes = Causes::default();
        causes.update(&charged(0, 5), 5, &behind(&[(6, 2), (7, 3)]));
        assert!(causes.culprits.is_empty());
        causes.update(&charged(0, 12), 6, &behind(&[(7, 7)]));
        assert_eq!(causes.culprits.len(), 1);
        for _ in 0..QUIET_UPDATES {
            assert_eq!(causes.update(&charged(0, 12), 6, &[]), []);
        }
        assert!(causes.culprits.is_empty());
    }

    proptest! {
        #[test]
        fn causes_add_up_to_the_waits_and_culprits_to_the_part_behind_others(
            steps in prop::collection::vec((0u64..1_000, 0u64..3, 0u64..2_000), 1..40),
        ) {
            let mut causes = Causes::default();
            let (mut all, mut waits, mut named) = (charged(0, 0), 0, 0);
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
                let told = causes.update(&all, waits, &pairs);
                prop_assert!(told.is_sorted_by(|one, next| one.id < next.id));
                named += told.iter().map(|one| one.wait_ns.0).sum::<u64>();
                prop_assert_eq!(causes.told.iter().sum::<u64>(), waits);
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
