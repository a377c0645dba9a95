//! One of the two recordings, added up as it goes by.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, btree_map::Entry},
    sync::Arc,
};

use super::{
    figure::CostKind,
    pieces::Pieces,
    series::{self, Amount, Series},
};
use crate::model::{Cgroup, CgroupId, Interval, Lost, Nanos, Session};

/// One of the two recordings, added up by pieces of it. Takes some ten words for each cgroup and piece in which it ran,
/// and there are 128 pieces at most.
#[derive(Clone, Debug)]
pub struct DiffSide {
    pub(super) session: Session,
    pieces: Pieces,
    pub(super) intervals: usize,
    pub(super) duration_ns: Nanos,
    /// Intervals that are missing in between, by their numbers.
    pub(super) skipped_intervals: u64,
    pub(super) is_whole: bool,
    pub(super) lost: Lost,
    pub(super) host: Series<{ Amount::OF_HOST }>,
    switch_cost_ways: Ways,
    pick_function_ways: Ways,
    cgroups: Vec<Observed>,
    /// Index in `cgroups` of the cgroup that has this id now: ids are reused.
    by_id: HashMap<CgroupId, usize>,
    next_seq: Option<u64>,
}

/// The ways in which something was measured. `None` is one that was not recorded.
pub(super) type Ways = BTreeSet<Option<Arc<str>>>;

/// One cgroup, added up.
#[derive(Clone, Debug)]
struct Observed {
    path: Arc<str>,
    name: Arc<str>,
    series: Series<{ Amount::OF_CGROUP }>,
}

impl DiffSide {
    /// A recording of so many intervals, `is_whole` where it was ended and not cut off.
    pub fn new(session: Session, intervals: usize, is_whole: bool) -> Self {
        Self {
            session,
            pieces: Pieces::of(intervals),
            intervals: 0,
            duration_ns: Nanos::ZERO,
            skipped_intervals: 0,
            is_whole,
            lost: Lost::default(),
            host: Series::default(),
            switch_cost_ways: Ways::new(),
            pick_function_ways: Ways::new(),
            cgroups: Vec::new(),
            by_id: HashMap::new(),
            next_seq: None,
        }
    }

    pub fn add(&mut self, interval: &Interval) {
        let piece = self.pieces.piece_of(self.intervals);
        self.intervals += 1;
        self.duration_ns = Nanos(self.duration_ns.0.saturating_add(interval.duration_ns.0));
        let skipped = self.next_seq.map_or(0, |next| interval.seq.saturating_sub(next));
        self.skipped_intervals = self.skipped_intervals.saturating_add(skipped);
        self.next_seq = Some(interval.seq.saturating_add(1));
        self.lost.add(&interval.host.lost);
        self.host.add(piece, &series::of_host(interval));
        add_way(&mut self.switch_cost_ways, interval.switch_cost_way.as_ref());
        add_way(&mut self.pick_function_ways, interval.pick_function_way.as_ref());
        for cgroup in &interval.cgroups {
            self.add_cgroup(piece, cgroup, interval.duration_ns);
        }
    }

    fn add_cgroup(&mut self, piece: usize, cgroup: &Cgroup, duration: Nanos) {
        let known = self.by_id.get(&cgroup.id).copied().filter(|&at| self.cgroups[at].path == cgroup.path);
        let at = known.unwrap_or_else(|| {
            self.cgroups.push(Observed {
                path: Arc::clone(&cgroup.path),
                name: Arc::default(),
                series: Series::default(),
            });
            self.by_id.insert(cgroup.id, self.cgroups.len() - 1);
            self.cgroups.len() - 1
        });
        let observed = &mut self.cgroups[at];
        observed.series.add(piece, &series::of_cgroup(cgroup, duration));
        // Names are found out late: the last one known is the best.
        if !cgroup.name.is_empty() && observed.name != cgroup.name {
            observed.name = Arc::clone(&cgroup.name);
        }
    }

    pub(super) const fn pieces(&self) -> Pieces {
        self.pieces
    }

    /// Cgroups by name, by path where they have none; those of one name together.
    pub(super) fn by_name(&self) -> BTreeMap<&str, Series<{ Amount::OF_CGROUP }>> {
        let mut by_name: BTreeMap<&str, Series<{ Amount::OF_CGROUP }>> = BTreeMap::new();
        for Observed { path, name, series } in &self.cgroups {
            match by_name.entry(if name.is_empty() { path } else { name }) {
                Entry::Vacant(none) => _ = none.insert(series.clone()),
                Entry::Occupied(mut known) => {
                    known.get_mut().merge(series);
                    known.get_mut().forget_files();
                }
            }
        }
        by_name
    }

    pub(super) const fn ways(&self, way: CostKind) -> &Ways {
        match way {
            CostKind::SwitchCost => &self.switch_cost_ways,
            CostKind::PickFunction => &self.pick_function_ways,
        }
    }

    /// Orders any two recordings independently of the order in which they were named.
    pub(super) fn rank(&self) -> impl Ord {
        let session = &self.session;
        let sums = self.host.sums().map(f64::to_bits);
        (session.started_at.clone(), session.boot_id.clone(), self.intervals, sums)
    }
}

/// Usually the method is that of the previous interval, and nothing needs to be added.
fn add_way(ways: &mut Ways, way: Option<&Arc<str>>) {
    if !ways.iter().any(|known| known.as_ref() == way) {
        ways.insert(way.cloned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Totals;

    fn cgroup(id: u64, path: &str, name: &str, switches: u64) -> Cgroup {
        let totals = Totals { switches, ..Totals::default() };
        Cgroup { id: CgroupId(id), path: path.into(), name: name.into(), totals, ..Cgroup::default() }
    }

    #[test]
    fn cgroups_of_a_name_add_up_and_late_names_count_for_all() {
        let mut side = DiffSide::new(Session::default(), 3, true);
        for cgroups in [
            vec![cgroup(2, "/web", "/web", 1), cgroup(3, "/pods/x", "", 10)],
            // A container that was named late, one that was started anew, and an id that is used again.
            vec![cgroup(2, "/web", "web", 2), cgroup(4, "/web2", "web", 4), cgroup(3, "/pods/y", "y", 100)],
            vec![cgroup(3, "/pods/y", "", 200)],
        ] {
            side.add(&Interval { cgroups, ..Interval::default() });
        }
        let switches = |series: &Series<{ Amount::OF_CGROUP }>| series.sums()[Amount::SWITCHES.place()];
        let named: Vec<(&str, f64)> = side.by_name().iter().map(|(name, series)| (*name, switches(series))).collect();
        assert_eq!(named, [("/pods/x", 10.0), ("web", 7.0), ("y", 300.0)]);
    }

    #[test]
    fn missing_intervals_are_counted() {
        let mut side = DiffSide::new(Session::default(), 3, true);
        for seq in [4, 5, 9, u64::MAX, 0] {
            side.add(&Interval { seq, ..Interval::default() });
        }
        assert_eq!(side.skipped_intervals, 3 + (u64::MAX - 10));
    }
}
