//! Load Credit and waits in the simulation.

use super::{Group, Served, fair::decay};
use crate::model::LoadCredits;

/// Runnable and running tasks by the number of the cgroups, and what is computed from them.
#[derive(Clone, Debug)]
pub(super) struct Credits {
    parents: Vec<Option<usize>>,
    groups: Vec<Count>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    /// Number of its own tasks that are runnable, and that run.
    runnable: f64,
    running: f64,
    /// Number of runnable tasks inside of it.
    inside: f64,
    /// Load Credit of all tasks inside of it.
    credit: f64,
    at: f64,
    waits_at: f64,
    has_begun: bool,
}

impl Credits {
    pub(super) fn new(tree: &[Group]) -> Self {
        Self { parents: tree.iter().map(|group| group.parent).collect(), groups: vec![Count::default(); tree.len()] }
    }

    /// Sets the Load Credit that a cgroup had when it was first seen.
    pub(super) fn begin(&mut self, number: usize, credit: f64, now: f64) {
        if self.groups[number].has_begun {
            return;
        }
        self.groups[number].has_begun = true;
        let mut group = Some(number);
        while let Some(number) = group {
            self.groups[number].credit = self.at(number, now) + credit;
            self.groups[number].at = now;
            group = self.parents[number];
        }
    }

    pub(super) fn at(&self, number: usize, now: f64) -> f64 {
        let count = &self.groups[number];
        count.inside + (count.credit - count.inside) * decay(now - count.at, LoadCredits::TIME_CONSTANT.seconds())
    }

    /// The number of runnable tasks of a cgroup changes.
    pub(super) fn runnable(&mut self, number: usize, change: f64, now: f64, served: &mut [Served]) {
        self.wait_of(number, now, served);
        self.groups[number].runnable += change;
        let mut group = Some(number);
        while let Some(number) = group {
            self.groups[number].credit = self.at(number, now);
            self.groups[number].at = now;
            self.groups[number].inside += change;
            group = self.parents[number];
        }
    }

    /// The number of running tasks of a cgroup changes.
    pub(super) fn running(&mut self, number: usize, change: f64, now: f64, served: &mut [Served]) {
        self.wait_of(number, now, served);
        self.groups[number].running += change;
    }

    fn wait_of(&mut self, number: usize, now: f64, served: &mut [Served]) {
        let count = &mut self.groups[number];
        served[number].wait += (count.runnable - count.running).max(0.0) * (now - count.waits_at);
        count.waits_at = now;
    }

    /// Books all waits until `now`.
    pub(super) fn wait(&mut self, now: f64, served: &mut [Served]) {
        (0..self.groups.len()).for_each(|number| self.wait_of(number, now, served));
    }
}
