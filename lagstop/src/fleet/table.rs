//! Metrics of each node in each step, from the server.

use std::collections::HashMap;

use super::{NodeMetric, Window};

/// Figures of nodes by steps of time. What was not said is a gap: no number.
#[derive(Clone, Debug)]
pub struct NodeTable {
    window: Window,
    nodes: Vec<String>,
    places: HashMap<String, usize>,
    /// One node after the other, a step after the other, of each figure.
    values: [Vec<f32>; NodeMetric::ALL.len()],
    /// Nodes that were dropped because there were too many.
    dropped: usize,
}

/// Nodes that are kept at most, and places for figures of nodes by steps.
pub(super) const MOST_NODES: usize = 50_000;
pub(super) const MOST_PLACES: usize = 1_000_000;

impl NodeTable {
    pub fn new(window: Window) -> Self {
        Self {
            window,
            nodes: Vec::new(),
            places: HashMap::new(),
            values: std::array::from_fn(|_| Vec::new()),
            dropped: 0,
        }
    }

    /// The time that it is of.
    pub const fn window(&self) -> Window {
        self.window
    }

    /// Their names.
    pub fn nodes(&self) -> &[String] {
        &self.nodes
    }

    /// How often a node was left out because there was no more room.
    pub const fn dropped(&self) -> usize {
        self.dropped
    }

    /// Sets the value. NaN and negative values are ignored.
    pub fn set(&mut self, node: &str, step: usize, figure: NodeMetric, value: f64) {
        let value = value as f32;
        if !value.is_finite() || value < 0.0 || step >= self.window.steps {
            return;
        }
        let Some(node) = self.place(node) else { return };
        self.values[figure as usize][node * self.window.steps + step] = value;
    }

    /// Index of a node. New nodes are added. `None` if there is no room.
    fn place(&mut self, node: &str) -> Option<usize> {
        if let Some(&place) = self.places.get(node) {
            return Some(place);
        }
        // A node that appears late also needs room for its steps, so twice the planned room is allowed.
        if self.nodes.len() >= MOST_NODES || (self.nodes.len() + 1) * self.window.steps > 2 * MOST_PLACES {
            self.dropped += 1;
            return None;
        }
        let place = self.nodes.len();
        self.places.insert(node.to_owned(), place);
        self.nodes.push(node.to_owned());
        let size = self.nodes.len() * self.window.steps;
        self.values.iter_mut().for_each(|values| values.resize(size, f32::NAN));
        Some(place)
    }

    /// The figure. `None` where there is a gap.
    pub fn get(&self, node: usize, step: usize, figure: NodeMetric) -> Option<f64> {
        let value = f64::from(*self.values[figure as usize].get(node * self.window.steps + step)?);
        (!value.is_nan()).then_some(value)
    }

    /// Its mean over the steps that have it. `None` where none has.
    pub fn mean(&self, node: usize, figure: NodeMetric) -> Option<f64> {
        let known = (0..self.window.steps).filter_map(|step| self.get(node, step, figure));
        let (sum, count) = known.fold((0.0, 0_u32), |(sum, count), value| (sum + value, count + 1));
        (count > 0).then(|| sum / f64::from(count))
    }

    /// Its sum over the steps that have it. `None` where none has.
    pub fn sum(&self, node: usize, figure: NodeMetric) -> Option<f64> {
        let known = (0..self.window.steps).filter_map(|step| self.get(node, step, figure));
        known.fold(None, |sum, value| Some(sum.unwrap_or(0.0) + value))
    }

    /// Has any node the figure?
    pub fn has(&self, figure: NodeMetric) -> bool {
        self.values[figure as usize].iter().any(|value| !value.is_nan())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn table() -> NodeTable {
        NodeTable::new(Window::new(1_000_000, Duration::from_secs(86_400), None).unwrap())
    }

    #[test]
    fn what_is_no_number_is_a_gap() {
        let mut table = table();
        for (step, value) in [1.0, f64::NAN, f64::INFINITY, -1.0, 3.0].into_iter().enumerate() {
            table.set("a", step, NodeMetric::Cpus, value);
        }
        table.set("a", 5, NodeMetric::Cpus, f64::MAX);
        table.set("a", 24, NodeMetric::Cpus, 9.0);
        let got: Vec<Option<f64>> = (0..6).map(|step| table.get(0, step, NodeMetric::Cpus)).collect();
        assert_eq!(got, [Some(1.0), None, None, None, Some(3.0), None]);
        assert_eq!((table.mean(0, NodeMetric::Cpus), table.sum(0, NodeMetric::Cpus)), (Some(2.0), Some(4.0)));
        assert_eq!((table.mean(0, NodeMetric::Active), table.sum(0, NodeMetric::Active)), (None, None));
        assert!(table.has(NodeMetric::Cpus) && !table.has(NodeMetric::Active));
        assert_eq!((table.get(1, 0, NodeMetric::Cpus), table.get(0, 99, NodeMetric::Cpus)), (None, None));
    }

    #[test]
    fn there_is_room_for_so_many_nodes_and_no_more() {
        let mut table = NodeTable::new(Window { end: 1_000_000_000, step: 300, steps: 500_000 });
        ["a", "b", "c", "d", "e", "a", "e"].into_iter().for_each(|node| table.set(node, 0, NodeMetric::Cpus, 4.0));
        assert_eq!((table.nodes(), table.dropped()), (&["a", "b", "c", "d"].map(str::to_owned)[..], 2));
    }
}
