//! Two recordings side by side: what changed from one to the other, and whether that is more than chance. Pure: no I/O, no
//! clock, no terminal. `docs/diff.md` says how it is done.

mod cgroups;
mod change;
pub(crate) mod discoveries;
mod doubts;
mod estimate;
mod figure;
#[cfg(test)]
pub(crate) mod fixture;
mod party;
mod pieces;
mod result;
mod series;
mod side;
#[cfg(test)]
mod tests;

pub use cgroups::{CgroupChanges, Lone};
pub use change::{Change, ChangeVerdict};
pub(crate) use figure::reference;
pub use result::{Counts, Diff, Recorded};
pub use side::DiffSide;

use change::Comparer;
use party::Party;
use serde::Serialize;

use crate::random::Random;

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct DiffSettings {
    /// How sure an interval is to hold the true change: above 0, below 1.
    pub confidence: f64,
    /// How often each recording is drawn anew.
    pub resamples: u32,
    /// What the draws begin with: with the same one, the same recordings give the same answer.
    pub seed: u64,
}

impl Default for DiffSettings {
    fn default() -> Self {
        Self { confidence: 0.95, resamples: 2_000, seed: 1 }
    }
}

/// What changed from `before` to `after`.
pub fn compare(before: &DiffSide, after: &DiffSide, settings: &DiffSettings) -> Diff {
    // Each recording keeps its draws if the two are swapped, so all changes are exactly negated.
    let [first, second] = [1, 2].map(|stream| Random::new(settings.seed, stream));
    let (of_before, of_after) = if before.rank() <= after.rank() { (first, second) } else { (second, first) };
    let party = |side, random| Party::new(side, settings, random);
    let comparer = Comparer::new(party(before, of_before), party(after, of_after), settings.confidence);

    let mut host = comparer.host();
    discoveries::judge(host.iter_mut(), settings.confidence);
    let mut cgroups = cgroups::compare(&comparer);
    discoveries::judge(cgroups.compared.iter_mut().flat_map(|cgroup| &mut cgroup.changes), settings.confidence);
    cgroups.sort();
    Diff::new(&comparer, *settings, host, cgroups)
}
