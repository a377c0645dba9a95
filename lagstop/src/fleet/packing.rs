//! How many nodes the same work would take: as dense as waits and utilisation allow, by the fleet's own curve, and by what
//! LAGS would make of it.
//!
//! CFS-LAGS paper (arXiv 2508.15703, §5.1): the work of 14 nodes with the same performance on 10.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Serialize;

use super::{
    Point,
    curve::{Curve, Times, bins},
    knee::{HOLDS, middle},
};
use crate::diagnosis::Unit;

/// Part of the steps that count as the busiest.
const BUSIEST: f64 = 0.05;
/// Densities that are tried between the emptiest and the densest.
const TRIED: usize = 400;
/// So full a node may get, unless the fleet is fuller today: from there on its CPUs are full.
const FULL: f64 = 0.8;
/// So much is none: sums come out a little different in another order.
const ROUNDING: f64 = 1e-9;
/// What LAGS is taken to do: nothing, half, all of it.
const STRENGTHS: [f64; 3] = [0.0, 0.5, 1.0];

/// What LAGS is assumed to do to the fleet's curves.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Prediction {
    /// Part of the overhead that goes away.
    pub overhead: f64,
    /// Part of the p99 run-queue wait that goes away.
    pub wait: f64,
}

impl Default for Prediction {
    /// What the paper measured. Overhead is switches × what one costs (§5.2.2): 13 % fewer, and 13 µs instead of 21, is
    /// 1 − 0.87 · 13 / 21. Waits (§4.1): static priorities took more than 75 % of all time on run queues away.
    fn default() -> Self {
        Self { overhead: 0.46, wait: 0.75 }
    }
}

/// The fleet in its busiest steps.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Today {
    /// Steps that it is the mean of.
    pub steps: u64,
    /// Nodes.
    pub nodes: u64,
    /// Their CPUs.
    pub cpus: f64,
    /// Active cgroups on all of them.
    pub active: f64,
    /// CPU time that goes into the tasks' own work, in cores.
    pub work: f64,
    /// Active cgroups per CPU.
    pub density: f64,
    /// 99th percentile of the run-queue waits, in seconds: the mean over the nodes, by active cgroups.
    pub wait_p99: f64,
    /// Overhead, as a share of all CPU time.
    pub overhead: f64,
    /// CPU time that is not idle, as a share of all.
    pub perceived: f64,
}

/// What keeps a fleet from getting denser.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// Waits get longer than they may.
    Wait,
    /// CPUs get fuller than they may.
    Utilisation,
    /// No node was denser: what would be beyond is not known.
    Measured,
    /// It is as today already.
    Today,
}

impl Bound {
    /// As people say it.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Wait => "p99 wait",
            Self::Utilisation => "utilisation",
            Self::Measured => "denser was not measured",
            Self::Today => "as today",
        }
    }
}

/// The same work on as few nodes as may be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Packed {
    /// How much of the prediction comes true: 0 is the measured curve, 1 is all of it.
    pub strength: f64,
    /// Part of the overhead that is taken to go away.
    pub overhead_cut: f64,
    /// Part of the p99 wait that is taken to go away.
    pub wait_cut: f64,
    /// Active cgroups per CPU in the busiest steps.
    pub density: f64,
    /// 99th percentile of the run-queue waits then, in seconds.
    pub wait_p99: f64,
    /// Overhead then.
    pub overhead: f64,
    /// Perceived utilisation then.
    pub perceived: f64,
    /// Nodes of the mean size of today's.
    pub nodes: u64,
    /// So many fewer than today. Less than none where it takes more.
    pub fewer: i64,
    /// At least: nine in ten draws of the nodes have it between.
    pub fewer_low: i64,
    /// At most.
    pub fewer_high: i64,
    /// What keeps it from getting denser.
    pub bound_by: Bound,
}

/// How many nodes the same work would take.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Packing {
    /// The fleet in its busiest steps.
    pub today: Today,
    /// So long the p99 wait may be, in seconds.
    pub wait_limit: f64,
    /// That is today's.
    pub wait_limit_is_todays: bool,
    /// So full CPUs may be.
    pub utilisation_limit: f64,
    /// What LAGS is assumed to do.
    pub prediction: Prediction,
    /// By the measured curve; with half of what LAGS is assumed to do; with all of it.
    pub options: Vec<Packed>,
    /// How long the p99 waits come out that were measured in the busiest steps, by the curve: 0.1 is a tenth too long.
    pub curve_error: f64,
    /// Draws of the nodes.
    pub draws: u64,
    /// What all of this takes for granted.
    pub assumptions: Vec<String>,
}

/// What may be chosen.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Limits {
    /// Seconds. Today's where none was given.
    pub wait: Option<f64>,
    /// Share of all CPU time.
    pub utilisation: Option<f64>,
    pub prediction: Prediction,
}

/// The busiest steps of the fleet: those with the most active cgroups.
fn busiest(points: &[Point], steps: usize) -> Vec<bool> {
    let mut active = vec![0.0; steps];
    points.iter().for_each(|point| active[point.step] += point.active);
    let mut order: Vec<usize> = (0..steps).filter(|&step| active[step] > 0.0).collect();
    order.sort_by(|&a, &b| active[b].total_cmp(&active[a]));
    order.truncate(((order.len() as f64 * BUSIEST).ceil() as usize).max(1));
    let mut is_busy = vec![false; steps];
    order.into_iter().for_each(|step| is_busy[step] = true);
    is_busy
}

/// What nodes did in the busiest steps, as they were drawn.
fn today(busy: &[Point], times: Times<'_>, steps: usize) -> Option<Today> {
    let (mut nodes, mut cpus, mut active, mut work) = (0.0, 0.0, 0.0, 0.0);
    let (mut overhead, mut used, mut wait, mut waiting) = (0.0, 0.0, 0.0, 0.0);
    for point in busy {
        let times = times.get(point.node).copied().map_or(0.0, f64::from);
        nodes += times;
        cpus += times * point.cpus;
        active += times * point.active;
        work += times * point.work();
        overhead += times * point.overhead * point.cpus;
        used += times * point.perceived * point.cpus;
        if let Some(of_point) = point.wait {
            wait += times * of_point * point.active;
            waiting += times * point.active;
        }
    }
    let each = steps as f64;
    (cpus > 0.0 && active > 0.0 && waiting > 0.0 && each > 0.0).then(|| Today {
        steps: steps as u64,
        nodes: (nodes / each).round().max(1.0) as u64,
        cpus: cpus / each,
        active: active / each,
        work: work / each,
        density: active / cpus,
        wait_p99: wait / waiting,
        overhead: overhead / cpus,
        perceived: used / cpus,
    })
}

/// What density does, as it was drawn.
struct Curves {
    wait: Curve,
    overhead: Curve,
}

impl Curves {
    /// Do waits get longer at all?
    fn grow(&self) -> bool {
        let ends = self.wait.ends().and_then(|(from, to)| self.wait.at(from).zip(self.wait.at(to)));
        ends.is_some_and(|(first, last)| last > first * (1.0 + ROUNDING))
    }

    fn of(points: &[Point], times: Times<'_>, count: usize) -> Self {
        let bins = bins(points, times, count);
        Self {
            wait: Curve::of(&bins, |bin| bin.wait_p99).never_falling(),
            overhead: Curve::of(&bins, |bin| Some(bin.overhead)),
        }
    }
}

/// How dense it can get, with what becomes of the fleet then.
fn densest(
    curves: &Curves,
    today: &Today,
    limits: &Limits,
    strength: f64,
    wait_limit: f64,
    full: f64,
) -> Option<Packed> {
    let (overhead_cut, wait_cut) = (limits.prediction.overhead * strength, limits.prediction.wait * strength);
    let (from, to) = curves.wait.ends()?;
    // CPU time for the work of a cgroup, each of which takes what it takes today on average.
    let each = today.work / today.active;
    let at = |density: f64| {
        let wait = curves.wait.at(density)? * (1.0 - wait_cut);
        let overhead = curves.overhead.at(density)? * (1.0 - overhead_cut);
        Some((wait, overhead, each * density + overhead))
    };
    let mut bound_by = Bound::Measured;
    for n in (0..=TRIED).rev() {
        let density = from + (to - from) * n as f64 / TRIED as f64;
        let Some((wait_p99, overhead, perceived)) = at(density) else { continue };
        if wait_p99 > wait_limit * (1.0 + ROUNDING) {
            bound_by = Bound::Wait;
        } else if perceived > full * (1.0 + ROUNDING) {
            bound_by = Bound::Utilisation;
        } else {
            let (nodes, fewer) = (0, 0);
            return Some(Packed {
                strength,
                overhead_cut,
                wait_cut,
                density,
                wait_p99,
                overhead,
                perceived,
                nodes,
                fewer,
                fewer_low: fewer,
                fewer_high: fewer,
                bound_by,
            });
        }
    }
    None
}

/// How many nodes that takes, and how many fewer that is.
fn nodes(packed: &mut Packed, today: &Today, is_todays: bool) {
    let size = today.cpus / today.nodes as f64;
    let needed = (today.active / (packed.density * size) * (1.0 - ROUNDING)).ceil().max(1.0) as u64;
    packed.nodes = needed;
    // Today's nodes have today's wait, whatever a curve says.
    if is_todays && needed >= today.nodes {
        packed.nodes = today.nodes;
        packed.bound_by = Bound::Today;
    }
    packed.fewer = i64::try_from(today.nodes).unwrap_or(i64::MAX).saturating_sub_unsigned(packed.nodes);
}

/// The same work on as few nodes as may be: once for each strength of the prediction.
fn options(
    points: &[Point],
    busy: &[Point],
    times: Times<'_>,
    steps: usize,
    count: usize,
    limits: &Limits,
) -> Option<(Today, Vec<Option<Packed>>, Curves)> {
    let today = today(busy, times, steps)?;
    let curves = Curves::of(points, times, count);
    let wait_limit = limits.wait.unwrap_or(today.wait_p99);
    let full = limits.utilisation.unwrap_or_else(|| FULL.max(today.perceived));
    let packed = STRENGTHS.map(|strength| {
        let mut packed = densest(&curves, &today, limits, strength, wait_limit, full)?;
        nodes(&mut packed, &today, limits.wait.is_none() && limits.utilisation.is_none());
        Some(packed)
    });
    Some((today, packed.to_vec(), curves))
}

impl Packing {
    /// Of points that spread enough; `draws` say how often each node was drawn in each of many draws.
    ///
    /// # Errors
    /// When nothing can be said; says why.
    pub(super) fn find(
        points: &[Point],
        nodes: usize,
        steps: usize,
        count: usize,
        draws: &[Vec<u16>],
        limits: &Limits,
    ) -> Result<Self, String> {
        let is_busy = busiest(points, steps);
        let busy: Vec<Point> = points.iter().filter(|point| is_busy[point.step]).copied().collect();
        let busy_steps = is_busy.iter().filter(|&&is_busy| is_busy).count();
        let all = vec![1; nodes];
        let (today, packed, curves) = options(points, &busy, &all, busy_steps, count, limits)
            .ok_or("run-queue waits were not measured: without them nobody knows how dense is too dense")?;
        let wait_limit = limits.wait.unwrap_or(today.wait_p99);
        let utilisation_limit = limits.utilisation.unwrap_or_else(|| FULL.max(today.perceived));
        let mut packed: Vec<Packed> = packed.into_iter().flatten().collect();
        if packed.is_empty() {
            return Err(format!(
                "at no density that was measured are waits as short as {} and CPUs no fuller than {}",
                Unit::Ns.show(wait_limit * 1e9),
                Unit::Share.show(utilisation_limit)
            ));
        }
        let drawn: Vec<Vec<Option<Packed>>> = draws
            .iter()
            .filter_map(|times| options(points, &busy, times, busy_steps, count, limits))
            .map(|(_, packed, _)| packed)
            .collect();
        for option in &mut packed {
            let same = |packed: &&Packed| packed.strength == option.strength;
            let mut fewer: Vec<f64> = drawn
                .iter()
                .filter_map(|packed| packed.iter().flatten().find(same))
                .map(|packed| packed.fewer as f64)
                .collect();
            fewer.sort_by(f64::total_cmp);
            if let Some((low, high)) = middle(&fewer) {
                option.fewer_low = option.fewer.min(low as i64);
                option.fewer_high = option.fewer.max(high as i64);
            }
        }
        let curve_error = error(&curves, &busy);
        let wait_limit_is_todays = limits.wait.is_none();
        let mut assumptions = assumptions(&today, limits, curve_error);
        if !curves.grow() {
            assumptions.push(
                "Waits are not longer on denser nodes here: those have other work, or none was dense enough for it to show. More \
                 density than was measured may well do harm."
                    .to_owned(),
            );
        }
        Ok(Self {
            assumptions,
            today,
            wait_limit,
            wait_limit_is_todays,
            utilisation_limit,
            prediction: limits.prediction,
            options: packed,
            curve_error,
            draws: drawn.len() as u64,
        })
    }

    /// The one by the measured curve, and the one with all that LAGS is assumed to do.
    pub fn ends(&self) -> (Option<&Packed>, Option<&Packed>) {
        let at = |strength: f64| self.options.iter().find(|option| option.strength == strength);
        (at(0.0), at(1.0))
    }
}

/// How long waits come out by the curve that were measured.
fn error(curves: &Curves, busy: &[Point]) -> f64 {
    let (mut by_curve, mut measured) = (0.0, 0.0);
    for point in busy {
        if let Some((wait, curve)) = point.wait.zip(curves.wait.at(point.density())) {
            by_curve += curve * point.active;
            measured += wait * point.active;
        }
    }
    if measured > 0.0 { by_curve / measured - 1.0 } else { 0.0 }
}

fn assumptions(today: &Today, limits: &Limits, curve_error: f64) -> Vec<String> {
    let Prediction { overhead, wait } = limits.prediction;
    let mut todays = format!(
        "The busiest {} decide, with {:.0} active cgroups on {:.0} CPUs",
        if today.steps == 1 { "step".to_owned() } else { format!("{} steps", today.steps) },
        today.active,
        today.cpus
    );
    let _ = write!(todays, ": where those fit, the others do.");
    vec![
        todays,
        "Work moves with its cgroups: each takes the CPU time that one takes on average, and what a cgroup does is the same on a fuller node.".to_owned(),
        "Density is what makes waits long. Where denser nodes have another kind of work, the curve shows that as well.".to_owned(),
        "Nodes are of the mean size, packed evenly, and memory, disks, networks and the limit of pods on a node allow it.".to_owned(),
        "p99 is of the waits of all cgroups of a node, and of nodes the mean by active cgroups; it is as exact as the histogram's buckets.".to_owned(),
        format!(
            "The curve gives waits that are {} {} than those measured in the busiest steps.",
            Unit::Share.show(curve_error.abs()),
            if curve_error < 0.0 { "shorter" } else { "longer" }
        ),
        format!(
            "LAGS is no measurement here: it is taken to spare {} of the overhead and {} of the p99 wait, or half of each. The defaults are the \
             CFS-LAGS paper's, for its own load: 13 % fewer switches of 13 instead of 21 µs (§5.2.2), and more than 75 % less time on run \
             queues (§4.1, static priorities). Heavy cgroups wait longer with it. The paper went from 14 nodes, by reservations, to 10 (§5.1).",
            Unit::Share.show(overhead),
            Unit::Share.show(wait)
        ),
        format!("Intervals hold {} of the draws of the nodes: they speak of which nodes were there, not of another week.", Unit::Share.show(HOLDS)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// 40 nodes of 8 CPUs with 2 to 12 cgroups per CPU; waits are so many ms as there are cgroups per CPU, and more beyond 8.
    fn fleet(steps: usize) -> Vec<Point> {
        let mut points: Vec<Point> = (0..40 * steps)
            .map(|n| {
                let (node, step) = (n % 40, n / 40);
                let density = 2.0 + 10.0 * node as f64 / 39.0;
                let overhead = 0.01 * density;
                let wait = (density + 4.0 * (density - 8.0).max(0.0)) / 1e3;
                Point {
                    node,
                    step,
                    cpus: 8.0,
                    active: 8.0 * density,
                    overhead,
                    perceived: 0.04 * density + overhead,
                    wait: Some(wait),
                }
            })
            .collect();
        points.sort_by(|a, b| a.density().total_cmp(&b.density()));
        points
    }

    fn draws(nodes: usize) -> Vec<Vec<u16>> {
        let mut random = Random::new(1, 0);
        let draw = |_| {
            let mut times = vec![0; nodes];
            (0..nodes).for_each(|_| times[random.below(nodes)] += 1);
            times
        };
        (0..100).map(draw).collect()
    }

    fn find(points: &[Point], limits: &Limits) -> Result<Packing, String> {
        Packing::find(points, 40, 8, 12, &draws(40), limits)
    }

    #[test]
    fn the_densest_that_keeps_todays_wait_is_found() {
        let packing = find(&fleet(8), &Limits::default()).unwrap();
        let today = packing.today;
        assert_eq!((today.nodes, today.cpus, today.steps), (40, 320.0, 1));
        assert!((today.density - 7.0).abs() < 1e-9 && packing.curve_error.abs() < 0.02, "{packing:?}");
        // Σ density · wait / Σ density is 13.1 ms; the curve has that at 9.0 cgroups per CPU: 2240 / 9.0 / 8 nodes.
        let [measured, half, full] = packing.options[..] else { panic!() };
        assert!((measured.density - 9.0).abs() < 0.2 && measured.bound_by == Bound::Wait, "{measured:?}");
        assert!((31..=33).contains(&measured.nodes) && measured.fewer == 40 - measured.nodes as i64);
        assert!(measured.fewer_low <= measured.fewer && measured.fewer <= measured.fewer_high);
        assert!(half.nodes < measured.nodes && full.nodes <= half.nodes, "{half:?} {full:?}");
        assert_eq!((half.wait_cut, full.wait_cut, full.overhead_cut), (0.375, 0.75, 0.46));
        assert!(full.wait_p99 <= packing.wait_limit && full.perceived <= packing.utilisation_limit);
        assert_eq!(full.bound_by, Bound::Measured, "no node is denser than 12");
    }

    #[test]
    fn a_shorter_wait_takes_more_nodes_and_one_that_nobody_has_is_said() {
        let limits = |wait: f64| Limits { wait: Some(wait), ..Limits::default() };
        let packing = find(&fleet(8), &limits(0.004)).unwrap();
        let (measured, _) = packing.ends();
        assert!(measured.unwrap().fewer < 0 && !packing.wait_limit_is_todays, "{packing:?}");
        assert!(find(&fleet(8), &limits(1e-6)).unwrap_err().contains("at no density"));
    }

    #[test]
    fn full_cpus_are_a_bound_as_well() {
        let limits = Limits { utilisation: Some(0.25), wait: Some(1.0), ..Limits::default() };
        let packing = find(&fleet(8), &limits).unwrap();
        let (measured, full) = packing.ends();
        let (measured, full) = (measured.unwrap(), full.unwrap());
        assert_eq!((measured.bound_by, full.bound_by), (Bound::Utilisation, Bound::Utilisation));
        assert!((measured.density - 5.0).abs() < 0.1, "0.05 a cgroup: {measured:?}");
        assert!(full.density > measured.density, "less overhead leaves room");
    }

    #[test]
    fn without_waits_nothing_is_said() {
        let mut points = fleet(8);
        points.iter_mut().for_each(|point| point.wait = None);
        assert!(find(&points, &Limits::default()).unwrap_err().contains("not measured"));
    }

    #[test]
    fn waits_that_do_not_grow_are_said() {
        let mut points = fleet(8);
        let says = |points: &[Point]| {
            let packing = find(points, &Limits::default()).unwrap();
            packing.assumptions.iter().any(|it| it.contains("not longer on denser nodes"))
        };
        assert!(!says(&points));
        points.iter_mut().for_each(|point| point.wait = Some(0.02 / point.density()));
        assert!(says(&points));
    }

    #[test]
    fn an_even_fleet_needs_the_nodes_it_has() {
        let mut points = fleet(8);
        // By day all are as dense, by night half as much.
        for point in &mut points {
            let density = if point.step < 4 { 8.0 } else { 4.0 };
            (point.active, point.wait) = (8.0 * density, Some(density / 1e3));
        }
        points.sort_by(|a, b| a.density().total_cmp(&b.density()));
        let packing = find(&points, &Limits::default()).unwrap();
        let (measured, _) = packing.ends();
        assert_eq!((measured.unwrap().nodes, measured.unwrap().fewer), (40, 0));
    }
}
