//! The cgroups of both recordings, matched by name.

use std::cmp::Reverse;

use schemars::JsonSchema;
use serde::Serialize;

use super::{
    DiffSide,
    change::{Change, ChangeVerdict, Comparer},
    series::{Amount, Series},
};

/// A cgroup in both recordings.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CgroupChanges {
    /// Its name, or its path if it has none. Cgroups of the same name are added up.
    pub name: String,
    pub changes: Vec<Change>,
    /// Sort key: absolute change of CPU time, switch cost and run-queue wait, per second.
    #[serde(skip)]
    moved: f64,
}

/// A cgroup in only one of the recordings.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Lone {
    /// As in [`CgroupChanges`].
    pub name: String,
    /// Mean number of CPUs that it kept busy, over the whole recording.
    pub cpu_cores: f64,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Cgroups {
    pub compared: Vec<CgroupChanges>,
    pub appeared: Vec<Lone>,
    pub gone: Vec<Lone>,
}

type OfCgroup = Series<{ Amount::OF_CGROUP }>;

pub(super) fn compare(comparer: &Comparer<'_>) -> Cgroups {
    let (before, after) = comparer.sides();
    let (of_before, mut of_after) = (before.by_name(), after.by_name());
    let mut cgroups = Cgroups::default();
    for (name, then) in &of_before {
        match of_after.remove(name) {
            Some(now) => cgroups.compared.push(CgroupChanges {
                name: (*name).to_owned(),
                changes: comparer.cgroup(then, &now),
                moved: moved((then, before), (&now, after)),
            }),
            None => cgroups.gone.push(lone(name, then, before)),
        }
    }
    cgroups.appeared = of_after.iter().map(|(name, now)| lone(name, now, after)).collect();
    cgroups
}

impl Cgroups {
    /// Those that changed most come first.
    pub(super) fn sort(&mut self) {
        let rank = |cgroup: &CgroupChanges| Reverse(cgroup.is_significant());
        self.compared.sort_by(|one, other| rank(one).cmp(&rank(other)).then(other.moved.total_cmp(&one.moved)));
        for lone in [&mut self.appeared, &mut self.gone] {
            lone.sort_by(|one, other| other.cpu_cores.total_cmp(&one.cpu_cores));
        }
    }
}

impl CgroupChanges {
    /// Did any of its figures change by more than chance?
    pub fn is_significant(&self) -> bool {
        self.changes.iter().any(|change| change.verdict.is_significant())
    }

    /// Has any of its figures this verdict?
    pub fn has(&self, verdict: ChangeVerdict) -> bool {
        self.changes.iter().any(|change| change.verdict == verdict)
    }
}

fn lone(name: &str, series: &OfCgroup, side: &DiffSide) -> Lone {
    Lone { name: name.to_owned(), cpu_cores: per_time(series, side, Amount::CPU_TIME) }
}

fn moved(before: (&OfCgroup, &DiffSide), after: (&OfCgroup, &DiffSide)) -> f64 {
    let change = |amount| {
        let is_measured = before.0.is_measured(amount) && after.0.is_measured(amount);
        let change = per_time(after.0, after.1, amount) - per_time(before.0, before.1, amount);
        if is_measured { change.abs() } else { 0.0 }
    };
    [Amount::CPU_TIME, Amount::SWITCH_COST, Amount::RUNQ_WAIT].map(change).iter().sum()
}

/// An amount of time, over the time of the recording.
fn per_time(series: &OfCgroup, side: &DiffSide, amount: Amount) -> f64 {
    let time = side.host.sums()[Amount::DURATION.place()];
    if time > 0.0 { series.sums()[amount.place()] / time } else { 0.0 }
}
