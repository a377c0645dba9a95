//! What the cgroups asked of the CPUs, kept for the simulation.

use std::{collections::HashMap, sync::Arc};

use crate::{
    diagnosis::simulation::{Demand, Group, Step, Trace},
    model::{Cgroup, CgroupId, Interval},
};

/// Limit of the entries that are kept, counted over cgroups and intervals. Beyond it, every other interval is dropped,
/// of those to come as well.
const MOST_DEMANDS: usize = 50_000;

/// What the cgroups asked of the CPUs in some of the intervals, spread evenly.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    trace: Trace,
    /// The number of each cgroup that asked for something.
    numbers: HashMap<CgroupId, usize>,
    /// The number of each path. Cgroups that had the same path one after the other share it.
    nodes: HashMap<Arc<str>, usize>,
    paths: Vec<Arc<str>>,
    /// The last cgroup that had each number.
    ids: Vec<Option<CgroupId>>,
    /// Those whose place in the tree and weights are known.
    placed: Vec<bool>,
    /// Online CPUs. The index is the number in the simulation.
    cpus: Vec<u32>,
    demands: usize,
    /// One in this many intervals is kept.
    stride: u64,
    seen: u64,
    /// How many of those that asked have no recorded weights.
    unweighed: usize,
}

impl Default for Asked {
    fn default() -> Self {
        Self {
            trace: Trace::default(),
            numbers: HashMap::new(),
            nodes: HashMap::new(),
            paths: Vec::new(),
            ids: Vec::new(),
            placed: Vec::new(),
            cpus: Vec::new(),
            demands: 0,
            stride: 1,
            seen: 0,
            unweighed: 0,
        }
    }
}

impl Asked {
    /// What was asked, by the numbers of the cgroups.
    pub(super) const fn trace(&self) -> &Trace {
        &self.trace
    }

    /// The number of a cgroup in the trace. `None` if it asked for nothing.
    pub(super) fn number(&self, id: CgroupId) -> Option<usize> {
        self.numbers.get(&id).copied()
    }

    /// The number of the cgroup with this path, whether it asked for something itself or those inside of it did.
    pub(super) fn number_at(&self, path: &str) -> Option<usize> {
        self.nodes.get(path).copied()
    }

    pub(super) fn path(&self, number: usize) -> &Arc<str> {
        &self.paths[number]
    }

    /// The cgroup with this number. `None` if it only contains other cgroups.
    pub(super) fn id(&self, number: usize) -> Option<CgroupId> {
        self.ids[number]
    }

    /// Is one the other, or inside of it?
    pub(super) fn is_inside(&self, mut number: usize, of: usize) -> bool {
        loop {
            if number == of {
                return true;
            }
            match self.trace.groups[number].parent {
                Some(parent) => number = parent,
                None => return false,
            }
        }
    }

    /// Is it known where the cgroup is in the tree, and what it and those above it weigh?
    pub(super) fn is_placed(&self, number: usize) -> bool {
        self.placed[number]
    }

    /// The cgroup and those that it is inside of, as far as the scheduler has a queue for them.
    pub(super) fn queues(&self, number: usize) -> impl Iterator<Item = usize> {
        let groups = &self.trace.groups;
        let up = std::iter::successors(Some(number), |&number| groups[number].parent);
        up.filter(|&number| groups[number].has_queue)
    }

    /// The cgroup in whose queue the one with this number competes. `None` is the root.
    pub(super) fn queue_above(&self, number: usize) -> Option<usize> {
        self.queues(number).find(|&above| above != number)
    }

    /// Are the weights of all that asked known?
    pub(super) const fn has_weights(&self) -> bool {
        self.unweighed == 0
    }

    /// Is every interval in the trace?
    pub(super) const fn is_whole(&self) -> bool {
        self.stride == 1
    }

    pub(super) fn add(&mut self, interval: &Interval) {
        let turn = self.seen;
        self.seen += 1;
        if !turn.is_multiple_of(self.stride) {
            return;
        }
        if !interval.cpus.is_empty() {
            self.cpus = interval.cpus.iter().map(|cpu| cpu.cpu).collect();
        }
        let mut demands = Vec::new();
        for cgroup in &interval.cgroups {
            if let Some(demand) = Demand::of(cgroup, interval.duration_ns) {
                demands.push((self.place(cgroup), demand));
            }
        }
        // If two had the same path one after the other, the one that did more.
        let did = |demand: &Demand| demand.spun + demand.work();
        demands.sort_unstable_by(|(a, one), (b, other)| a.cmp(b).then(did(other).total_cmp(&did(one))));
        demands.dedup_by_key(|&mut (group, _)| group);
        self.demands += demands.len();
        let cpus = usize::try_from(interval.host.cpus_online).unwrap_or(usize::MAX);
        self.trace.cpus = self.trace.cpus.max(cpus);
        self.trace.steps.push(Step {
            duration: interval.duration_ns.seconds(),
            cpus: interval.cpus_for_tasks(),
            demands,
        });
        while self.demands > MOST_DEMANDS && self.trace.steps.len() > 1 {
            self.thin();
        }
    }

    /// The number of a cgroup, whose place in the tree is as last known.
    fn place(&mut self, cgroup: &Cgroup) -> usize {
        if let Some(&number) = self.numbers.get(&cgroup.id) {
            if cgroup.levels.is_some() {
                self.weigh(number, cgroup);
            }
            return number;
        }
        let is_alone = matches!(cgroup.id, CgroupId::ROOT | CgroupId::OTHER) || cgroup.path.len() < 2;
        let number = if is_alone {
            self.add_node(Arc::clone(&cgroup.path), Group { has_queue: false, ..Group::default() })
        } else {
            self.unweighed += usize::from(cgroup.levels.is_none());
            self.grow(cgroup)
        };
        self.ids[number] = Some(cgroup.id);
        self.placed[number] |= cgroup.id == CgroupId::ROOT;
        self.numbers.insert(cgroup.id, number);
        if cgroup.levels.is_some() {
            self.weigh(number, cgroup);
        }
        number
    }

    /// A cgroup, and all that it is inside of.
    fn grow(&mut self, cgroup: &Cgroup) -> usize {
        let path = &cgroup.path;
        let ends = path.match_indices('/').skip(1).map(|(end, _)| end).take(Group::MOST_LEVELS);
        let mut parent = None;
        for end in ends {
            let above: &str = &path[..end];
            parent = Some(match self.nodes.get(above) {
                Some(&number) => number,
                None => self.add_node(above.into(), Group { parent, ..Group::default() }),
            });
        }
        // A cgroup that was there before, or that was only known as a parent until now.
        let there = self.nodes.get(path).copied();
        there.unwrap_or_else(|| self.add_node(Arc::clone(path), Group { parent, ..Group::default() }))
    }

    fn add_node(&mut self, path: Arc<str>, group: Group) -> usize {
        let number = self.trace.groups.len();
        self.trace.groups.push(group);
        self.nodes.insert(Arc::clone(&path), number);
        self.paths.push(path);
        self.ids.push(None);
        self.placed.push(false);
        number
    }

    /// Sets what a cgroup and those above it are entitled to (weights, quotas), and the CPUs that it may run on.
    fn weigh(&mut self, number: usize, cgroup: &Cgroup) {
        self.placed[number] = cgroup.id != CgroupId::OTHER;
        let mut at = Some(number);
        for level in cgroup.levels.iter().flat_map(|levels| levels.iter().rev()).take(Group::MOST_LEVELS) {
            let Some(group) = at.and_then(|number| self.trace.groups.get_mut(number)) else { break };
            group.set(level);
            at = group.parent;
        }
        if let Some(cpus) = &cgroup.cpus {
            self.trace.groups[number].cpus = Group::allowed(cpus, &self.cpus);
        }
    }

    /// Drops every other step.
    fn thin(&mut self) {
        let mut keep = false;
        self.trace.steps.retain(|_| {
            keep = !keep;
            keep
        });
        self.stride *= 2;
        self.demands = self.trace.steps.iter().map(|step| step.demands.len()).sum();
        self.forget();
    }

    /// Forgets the cgroups that asked for nothing in the intervals that are kept. In a month of short-lived cgroups
    /// these are almost all.
    fn forget(&mut self) {
        let mut is_used = vec![false; self.trace.groups.len()];
        for &(number, _) in self.trace.steps.iter().flat_map(|step| &step.demands) {
            let above = std::iter::successors(Some(number), |&number| self.trace.groups[number].parent);
            above.take_while(|&number| !std::mem::replace(&mut is_used[number], true)).for_each(drop);
        }
        let mut kept = 0;
        let new: Vec<Option<usize>> = is_used
            .iter()
            .map(|&is_used| {
                kept += usize::from(is_used);
                is_used.then(|| kept - 1)
            })
            .collect();
        let is_kept = |number: usize| new[number].is_some();
        let only = |number: &mut usize| match new[*number] {
            Some(to) => {
                *number = to;
                true
            }
            None => false,
        };
        let mut numbers = 0..;
        self.trace.groups.retain(|_| numbers.next().is_some_and(is_kept));
        let mut numbers = 0..;
        self.paths.retain(|_| numbers.next().is_some_and(is_kept));
        let mut numbers = 0..;
        self.ids.retain(|_| numbers.next().is_some_and(is_kept));
        let mut numbers = 0..;
        self.placed.retain(|_| numbers.next().is_some_and(is_kept));
        for group in &mut self.trace.groups {
            group.parent = group.parent.and_then(|parent| new[parent]);
        }
        self.numbers.retain(|_, number| only(number));
        self.nodes.retain(|_, number| only(number));
        let demands = self.trace.steps.iter_mut().flat_map(|step| &mut step.demands);
        demands.for_each(|(number, _)| *number = new[*number].unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Level, Nanos, fixture};

    #[test]
    fn a_long_recording_is_thinned_evenly() {
        let mut asked = Asked::default();
        let intervals = fixture::overloaded(40);
        let all = 40_000;
        for n in 0..all {
            asked.add(&intervals[n % intervals.len()]);
        }
        assert!(asked.demands <= MOST_DEMANDS && asked.demands > MOST_DEMANDS / 4, "{}", asked.demands);
        assert_eq!(asked.trace.steps.len() as u64, (all as u64).div_ceil(asked.stride));
        assert_eq!((asked.numbers.len(), asked.trace.groups.len(), asked.trace.cpus), (4, 5, 4), "and their slice");
        assert!(asked.trace.is_sound());
    }

    #[test]
    fn cgroups_that_came_and_went_are_forgotten() {
        let mut asked = Asked::default();
        let weighs = |weight: f64| Level { weight: Some(weight), ..Level::DEFAULT };
        let all = 120_000;
        for n in 0..all {
            let job = cgroup(1_000 + n, &format!("/jobs/{n}"), &[weighs(300.0), weighs(100.0)]);
            asked.add(&fixture::interval_of(n, vec![job, cgroup(7, "/web", &[weighs(200.0)])]));
        }
        let count = asked.trace.groups.len();
        assert!(count < 2 * MOST_DEMANDS && asked.ids.len() == count && asked.paths.len() == count, "{count}");
        assert!(asked.numbers.len() < count && asked.trace.is_sound());
        let web = asked.number_at("/web").unwrap();
        assert_eq!(
            (asked.number(CgroupId(7)), asked.id(web), asked.trace.groups[web].weight),
            (Some(web), Some(CgroupId(7)), 2.0)
        );
        for &(number, _) in asked.trace.steps.iter().flat_map(|step| &step.demands) {
            let parent = asked.trace.groups[number].parent.map(|parent| &**asked.path(parent));
            assert_eq!(parent, (number != web).then_some("/jobs"), "{}", asked.path(number));
        }
    }

    #[test]
    fn one_that_was_started_anew_is_at_the_same_place() {
        let mut asked = Asked::default();
        for (n, id) in [(0, 10), (1, 11)] {
            asked.add(&fixture::interval_of(n, vec![cgroup(id, "/web", &[Level::DEFAULT])]));
        }
        let number = asked.number_at("/web").unwrap();
        assert_eq!((asked.trace.groups.len(), asked.id(number)), (1, Some(CgroupId(11))));
        assert!(asked.trace.steps.iter().all(|step| step.demands[0].0 == number));
    }

    fn cgroup(id: u64, path: &str, levels: &[Level]) -> Cgroup {
        let mut cgroup = fixture::overloaded(1)[0].cgroups[0].clone();
        (cgroup.id, cgroup.path) = (CgroupId(id), path.into());
        cgroup.levels = Some(levels.into());
        cgroup
    }

    #[test]
    fn who_is_inside_of_whom_and_what_each_weighs_is_known() {
        let weighs = |weight: f64| Level { weight: Some(weight), ..Level::DEFAULT };
        let quota = Level { quota_ns: Some(Nanos(50_000_000)), period_ns: Some(Nanos(100_000_000)), ..weighs(300.0) };
        let idle = Level { is_idle: true, ..weighs(100.0) };
        let unled = Level { weight: None, ..Level::DEFAULT };
        let mut asked = Asked::default();
        let cgroups = vec![
            cgroup(10, "/pods/a/x", &[weighs(200.0), quota, weighs(100.0)]),
            cgroup(11, "/pods/b", &[weighs(200.0), idle]),
            cgroup(12, "/pods", &[weighs(200.0)]),
            cgroup(13, "/user/s", &[weighs(100.0), unled]),
            cgroup(1, "/", &[]),
        ];
        asked.add(&fixture::interval_of(0, cgroups));
        let group = |path: &str| &asked.trace.groups[asked.number_at(path).unwrap()];
        let of = |path: &str| (group(path).parent.map(|up| &*asked.paths[up]), group(path).weight, group(path).is_idle);
        assert_eq!(of("/pods/a/x"), (Some("/pods/a"), 1.0, false));
        assert_eq!((of("/pods/a"), group("/pods/a").quota), ((Some("/pods"), 3.0, false), Some((0.05, 0.1))));
        assert_eq!((of("/pods/b"), of("/pods")), ((Some("/pods"), 1.0, true), (None, 2.0, false)));
        assert_eq!(asked.number(CgroupId(12)), asked.number_at("/pods"), "one node, however it was met");
        assert!(!group("/user/s").has_queue && !group("/").has_queue && group("/user").has_queue);
        let of = |path: &str| asked.number_at(path).unwrap();
        assert!(asked.is_inside(of("/pods/a/x"), of("/pods")) && !asked.is_inside(of("/pods"), of("/pods/a")));
        assert!(asked.has_weights());
    }
}
