//! Which cgroups are gone, so that their rows can be given to others.
//!
//! To ask for each of them whether it is still there would take a dense host's reader tens of milliseconds in every reading.

use std::{collections::HashSet, sync::Arc};

use crate::model::{ById, CgroupId, CgroupState};

/// Readings in which every cgroup that stands still is asked once whether it is still there, while there are rows enough.
const ROUND: usize = 60;
/// Cgroups that are asked in a reading where many come to rest: each takes ten microseconds.
const MOST_ASKED: usize = 100;
/// The same where rows are few.
const MOST_ASKED_IF_CROWDED: usize = 1_000;

/// Who is to be asked next.
#[derive(Debug, Default)]
pub(super) struct Departed {
    /// Those that came between the last two readings, and were still there.
    came: Vec<CgroupId>,
    /// The others that ran between them.
    ran: Vec<CgroupId>,
    /// The one that was asked last in its turn.
    asked: CgroupId,
}

type Cgroups = ById<Arc<CgroupState>>;

/// A cgroup in a reading.
struct Seen<'r> {
    id: CgroupId,
    state: &'r Arc<CgroupState>,
    /// Whether it did nothing since the reading before. `None` where it was not in that.
    stands: Option<bool>,
}

impl Seen<'_> {
    /// Is it one that can be gone?
    const fn is_one(&self) -> bool {
        self.id.0 != CgroupId::OTHER.0 && self.id.0 != CgroupId::ROOT.0
    }

    fn is_at_rest(&self) -> bool {
        self.is_one() && self.stands == Some(true)
    }
}

impl Departed {
    /// The cgroups of `now` that do not exist any more. All that have just come are asked: where cgroups live for a moment, as
    /// many go as come. Older ones can only be gone if they stand still since the reading before: those that have just come to
    /// rest are asked first, and then each in its turn, more of them where rows are few.
    pub(super) fn find(
        &mut self,
        last: &Cgroups,
        now: &Cgroups,
        is_crowded: bool,
        is_gone: impl Fn(CgroupId, &CgroupState) -> bool,
    ) -> Vec<CgroupId> {
        // Each with whether it stands still. In the first reading all are new.
        let mut earlier = last.beside();
        let seen = |(&id, state)| Seen {
            id,
            state,
            stands: earlier.get(id).map(|then| Arc::ptr_eq(then, state) || then.stands_at(&state.counters)),
        };
        let all: Vec<Seen<'_>> = now.iter().map(seen).collect();
        let is_new = |seen: &&Seen<'_>| !last.is_empty() && seen.is_one() && seen.stands.is_none();
        let known = |of: &[CgroupId]| -> Vec<&Seen<'_>> {
            let find = |id: &CgroupId| all.binary_search_by_key(id, |seen| seen.id).ok().map(|place| &all[place]);
            of.iter().filter_map(find).filter(|seen| seen.is_at_rest()).collect()
        };

        let mut suspects: Vec<&Seen<'_>> = all.iter().filter(is_new).collect();
        suspects.extend(known(&self.came));
        let most = if is_crowded { MOST_ASKED_IF_CROWDED } else { MOST_ASKED };
        let rested = known(&self.ran);
        let few = now.len().div_ceil(ROUND);
        let in_turn = if is_crowded { few.max(most.saturating_sub(rested.len())) } else { few };
        // The youngest first: they are the likeliest to be gone.
        suspects.extend(rested.into_iter().rev().take(most));
        let (before, after) = all.split_at(all.partition_point(|seen| seen.id <= self.asked));
        let turn: Vec<&Seen<'_>> = after.iter().chain(before).filter(|seen| seen.is_at_rest()).take(in_turn).collect();
        self.asked = turn.last().map_or(self.asked, |seen| seen.id);
        suspects.extend(turn);

        let gone: HashSet<CgroupId> =
            suspects.into_iter().filter(|seen| is_gone(seen.id, seen.state)).map(|seen| seen.id).collect();
        let stays = |seen: &&Seen<'_>| !gone.contains(&seen.id);
        self.came = all.iter().filter(is_new).filter(stays).map(|seen| seen.id).collect();
        self.ran = all.iter().filter(|seen| seen.stands == Some(false)).filter(stays).map(|seen| seen.id).collect();
        gone.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, ops::Range, sync::Arc};

    use super::*;
    use crate::model::{CgroupCounters, Totals};

    fn cgroups(ids: Range<u64>, switches: u64) -> Cgroups {
        let state = |switches| {
            Arc::new(CgroupState {
                counters: Arc::new(CgroupCounters {
                    totals: Totals { switches, ..Totals::default() },
                    ..CgroupCounters::default()
                }),
                ..CgroupState::default()
            })
        };
        ids.map(|id| (CgroupId(id), state(switches))).collect()
    }

    /// How many are gone, and how many were asked, where all are gone but for those below 1,000.
    fn found(departed: &mut Departed, last: &Cgroups, now: &Cgroups, is_crowded: bool) -> (usize, usize) {
        let asked = Cell::new(0);
        let gone = departed.find(last, now, is_crowded, |id, _| {
            asked.set(asked.get() + 1);
            id.0 >= 1_000
        });
        (gone.len(), asked.get())
    }

    #[test]
    fn those_that_live_for_a_moment_are_known_to_be_gone_at_once() {
        let mut departed = Departed::default();
        let old = cgroups(100..200, 1);
        assert_eq!(found(&mut departed, &Cgroups::default(), &old, false), (0, 0), "all are new at first");
        let now = old.iter().map(|(&id, state)| (id, Arc::clone(state))).chain(cgroups(1_000..1_700, 1)).collect();
        let (gone, asked) = found(&mut departed, &old, &now, false);
        assert_eq!(gone, 700);
        assert_eq!(asked, 700 + now.len().div_ceil(ROUND).min(100), "and some of the old ones in their turn");
    }

    #[test]
    fn those_that_went_on_for_a_while_are_asked_when_they_come_to_rest() {
        let mut departed = Departed::default();
        let old = cgroups(100..200, 1);
        let with =
            |switches| -> Cgroups { cgroups(100..200, 1).into_iter().chain(cgroups(1_000..1_700, switches)).collect() };
        departed.find(&old, &with(1), false, |_, _| false);
        departed.find(&with(1), &with(2), false, |_, _| false);
        // They came to rest all at once, and are asked a hundred at a time; in their turn, too.
        let (gone, asked) = found(&mut departed, &with(2), &with(2), false);
        assert!((MOST_ASKED..MOST_ASKED + 20).contains(&asked) && gone >= MOST_ASKED, "{gone} of {asked}");
        let (gone, asked) = found(&mut departed, &with(2), &with(2), true);
        assert!(gone == 700 && asked <= MOST_ASKED_IF_CROWDED, "{gone} of {asked}");
    }

    #[test]
    fn nobody_is_gone_who_is_there_and_other_and_root_are_not_asked() {
        let mut departed = Departed::default();
        let all: Cgroups = [CgroupId::OTHER, CgroupId::ROOT].map(|id| (id, Arc::default())).into_iter().collect();
        assert!(departed.find(&all, &all, true, |_, _| true).is_empty());
    }
}
