//! The tree of cgroups: each with what runs in it and below it.

use std::{cell::OnceCell, collections::HashMap, sync::Arc};

use super::{Arrangement, Row, RowKey, Sum, What};
use crate::{
    model::{Cgroup, CgroupId, Interval, Tasks},
    top::{sort::Rank, text},
};

/// A place in the tree.
struct Node {
    path: Arc<str>,
    label: Arc<str>,
    /// Whether that is what people call it, and not just the end of its path.
    is_named: bool,
    /// The cgroup itself, where it is not idle.
    own: Option<usize>,
    children: Vec<usize>,
    /// With what is below it, where there is anything.
    sum: Option<Cgroup>,
    members: Vec<usize>,
}

/// The rows for the cgroups at `positions` and all that is above them.
pub(super) fn rows(interval: &Interval, positions: &[usize], arrangement: &Arrangement) -> Vec<Row> {
    let mut tree = Tree { interval, nodes: Vec::new(), at: HashMap::new(), tops: Vec::new() };
    for &n in positions {
        tree.insert(n);
    }
    for top in tree.tops.clone() {
        tree.add_up(top);
    }
    let mut rows = Vec::with_capacity(tree.nodes.len());
    let tops = tree.tops.clone();
    tree.write(&tops, 0, arrangement, &mut rows);
    rows
}

struct Tree<'a> {
    interval: &'a Interval,
    nodes: Vec<Node>,
    at: HashMap<Arc<str>, usize>,
    tops: Vec<usize>,
}

impl Tree<'_> {
    /// Adds a cgroup and what is above it.
    fn insert(&mut self, n: usize) {
        let cgroup = &self.interval.cgroups[n];
        let path = if cgroup.id == CgroupId::OTHER { "(other)" } else { &*cgroup.path };
        let (mut node, above) = self.node(path);
        if self.nodes[node].own.is_some() {
            // Made anew under the same path within the interval: beside the one before.
            node = self.push(path.into(), above);
        }
        self.nodes[node].own = Some(n);
        if let Some(label) = better_label(cgroup, path) {
            self.nodes[node].label = label;
            self.nodes[node].is_named = true;
        }
        // A pod's own cgroup is mostly idle, and only its containers know what it is called.
        if let (Some(above), Some(workload)) = (above, &cgroup.workload)
            && let (Some(namespace), Some(pod), Some(_)) = (&workload.namespace, &workload.pod, &workload.container)
            && self.nodes[above].own.is_none()
        {
            self.nodes[above].label = format!("{namespace}/{pod}").into();
            self.nodes[above].is_named = true;
        }
    }

    /// The node at `path` and the one above it, made with all above them where there are none yet.
    fn node(&mut self, path: &str) -> (usize, Option<usize>) {
        let (mut node, mut above) = (None, None);
        for path in ancestors(path) {
            above = node;
            node = Some(match self.at.get(path) {
                Some(&node) => node,
                None => self.add(path, above),
            });
        }
        (node.unwrap_or_else(|| self.add(path, None)), above)
    }

    fn add(&mut self, path: &str, above: Option<usize>) -> usize {
        let path: Arc<str> = path.into();
        self.at.insert(Arc::clone(&path), self.nodes.len());
        self.push(path, above)
    }

    fn push(&mut self, path: Arc<str>, above: Option<usize>) -> usize {
        let node = self.nodes.len();
        let label =
            path.rsplit('/').next().filter(|last| !last.is_empty()).map_or_else(|| Arc::clone(&path), Arc::from);
        self.nodes.push(Node {
            path,
            label,
            is_named: false,
            own: None,
            children: Vec::new(),
            sum: None,
            members: Vec::new(),
        });
        match above {
            Some(above) => self.nodes[above].children.push(node),
            None => self.tops.push(node),
        }
        node
    }

    /// Adds up what is below `top`, without recursion: paths come from elsewhere and may be deep.
    fn add_up(&mut self, top: usize) {
        let mut order = vec![top];
        let mut next = 0;
        while let Some(&node) = order.get(next) {
            order.extend_from_slice(&self.nodes[node].children);
            next += 1;
        }
        for at in order.into_iter().rev() {
            // A cgroup with nothing below it is its own sum.
            if self.nodes[at].children.is_empty() {
                continue;
            }
            let own = self.nodes[at].own;
            let mut sum = own.map(|n| without_distributions(&self.interval.cgroups[n]));
            let mut members: Vec<usize> = own.into_iter().collect();
            for &child in &self.nodes[at].children {
                let child = &self.nodes[child];
                if child.children.is_empty() {
                    members.extend(child.own);
                } else {
                    members.extend_from_slice(&child.members);
                }
                match (&mut sum, self.total(child)) {
                    (Some(sum), Some(more)) => add(sum, more),
                    (sum @ None, more) => *sum = more.map(without_distributions),
                    (Some(_), None) => {}
                }
            }
            let node = &mut self.nodes[at];
            (node.sum, node.members) = (sum, members);
        }
    }

    /// What runs in a part of the tree and below it.
    fn total<'a>(&'a self, node: &'a Node) -> Option<&'a Cgroup> {
        node.sum.as_ref().or_else(|| node.own.map(|n| &self.interval.cgroups[n]))
    }

    /// Writes the rows of `siblings` and, in their order, of what is below them.
    fn write(&self, siblings: &[usize], depth: u16, arrangement: &Arrangement, rows: &mut Vec<Row>) {
        let mut stack: Vec<(usize, u16)> = self.sorted(siblings, arrangement).into_iter().map(|n| (n, depth)).collect();
        stack.reverse();
        while let Some((at, depth)) = stack.pop() {
            let (node, label) = self.innermost(at, arrangement);
            let own = node.own.map(|n| self.interval.cgroups[n].id);
            let folded = (!node.children.is_empty()).then(|| arrangement.folded.contains(&node.path));
            let what = match (node.own, &node.sum) {
                (Some(n), _) if node.children.is_empty() => What::One(n),
                (_, Some(cgroup)) => What::Sum(Box::new(Sum {
                    cgroup: cgroup.clone(),
                    members: node.members.clone(),
                    whole: OnceCell::new(),
                })),
                (_, None) => continue,
            };
            rows.push(Row {
                key: own.map_or_else(|| RowKey::Path(Arc::clone(&node.path)), RowKey::Cgroup),
                label,
                path: Arc::clone(&node.path),
                depth,
                folded,
                what,
            });
            if folded == Some(false) {
                let below = self.sorted(&node.children, arrangement);
                stack.extend(below.into_iter().rev().map(|child| (child, depth + 1)));
            }
        }
    }

    /// The innermost part of the tree that says all that `at` says: where nothing runs in it and only one part is below it,
    /// that one stands for both. With its label.
    fn innermost(&self, at: usize, arrangement: &Arrangement) -> (&Node, Arc<str>) {
        let mut node = &self.nodes[at];
        let mut label = Arc::clone(&node.label);
        while let (None, &[only]) = (node.own, &node.children[..]) {
            // What was folded stays, also while it is idle.
            if arrangement.folded.contains(&node.path) {
                break;
            }
            node = &self.nodes[only];
            label = if node.is_named {
                node.own.map_or_else(|| Arc::clone(&node.label), |n| text::shared_name(&self.interval.cgroups[n]))
            } else {
                let gap = if label.ends_with('/') { "" } else { "/" };
                format!("{label}{gap}{}", node.label).into()
            };
        }
        (node, label)
    }

    fn sorted(&self, siblings: &[usize], arrangement: &Arrangement) -> Vec<usize> {
        let rank = |&at: &usize| {
            let node = &self.nodes[at];
            let figure = self.total(node).and_then(|sum| {
                // Of distributions the cgroup's own: merging all of them only to sort would take long.
                let own = node.own.map(|n| &self.interval.cgroups[n]);
                arrangement.figure(|column| {
                    let of = if column.is_of_distribution() { own.unwrap_or(sum) } else { sum };
                    column.cell(of, self.interval)
                })
            });
            (Rank { figure, name: &node.label, id: node.own.map_or(0, |n| self.interval.cgroups[n].id.0) }, at)
        };
        let mut ranked: Vec<_> = siblings.iter().map(rank).collect();
        ranked.sort_unstable_by(|(a, _), (b, _)| arrangement.sort.compare(a, b));
        ranked.into_iter().map(|(_, at)| at).collect()
    }
}

/// Levels that are told apart. The kernel's own trees are never so deep; a path in a recording may be.
const DEEPEST: usize = 64;

/// `path` and what is above it, from the top.
fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    let path = if path == "/" { path } else { path.trim_end_matches('/') };
    let root = path.starts_with('/').then_some("/");
    let inner = path.match_indices('/').map(|(at, _)| &path[..at]).filter(|prefix| !prefix.is_empty()).take(DEEPEST);
    let own = (root != Some(path)).then_some(path);
    root.into_iter().chain(inner).chain(own)
}

/// What people call it, where that is not just the end of its path. A container's name: its pod's is above it.
fn better_label(cgroup: &Cgroup, path: &str) -> Option<Arc<str>> {
    let name = text::name(cgroup);
    if path.ends_with(name) || name.starts_with('/') {
        return None;
    }
    let workload = cgroup.workload.as_deref();
    let container = workload.filter(|workload| workload.pod.is_some()).and_then(|workload| workload.container.clone());
    Some(container.filter(|container| name.ends_with(&**container)).unwrap_or_else(|| text::shared_name(cgroup)))
}

fn without_distributions(cgroup: &Cgroup) -> Cgroup {
    Cgroup {
        id: cgroup.id,
        path: Arc::clone(&cgroup.path),
        name: Arc::clone(&cgroup.name),
        workload: cgroup.workload.clone(),
        totals: cgroup.totals,
        runnable_load: cgroup.runnable_load,
        load_credit: cgroup.load_credit,
        nr_periods: cgroup.nr_periods,
        nr_throttled: cgroup.nr_throttled,
        throttled_ns: cgroup.throttled_ns,
        switch_cost: None,
        runq_wait: None,
        accept_wait: None,
    }
}

fn add(sum: &mut Cgroup, more: &Cgroup) {
    let tasks = |a: Option<Tasks>, b: Option<Tasks>| a.zip(b).map(|(a, b)| Tasks(a.0 + b.0));
    // Not every cgroup has a quota: what is known is added up.
    let known = |a: Option<u64>, b: Option<u64>| match (a, b) {
        (Some(a), Some(b)) => Some(a.saturating_add(b)),
        (a, b) => a.or(b),
    };
    sum.totals.add(&more.totals);
    sum.runnable_load = tasks(sum.runnable_load, more.runnable_load);
    sum.load_credit = tasks(sum.load_credit, more.load_credit);
    sum.nr_periods = known(sum.nr_periods, more.nr_periods);
    sum.nr_throttled = known(sum.nr_throttled, more.nr_throttled);
    sum.throttled_ns =
        known(sum.throttled_ns.map(|time| time.0), more.throttled_ns.map(|time| time.0)).map(crate::model::Nanos);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        model::{Distribution, Nanos, Totals},
        top::{column::Column, frame::Frame},
    };

    fn frame(paths: &[(&str, u64)]) -> Frame {
        let cgroup = |(n, &(path, switches)): (usize, &(&str, u64))| Cgroup {
            id: CgroupId(n as u64 + 1),
            path: path.into(),
            name: path.into(),
            totals: Totals { switches, pick_ns: Some(Nanos(switches)), swap_ns: Some(Nanos(0)), ..Totals::default() },
            runq_wait: Some(Distribution::of([(Nanos(switches), 100)])),
            ..Cgroup::default()
        };
        let cgroups = paths.iter().enumerate().map(cgroup).collect();
        let interval = Interval { duration_ns: Nanos::SECOND, cgroups, ..Interval::default() };
        Frame::new(0, interval, HashMap::new(), Vec::new(), Vec::new())
    }

    fn shown(frame: &Frame, arrangement: &Arrangement) -> Vec<String> {
        let row = |row: &Row| {
            let switches = row.cell(Column::Switches, &frame.interval);
            format!("{}{} {switches}", " ".repeat(row.depth.into()), row.label)
        };
        arrangement.rows(frame).iter().map(row).collect()
    }

    #[test]
    fn each_row_is_the_sum_of_what_is_below_it() {
        let frame = frame(&[("/a/b", 10), ("/a/c/d", 20), ("/e", 25), ("/", 1), ("/a", 3)]);
        let mut arrangement = Arrangement { tree: true, ..Arrangement::default() };
        assert_eq!(shown(&frame, &arrangement), ["/ 59", " a 33", "  c/d 20", "  b 10", " e 25"]);
        arrangement.folded.insert("/a".into());
        assert_eq!(shown(&frame, &arrangement), ["/ 59", " a 33", " e 25"]);
        arrangement.filter = crate::top::filter::Filter::parse("/d$").unwrap();
        arrangement.folded.clear();
        assert_eq!(shown(&frame, &arrangement), ["/a/c/d 20"]);
    }

    #[test]
    fn a_pod_is_called_what_its_containers_know_it_by() {
        let pod = "/kubepods.slice/pod1.slice";
        let mut frame =
            frame(&[(&format!("{pod}/a.scope"), 5), (&format!("{pod}/b.scope"), 3), ("/kubepods.slice/pod2/c", 1)]);
        for (cgroup, (pod, container)) in
            frame.interval.cgroups.iter_mut().zip([("web", "nginx"), ("web", "log"), ("db", "sql")])
        {
            cgroup.name = format!("shop/{pod}/{container}").into();
            cgroup.workload = Some(Arc::new(crate::model::Workload {
                namespace: Some("shop".into()),
                pod: Some(pod.into()),
                container: Some(container.into()),
            }));
        }
        let arrangement = Arrangement { tree: true, ..Arrangement::default() };
        assert_eq!(
            shown(&frame, &arrangement),
            ["/kubepods.slice 9.0", " shop/web 8.0", "  nginx 5.0", "  log 3.0", " shop/db/sql 1.0"]
        );
    }

    #[test]
    fn distributions_are_merged_when_somebody_looks() {
        let frame = frame(&[("/a/b", 10), ("/a/c", 3_000)]);
        let rows = Arrangement { tree: true, ..Arrangement::default() }.rows(&frame);
        let tail = |row: &Row| row.cell(Column::RunqWaitP99, &frame.interval).to_string();
        assert_eq!(rows.iter().map(tail).collect::<Vec<_>>(), ["2.82 µs", "2.82 µs", "11 ns"]);
        assert_eq!(rows[0].members(&frame.interval).count(), 2);
    }

    #[test]
    fn two_of_the_same_path_are_both_there() {
        let frame = frame(&[("/a/b", 10), ("/a/b", 20), ("/a", 1)]);
        let arrangement = Arrangement { tree: true, ..Arrangement::default() };
        assert_eq!(shown(&frame, &arrangement), ["/a 31", " b 20", " b 10"]);
    }

    #[test]
    fn strange_paths_have_their_place() {
        let deep = format!("/{}", "x/".repeat(500_000));
        let frame = frame(&[("", 1), ("//", 2), ("no slash", 3), (&deep, 4), ("/a//b", 5)]);
        let rows = Arrangement { tree: true, ..Arrangement::default() }.rows(&frame);
        assert!(rows.len() < 10, "{}", rows.len());
    }
}
