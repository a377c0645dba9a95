//! Light and heavy by Load Credit, ranked again in each interval (CFS-LAGS, §4.2, from outside of the kernel).

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use super::{Kernel, PolicyChange, Sides, idle};
use crate::{
    diagnosis::Ranking,
    model::{CgroupId, Interval, Nanos},
    trial::cgroup_file::usual_weight,
};

/// Who is light becomes heavy above so many times the fair share, and light again below so many times. Chosen: else those at the
/// border would go to and fro.
pub(super) const HEAVY_ABOVE: f64 = 1.2;
pub(super) const LIGHT_BELOW: f64 = 0.8;

/// Who is heavy now.
#[derive(Clone, Debug)]
pub struct Dynamic {
    sides: Sides,
    /// What made them idle.
    heavy: HashMap<CgroupId, Vec<PolicyChange>>,
}

impl Dynamic {
    /// The same, as it can be simulated.
    pub fn ranking(ranked: Vec<Arc<str>>, heavy: Vec<Arc<str>>, every: Nanos) -> Ranking {
        Ranking { ranked, heavy, every, heavy_from: HEAVY_ABOVE, light_below: LIGHT_BELOW }
    }

    /// The heavy side is idle already.
    pub fn new(sides: &Sides, kernel: &Kernel) -> Self {
        let made = sides.heavy.iter().filter_map(|group| Some((group.id, idle(group, kernel).ok()?)));
        Self { sides: sides.clone(), heavy: made.collect() }
    }

    /// What is to be changed after an interval.
    pub fn changes(&mut self, interval: &Interval, kernel: &Kernel) -> Vec<PolicyChange> {
        let ranked = self.credits(interval);
        let ours = || self.sides.all().filter_map(|group| Some((group, *ranked.get(&*group.path)?)));
        let count = ours().count();
        let fair = ours().map(|(_, credit)| credit).sum::<f64>() / count.max(1) as f64;
        let mut changes = Vec::new();
        for (group, credit) in ours() {
            let is_heavy = self.heavy.contains_key(&group.id);
            if !is_heavy && credit > HEAVY_ABOVE * fair {
                let Ok(made) = idle(group, kernel) else { continue };
                changes.extend(made.iter().cloned());
                self.heavy.insert(group.id, made);
            } else if is_heavy && credit < LIGHT_BELOW * fair {
                let made = self.heavy.remove(&group.id).unwrap_or_default();
                changes.extend(made.into_iter().rev().map(reversed));
            }
        }
        changes
    }

    /// Load Credit of all inside of each cgroup, by its path. One that is not there has none.
    fn credits(&self, interval: &Interval) -> HashMap<String, f64> {
        let ours: HashSet<&str> = self.sides.all().map(|group| &*group.path).collect();
        let mut credits = HashMap::new();
        for cgroup in &interval.cgroups {
            let Some(credit) = cgroup.load_credit else { continue };
            let path = &*cgroup.path;
            let ends = path.match_indices('/').skip(1).map(|(end, _)| end).chain([path.len()]);
            for above in ends.map(|end| &path[..end]).filter(|above| ours.contains(above)) {
                *credits.entry(above.to_owned()).or_default() += credit.0;
            }
        }
        credits
    }
}

/// The change that undoes `change`. A cgroup that stops being idle has the usual weight until it gets its own again.
fn reversed(change: PolicyChange) -> PolicyChange {
    match change {
        PolicyChange::File { directory, inode, file, before, after } => {
            let found = usual_weight(&file).map_or(after, str::to_owned);
            PolicyChange::File { directory, inode, file, before: found, after: before }
        }
        other => other,
    }
}
