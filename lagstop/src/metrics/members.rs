//! Selects the cgroups, or pairs of cgroups, that get their own series if not all can.

use std::{collections::HashMap, hash::Hash};

use crate::model::Nanos;

/// Time constant of the moving average of costs: longer than a burst, shorter than a shift.
const TIME_CONSTANT: Nanos = Nanos(300_000_000_000);
/// How much more expensive than the cheapest member another cgroup must be to replace it. Otherwise two similar cgroups
/// would replace each other repeatedly, and each replacement restarts their series.
const HYSTERESIS: f64 = 1.5;
/// The most non-members whose costs are tracked. Beyond it, the cheapest are forgotten.
const MOST_OUTSIDERS: usize = 20_000;

/// Ranks cgroups by a moving average of their cost, and keeps the most expensive as members. `K` identifies them: a
/// path, or the two paths of a pair.
#[derive(Debug)]
pub(super) struct Members<K> {
    room: usize,
    known: HashMap<K, Known>,
    members: usize,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    /// Decayed sum of its costs, in nanoseconds.
    cost: f64,
    /// When it was last seen.
    seen: Nanos,
    is_member: bool,
}

/// New members, and former members.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Changes<K> {
    pub(super) come: Vec<K>,
    pub(super) gone: Vec<K>,
}

impl<K: Clone + Eq + Hash + Ord> Members<K> {
    /// No members yet, and at most `room` of them.
    pub(super) fn new(room: usize) -> Self {
        Self { room, known: HashMap::new(), members: 0 }
    }

    /// Lets `duration` pass until `now`. `costs` are the costs in that time, in nanoseconds. Those that were not seen
    /// for longer than `expiry` are forgotten.
    pub(super) fn advance<'c>(
        &mut self,
        now: Nanos,
        duration: Nanos,
        expiry: Nanos,
        costs: impl Iterator<Item = (&'c K, f64)>,
    ) -> Changes<K>
    where
        K: 'c,
    {
        let mut changes = Changes { come: Vec::new(), gone: Vec::new() };
        let keep = (-duration.seconds() / TIME_CONSTANT.seconds()).exp();
        self.known.values_mut().for_each(|known| known.cost *= keep);
        for (key, cost) in costs {
            let known = match self.known.get_mut(key) {
                Some(known) => known,
                None => self.known.entry(key.clone()).or_insert(Known { cost: 0.0, seen: now, is_member: false }),
            };
            known.seen = now;
            known.cost += cost;
        }
        self.known.retain(|key, known| {
            let stays = now.saturating_sub(known.seen) <= expiry;
            if !stays && known.is_member {
                self.members -= 1;
                changes.gone.push(key.clone());
            }
            stays
        });
        self.admit(now, &mut changes);
        self.forget_the_cheapest();
        changes
    }

    /// Forgets those that `is_gone` selects, members or not.
    pub(super) fn forget(&mut self, is_gone: impl Fn(&K) -> bool) {
        self.known.retain(|key, _| !is_gone(key));
        self.members = self.known.values().filter(|known| known.is_member).count();
    }

    /// Admits those that were just seen, the most expensive first: while there is room, and then in place of the
    /// cheapest member, if that is clearly cheaper.
    fn admit(&mut self, now: Nanos, changes: &mut Changes<K>) {
        let of = |is_member: bool| self.known.iter().filter(move |(_, known)| known.is_member == is_member);
        let mut outside: Vec<(f64, K)> =
            of(false).filter(|(_, known)| known.seen == now).map(|(key, known)| (known.cost, key.clone())).collect();
        if outside.is_empty() || self.room == 0 {
            return;
        }
        outside.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        let mut outside = outside.into_iter();
        let free = self.room - self.members;
        changes.come.extend(outside.by_ref().take(free).map(|(_, key)| key));
        if outside.len() > 0 {
            let mut inside: Vec<(f64, K)> = of(true).map(|(key, known)| (known.cost, key.clone())).collect();
            inside.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| b.1.cmp(&a.1)));
            for ((outer, comes), (inner, goes)) in outside.zip(inside) {
                if outer <= HYSTERESIS * inner {
                    break;
                }
                changes.come.push(comes);
                changes.gone.push(goes);
            }
        }
        let Self { known, members, .. } = self;
        for key in &changes.come {
            if let Some(known) = known.get_mut(key) {
                known.is_member = true;
                *members += 1;
            }
        }
        for key in &changes.gone {
            if let Some(known) = known.get_mut(key).filter(|known| known.is_member) {
                known.is_member = false;
                *members -= 1;
            }
        }
    }

    fn forget_the_cheapest(&mut self) {
        let outsiders = self.known.len() - self.members;
        // Removes some more at a time, so that this is not needed in every interval.
        let Some(surplus) = outsiders.checked_sub(MOST_OUTSIDERS + 1).map(|more| more + MOST_OUTSIDERS / 10) else {
            return;
        };
        let mut costs: Vec<f64> =
            self.known.values().filter(|known| !known.is_member).map(|known| known.cost).collect();
        let at = surplus.min(costs.len() - 1);
        let (_, limit, _) = costs.select_nth_unstable_by(at, f64::total_cmp);
        let limit = *limit;
        self.known.retain(|_, known| known.is_member || known.cost > limit);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const SECOND: Nanos = Nanos::SECOND;
    const EXPIRY: Nanos = Nanos(600_000_000_000);

    struct Clock(Members<Arc<str>>, Nanos);

    impl Clock {
        fn has(&self, path: &str) -> bool {
            self.0.known.get(path).is_some_and(|known| known.is_member)
        }

        fn new(room: usize) -> Self {
            Self(Members::new(room), Nanos::ZERO)
        }

        /// Lets a second pass in which these cost so many nanoseconds: who came, and who went.
        fn second(&mut self, costs: &[(&str, u64)]) -> (Vec<String>, Vec<String>) {
            self.1 = self.1.saturating_add(SECOND);
            let paths: Vec<(Arc<str>, f64)> = costs.iter().map(|(path, cost)| ((*path).into(), *cost as f64)).collect();
            let changes = self.0.advance(self.1, SECOND, EXPIRY, paths.iter().map(|(path, cost)| (path, *cost)));
            let names = |all: Vec<Arc<str>>| all.iter().map(|path| path.to_string()).collect();
            (names(changes.come), names(changes.gone))
        }
    }

    fn names(all: &[&str]) -> Vec<String> {
        all.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn the_dearest_have_the_room() {
        let mut clock = Clock::new(2);
        assert_eq!(clock.second(&[("/a", 1), ("/b", 3), ("/c", 2)]), (names(&["/b", "/c"]), names(&[])));
        assert!(clock.has("/b") && !clock.has("/a"));
        assert_eq!(clock.second(&[("/a", 9)]), (names(&["/a"]), names(&["/c"])));
    }

    #[test]
    fn those_that_are_alike_do_not_change_places() {
        let mut clock = Clock::new(1);
        clock.second(&[("/a", 100), ("/b", 99)]);
        for n in 0..1_000 {
            let (a, b) = if n % 2 == 0 { (100, 130) } else { (130, 100) };
            assert_eq!(clock.second(&[("/a", a), ("/b", b)]), (names(&[]), names(&[])), "{n}");
        }
        let took = (0..1_000).find(|_| !clock.second(&[("/a", 100), ("/b", 300)]).0.is_empty());
        assert!(took.is_some_and(|seconds| seconds > 10), "it takes a while: {took:?}");
        assert!(clock.has("/b") && !clock.has("/a"));
    }

    #[test]
    fn who_is_gone_makes_room() {
        let mut clock = Clock::new(1);
        clock.second(&[("/a", 1_000_000)]);
        for _ in 0..600 {
            assert_eq!(clock.second(&[]), (names(&[]), names(&[])));
        }
        assert_eq!(clock.second(&[("/b", 1)]), (names(&["/b"]), names(&["/a"])));
        assert_eq!(clock.0.known.len(), 1);
    }

    #[test]
    fn without_room_there_are_no_members() {
        let mut clock = Clock::new(0);
        assert_eq!(clock.second(&[("/a", 1)]), (names(&[]), names(&[])));
    }

    #[test]
    fn what_is_forgotten_makes_room() {
        let mut clock = Clock::new(1);
        clock.second(&[("/a", 9), ("/b", 1)]);
        clock.0.forget(|path| &**path == "/a");
        assert_eq!(clock.second(&[("/b", 1)]), (names(&["/b"]), names(&[])));
    }

    #[test]
    fn cgroups_that_come_and_go_take_a_limited_room() {
        let mut members = Members::new(10);
        let mut now = Nanos::ZERO;
        for second in 0..50u64 {
            now = now.saturating_add(SECOND);
            let all: Vec<(Arc<str>, f64)> =
                (0..1_000).map(|n| (format!("/{second}/{n}").into(), (n + 1) as f64)).collect();
            members.advance(now, SECOND, EXPIRY, all.iter().map(|(path, cost)| (path, *cost)));
            assert!(members.known.len() <= MOST_OUTSIDERS + 10, "{}", members.known.len());
            assert_eq!(members.known.values().filter(|known| known.is_member).count(), members.members);
        }
        assert!(members.known.len() > MOST_OUTSIDERS / 2);
        assert_eq!(members.members, 10);
    }
}
