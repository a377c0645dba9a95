//! What becomes of the cgroups in a simulation.

use std::collections::BTreeMap;

use crate::model::{Bucket, Distribution, Nanos};

/// What became of the cgroups.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SimulationOutcome {
    /// By their number.
    pub groups: Vec<Served>,
    /// Switches away from a task.
    pub switches: f64,
    /// What they took, in seconds.
    pub switching: f64,
    /// What had become of the cgroups by half of the time.
    pub half: Vec<Served>,
    /// The single waits of each cgroup, by its number.
    pub waits: Vec<SimulatedWaits>,
}

/// Single waits, counted in the buckets that the programs in the kernel count in.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SimulatedWaits(BTreeMap<Bucket, u32>);

impl SimulatedWaits {
    pub(super) fn add(&mut self, seconds: f64) {
        let wait = Nanos((seconds.max(0.0) * Nanos::SECOND.0 as f64) as u64);
        let count = self.0.entry(Distribution::bucket(wait)).or_default();
        *count = count.saturating_add(1);
    }

    pub fn distribution(&self) -> Distribution {
        Distribution::from_buckets(self.0.iter().map(|(&bucket, &count)| (bucket, count))).unwrap_or_default()
    }
}

/// What became of one, in seconds of all its tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Served {
    /// CPU time that it got.
    pub cpu: f64,
    /// Of that, what was not taken by switches.
    pub work: f64,
    /// Time that its tasks were runnable without it.
    pub wait: f64,
}

impl SimulationOutcome {
    /// All waits, in seconds.
    pub fn wait(&self) -> f64 {
        self.groups.iter().map(|group| group.wait).sum()
    }

    /// All CPU time, in seconds.
    pub fn cpu(&self) -> f64 {
        self.groups.iter().map(|group| group.cpu).sum()
    }
}
