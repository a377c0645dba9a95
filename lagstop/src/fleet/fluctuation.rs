//! How dense each node is beside the fleet: by how much its mean is off, and how it goes up and down around that.
//!
//! Work can be placed so that nodes have the same mean. It cannot be placed so that a node is always as dense as its mean: what
//! fluctuates today fluctuates on the planned nodes as well.

use super::{NodeStep, draws::Draw};
use crate::stats::Autocorrelation;

/// Nodes' means, and how far nodes go off them.
pub(super) struct Fluctuation {
    /// What a node's density is of the fleet's, on average, as far as that is more than chance. `NaN` for one that was not drawn.
    mean: Vec<f64>,
    /// Standard deviation of nodes from their own mean, as a part of it.
    pub(super) fluctuates: f64,
    /// Standard deviation of nodes' means from the fleet's, without what is chance.
    pub(super) differ: f64,
}

/// What a node's steps add up to.
#[derive(Clone, Copy, Default)]
struct Node {
    steps: f64,
    sum: f64,
    squares: f64,
}

impl Node {
    fn mean(&self) -> f64 {
        self.sum / self.steps
    }

    /// The number of independent steps that these are worth, if nodes remember `memory` steps.
    fn alone(&self, memory: f64) -> f64 {
        (self.steps / memory).max(1.0)
    }
}

impl Fluctuation {
    /// Of nodes that resemble themselves for so many steps.
    pub(super) fn of(points: &[NodeStep], draw: &Draw, memory: f64) -> Self {
        let level = level(points, draw);
        let all = nodes(points, draw, &level);
        let known = || all.iter().filter(|node| node.steps > 0.0);
        // What a node fluctuates by as a part of its mean, squared: of all together, for one that was seldom there hardly shows
        // it. A mean takes one degree of freedom.
        let within: f64 = known().map(|node| (node.squares - node.steps * node.mean().powi(2)).max(0.0)).sum();
        let free = |node: &Node| node.steps * (1.0 - 1.0 / node.alone(memory)) * node.mean().powi(2);
        let free: f64 = known().map(free).sum();
        let fluctuates = if free > 0.0 { within / free } else { 0.0 };
        let by_chance = |node: &Node| fluctuates * node.mean().powi(2) / node.alone(memory);
        let weight: f64 = known().map(|node| node.steps).sum();
        let centre = known().map(|node| node.sum).sum::<f64>() / weight;
        let differs = |node: &Node| node.steps * ((node.mean() - centre).powi(2) - by_chance(node));
        let differ = (known().map(differs).sum::<f64>() / weight).max(0.0);
        // Means are off by chance as well: each goes towards the centre by the part of its distance that chance explains
        // (James, Stein 1961; Efron, Morris 1975).
        let is_real = |node: &Node| if differ > 0.0 { differ / (differ + by_chance(node)) } else { 0.0 };
        let mean = all.iter().map(|node| centre + (node.mean() - centre) * is_real(node)).collect();
        Self { mean, fluctuates: fluctuates.sqrt(), differ: differ.sqrt() }
    }

    /// The density of the node in that step, if its mean were that of the fleet.
    pub(super) fn evened(&self, point: &NodeStep) -> f64 {
        point.density() / self.mean[point.node]
    }
}

/// Active cgroups per CPU of all nodes, by step.
fn level(points: &[NodeStep], draw: &Draw) -> Vec<f64> {
    let steps = points.iter().map(|point| point.step + 1).max().unwrap_or(0);
    let mut sums = vec![(0.0, 0.0); steps];
    for point in points {
        let times = draw.times(point);
        let (active, cpus) = &mut sums[point.step];
        *active += times * point.active;
        *cpus += times * point.cpus;
    }
    sums.into_iter().map(|(active, cpus)| active / cpus).collect()
}

fn nodes(points: &[NodeStep], draw: &Draw, level: &[f64]) -> Vec<Node> {
    let mut nodes = vec![Node::default(); points.iter().map(|point| point.node + 1).max().unwrap_or(0)];
    for point in points {
        let (times, relative) = (draw.times(point), point.density() / level[point.step]);
        if times > 0.0 {
            let node = &mut nodes[point.node];
            node.steps += times;
            node.sum += times * relative;
            node.squares += times * relative * relative;
        }
    }
    nodes
}

/// For how many steps nodes resemble themselves: so many say as much as one that stands alone.
pub(super) fn memory(points: &[NodeStep], count: usize, steps: usize) -> f64 {
    let level = level(points, &Draw::all(count, steps));
    let mut relative = vec![None; count * steps];
    for point in points {
        relative[point.node * steps + point.step] = Some(point.density() / level[point.step]);
    }
    let of_nodes: Vec<&[Option<f64>]> = relative.chunks_exact(steps.max(1)).collect();
    Autocorrelation::of_several(&of_nodes).time
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Nodes with means as given, whose deviations of `part` resemble those of the step before by `resembles`; all nodes are denser
    /// in every third step.
    fn fleet(means: &[f64], steps: usize, part: f64, resembles: f64, seed: u64) -> Vec<NodeStep> {
        let mut random = Random::new(seed, 0);
        let mut points = Vec::new();
        for (node, mean) in means.iter().enumerate() {
            let mut deviation = 0.0;
            for step in 0..steps {
                let fresh = random.unit() + random.unit() + random.unit() - 1.5;
                deviation = resembles * deviation + (1.0 - resembles * resembles).sqrt() * fresh * 2.0;
                let wave = if step % 3 == 0 { 1.2 } else { 0.9 };
                let active = 8.0 * (mean * wave * (1.0 + part * deviation)).max(0.1);
                points.push(NodeStep {
                    node,
                    step,
                    cpus: 8.0,
                    active,
                    overhead: 0.01,
                    utilisation: 0.5,
                    wait: Some(0.01),
                });
            }
        }
        points
    }

    #[test]
    fn nodes_that_only_fluctuate_have_one_mean() {
        let points = fleet(&[8.0; 40], 48, 0.3, 0.0, 1);
        let of = Fluctuation::of(&points, &Draw::all(40, 48), 1.0);
        let spread = of.mean.iter().map(|mean| (mean - 1.0).powi(2)).sum::<f64>() / 40.0;
        // 0.3 / √48 is 0.043 by chance alone.
        assert!(spread.sqrt() < 0.02, "{}", spread.sqrt());
    }

    #[test]
    fn means_that_differ_stay_and_what_is_left_is_the_fluctuation() {
        let means: Vec<f64> = (0..40).map(|n| 4.0 + 8.0 * f64::from(n) / 39.0).collect();
        let points = fleet(&means, 48, 0.2, 0.0, 2);
        let of = Fluctuation::of(&points, &Draw::all(40, 48), 1.0);
        for (found, put_in) in of.mean.iter().zip(&means) {
            assert!((found / (put_in / 8.0) - 1.0).abs() < 0.1, "{found} {put_in}");
        }
        let level = level(&points, &Draw::all(40, 48));
        let relative: Vec<f64> = points.iter().map(|point| of.evened(point) / level[point.step]).collect();
        let deviation = (relative.iter().map(|it| (it - 1.0).powi(2)).sum::<f64>() / relative.len() as f64).sqrt();
        assert!((deviation - 0.2).abs() < 0.02, "{deviation}");
    }

    #[test]
    fn what_nodes_remember_is_measured() {
        let of = |resembles| memory(&fleet(&[8.0; 40], 168, 0.2, resembles, 3), 40, 168);
        assert!((1.0..1.1).contains(&of(0.0)), "the wave is the fleet's, and no node's: {}", of(0.0));
        // (1 + 0.8) / (1 − 0.8) is 9.
        assert!((7.0..10.0).contains(&of(0.8)), "{}", of(0.8));
        assert!((memory(&[], 0, 0) - 1.0).abs() < 1e-9);
    }
}
