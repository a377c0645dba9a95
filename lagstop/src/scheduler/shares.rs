//! What each cgroup is entitled to, level by level of the tree, and what follows for its rank and its turns. Pure.

use std::time::Duration;

use lagstop_scheduler_ebpf::{ONE, Plan};

use super::tuning::{Credit, Tuning, fixed_point, nanos};
use crate::model::Level;

/// A cgroup that the scheduler has a group for.
#[derive(Clone, Debug)]
pub(super) struct Node {
    /// The one that it is in, which is before it in the list. `None` of the root.
    pub(super) parent: Option<usize>,
    /// Among its siblings, as [`Level::weight`].
    pub(super) weight: f64,
    /// Have its own tasks run or waited lately?
    pub(super) is_active: bool,
    /// Own tasks that run or wait, on average.
    pub(super) tasks: f64,
    /// Is it ranked by what it uses? All others stand where one does that uses its share.
    pub(super) is_ranked: bool,
}

/// What follows for all.
#[derive(Clone, Debug)]
pub(super) struct Shares {
    /// Of each node, in CPUs: what it gets while all that are active want as much as they can get.
    pub(super) cpus: Vec<f64>,
    pub(super) plans: Vec<Plan>,
    /// For cgroups that are not known yet.
    pub(super) any: Plan,
}

/// The least share that is told apart.
const LEAST: f64 = 1e-4;

/// Works it out for a host with so many CPUs.
pub(super) fn shares(nodes: &[Node], host_cpus: f64, tuning: &Tuning) -> Shares {
    let cpus = entitled(nodes, host_cpus);
    let active = nodes.iter().filter(|node| node.is_active && node.parent.is_some()).count().max(1) as f64;
    let typical = (host_cpus / active).min(host_cpus);
    // The same for all: of two that have used as much of their shares neither is to come later. Weights are in credits and turns.
    let guard = tuning.guard.div_f64(typical.max(LEAST)).clamp(tuning.guard, tuning.longest_guard);
    // Those that always have somebody who waits: among them turns are shared out.
    let is_backlogged = |node: &Node| node.parent.is_some() && node.tasks >= 0.75;
    let backlogged = || nodes.iter().zip(&cpus).filter(|(node, _)| is_backlogged(node));
    let tasks: f64 = backlogged().map(|(node, _)| node.tasks).sum();
    let share: f64 = backlogged().map(|(_, share)| share).sum();
    // A round in which everybody has had a turn must end before those who wait are all before whoever comes: half the guard.
    let round = tuning.longest_guard.div_f64(2.0 * (tasks / host_cpus).max(1.0));
    let usual = tuning.slice.min(round).max(Tuning::SHORTEST_SLICE);
    let by_task = if tasks > 0.0 && share > 0.0 { share / tasks } else { typical };
    let plan = |share: f64, tasks: f64, is_ranked: bool| {
        let share = share.max(LEAST);
        let turns = (share / tasks.max(1.0) / by_task).min(Tuning::MOST_SLICES);
        let slice = if tuning.credit == Credit::Paper { usual } else { usual.mul_f64(turns) };
        Plan {
            factor: if tuning.credit == Credit::Paper { ONE } else { fixed_point(1.0 / share) },
            delay: nanos(guard.div_f64(tuning.max_credit)),
            slice: nanos(slice.max(Tuning::SHORTEST_SLICE)),
            fixed: if is_ranked { -1 } else { ONE.cast_signed() },
        }
    };
    let plans = nodes.iter().zip(&cpus).map(|(node, share)| plan(*share, node.tasks, node.is_ranked)).collect();
    let is_ranked = nodes.iter().all(|node| node.is_ranked || node.parent.is_none());
    Shares { any: plan(typical, 1.0, is_ranked), plans, cpus }
}

/// The CPUs that each node is entitled to among those that are active. One that is not has what it would have.
fn entitled(nodes: &[Node], host_cpus: f64) -> Vec<f64> {
    let mut is_active: Vec<bool> = nodes.iter().map(|node| node.is_active).collect();
    for (n, node) in nodes.iter().enumerate().rev() {
        if let Some(parent) = node.parent.filter(|_| is_active[n]) {
            is_active[parent] = true;
        }
    }
    // Of the children that are active, and of the own tasks beside them, each of which weighs as a cgroup by default does.
    let mut weights: Vec<f64> =
        nodes
            .iter()
            .map(|node| {
                if node.is_active && node.parent.is_some() { Level::DEFAULT_WEIGHT * node.tasks.max(1.0) } else { 0.0 }
            })
            .collect();
    for (n, node) in nodes.iter().enumerate() {
        if let Some(parent) = node.parent.filter(|_| is_active[n]) {
            weights[parent] += node.weight;
        }
    }
    let mut cpus: Vec<f64> = Vec::with_capacity(nodes.len());
    for (n, node) in nodes.iter().enumerate() {
        let share = match node.parent {
            None => host_cpus,
            Some(parent) => {
                let all = weights[parent] + if is_active[n] { 0.0 } else { node.weight };
                cpus[parent] * node.weight / all.max(f64::MIN_POSITIVE)
            }
        };
        cpus.push(share);
    }
    // What has cgroups inside that are active leaves its own tasks a part of it.
    let mut own = cpus.clone();
    for (n, node) in nodes.iter().enumerate() {
        let inside = weights[n]
            - if node.is_active && node.parent.is_some() { Level::DEFAULT_WEIGHT * node.tasks.max(1.0) } else { 0.0 };
        if inside > 0.0 && node.parent.is_some() {
            let all = if node.is_active { weights[n] } else { weights[n] + Level::DEFAULT_WEIGHT };
            own[n] = cpus[n] * (all - inside) / all;
        }
    }
    own
}

/// An average that follows what is read once a second.
pub(super) fn smoothed(before: f64, now: f64) -> f64 {
    const NEW: f64 = 0.3;
    before + (now - before) * NEW
}

/// What a turn takes at most, for whoever wants to know how long a round is.
pub(super) fn longest_turn(plans: &[Plan]) -> Duration {
    Duration::from_nanos(plans.iter().map(|plan| plan.slice).max().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> Node {
        Node { parent: None, weight: 100.0, is_active: true, tasks: 0.0, is_ranked: false }
    }

    fn child(parent: usize, weight: f64, tasks: f64) -> Node {
        Node { parent: Some(parent), weight, is_active: tasks > 0.0, tasks, is_ranked: true }
    }

    fn near(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() < 0.001, "{found} is not {expected}");
    }

    #[test]
    fn weights_count_among_siblings_that_are_active_alone() {
        // Two slices of 1:3; in the second one two services of 1:2, and one that sleeps.
        let nodes = [
            root(),
            child(0, 100.0, 0.0),
            child(0, 300.0, 0.0),
            child(1, 100.0, 1.0),
            child(2, 100.0, 1.0),
            child(2, 200.0, 1.0),
            child(2, 300.0, 0.0),
        ];
        let cpus = entitled(&nodes, 4.0);
        for (n, expected) in [(3, 1.0), (4, 1.0), (5, 2.0), (6, 1.5)] {
            near(cpus[n], expected);
        }
    }

    #[test]
    fn one_of_twice_the_weight_is_as_heavy_as_one_with_half_the_use() {
        let nodes = [root(), child(0, 100.0, 1.0), child(0, 200.0, 1.0)];
        let Shares { plans, .. } = shares(&nodes, 1.0, &Tuning::default());
        near(plans[1].factor as f64, 2.0 * plans[2].factor as f64);
        near(plans[2].slice as f64, 2.0 * plans[1].slice as f64);
        near((plans[1].slice + plans[2].slice) as f64, 40e6);
    }

    #[test]
    fn turns_are_shared_out_among_those_that_always_want_one() {
        // Four with two tasks each, six that hardly want to run: those do not shorten the turns of the others.
        let mut nodes = vec![root()];
        nodes.extend((0..4).map(|_| child(0, 100.0, 2.0)));
        nodes.extend((0..6).map(|_| child(0, 100.0, 0.05)));
        let Shares { plans, cpus, .. } = shares(&nodes, 1.0, &Tuning::default());
        near(plans[1].slice as f64, 20e6);
        near(cpus[1], 0.1);
        near(plans[1].delay as f64 * 2.0, 2e9);
    }

    #[test]
    fn rounds_of_many_end_before_the_guard_does() {
        let nodes: Vec<Node> = std::iter::once(root()).chain((0..500).map(|_| child(0, 100.0, 1.0))).collect();
        let Shares { plans, any, .. } = shares(&nodes, 1.0, &Tuning::default());
        near(plans[1].slice as f64, 4e6);
        near(plans[1].delay as f64 * 2.0, 4e9);
        near(any.slice as f64, 4e6);
        assert_eq!(longest_turn(&plans[1..]), Duration::from_millis(4));
    }

    #[test]
    fn one_that_is_to_idle_comes_last_and_briefly() {
        let nodes = [root(), child(0, Level::IDLE_WEIGHT, 1.0), child(0, 100.0, 1.0)];
        let Shares { plans, .. } = shares(&nodes, 1.0, &Tuning::default());
        assert_eq!(plans[1].slice, nanos(Tuning::SHORTEST_SLICE));
        assert!(plans[1].factor > 300 * plans[2].factor && plans[1].delay == plans[2].delay);
    }

    #[test]
    fn what_is_not_ranked_stands_in_the_middle() {
        let mut nodes = [root(), child(0, 100.0, 1.0), child(0, 100.0, 1.0)];
        nodes[1].is_ranked = false;
        let Shares { plans, any, .. } = shares(&nodes, 1.0, &Tuning::default());
        assert_eq!((plans[1].fixed, plans[2].fixed, any.fixed), (ONE as i64, -1, ONE as i64));
    }

    #[test]
    fn the_papers_credit_is_of_tasks() {
        let nodes = [root(), child(0, 100.0, 1.0), child(0, 200.0, 1.0)];
        let Shares { plans, .. } = shares(&nodes, 1.0, &Tuning { credit: Credit::Paper, ..Tuning::default() });
        assert_eq!((plans[1].factor, plans[2].factor), (ONE, ONE));
    }

    #[test]
    fn nothing_at_all_has_a_plan() {
        let Shares { plans, any, .. } = shares(&[], 2.0, &Tuning::default());
        assert!(plans.is_empty() && any.slice > 0 && any.factor > 0);
    }
}
