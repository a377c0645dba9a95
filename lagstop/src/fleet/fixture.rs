//! Made-up fleets.

use std::time::Duration;

use super::{NodeMetric, NodeTable, Window};
use crate::random::Random;

/// A day.
pub(crate) fn window() -> Window {
    Window::new(1_700_000_000, Duration::from_secs(86_400), None).unwrap()
}

/// Sets what a node has in every step.
fn fill(table: &mut NodeTable, node: &str, of: &mut dyn FnMut(usize, NodeMetric) -> f64) {
    for step in 0..table.window().steps {
        for figure in NodeMetric::ALL {
            let value = of(step, figure);
            table.set(node, step, figure, value);
        }
    }
}

/// What a node of 8 CPUs has that is so dense: overhead and p99 wait bend upwards at 9 cgroups per CPU.
fn at(density: f64, figure: NodeMetric, noise: f64) -> f64 {
    let beyond = (density - 9.0).max(0.0);
    let overhead = (0.01 + 0.003 * density + 0.015 * beyond) * noise;
    match figure {
        NodeMetric::Cpus => 8.0,
        NodeMetric::Active => 8.0 * density,
        NodeMetric::Overhead => overhead,
        NodeMetric::CoresLost => 8.0 * overhead,
        NodeMetric::Utilisation => 0.03 * density + overhead,
        NodeMetric::WaitP99 => (1.0 + 0.5 * density + 6.0 * beyond) * noise / 1e3,
        NodeMetric::SwitchCost => 2e-6 + 1e-6 * beyond,
        NodeMetric::Switches => 10_000.0 * density,
        NodeMetric::Samples => 12.0,
        NodeMetric::OwnCores => 0.01,
        NodeMetric::LightWait | NodeMetric::HeavyWait => density / 10.0,
        NodeMetric::Steal | NodeMetric::Lost | NodeMetric::Restarts => 0.0,
    }
}

/// Nodes from 2 to 14 active cgroups per CPU, with some noise.
pub(crate) fn dense(nodes: usize) -> NodeTable {
    let mut table = NodeTable::new(window());
    let mut random = Random::new(7, 0);
    for node in 0..nodes {
        let base = 2.0 + 12.0 * node as f64 / (nodes - 1).max(1) as f64;
        let wobble: Vec<(f64, f64)> = (0..24).map(|_| (random.unit() - 0.5, 0.95 + 0.1 * random.unit())).collect();
        fill(&mut table, &format!("node-{node}"), &mut |step, figure| {
            at(base + wobble[step].0, figure, wobble[step].1)
        });
    }
    table
}

/// Nodes that are all the same: 5 cgroups per CPU, 4 % overhead.
pub(crate) fn equal(nodes: usize) -> NodeTable {
    let mut table = NodeTable::new(window());
    for node in 0..nodes {
        fill(&mut table, &format!("node-{node}"), &mut |_, figure| match figure {
            NodeMetric::Overhead => 0.04,
            NodeMetric::CoresLost => 0.32,
            figure => at(5.0, figure, 1.0),
        });
    }
    table
}

/// Ten nodes that are the same, but for what is missing: node 3 has two thirds of its steps, node 5 half of its samples in
/// half of them, node 7 no costs, node 8 no CPUs, node 2 began anew three times; and nobody has the last step.
pub(crate) fn with_gaps() -> NodeTable {
    let mut table = NodeTable::new(window());
    for node in 0..10 {
        fill(&mut table, &format!("node-{node}"), &mut |step, figure| match (node, figure) {
            _ if step == 23 => f64::NAN,
            (3, _) if step < 8 => f64::NAN,
            (5, NodeMetric::Samples) if step % 2 == 0 => 6.0,
            (7, NodeMetric::Overhead | NodeMetric::CoresLost) => f64::NAN,
            (8, NodeMetric::Cpus) => 0.0,
            (2, NodeMetric::Restarts) => f64::from(u8::from(step < 3)),
            (_, NodeMetric::Overhead) => 0.04,
            (_, NodeMetric::CoresLost) => 0.32,
            _ => at(5.0, figure, 1.0),
        });
    }
    table
}
