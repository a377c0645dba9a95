//! Resamples of the fleet for intervals: nodes with replacement, and steps in blocks.

use super::NodeStep;
use crate::{
    random::Random,
    stats::bootstrap::{self, MEMORIES},
};

/// Share of the draws that are inside of an interval. By convention.
pub(super) const HOLDS: f64 = 0.9;
/// A block is never longer than this part of the window: a quarter. Chosen: of fewer blocks, there are too few different
/// draws.
const LONGEST: usize = 4;

/// How often each node and each step was drawn.
#[derive(Clone, Debug)]
pub(super) struct Draw {
    pub(super) nodes: Vec<u16>,
    pub(super) steps: Vec<u16>,
}

impl Draw {
    /// The fleet as it was: everything once.
    pub(super) fn all(nodes: usize, steps: usize) -> Self {
        Self { nodes: vec![1; nodes], steps: vec![1; steps] }
    }

    /// How often a node in a step counts.
    pub(super) fn times(&self, point: &NodeStep) -> f64 {
        let of = |times: &[u16], which: usize| times.get(which).copied().map_or(0.0, f64::from);
        of(&self.nodes, point.node) * of(&self.steps, point.step)
    }

    /// `count` draws of as many nodes and steps as there are. Steps are drawn in blocks, because a node's value
    /// resembles that of the step before.
    pub(super) fn many(nodes: usize, steps: usize, memory: f64, count: u32, seed: u64) -> Vec<Self> {
        let mut random = Random::new(seed, 0);
        let block = block(steps, memory);
        let mut drawn = |count: usize, block: usize| {
            let mut times = vec![0_u16; count];
            bootstrap::draw(&mut times, block, &mut random);
            times
        };
        (0..count).map(|_| Self { nodes: drawn(nodes, 1), steps: drawn(steps, block) }).collect()
    }
}

/// Steps in a block: enough to hold what nodes remember, and at least the cube root of all, the order of the best length
/// (Künsch 1989).
fn block(steps: usize, memory: f64) -> usize {
    let least = (steps as f64).cbrt().ceil() as usize;
    ((MEMORIES * memory).ceil() as usize).max(least).min(steps / LONGEST).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_are_drawn_as_there_are_and_neighbours_come_together() {
        let draws = Draw::many(10, 168, 6.0, 400, 1);
        let sum = |times: &[u16]| times.iter().map(|&times| usize::from(times)).sum::<usize>();
        assert!(draws.iter().all(|draw| sum(&draw.nodes) == 10 && sum(&draw.steps) == 168));
        // A step that was drawn has its neighbour with it but for the end of a block, eleven times in twelve; 1 − 1/e of
        // all have it by chance.
        let (mut drawn, mut with_next) = (0, 0);
        for draw in &draws {
            for pair in draw.steps.windows(2).filter(|pair| pair[0] > 0) {
                drawn += 1;
                with_next += usize::from(pair[1] > 0);
            }
        }
        let share = with_next as f64 / f64::from(drawn);
        assert!((0.93..0.99).contains(&share), "{share}");
        assert!(Draw::many(0, 0, 1.0, 400, 1).iter().all(|draw| draw.nodes.is_empty() && draw.steps.is_empty()));
    }

    #[test]
    fn blocks_hold_what_nodes_remember_and_leave_some_to_draw() {
        assert_eq!([(168, 1.0), (168, 6.0), (168, 100.0)].map(|(steps, memory)| block(steps, memory)), [6, 12, 42]);
        assert_eq!([24, 3, 0].map(|steps| block(steps, 1.0)), [3, 1, 1]);
    }
}
