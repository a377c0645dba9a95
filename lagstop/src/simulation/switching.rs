//! What switches take from the CPUs.

use super::Trace;

/// Turns are no shorter than that, in seconds: what a recording says to be shorter is noise.
const SHORTEST_TURN: f64 = 10e-6;

/// What switches take from the CPUs: time in which no task gets on with its work, although it is booked as theirs.
#[derive(Clone, Debug, PartialEq)]
pub struct Switching {
    /// CPU time after which one task gives way to another that shares its CPU, in seconds.
    turn: f64,
    /// What a switch costs, in seconds, by the number of tasks on the CPU; the last one with more of them.
    costs: Vec<f64>,
}

impl Switching {
    /// Queues that have a cost of their own; that of longer ones is the longest one's.
    const LONGEST_QUEUE: u32 = 512;

    /// A switch with so many tasks on its CPU takes `cost` of them, in seconds; tasks that share a CPU take turns of `turn`
    /// seconds.
    pub fn new(turn: f64, cost: impl Fn(f64) -> f64) -> Self {
        let costs = (0..=Self::LONGEST_QUEUE).map(|tasks| cost(f64::from(tasks)).max(0.0));
        Self { turn: long_enough(turn), costs: costs.collect() }
    }

    /// The same with turns such that tasks which share CPUs for `shared` seconds while `trace` lasts give way as often as was
    /// measured.
    #[must_use]
    pub fn in_turns_as_measured(self, trace: &Trace, shared: f64) -> Self {
        Self { turn: long_enough(shared / trace.taken()), ..self }
    }

    /// What a switch costs with so many tasks on the CPU, in seconds.
    pub(super) fn cost(&self, tasks: usize) -> f64 {
        self.costs.get(tasks).or(self.costs.last()).copied().unwrap_or(0.0)
    }

    /// How often tasks give way to each other in so many seconds of sharing CPUs.
    pub(super) fn turns(&self, shared: f64) -> f64 {
        shared / self.turn
    }

    /// The part of the CPU time that is left for work where `tasks` are on a CPU and take turns.
    pub(super) fn pace(&self, tasks: usize) -> f64 {
        let left = self.turn / (self.turn + self.cost(tasks));
        // Turns without end are never interrupted.
        if left.is_nan() { 1.0 } else { left }
    }
}

fn long_enough(turn: f64) -> f64 {
    if turn.is_nan() { f64::INFINITY } else { turn.max(SHORTEST_TURN) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_and_costs_make_the_pace() {
        let switching = Switching::new(0.001, |tasks| tasks * 1e-4);
        assert_eq!((switching.cost(2), switching.cost(100_000)), (2e-4, 0.0512));
        assert!((switching.pace(10) - 0.5).abs() < 1e-9, "as long to switch as to run");
        assert_eq!(switching.turns(0.5), 500.0);
    }

    #[test]
    fn what_is_free_or_never_happens_takes_nothing() {
        for switching in
            [Switching::new(1.0, |_| 0.0), Switching::new(f64::INFINITY, |_| 1.0), Switching::new(f64::NAN, |_| 1.0)]
        {
            assert_eq!(switching.pace(3), 1.0);
        }
        assert!(Switching::new(0.0, |_| 1e-6).pace(2) > 0.9, "no turn is that short");
        assert_eq!(Switching::new(1.0, |_| -1.0).cost(1), 0.0);
    }
}
