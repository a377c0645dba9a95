//! Made-up fleets.

use std::time::Duration;

use super::{Figure, Table, Window};
use crate::random::Random;

/// A day.
pub(crate) fn window() -> Window {
    Window::new(1_700_000_000, Duration::from_secs(86_400), None).unwrap()
}

/// Sets what a node has in every step.
fn fill(table: &mut Table, node: &str, of: &mut dyn FnMut(usize, Figure) -> f64) {
    for step in 0..table.window().steps {
        for figure in Figure::ALL {
            let value = of(step, figure);
            table.set(node, step, figure, value);
        }
    }
}

/// What a node of 8 CPUs has that is so dense: overhead and p99 wait bend upwards at 9 cgroups per CPU.
fn at(density: f64, figure: Figure, noise: f64) -> f64 {
    let beyond = (density - 9.0).max(0.0);
    let overhead = (0.01 + 0.003 * density + 0.015 * beyond) * noise;
    match figure {
        Figure::Cpus => 8.0,
        Figure::Active => 8.0 * density,
        Figure::Overhead => overhead,
        Figure::CoresLost => 8.0 * overhead,
        Figure::Perceived => 0.03 * density + overhead,
        Figure::WaitP99 => (1.0 + 0.5 * density + 6.0 * beyond) * noise / 1e3,
        Figure::SwitchCost => 2e-6 + 1e-6 * beyond,
        Figure::Switches => 10_000.0 * density,
        Figure::Samples => 12.0,
        Figure::OwnCores => 0.01,
        Figure::LightWait | Figure::HeavyWait => density / 10.0,
        Figure::Steal | Figure::Lost | Figure::Restarts => 0.0,
    }
}

/// Nodes from 2 to 14 active cgroups per CPU, with some noise.
pub(crate) fn dense(nodes: usize) -> Table {
    let mut table = Table::new(window());
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
pub(crate) fn equal(nodes: usize) -> Table {
    let mut table = Table::new(window());
    for node in 0..nodes {
        fill(&mut table, &format!("node-{node}"), &mut |_, figure| match figure {
            Figure::Overhead => 0.04,
            Figure::CoresLost => 0.32,
            figure => at(5.0, figure, 1.0),
        });
    }
    table
}

/// Ten nodes that are the same, but for what is missing: node 3 has two thirds of its steps, node 5 half of its samples in
/// half of them, node 7 no costs, node 8 no CPUs, node 2 began anew three times; and nobody has the last step.
pub(crate) fn with_gaps() -> Table {
    let mut table = Table::new(window());
    for node in 0..10 {
        fill(&mut table, &format!("node-{node}"), &mut |step, figure| match (node, figure) {
            _ if step == 23 => f64::NAN,
            (3, _) if step < 8 => f64::NAN,
            (5, Figure::Samples) if step % 2 == 0 => 6.0,
            (7, Figure::Overhead | Figure::CoresLost) => f64::NAN,
            (8, Figure::Cpus) => 0.0,
            (2, Figure::Restarts) => f64::from(u8::from(step < 3)),
            (_, Figure::Overhead) => 0.04,
            (_, Figure::CoresLost) => 0.32,
            _ => at(5.0, figure, 1.0),
        });
    }
    table
}
