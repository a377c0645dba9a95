//! What is below what: kept from frame to frame while the same cgroups are busy.

use std::{collections::HashMap, sync::Arc};

use crate::{
    model::{Cgroup, CgroupId, Workload},
    top::{rows::label::Label, text},
};

/// The cgroups of a frame and all that is above them.
#[derive(Debug, Default)]
pub(in crate::top) struct Forest {
    /// In their order.
    cgroups: Vec<Identity>,
    /// Parents come before their children.
    pub(super) nodes: Vec<Node>,
    pub(super) tops: Vec<usize>,
}

/// A place in the tree.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) path: Arc<str>,
    pub(super) label: Label,
    /// The cgroup itself, by its position in the interval, where it is not idle.
    pub(super) own: Option<usize>,
    pub(super) above: Option<usize>,
    pub(super) below: Vec<usize>,
}

/// What places a cgroup in the tree and names it there.
#[derive(Debug)]
struct Identity {
    position: usize,
    id: CgroupId,
    path: Arc<str>,
    name: Arc<str>,
    workload: Option<Arc<Workload>>,
}

impl Identity {
    fn of(position: usize, cgroup: &Cgroup) -> Self {
        Self {
            position,
            id: cgroup.id,
            path: Arc::clone(&cgroup.path),
            name: Arc::clone(&cgroup.name),
            workload: cgroup.workload.clone(),
        }
    }

    fn is_of(&self, position: usize, cgroup: &Cgroup) -> bool {
        // Most often it is the same text, and need not be read.
        let same = |a: &Arc<str>, b: &Arc<str>| Arc::ptr_eq(a, b) || a == b;
        self.position == position
            && self.id == cgroup.id
            && same(&self.path, &cgroup.path)
            && same(&self.name, &cgroup.name)
            && self.workload == cgroup.workload
    }
}

impl Forest {
    /// The tree of those of `cgroups` that are at `positions`.
    pub(super) fn new(cgroups: &[Cgroup], positions: &[usize]) -> Self {
        let mut planting =
            Planting { cgroups, forest: Self::default(), at: HashMap::with_capacity(positions.len() * 2) };
        planting.forest.nodes.reserve(positions.len() * 2);
        for &n in positions {
            planting.insert(n);
        }
        let identities = positions.iter().map(|&n| Identity::of(n, &cgroups[n])).collect();
        Self { cgroups: identities, ..planting.forest }
    }

    /// Is it the tree of exactly these?
    pub(super) fn is_of(&self, cgroups: &[Cgroup], positions: &[usize]) -> bool {
        self.cgroups.len() == positions.len()
            && self.cgroups.iter().zip(positions).all(|(identity, &n)| identity.is_of(n, &cgroups[n]))
    }

    /// The positions of all cgroups at and below a place.
    pub(in crate::top::rows) fn members(&self, node: usize) -> impl Iterator<Item = usize> {
        // Without recursion: paths come from elsewhere and may be deep.
        let mut left = vec![node];
        let next = move || {
            let node = &self.nodes[left.pop()?];
            left.extend(node.below.iter().rev());
            Some(node.own)
        };
        std::iter::from_fn(next).flatten()
    }
}

/// A tree that is being made.
struct Planting<'a> {
    cgroups: &'a [Cgroup],
    forest: Forest,
    at: HashMap<&'a str, usize>,
}

impl<'a> Planting<'a> {
    /// Adds a cgroup and what is above it.
    fn insert(&mut self, n: usize) {
        let cgroup = &self.cgroups[n];
        let path = if cgroup.id == CgroupId::OTHER { "(other)" } else { without_end(&cgroup.path) };
        let mut at = self.node(path, &cgroup.path);
        let above = self.forest.nodes[at].above;
        if self.forest.nodes[at].own.is_some() {
            // Another cgroup had the same path within the interval: this one gets a node of its own beside it.
            at = self.push(Arc::clone(&self.forest.nodes[at].path), above);
        }
        let node = &mut self.forest.nodes[at];
        node.own = Some(n);
        if let Some(name) = better_name(cgroup, path) {
            node.label = Label::Name(name);
        }
        // A pod's own cgroup is mostly idle, and only its containers know what it is called.
        if let (Some(above), Some(workload)) = (above, &cgroup.workload)
            && let (Some(namespace), Some(pod), Some(_)) = (&workload.namespace, &workload.pod, &workload.container)
            && let above = &mut self.forest.nodes[above]
            && above.own.is_none()
        {
            above.label = Label::Name(format!("{namespace}/{pod}").into());
        }
    }

    /// The node at `path`, made with all above it where there is none yet. `whole` is a path that begins with it.
    fn node(&mut self, path: &'a str, whole: &Arc<str>) -> usize {
        if let Some(&node) = self.at.get(path) {
            return node;
        }
        // The recursion is no deeper than `DEEPEST`.
        let above = above(path).map(|above| self.node(above, whole));
        let kept = if *path == **whole { Arc::clone(whole) } else { path.into() };
        let node = self.push(kept, above);
        self.at.insert(path, node);
        node
    }

    fn push(&mut self, path: Arc<str>, above: Option<usize>) -> usize {
        let nodes = &mut self.forest.nodes;
        let node = nodes.len();
        nodes.push(Node { label: Label::end_of(&path), path, own: None, above, below: Vec::new() });
        match above {
            Some(above) => nodes[above].below.push(node),
            None => self.forest.tops.push(node),
        }
        node
    }
}

/// Levels that are told apart. The kernel's own trees are never so deep; a path in a recording may be.
const DEEPEST: usize = 64;

fn without_end(path: &str) -> &str {
    if path == "/" { path } else { path.trim_end_matches('/') }
}

/// The path of what is above `path`.
fn above(path: &str) -> Option<&str> {
    let slashes = path.match_indices('/').map(|(at, _)| at).filter(|at| *at > 0);
    let root = || (path.starts_with('/') && path != "/").then_some("/");
    slashes.take(DEEPEST).last().map(|at| &path[..at]).or_else(root)
}

/// What people call it, where that is not just the end of its path. A container's name: its pod's is above it.
fn better_name(cgroup: &Cgroup, path: &str) -> Option<Arc<str>> {
    let name = text::name(cgroup);
    if path.ends_with(name) || name.starts_with('/') {
        return None;
    }
    let workload = cgroup.workload.as_deref();
    let container = workload.filter(|workload| workload.pod.is_some()).and_then(|workload| workload.container.clone());
    Some(container.filter(|container| name.ends_with(&**container)).unwrap_or_else(|| text::shared_name(cgroup)))
}
