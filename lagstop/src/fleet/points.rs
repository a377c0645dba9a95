//! Nodes in steps, as points on a curve: density, and what it does.

use super::{NodeMetric, NodeTable};

/// A node in a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NodeStep {
    pub node: usize,
    pub step: usize,
    pub cpus: f64,
    /// Cgroups that ran, on average.
    pub active: f64,
    /// Overhead, as a share of all CPU time.
    pub overhead: f64,
    /// CPU time that was not idle, as a share of all.
    pub utilisation: f64,
    /// 99th percentile of all run-queue waits, in seconds. `None` where there was none.
    pub wait: Option<f64>,
}

impl NodeStep {
    /// Active cgroups per CPU.
    pub fn density(&self) -> f64 {
        self.active / self.cpus
    }

    /// CPU time that went into the tasks' own work, in cores.
    pub fn work(&self) -> f64 {
        (self.utilisation - self.overhead).max(0.0) * self.cpus
    }
}

/// All nodes in all steps that have what a curve takes, the emptiest first. A node without CPUs has no density.
pub(super) fn points(table: &NodeTable) -> Vec<NodeStep> {
    let mut points = Vec::new();
    for node in 0..table.nodes().len() {
        for step in 0..table.window().steps {
            let get = |figure| table.get(node, step, figure);
            let Some((cpus, active)) = get(NodeMetric::Cpus).zip(get(NodeMetric::Active)) else { continue };
            let Some((overhead, utilisation)) = get(NodeMetric::Overhead).zip(get(NodeMetric::Utilisation)) else {
                continue;
            };
            if cpus > 0.0 && active > 0.0 && overhead <= 1.0 {
                points.push(NodeStep {
                    node,
                    step,
                    cpus,
                    active,
                    overhead,
                    utilisation,
                    wait: get(NodeMetric::WaitP99),
                });
            }
        }
    }
    points.sort_by(|a, b| a.density().total_cmp(&b.density()).then_with(|| (a.node, a.step).cmp(&(b.node, b.step))));
    points
}
