//! How many nodes the same work would take: as dense as waits and utilisation allow, by the fleet's own curve.
//!
//! Only what nodes differ by on average can be packed away. What a node goes up and down by stays with it: it is predicted of
//! planned nodes that fluctuate as today's do. What LAGS would make of it is an assumption, and shown as one.
//!
//! CFS-LAGS paper (arXiv 2508.15703, §5.1): the work of 14 nodes with the same performance on 10.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Serialize;
use thiserror::Error;

use super::{
    NodeStep,
    curve::{Curve, NoCurve, bins},
    draws::{Draw, HOLDS},
    fluctuation::Fluctuation,
};
use crate::{diagnosis::Thresholds, stats::bootstrap, units::Unit};

/// Why the number of nodes is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
pub(super) enum NoPacking {
    #[error(transparent)]
    Curve(#[from] NoCurve),
    #[error("run-queue waits were not measured; the limit of density depends on them")]
    NoWaits,
    #[error(
        "no measured density has both a p99 wait of at most {} and a CPU utilisation of at most {}",
        Unit::Ns.show(wait * 1e9),
        Unit::Share.show(*utilisation)
    )]
    NoDensity { wait: f64, utilisation: f64 },
}

/// Share of the steps that count as the busiest. Chosen: a single step may be an outlier.
const BUSIEST: f64 = 0.05;
/// Default limit of CPU utilisation, as a share, unless the fleet exceeds it today. Chosen: as `density_full`, below which
/// work runs out before the CPUs do.
pub(crate) const UTILISATION_LIMIT: f64 = Thresholds::DEFAULT.density_full;
/// Tolerance for float sums, which depend slightly on the order of their terms.
const ROUNDING: f64 = 1e-9;
/// Share of the planned cgroups that may be on a node denser than any that was measured. Chosen: one in a hundred, as beyond a
/// p99.
const BEYOND: f64 = 0.01;
/// Fractions of the assumed effect of LAGS: none, half, all.
const STRENGTHS: [f64; 3] = [0.0, 0.5, 1.0];

/// Assumed effect of LAGS on the fleet's curves.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct AssumedEffect {
    /// Share of the overhead that LAGS saves.
    pub overhead: f64,
    /// Share of the p99 run-queue wait that LAGS saves.
    pub wait: f64,
}

impl Default for AssumedEffect {
    /// What the paper measured. Overhead is switches × what one costs (§5.2.2): 13 % fewer, and 13 µs instead of 21, is
    /// 1 − 0.87 · 13 / 21. Waits (§4.1): static priorities took more than 75 % of all time on run queues away.
    fn default() -> Self {
        Self { overhead: 0.46, wait: 0.75 }
    }
}

/// The fleet in its busiest steps.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Today {
    /// Number of these steps.
    pub steps: u64,
    /// Nodes.
    pub nodes: u64,
    /// CPUs of these nodes.
    pub cpus: f64,
    /// Active cgroups on all nodes.
    pub active: f64,
    /// CPU time spent on the tasks' own work, in cores.
    pub work: f64,
    /// Active cgroups per CPU.
    pub density: f64,
    /// 99th percentile of the run-queue waits, in seconds: the mean over nodes, weighted by active cgroups.
    pub wait_p99: f64,
    /// Overhead, as a share of all CPU time.
    pub overhead: f64,
    /// CPU time that is not idle, as a share of all CPU time.
    pub utilisation: f64,
}

/// The limit of density.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// Waits would exceed their limit.
    Wait,
    /// CPU utilisation would exceed its limit.
    Utilisation,
    /// No node was denser. The effect of higher densities is unknown.
    Measured,
    /// The fleet already has this density.
    Today,
}

impl Bound {
    /// As people say it.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Wait => "p99 wait",
            Self::Utilisation => "utilisation",
            Self::Measured => "not measured beyond",
            Self::Today => "as today",
        }
    }
}

/// The same work on as few nodes as possible.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PackedFleet {
    /// Fraction of the assumed effect of LAGS: 0 is the measured curve, 1 is the full effect.
    pub strength: f64,
    /// Share of the overhead that is assumed to be saved.
    pub overhead_cut: f64,
    /// Share of the p99 wait that is assumed to be saved.
    pub wait_cut: f64,
    /// Mean active cgroups per CPU in the busiest steps. Nodes fluctuate around this mean as they do today.
    pub density: f64,
    /// 99th percentile of the run-queue waits at this density, in seconds: the mean over fluctuating nodes.
    pub wait_p99: f64,
    /// Overhead at this density.
    pub overhead: f64,
    /// CPU utilisation at this density.
    pub utilisation: f64,
    /// Number of nodes, each of today's mean size.
    pub nodes: u64,
    /// How many nodes fewer than today. Negative if more nodes are needed.
    pub fewer: i64,
    /// Lower end of the 90 % interval of `fewer`, over draws of nodes and of blocks of steps.
    pub fewer_low: i64,
    /// Upper end of this interval.
    pub fewer_high: i64,
    /// What limits the density.
    pub bound_by: Bound,
}

/// Number of nodes for the same work.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Packing {
    /// The fleet in its busiest steps.
    pub today: Today,
    /// Limit of the p99 wait, in seconds.
    pub wait_limit: f64,
    /// Whether this limit is today's p99 wait.
    pub wait_limit_is_todays: bool,
    /// Limit of CPU utilisation, as a share.
    pub utilisation_limit: f64,
    /// Assumed effect of LAGS.
    pub prediction: AssumedEffect,
    /// Plans by the measured curve, with half of the assumed effect of LAGS, and with all of it.
    pub options: Vec<PackedFleet>,
    /// Relative error of the curve for the p99 waits that were measured in the busiest steps: 0.1 is 10 % too long.
    /// Predicted waits are divided by 1 + this error.
    pub curve_error: f64,
    /// Fluctuation of each node's density around the node's mean (standard deviation / mean). Packing does not reduce
    /// it.
    pub fluctuation: f64,
    /// Differences of the nodes' means from the fleet's mean (standard deviation / mean), without chance. Packing
    /// removes them.
    pub differ: f64,
    /// Draws of nodes and of blocks of steps.
    pub draws: u64,
    /// Assumptions of the plan.
    pub assumptions: Vec<String>,
}

/// What may be chosen.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PackingLimits {
    /// Seconds. Today's where none was given.
    pub wait: Option<f64>,
    /// Share of all CPU time.
    pub utilisation: Option<f64>,
    pub prediction: AssumedEffect,
}

/// The busiest steps of the fleet: those with the most active cgroups.
fn busiest(points: &[NodeStep], draw: &Draw) -> Vec<bool> {
    let mut active = vec![0.0; draw.steps.len()];
    points.iter().for_each(|point| active[point.step] += draw.times(point) * point.active);
    let mut order: Vec<usize> = (0..active.len()).filter(|&step| active[step] > 0.0).collect();
    let each = |step: usize| f64::from(draw.steps[step]);
    // A step that was drawn twice is two steps, each with half of the sum.
    order.sort_by(|&a, &b| (active[b] / each(b)).total_cmp(&(active[a] / each(a))));
    let mut left = (order.iter().map(|&step| each(step)).sum::<f64>() * BUSIEST).ceil();
    let mut is_busy = vec![false; active.len()];
    for step in order {
        if left <= 0.0 {
            break;
        }
        is_busy[step] = true;
        left -= each(step);
    }
    is_busy
}

/// The fleet in the busiest steps of a draw.
fn today(busy: &[NodeStep], draw: &Draw, steps: f64) -> Option<Today> {
    let (mut nodes, mut cpus, mut active, mut work) = (0.0, 0.0, 0.0, 0.0);
    let (mut overhead, mut used, mut wait, mut waiting) = (0.0, 0.0, 0.0, 0.0);
    for point in busy {
        let times = draw.times(point);
        nodes += times;
        cpus += times * point.cpus;
        active += times * point.active;
        work += times * point.work();
        overhead += times * point.overhead * point.cpus;
        used += times * point.utilisation * point.cpus;
        if let Some(of_point) = point.wait {
            wait += times * of_point * point.active;
            waiting += times * point.active;
        }
    }
    (cpus > 0.0 && active > 0.0 && waiting > 0.0 && steps > 0.0).then(|| Today {
        steps: steps as u64,
        nodes: (nodes / steps).round().max(1.0) as u64,
        cpus: cpus / steps,
        active: active / steps,
        work: work / steps,
        density: active / cpus,
        wait_p99: wait / waiting,
        overhead: overhead / cpus,
        utilisation: used / cpus,
    })
}

/// A planned node in a busy step, with as many nodes as today.
#[derive(Clone, Copy)]
struct Planned {
    /// Active cgroups per CPU: what its step has and what it fluctuates by, but its mean is that of all.
    density: f64,
    /// Its CPUs, as often as it was drawn.
    cpus: f64,
}

/// Predicted result of a plan.
#[derive(Clone, Copy)]
struct Outcome {
    density: f64,
    wait: f64,
    overhead: f64,
    utilisation: f64,
    /// Part of its cgroups that are on a node denser than any that was measured.
    beyond: f64,
}

/// One draw of the fleet: its busiest steps, its curves, and its nodes as a plan would have them.
struct Fleet {
    today: Today,
    wait: Curve,
    overhead: Curve,
    planned: Vec<Planned>,
    /// The density of the densest that was measured.
    densest: f64,
    /// Relative error of the waits that the curve gives for today.
    curve_error: f64,
    fluctuation: f64,
    differ: f64,
}

impl Fleet {
    /// `None` if no waits were measured, or if nothing ran.
    fn of(points: &[NodeStep], draw: &Draw, count: usize, memory: f64) -> Option<Self> {
        let is_busy = busiest(points, draw);
        let is_drawn = |point: &&NodeStep| is_busy[point.step] && draw.times(point) > 0.0;
        let busy: Vec<NodeStep> = points.iter().filter(is_drawn).copied().collect();
        let steps = draw.steps.iter().zip(&is_busy).filter(|(_, is_busy)| **is_busy);
        let today = today(&busy, draw, steps.map(|(&times, _)| f64::from(times)).sum())?;
        let bins = bins(points, draw, count);
        let wait = Curve::of(&bins, |bin| bin.wait_p99).never_falling();
        let (mut by_curve, mut measured) = (0.0, 0.0);
        for point in &busy {
            if let Some((wait, curve)) = point.wait.zip(wait.at(point.density())) {
                by_curve += draw.times(point) * curve * point.active;
                measured += draw.times(point) * wait * point.active;
            }
        }
        let means = Fluctuation::of(points, draw, memory);
        let planned = planned(&busy, draw, &means, is_busy.len());
        let densest = points.iter().rev().find(|point| draw.times(point) > 0.0).map_or(0.0, NodeStep::density);
        Some(Self {
            today,
            wait,
            overhead: Curve::of(&bins, |bin| Some(bin.overhead)),
            planned,
            fluctuation: means.fluctuates,
            densest,
            curve_error: if measured > 0.0 { by_curve / measured - 1.0 } else { 0.0 },
            differ: means.differ,
        })
    }

    /// Do waits grow with density at all?
    fn grows(&self) -> bool {
        let ends = self.wait.ends().and_then(|(from, to)| self.wait.at(from).zip(self.wait.at(to)));
        ends.is_some_and(|(first, last)| last > first * (1.0 + ROUNDING))
    }

    /// What becomes of the fleet with so many nodes, by the measured curves: as many times as dense as there are fewer of them,
    /// in every step.
    fn with(&self, nodes: u64) -> Option<Outcome> {
        let times = self.today.nodes as f64 / nodes as f64;
        let (mut active, mut cpus, mut waits, mut costs, mut beyond) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for node in &self.planned {
            let density = node.density * times;
            let of_node = node.cpus * density;
            active += of_node;
            cpus += node.cpus;
            waits += of_node * self.wait.at(density)?;
            costs += node.cpus * self.overhead.at(density)?.max(0.0);
            beyond += if density > self.densest * (1.0 + ROUNDING) { of_node } else { 0.0 };
        }
        let overhead = costs / cpus;
        Some(Outcome {
            density: self.today.density * times,
            wait: waits / active / (1.0 + self.curve_error),
            overhead,
            // Each cgroup is assumed to need the CPU time that it needs today on average.
            utilisation: self.today.work / self.today.cpus * times + overhead,
            beyond: beyond / active,
        })
    }

    fn wait_limit(&self, limits: &PackingLimits) -> f64 {
        limits.wait.unwrap_or(self.today.wait_p99)
    }

    fn full(&self, limits: &PackingLimits) -> f64 {
        limits.utilisation.unwrap_or_else(|| UTILISATION_LIMIT.max(self.today.utilisation))
    }

    /// The same work on as few nodes as possible. `None` if no number of nodes in the measured range of densities
    /// suffices.
    fn fewest(&self, limits: &PackingLimits, strength: f64) -> Option<PackedFleet> {
        let (overhead_cut, wait_cut) = (limits.prediction.overhead * strength, limits.prediction.wait * strength);
        let with = |nodes: u64| {
            let outcome = self.with(nodes)?;
            let overhead = outcome.overhead * (1.0 - overhead_cut);
            let utilisation = outcome.utilisation - outcome.overhead + overhead;
            Some(Outcome { wait: outcome.wait * (1.0 - wait_cut), overhead, utilisation, ..outcome })
        };
        let held_back = |outcome: &Outcome| {
            if outcome.wait > self.wait_limit(limits) * (1.0 + ROUNDING) {
                Some(Bound::Wait)
            } else if outcome.utilisation > self.full(limits) * (1.0 + ROUNDING) {
                Some(Bound::Utilisation)
            } else {
                (outcome.beyond > BEYOND).then_some(Bound::Measured)
            }
        };
        // The number of nodes at which they are as empty as the emptiest measured ones.
        let emptiest = self.wait.ends()?.0;
        let most = (self.today.nodes as f64 * (self.today.density / emptiest).max(1.0)) as u64;
        // Fewer nodes mean longer waits and fuller CPUs, so a binary search works: `needed` fits, `too_few` does not.
        let (mut too_few, mut needed) = (0, most);
        let mut bound_by = Bound::Measured;
        let mut found = with(most).filter(|outcome| held_back(outcome).is_none());
        while found.is_some() && needed - too_few > 1 {
            let tried = u64::midpoint(too_few, needed);
            let outcome = with(tried)?;
            match held_back(&outcome) {
                Some(bound) => (too_few, bound_by) = (tried, bound),
                None => (needed, found) = (tried, Some(outcome)),
            }
        }
        // Today's nodes have today's wait, whatever the curve says.
        if limits.wait.is_none() && limits.utilisation.is_none() && (found.is_none() || needed >= self.today.nodes) {
            (needed, bound_by) = (self.today.nodes, Bound::Today);
            found = with(needed);
        }
        let outcome = found?;
        let fewer = i64::try_from(self.today.nodes).unwrap_or(i64::MAX).saturating_sub_unsigned(needed);
        Some(PackedFleet {
            strength,
            overhead_cut,
            wait_cut,
            density: outcome.density,
            wait_p99: outcome.wait,
            overhead: outcome.overhead,
            utilisation: outcome.utilisation,
            nodes: needed,
            fewer,
            fewer_low: fewer,
            fewer_high: fewer,
            bound_by,
        })
    }
}

/// The nodes of the busy steps as a plan has them: each with the mean of all, and what it fluctuates by. In each step they hold
/// what the fleet holds.
fn planned(busy: &[NodeStep], draw: &Draw, means: &Fluctuation, steps: usize) -> Vec<Planned> {
    let measured = || busy.iter().filter(|point| point.wait.is_some()).map(|point| (point, draw.times(point)));
    let mut evened = vec![(0.0, 0.0); steps];
    for (point, times) in measured() {
        let (is, should) = &mut evened[point.step];
        *is += times * point.cpus * means.evened(point);
        *should += times * point.active;
    }
    let planned = |(point, times): (&NodeStep, f64)| {
        let (is, should) = evened[point.step];
        Planned { density: means.evened(point) * should / is, cpus: times * point.cpus }
    };
    measured().map(planned).collect()
}

impl Packing {
    /// Of points that spread enough, of nodes that resemble themselves for `memory` steps; `all` is everything once, `draws` are
    /// for intervals.
    ///
    /// # Errors
    /// When nothing can be said; says why.
    pub(super) fn find(
        points: &[NodeStep],
        count: usize,
        memory: f64,
        all: &Draw,
        draws: &[Draw],
        limits: &PackingLimits,
    ) -> Result<Self, NoPacking> {
        let fleet = Fleet::of(points, all, count, memory).ok_or(NoPacking::NoWaits)?;
        let wait_limit = fleet.wait_limit(limits);
        let utilisation_limit = fleet.full(limits);
        let options_of = |fleet: &Fleet| STRENGTHS.map(|strength| fleet.fewest(limits, strength));
        let mut options: Vec<PackedFleet> = options_of(&fleet).into_iter().flatten().collect();
        if options.is_empty() {
            return Err(NoPacking::NoDensity { wait: wait_limit, utilisation: utilisation_limit });
        }
        let drawn = draws.iter().filter_map(|draw| Fleet::of(points, draw, count, memory));
        let drawn: Vec<[Option<PackedFleet>; 3]> = drawn.map(|fleet| options_of(&fleet)).collect();
        for option in &mut options {
            let same = |packed: &&PackedFleet| packed.strength == option.strength;
            let fewer = drawn.iter().filter_map(|packed| packed.iter().flatten().find(same));
            let mut fewer: Vec<f64> = fewer.map(|packed| packed.fewer as f64).collect();
            if let Some((low, high)) = bootstrap::ends(&mut fewer, 1.0 - HOLDS) {
                option.fewer_low = option.fewer.min(low as i64);
                option.fewer_high = option.fewer.max(high as i64);
            }
        }
        let mut assumptions = assumptions(&fleet, limits);
        if !fleet.grows() {
            assumptions.push(
                "Waits are not longer on denser nodes here. Denser nodes may have other work, or no node was dense enough to show \
                 the effect. Densities beyond the measured ones may do harm."
                    .to_owned(),
            );
        }
        Ok(Self {
            assumptions,
            today: fleet.today,
            wait_limit,
            wait_limit_is_todays: limits.wait.is_none(),
            utilisation_limit,
            prediction: limits.prediction,
            options,
            curve_error: fleet.curve_error,
            fluctuation: fleet.fluctuation,
            differ: fleet.differ,
            draws: drawn.len() as u64,
        })
    }

    /// The one by the measured curve alone. `None` where no number of nodes would do.
    pub fn measured(&self) -> Option<&PackedFleet> {
        self.options.iter().find(|option| option.strength == 0.0)
    }
}

fn assumptions(fleet: &Fleet, limits: &PackingLimits) -> Vec<String> {
    let today = &fleet.today;
    let AssumedEffect { overhead, wait } = limits.prediction;
    let mut todays = format!(
        "The plan is sized for the busiest {}, with {:.0} active cgroups on {:.0} CPUs",
        if today.steps == 1 { "step".to_owned() } else { format!("{} steps", today.steps) },
        today.active,
        today.cpus
    );
    let _ = write!(todays, ". If these fit, all other steps fit.");
    vec![
        todays,
        format!(
            "All planned nodes have the same mean density. Relative to it, they fluctuate as much as today's nodes: by {} from step to \
             step. Packing can remove only the differences between the nodes' means, {}. Differences by chance do not count.",
            Unit::Share.show(fleet.fluctuation),
            Unit::Share.show(fleet.differ),
        ),
        "Work moves with its cgroups. Each cgroup uses the mean CPU time per cgroup, and does the same work on a fuller node.".to_owned(),
        "Density causes long waits. If denser nodes have another kind of work, the curve includes that effect.".to_owned(),
        "Nodes are of the mean size. Memory, disks, networks, spare nodes for failures and the limit of pods per node allow the plan.".to_owned(),
        "The p99 wait of a node covers the waits of all its cgroups. Across nodes, it is the mean by active cgroups. It is as exact as the histogram's buckets.".to_owned(),
        format!(
            "The curve gives waits that are {} {} than those measured in the busiest steps. Predicted waits are corrected for this.",
            Unit::Share.show(fleet.curve_error.abs()),
            if fleet.curve_error < 0.0 { "shorter" } else { "longer" }
        ),
        format!(
            "LAGS was not measured here. Its rows assume that it saves {} of the overhead and {} of the p99 wait, or half of each. The defaults are \
             from the CFS-LAGS paper, for its own load: 13 % fewer switches at 13 instead of 21 µs (§5.2.2), and more than 75 % less time on run \
             queues (§4.1, static priorities; for all waits, not for the p99). Heavy cgroups wait longer with LAGS. The paper went from 14 nodes, \
             by reservations, to 10 (§5.1).",
            Unit::Share.show(overhead),
            Unit::Share.show(wait)
        ),
        format!(
            "Intervals contain {} of the draws of nodes and of blocks of steps. Each draw has its own curves and means. Intervals cover \
             the choice of nodes and hours, but not changes from week to week.",
            Unit::Share.show(HOLDS)
        ),
    ]
}

#[cfg(test)]
mod tests;
