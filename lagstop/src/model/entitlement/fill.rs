//! Sharing CPU time from the top of the tree down.

use std::collections::{BTreeSet, VecDeque};

use super::{Asking, Entitled, Entitlement};
use crate::model::{CgroupMode, Group};

/// The most CPU sets that are considered. Hosts have only a few.
const MOST_SETS: usize = 64;
/// Tolerance for rounding errors, in CPUs.
const ROUNDING: f64 = 1e-9;
/// The largest weight: sums of larger ones would not be finite. The kernel's own limit is far below.
const HEAVIEST: f64 = 1e12;

/// Those that ask, in their queues.
pub(super) struct Tree<'a> {
    groups: &'a [Group],
    asking: &'a [Asking],
    /// One for each cgroup, and the root last.
    queues: Vec<Queue>,
    /// Queues in which anything is asked for, each after the one that contains it.
    order: Vec<usize>,
    /// How often the weight of each cgroup counts beside its siblings'.
    times: Vec<f64>,
}

/// The queue of a cgroup.
#[derive(Clone, Default)]
struct Queue {
    groups: Vec<usize>,
    /// Those that ask and whose tasks are directly in this queue.
    tasks: Vec<usize>,
}

/// One that competes in a queue.
#[derive(Clone, Copy)]
struct Claim {
    weight: f64,
    demand: f64,
}

/// Result of filling the CPUs once.
struct Filled {
    /// By those that ask.
    asking: Vec<f64>,
    /// By queues.
    demand: Vec<f64>,
    cpu: Vec<f64>,
}

impl<'a> Tree<'a> {
    pub(super) fn new(groups: &'a [Group], asking: &'a [Asking], most_times: f64) -> Self {
        let root = groups.len();
        let mut queues = vec![Queue::default(); root + 1];
        let mut is_in = vec![false; root + 1];
        is_in[root] = true;
        let next = |from: Option<usize>| {
            let above = std::iter::successors(from, |&number| groups.get(number)?.parent).take(Group::MOST_LEVELS + 1);
            above.into_iter().find(|&number| groups.get(number).is_some_and(|group| group.has_queue)).unwrap_or(root)
        };
        for (n, one) in asking.iter().enumerate() {
            let mut at = next(Some(one.group));
            queues[at].tasks.push(n);
            while !std::mem::replace(&mut is_in[at], true) {
                let above = next(groups[at].parent);
                queues[above].groups.push(at);
                at = above;
            }
        }
        let mut order = vec![root];
        let mut n = 0;
        while let Some(&at) = order.get(n) {
            order.extend(&queues[at].groups);
            n += 1;
        }
        let mut tree = Self { groups, asking, queues, order, times: vec![1.0; root + 1] };
        if most_times > 1.0 {
            tree.times = tree.count(most_times);
        }
        tree
    }

    /// How often each weight counts.
    fn count(&self, most_times: f64) -> Vec<f64> {
        let mut tasks = vec![0.0; self.queues.len()];
        // Where all that ask inside have the same CPU set, it is probably its own, too.
        let mut sets: Vec<&[bool]> = vec![&[]; self.queues.len()];
        for &at in self.order.iter().rev() {
            let queue = &self.queues[at];
            let own: f64 = queue.tasks.iter().map(|&n| self.asking[n].runnable()).sum();
            tasks[at] = own + queue.groups.iter().map(|&number| tasks[number]).sum::<f64>();
            let of_tasks = queue.tasks.iter().map(|&n| self.set(&self.asking[n]));
            let mut inside = of_tasks.chain(queue.groups.iter().map(|&number| sets[number]));
            let first = inside.next().unwrap_or_default();
            sets[at] = if inside.all(|set| set == first) { first } else { &[] };
        }
        let most = |set| CgroupMode::most_times_in(set, most_times);
        tasks.into_iter().zip(sets).map(|(tasks, set)| CgroupMode::times(tasks, most(set))).collect()
    }

    pub(super) fn share(&self, cpus: f64) -> Entitlement {
        let online = self.asking.iter().map(|one| self.set(one).len()).max().unwrap_or(0);
        let cpus = if cpus.is_finite() { cpus.max(0.0) } else { 0.0 };
        let each = if online > 0 { cpus / online as f64 } else { 0.0 };
        let size = |set: &[bool]| set.iter().filter(|&&has| has).count() as f64 * each;
        let mut most: Vec<f64> = self
            .asking
            .iter()
            .map(|one| {
                let set = self.set(one);
                let tasks = if one.tasks.is_finite() { one.tasks.max(0.0) } else { 0.0 };
                if set.is_empty() { tasks } else { tasks.min(size(set)) }
            })
            .collect();
        let mut filled = self.fill(&most, cpus);
        // Together those with a small set of CPUs may ask for more than it has: they share it among themselves. What they leave
        // to others may then be too much for another set.
        let sets: Vec<(f64, Vec<bool>)> = self.sets().iter().map(|set| (size(set), self.inside(set))).collect();
        let overfull = |got: &[f64]| sets.iter().find(|(size, inside)| sum(got, inside) > size + ROUNDING);
        for _ in 0..sets.len() {
            let Some((size, inside)) = overfull(&filled.asking) else { break };
            let alone: Vec<f64> = most.iter().zip(inside).map(|(&it, &inside)| if inside { it } else { 0.0 }).collect();
            let shared = self.fill(&alone, *size).asking;
            for ((most, shared), _) in most.iter_mut().zip(shared).zip(inside).filter(|(_, inside)| **inside) {
                *most = shared;
            }
            filled = self.fill(&most, cpus);
        }
        self.told(&most, filled)
    }

    /// The CPUs that one may run on. Empty: all.
    fn set(&self, one: &Asking) -> &'a [bool] {
        self.groups.get(one.group).map_or(&[], |group| &group.cpus)
    }

    /// Those that may run on CPUs of `set` alone.
    fn inside(&self, set: &[bool]) -> Vec<bool> {
        let is_inside = |one: &Asking| {
            let own = self.set(one);
            !own.is_empty() && own.iter().zip(set).all(|(&own, &has)| has || !own)
        };
        self.asking.iter().map(is_inside).collect()
    }

    /// CPU sets that are not all CPUs, and the unions of those that overlap, the smallest first.
    fn sets(&self) -> Vec<Vec<bool>> {
        let mut sets: BTreeSet<(usize, Vec<bool>)> = BTreeSet::new();
        let size = |set: &[bool]| set.iter().filter(|&&has| has).count();
        let own = self.asking.iter().map(|one| self.set(one)).filter(|set| !set.is_empty());
        let mut next: VecDeque<Vec<bool>> = own.map(<[bool]>::to_vec).collect();
        while let Some(set) = next.pop_front() {
            if sets.len() == MOST_SETS || !sets.insert((size(&set), set.clone())) {
                continue;
            }
            let overlapping = sets.iter().filter(|(_, other)| set.iter().zip(other).any(|(&a, &b)| a && b));
            next.extend(overlapping.map(|(_, other)| set.iter().zip(other).map(|(&a, &b)| a || b).collect()));
        }
        sets.into_iter().map(|(_, set)| set).collect()
    }

    /// Shares `cpus`. None that asks gets more than its part of `most`.
    fn fill(&self, most: &[f64], cpus: f64) -> Filled {
        let mut demand = vec![0.0; self.queues.len()];
        for &at in self.order.iter().rev() {
            let queue = &self.queues[at];
            let tasks: f64 = queue.tasks.iter().map(|&n| most[n]).sum();
            let all = tasks + queue.groups.iter().map(|&number| demand[number]).sum::<f64>();
            let quota = self.groups.get(at).and_then(Group::quota_cpus);
            demand[at] = all.min(quota.unwrap_or(f64::INFINITY));
        }
        let mut filled = Filled { asking: vec![0.0; most.len()], cpu: vec![0.0; demand.len()], demand };
        filled.cpu[self.groups.len()] = cpus;
        for &at in &self.order {
            let queue = &self.queues[at];
            let claims = self.claims(queue, most, &filled.demand);
            let got = by_weight(filled.cpu[at], &claims);
            for (&number, &got) in queue.groups.iter().zip(&got) {
                filled.cpu[number] = got;
            }
            for (&n, &got) in queue.tasks.iter().zip(&got[queue.groups.len()..]) {
                filled.asking[n] = got;
            }
        }
        filled
    }

    /// Who competes in a queue: the cgroups, and then the tasks. Each task has the usual weight.
    fn claims(&self, queue: &Queue, most: &[f64], demand: &[f64]) -> Vec<Claim> {
        let weight = |number: usize| self.groups[number].whole_weight() * self.times[number];
        let group = |&number: &usize| Claim { weight: weight(number), demand: demand[number] };
        let tasks = |&n: &usize| Claim { weight: self.asking[n].tasks.ceil().max(1.0), demand: most[n] };
        queue.groups.iter().map(group).chain(queue.tasks.iter().map(tasks)).collect()
    }

    fn told(&self, most: &[f64], filled: Filled) -> Entitlement {
        let mut groups = vec![Entitled::default(); self.groups.len()];
        for &at in &self.order {
            let queue = &self.queues[at];
            let mut claims = self.claims(queue, most, &filled.demand);
            for (claim, &number) in claims.iter_mut().zip(&queue.groups) {
                claim.weight = self.times[number];
            }
            let equal = by_weight(filled.cpu[at], &claims);
            for (&number, &with_equal_weights) in queue.groups.iter().zip(&equal) {
                groups[number] = Entitled {
                    demand: filled.demand[number],
                    cpu: filled.cpu[number],
                    with_equal_weights,
                    times: self.times[number],
                };
            }
        }
        Entitlement { asking: filled.asking, groups }
    }
}

fn sum(all: &[f64], of: &[bool]) -> f64 {
    all.iter().zip(of).filter(|(_, of)| **of).map(|(it, _)| it).sum()
}

/// Shares `cpu` by weight, where none gets more than it asks for.
fn by_weight(cpu: f64, claims: &[Claim]) -> Vec<f64> {
    let weight = |claim: &Claim| if claim.weight > 0.0 { claim.weight.min(HEAVIEST) } else { f64::MIN_POSITIVE };
    let mut order: Vec<usize> = (0..claims.len()).collect();
    let level = |n: usize| claims[n].demand / weight(&claims[n]);
    order.sort_unstable_by(|&a, &b| level(a).total_cmp(&level(b)));
    // Sum of the weights from here on. Added up from the end, because the difference of large and small weights is not
    // exact.
    let mut weights = vec![0.0; claims.len()];
    let mut all = 0.0;
    for &n in order.iter().rev() {
        all += weight(&claims[n]);
        weights[n] = all;
    }
    let mut left = cpu;
    let mut got = vec![0.0; claims.len()];
    for n in order {
        got[n] = claims[n].demand.min(left * weight(&claims[n]) / weights[n]).max(0.0);
        left = (left - got[n]).max(0.0);
    }
    got
}
