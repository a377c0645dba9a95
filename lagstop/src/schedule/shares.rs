//! What each cgroup is entitled to, level by level of the tree, and what follows for its virtual time and its turns. Pure.

use std::{collections::HashSet, time::Duration};

use lagstop_scheduler_ebpf::{ONE, Plan, RANK_PLACES};

use super::tuning::{Credit, Tuning, fixed_point, nanos};
use crate::model;

/// A cgroup that the scheduler has a group for.
#[derive(Clone, Debug, Default)]
pub(super) struct Node {
    /// The one that it is in, which is before it in the list. `None` of the root.
    pub(super) parent: Option<usize>,
    /// Among its siblings, as [`model::Level::weight`].
    pub(super) weight: f64,
    /// Have its own tasks run or waited lately?
    pub(super) is_active: bool,
    /// Own tasks that run or wait, on average.
    pub(super) tasks: f64,
    /// Is that assumed, of one that may have only just woken?
    pub(super) is_assumed: bool,
    /// CPUs that own tasks used, on average.
    pub(super) used: f64,
    /// Turns of own tasks since the last time that they were counted.
    pub(super) turns: u64,
    /// CPU time of a turn, on average; `None` while that is not known.
    pub(super) turn: Option<Duration>,
    /// Is it ranked by what it uses? All others stand where one does that uses its share.
    pub(super) is_ranked: bool,
}

impl Node {
    /// How many clocks its own tasks have: one together, but those of the root each its own.
    fn clocks(&self) -> f64 {
        if self.parent.is_none() { self.tasks.max(1.0) } else { 1.0 }
    }

    /// Is there always somebody who waits or runs?
    fn is_backlogged(&self) -> bool {
        self.is_active && self.tasks >= 0.75
    }

    /// Its own tasks beside the cgroups in it, if they are active: each weighs as much as a cgroup by default, and cannot use
    /// more than a CPU.
    fn own(&self) -> Option<Competitor> {
        self.is_active.then(|| Competitor {
            weight: model::Level::DEFAULT_WEIGHT * self.tasks.max(1.0),
            wants: if self.is_backlogged() { self.tasks.max(self.used) } else { self.used },
        })
    }
}

/// The shares of all nodes, and the plans that follow from them.
#[derive(Clone, Debug)]
pub(super) struct CpuShares {
    /// Of each node, in CPUs: the part that its weight has among those that are active, and what these do not use of theirs. Of the
    /// root, of all its own tasks together.
    pub(super) cpus: Vec<f64>,
    /// Of the root, of each of its tasks.
    pub(super) plans: Vec<Plan>,
    /// For cgroups that are not known yet.
    pub(super) any: Plan,
    /// What all cgroups are promised together if they wake at once, in CPUs. Of those with others inside, only who has had tasks.
    /// Infinite where the root's own have run.
    pub(super) promisable: f64,
}

/// The least share that is told apart.
const LEAST: f64 = 1e-4;

/// Works out the shares on a host with `host_cpus` CPUs.
pub(super) fn shares(nodes: &[Node], host_cpus: f64, tuning: &Tuning) -> CpuShares {
    let cpus = entitled(nodes, host_cpus);
    let active = nodes.iter().filter(|node| node.is_active).map(Node::clocks).sum::<f64>().max(1.0);
    let typical = (host_cpus / active).min(host_cpus);
    // How much all may go first, in CPU time by their shares: the same for all, as credits are compared.
    let guard = tuning.guard.div_f64(typical.max(LEAST)).clamp(tuning.guard, tuning.longest_guard);
    let behind =
        if tuning.credit == Credit::Paper { guard.div_f64(tuning.max_credit) } else { guard.min(tuning.memory) };
    let backlogged = || nodes.iter().zip(&cpus).filter(|(node, _)| node.is_backlogged());
    let tasks: f64 = backlogged().map(|(node, _)| node.tasks).sum();
    let share: f64 = backlogged().map(|(_, share)| share).sum();
    // A round in which everybody has had a turn must end before those who wait are all before whoever comes: half the guard.
    let round = |tasks: f64| tuning.longest_guard.div_f64(2.0 * (tasks / host_cpus).max(1.0));
    // A task keeps the slice with which it was queued, so one that wakes gets a turn that is right even if all wake with it.
    let others = nodes.iter().filter(|node| !node.is_backlogged()).count();
    let round_of_all = round(tasks + others as f64);
    let short = tuning.short_slice.min(tuning.slice);
    // Where none preempts, all wait for the end of turns.
    let part = if tuning.preempts { (turns_of_light(nodes) / Tuning::MANY_LIGHT).min(1.0) } else { 0.0 };
    let usual = (short + (tuning.slice - short).mul_f64(part)).min(round(tasks)).max(Tuning::SHORTEST_SLICE);
    let by_task = if tasks > 0.0 && share > 0.0 { share / tasks } else { typical };
    // Where the head start is shorter than a turn, each turn would count as less than it took.
    let ahead = (behind / 2).max((2 * usual).div_f64(typical.max(LEAST)).min(Tuning::MOST_TURNS_AHEAD));
    let plan = |share: f64, node: &Node| {
        let (tasks, turn, is_ranked, is_backlogged) = (node.tasks, node.turn, node.is_ranked, node.is_backlogged());
        let turns = (share.max(LEAST) / tasks.max(1.0) / by_task).min(Tuning::MOST_SLICES);
        let share = (share / node.clocks()).max(LEAST);
        let slice = match tuning.credit {
            Credit::Paper => usual,
            Credit::Used if is_backlogged => usual.mul_f64(turns),
            Credit::Used => usual.min(round_of_all).mul_f64(turns.min(1.0)),
        };
        Plan {
            factor: if tuning.credit == Credit::Paper { ONE } else { fixed_point(1.0 / share) },
            behind: if is_ranked { nanos(behind) } else { 0 },
            // What used much for a moment, such as its start, is not to wait for long: it does not always want to run.
            // Nor does each of the root's tasks, of which it is only known what they want together.
            ahead: nanos(if is_backlogged && !node.is_assumed && node.parent.is_some() {
                tuning.longest_guard
            } else {
                ahead
            }),
            slice: nanos(slice.max(Tuning::SHORTEST_SLICE)),
            turn: nanos(turn.map_or(slice, |turn| turn.min(slice)).div_f64(share)),
            rank: (ONE << RANK_PLACES) / nanos(behind).max(1),
        }
    };
    let plans = nodes.iter().zip(&cpus).map(|(node, share)| plan(*share, node)).collect();
    let is_ranked = nodes.iter().all(|node| node.is_ranked);
    let any = plan(typical, &Node { is_ranked, ..Node::default() });
    let inner: HashSet<usize> = nodes.iter().filter_map(|node| node.parent).collect();
    let may_wake = |n: &usize| nodes[*n].is_active || !inner.contains(n);
    // How many tasks of the root sleep is not known.
    let promisable = match nodes.first() {
        Some(root) if root.is_active => f64::INFINITY,
        _ => (1..nodes.len()).filter(may_wake).map(|n| cpus[n]).sum(),
    };
    CpuShares { cpus, plans, any, promisable }
}

/// The part of all turns that cgroups took which can go first and do not always want to run. By turns and not by cgroups: a host
/// has many that wake once a second, and long turns of all others save nothing there.
fn turns_of_light(nodes: &[Node]) -> f64 {
    let (mut light, mut all) = (0, 0);
    for node in nodes {
        all += node.turns;
        if node.is_ranked && !node.is_backlogged() {
            light += node.turns;
        }
    }
    light as f64 / all.max(1) as f64
}

/// The CPUs that each node's own tasks get as soon as they always want to run. What one does not use is its siblings' first.
fn entitled(nodes: &[Node], host_cpus: f64) -> Vec<f64> {
    let mut inside: Vec<Vec<Competitor>> = nodes.iter().map(|node| node.own().into_iter().collect()).collect();
    let mut wants = vec![0.0; nodes.len()];
    for (n, node) in nodes.iter().enumerate().rev() {
        wants[n] = inside[n].iter().map(|one| one.wants).sum::<f64>().min(host_cpus);
        if let Some(parent) = node.parent.filter(|_| !inside[n].is_empty()) {
            inside[parent].push(Competitor { weight: node.weight, wants: wants[n] });
        }
    }
    let mut levels: Vec<Siblings> = Vec::with_capacity(nodes.len());
    let mut own = Vec::with_capacity(nodes.len());
    for (n, node) in nodes.iter().enumerate() {
        let all = Competitor { weight: node.weight, wants: wants[n] };
        let cpus = node.parent.map_or(host_cpus, |parent| levels[parent].share(all, !inside[n].is_empty()));
        let cpus = cpus.min(host_cpus);
        let level = Siblings::of(&mut inside[n], cpus);
        // What has no cgroups inside that are active is its own tasks'.
        let has_others = inside[n].len() > usize::from(node.own().is_some());
        own.push(match node.own() {
            _ if !has_others => cpus,
            Some(tasks) => level.share(tasks, true).min(host_cpus),
            None => level.share(Competitor { weight: model::Level::DEFAULT_WEIGHT, wants: 0.0 }, false),
        });
        levels.push(level);
    }
    own
}

/// Who competes at a level of the tree: a cgroup, or the own tasks of the one that they are in.
#[derive(Clone, Copy, Debug)]
struct Competitor {
    weight: f64,
    /// CPUs that it would use if it could.
    wants: f64,
}

/// How the CPUs of a cgroup are divided by weight among those in it, of whom none gets more than it wants.
#[derive(Clone, Copy, Debug)]
struct Siblings {
    cpus: f64,
    /// Of all that are active.
    weight: f64,
    /// What a weight of 1 gets where they want more than there is.
    by_weight: Option<f64>,
}

impl Siblings {
    /// Orders them by what they want for each weight: those that want least have enough first.
    fn of(competitors: &mut [Competitor], cpus: f64) -> Self {
        competitors.sort_by(|a, b| (a.wants * b.weight).total_cmp(&(b.wants * a.weight)));
        let weight = competitors.iter().map(|one| one.weight).sum();
        let (mut left, mut weights) = (cpus, weight);
        let mut by_weight = None;
        for one in competitors.iter() {
            if one.wants * weights > left * one.weight {
                by_weight = Some(left / weights);
                break;
            }
            left -= one.wants;
            weights -= one.weight;
        }
        Self { cpus, weight, by_weight }
    }

    /// The CPUs of one as soon as it always wants to run. One that is not active joins the others then.
    fn share(self, one: Competitor, is_active: bool) -> f64 {
        match self.by_weight {
            Some(by_weight) => by_weight * one.weight,
            None => {
                let weight = if is_active { self.weight } else { self.weight + one.weight };
                (self.cpus * one.weight / weight.max(f64::MIN_POSITIVE)).max(one.wants)
            }
        }
    }
}

/// An average that follows what is read once a second.
pub(super) fn smoothed(before: f64, now: f64) -> f64 {
    const NEW: f64 = 0.3;
    before + (now - before) * NEW
}

/// The share that `plan` was made of, in CPUs, of the root that of a task; of the paper's credits it is not told.
pub(super) fn share(plan: &Plan) -> f64 {
    ONE as f64 / plan.factor.max(1) as f64
}

/// What a turn takes at most, for whoever wants to know how long a round is.
pub(super) fn longest_turn(plans: &[Plan]) -> Duration {
    Duration::from_nanos(plans.iter().map(|plan| plan.slice).max().unwrap_or(0))
}

#[cfg(test)]
mod tests;
