//! The tree of cgroups: each with what runs in it and below it.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use super::{
    Arrangement, Label, Row, RowKey, Sum, What,
    forest::{Forest, Node},
};
use crate::{
    model::{Cgroup, Interval},
    top::{quantity::Cell, sort::Rank, text},
};

/// The rows for the cgroups at `positions` and all that is above them. `forest` is that of the frame before, and becomes
/// this one's.
pub(super) fn rows(
    interval: &Interval,
    positions: &[usize],
    arrangement: &Arrangement,
    forest: &mut Arc<Forest>,
) -> Vec<Row> {
    if !forest.is_of(&interval.cgroups, positions) {
        *forest = Arc::new(Forest::new(&interval.cgroups, positions));
    }
    let mut tree = Tree { interval, forest, arrangement, sums: Vec::new() };
    tree.add_up();
    tree.write()
}

struct Tree<'a> {
    interval: &'a Interval,
    forest: &'a Arc<Forest>,
    arrangement: &'a Arrangement,
    /// By node: the sum of all in it and below it, if anything is below it. A row takes its sum out.
    sums: Vec<Option<Box<Sum>>>,
}

impl<'a> Tree<'a> {
    fn add_up(&mut self) {
        self.sums.resize_with(self.forest.nodes.len(), || None);
        // From the end: children come after their parents.
        for (at, node) in self.forest.nodes.iter().enumerate().rev() {
            let own = node.own.and_then(|n| self.interval.cgroups.get(n));
            // A cgroup with nothing below it is its own sum.
            if let Some(own) = own.filter(|_| !node.below.is_empty()) {
                add(&mut self.sums[at], own, self.forest, at);
            }
            let Some(above) = node.above else { continue };
            let (before, after) = self.sums.split_at_mut(at);
            let sum = after.first().and_then(Option::as_deref).map(Sum::figures);
            if let Some(more) = sum.or(own) {
                add(&mut before[above], more, self.forest, above);
            }
        }
    }

    /// The rows, each part of the tree with what is below it.
    fn write(mut self) -> Vec<Row> {
        let forest = self.forest;
        let mut rows = Vec::with_capacity(forest.nodes.len());
        let mut ranked = Vec::new();
        let mut left: Vec<(usize, u16)> = Vec::new();
        self.push_sorted(&forest.tops, 0, &mut ranked, &mut left);
        while let Some((at, depth)) = left.pop() {
            let (at, label) = self.innermost(at);
            let node = &forest.nodes[at];
            let folded = (!node.below.is_empty()).then(|| self.arrangement.folded.contains(&node.path));
            let what = match (self.sums[at].take(), node.own) {
                (Some(sum), _) => What::Sum(sum),
                (None, Some(own)) => What::One(own),
                (None, None) => continue,
            };
            let id = node.own.and_then(|n| self.interval.cgroups.get(n)).map(|own| own.id);
            rows.push(Row {
                key: id.map_or_else(|| RowKey::Path(Arc::clone(&node.path)), RowKey::Cgroup),
                label,
                path: Arc::clone(&node.path),
                depth,
                folded,
                what,
            });
            if folded == Some(false) {
                self.push_sorted(&node.below, depth + 1, &mut ranked, &mut left);
            }
        }
        rows
    }

    /// Puts `siblings` on top of what is left to write, so that they come off in their order.
    fn push_sorted(
        &self,
        siblings: &'a [usize],
        depth: u16,
        ranked: &mut Vec<(Rank<'a>, usize)>,
        left: &mut Vec<(usize, u16)>,
    ) {
        // A single one needs no rank, and to rank it may take long: distributions are merged for that.
        if let &[only] = siblings {
            return left.push((only, depth));
        }
        ranked.extend(siblings.iter().map(|&at| (self.rank(at), at)));
        ranked.sort_unstable_by(|(a, _), (b, _)| self.arrangement.sort.compare(b, a));
        left.extend(ranked.drain(..).map(|(_, at)| (at, depth)));
    }

    fn rank(&self, at: usize) -> Rank<'a> {
        let node = &self.forest.nodes[at];
        let own = node.own.and_then(|n| self.interval.cgroups.get(n));
        let figure = self.arrangement.figure(|column| match (&self.sums[at], own) {
            (Some(sum), _) => sum.cell(column, self.interval),
            (None, Some(own)) => column.cell(own, self.interval),
            (None, None) => Cell::Nothing,
        });
        Rank { figure, name: node.label.text(&node.path), id: own.map_or(0, |own| own.id.0) }
    }

    /// The innermost part of the tree that says all that `at` says: where nothing runs in it and only one part is below it,
    /// that one stands for both. With its label.
    fn innermost(&self, mut at: usize) -> (usize, Label) {
        let mut node = &self.forest.nodes[at];
        let mut label = node.label.clone();
        // A folded part keeps its row, even while it is idle.
        while let (None, &[only]) = (node.own, &node.below[..])
            && !self.arrangement.folded.contains(&node.path)
        {
            (at, node) = (only, &self.forest.nodes[only]);
            label = self.joined(&label, node);
        }
        (at, label)
    }

    /// What a part of the tree is called that stands for one above it as well, which is called `label`.
    fn joined(&self, label: &Label, node: &Node) -> Label {
        match (label, &node.label) {
            (_, Label::Name(name)) => {
                let own = node.own.and_then(|n| self.interval.cgroups.get(n));
                Label::Name(own.map_or_else(|| Arc::clone(name), text::shared_name))
            }
            (Label::EndOfPath(start), Label::EndOfPath(_)) => Label::EndOfPath(*start),
            (Label::Name(name), end @ Label::EndOfPath(_)) => {
                Label::Name(format!("{name}/{}", end.text(&node.path)).into())
            }
        }
    }
}

fn add(sum: &mut Option<Box<Sum>>, more: &Cgroup, forest: &Arc<Forest>, node: usize) {
    match sum {
        Some(sum) => sum.add(more),
        None => *sum = Some(Box::new(Sum::new(more, forest, node))),
    }
}
