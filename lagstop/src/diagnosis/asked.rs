//! What the cgroups asked of the CPUs, kept for the simulation.

use std::collections::HashMap;

use crate::{
    model::{CgroupId, Interval},
    simulation::{Demand, Step, Trace},
};

/// What is kept at most, by cgroups and intervals. Beyond, every other interval goes, and of those to come as well.
const MOST_DEMANDS: usize = 50_000;

/// What the cgroups asked of the CPUs in some of the intervals, spread evenly.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    trace: Trace,
    numbers: HashMap<CgroupId, usize>,
    demands: usize,
    /// One of so many intervals is kept.
    stride: u64,
    seen: u64,
}

impl Default for Asked {
    fn default() -> Self {
        Self { trace: Trace::default(), numbers: HashMap::new(), demands: 0, stride: 1, seen: 0 }
    }
}

impl Asked {
    /// What was asked, by the numbers of the cgroups.
    pub(super) const fn trace(&self) -> &Trace {
        &self.trace
    }

    /// The number of a cgroup in the trace. `None` of one that asked for nothing.
    pub(super) fn number(&self, id: CgroupId) -> Option<usize> {
        self.numbers.get(&id).copied()
    }

    /// Adds the next interval.
    pub(super) fn add(&mut self, interval: &Interval) {
        let turn = self.seen;
        self.seen += 1;
        if !turn.is_multiple_of(self.stride) {
            return;
        }
        let mut demands = Vec::new();
        for cgroup in &interval.cgroups {
            if let Some(demand) = Demand::of(cgroup, interval.duration_ns) {
                let next = self.numbers.len();
                demands.push((*self.numbers.entry(cgroup.id).or_insert(next), demand));
            }
        }
        demands.sort_unstable_by_key(|&(group, _)| group);
        self.demands += demands.len();
        let cpus = usize::try_from(interval.host.cpus_online).unwrap_or(usize::MAX);
        self.trace.cpus = self.trace.cpus.max(cpus);
        self.trace.groups = self.numbers.len();
        self.trace.steps.push(Step { duration: interval.duration_ns.seconds(), demands });
        while self.demands > MOST_DEMANDS && self.trace.steps.len() > 1 {
            self.thin();
        }
    }

    /// Forgets every other step.
    fn thin(&mut self) {
        let mut keep = false;
        self.trace.steps.retain(|_| {
            keep = !keep;
            keep
        });
        self.stride *= 2;
        self.demands = self.trace.steps.iter().map(|step| step.demands.len()).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::fixture;

    #[test]
    fn a_long_recording_is_thinned_evenly() {
        let mut asked = Asked::default();
        let intervals = fixture::overloaded(40);
        let all = 40_000;
        for n in 0..all {
            asked.add(&intervals[n % intervals.len()]);
        }
        assert!(asked.demands <= MOST_DEMANDS && asked.demands > MOST_DEMANDS / 4, "{}", asked.demands);
        assert_eq!(asked.trace.steps.len() as u64, (all as u64).div_ceil(asked.stride));
        assert_eq!((asked.trace.groups, asked.trace.cpus), (4, 4));
        assert!(asked.trace.is_sound());
    }
}
