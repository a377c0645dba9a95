//! CPU time that switches take.

/// What a switch takes of the CPU: time in which no task gets on with its work, although it is booked as theirs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Switching {
    /// In seconds, by the number of tasks on the CPU; the last one with more of them.
    costs: Vec<f64>,
}

impl Switching {
    /// Longest queue with a cost of its own. Longer queues have the same cost.
    const LONGEST_QUEUE: u32 = 512;

    /// A switch with so many tasks on its CPU takes `cost` of them, in seconds.
    pub fn new(cost: impl Fn(f64) -> f64) -> Self {
        let finite = |cost: f64| if cost.is_finite() { cost.max(0.0) } else { 0.0 };
        Self { costs: (0..=Self::LONGEST_QUEUE).map(|tasks| finite(cost(f64::from(tasks)))).collect() }
    }

    /// The cost of a switch with this many tasks on the CPU, in seconds.
    pub(super) fn cost(&self, tasks: usize) -> f64 {
        self.costs.get(tasks).or(self.costs.last()).copied().unwrap_or(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_is_that_of_the_queue() {
        let switching = Switching::new(|tasks| tasks * 1e-4);
        assert_eq!((switching.cost(2), switching.cost(100_000)), (2e-4, 0.0512));
        assert_eq!(Switching::new(|_| -1.0).cost(1), 0.0);
        assert_eq!(Switching::new(|_| f64::NAN).cost(1), 0.0);
        assert_eq!(Switching::default().cost(3), 0.0);
    }
}
