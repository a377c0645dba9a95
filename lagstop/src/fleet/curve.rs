//! What density does, as a curve: nodes in steps, put together by how dense they were.

use schemars::JsonSchema;
use serde::Serialize;
use thiserror::Error;

use super::{NodeStep, draws::Draw};
use crate::diagnosis::Thresholds;

/// Points per bin, and the most bins. Chosen.
const POINTS: usize = 8;
const MOST_BINS: usize = 24;
/// The fewest bins: a bend has four parameters, and each side of it needs two points.
pub(super) const FEWEST_BINS: usize = 6;
/// The fewest points for any curve, as `diagnose` takes intervals of one host: four for each bin.
pub(super) const FEWEST_POINTS: usize = Thresholds::DEFAULT.density_intervals as usize;
/// The fewest nodes for an interval over nodes. Chosen: of fewer, there are too few different draws.
pub(super) const FEWEST_NODES: usize = 5;
/// Minimal ratio of the highest to the lowest density, as `diagnose` has it for one host.
const VARIES: f64 = Thresholds::DEFAULT.density_spread;

/// Why there is no curve.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
pub(super) enum NoCurve {
    #[error("at least {FEWEST_NODES} nodes are needed, and there {} {nodes}", if *nodes == 1 { "is" } else { "are" })]
    FewNodes { nodes: usize },
    #[error(
        "{FEWEST_POINTS} node-steps with CPUs, active cgroups, overhead and utilisation are needed, and there are {points}"
    )]
    FewPoints { points: usize },
    #[error("nothing ran")]
    NothingRan,
    #[error(
        "not enough spread: nodes had {first:.2} to {last:.2} active cgroups per CPU, and a factor of {VARIES} is needed"
    )]
    Narrow { first: f64, last: f64 },
}

/// Node-steps of about the same density, merged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Bin {
    /// Number of node-steps.
    pub count: u64,
    /// Active cgroups per CPU.
    pub density: f64,
    /// Overhead, as a share of all CPU time.
    pub overhead: f64,
    /// CPU time that was not idle, as a share of all CPU time.
    pub utilisation: f64,
    /// 99th percentile of the run-queue waits, in seconds: the mean over node-steps, weighted by active cgroups. `None`
    /// if not measured.
    pub wait_p99: Option<f64>,
}

/// Sums for a bin. Shares are by CPU, waits by the cgroup that waits.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    count: f64,
    cpus: f64,
    active: f64,
    overhead: f64,
    utilisation: f64,
    wait: f64,
    waiting: f64,
}

impl Sums {
    fn add(&mut self, point: &NodeStep, times: f64) {
        self.count += times;
        self.cpus += times * point.cpus;
        self.active += times * point.active;
        self.overhead += times * point.overhead * point.cpus;
        self.utilisation += times * point.utilisation * point.cpus;
        if let Some(wait) = point.wait {
            self.wait += times * wait * point.active;
            self.waiting += times * point.active;
        }
    }

    fn bin(&self) -> Bin {
        Bin {
            count: self.count as u64,
            density: self.active / self.cpus,
            overhead: self.overhead / self.cpus,
            utilisation: self.utilisation / self.cpus,
            wait_p99: (self.waiting > 0.0).then(|| self.wait / self.waiting),
        }
    }
}

/// The number of bins for this number of points.
pub(super) fn bins_of(points: usize) -> usize {
    (points / POINTS).clamp(FEWEST_BINS, MOST_BINS)
}

/// Bins of about as many points each, the emptiest first; each point counts as often as it was drawn. `points` are in the
/// order of their density.
pub(super) fn bins(points: &[NodeStep], draw: &Draw, bins: usize) -> Vec<Bin> {
    let times = |point: &NodeStep| draw.times(point);
    let total: f64 = points.iter().map(times).sum();
    let mut all = Vec::with_capacity(bins);
    let mut sums = Sums::default();
    let mut seen = 0.0;
    for point in points {
        let times = times(point);
        if times == 0.0 {
            continue;
        }
        sums.add(point, times);
        seen += times;
        if seen * bins as f64 >= total * (all.len() + 1) as f64 {
            all.push(sums.bin());
            sums = Sums::default();
        }
    }
    all
}

/// Fails with the reason if there is no curve: too few nodes or points, nothing ran, or densities are too similar.
pub(super) fn spread(points: &[NodeStep], bins: &[Bin], nodes: usize) -> Result<(), NoCurve> {
    if nodes < FEWEST_NODES {
        return Err(NoCurve::FewNodes { nodes });
    }
    if points.len() < FEWEST_POINTS {
        return Err(NoCurve::FewPoints { points: points.len() });
    }
    let (Some(first), Some(last)) = (bins.first(), bins.last()) else { return Err(NoCurve::NothingRan) };
    if last.density < VARIES * first.density {
        return Err(NoCurve::Narrow { first: first.density, last: last.density });
    }
    Ok(())
}

/// A figure as a function of density, linear between its points.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Curve(Vec<(f64, f64)>);

impl Curve {
    pub(super) fn of(bins: &[Bin], figure: impl Fn(&Bin) -> Option<f64>) -> Self {
        Self(bins.iter().filter_map(|bin| Some((bin.density, figure(bin)?))).collect())
    }

    /// The nearest curve that never falls: neighbours that fall are merged (pool adjacent violators; Barlow,
    /// Bartholomew, Bremner, Brunk: Statistical inference under order restrictions, 1972). Bins are of about the same
    /// size.
    pub(super) fn never_falling(&self) -> Self {
        let mut pools: Vec<(f64, usize)> = Vec::with_capacity(self.0.len());
        for &(_, value) in &self.0 {
            let mut pool = (value, 1);
            while let Some(&(before, count)) = pools.last() {
                if before / count as f64 <= pool.0 / pool.1 as f64 {
                    break;
                }
                pools.pop();
                pool = (pool.0 + before, pool.1 + count);
            }
            pools.push(pool);
        }
        let values = pools.iter().flat_map(|&(sum, count)| std::iter::repeat_n(sum / count as f64, count));
        Self(self.0.iter().zip(values).map(|(&(density, _), value)| (density, value)).collect())
    }

    /// The value at a density. Before the first point it is that of the first point. Beyond the last one it continues
    /// with the slope of the last quarter. `None` without points.
    pub(super) fn at(&self, density: f64) -> Option<f64> {
        let after = self.0.partition_point(|&(at, _)| at < density);
        let &(last, y) = self.0.last()?;
        match (after.checked_sub(1).and_then(|before| self.0.get(before)), self.0.get(after)) {
            (Some(&(x0, y0)), Some(&(x1, y1))) => Some(y0 + (y1 - y0) * (density - x0) / (x1 - x0)),
            (None, Some(&(_, y1))) => Some(y1),
            _ => {
                let (x0, y0) = self.0[(self.0.len() - 1) * 3 / 4];
                let slope = if last > x0 { (y - y0) / (last - x0) } else { 0.0 };
                Some(y + slope * (density - last))
            }
        }
    }

    /// The least and the greatest density.
    pub(super) fn ends(&self) -> Option<(f64, f64)> {
        Some((self.0.first()?.0, self.0.last()?.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(node: usize, density: f64, overhead: f64) -> NodeStep {
        NodeStep {
            node,
            step: 0,
            cpus: 2.0,
            active: 2.0 * density,
            overhead,
            utilisation: 0.5,
            wait: Some(density / 1e3),
        }
    }

    #[test]
    fn bins_hold_about_as_much_each_and_lose_nothing() {
        let points: Vec<NodeStep> = (1..=100).map(|n| point(n % 10, n as f64, n as f64 / 1e3)).collect();
        let all = bins(&points, &Draw::all(10, 1), 8);
        assert_eq!((all.len(), all.iter().map(|bin| bin.count).sum::<u64>()), (8, 100));
        assert!(all.iter().all(|bin| (12..=13).contains(&bin.count)));
        assert!(all.is_sorted_by(|a, b| a.density < b.density));
        assert!((all[0].density - 7.0).abs() < 1.0 && all[0].wait_p99.unwrap() >= all[0].density / 1e3);
        let mut once = Draw::all(10, 1);
        once.nodes = vec![0; 10];
        once.nodes[3] = 5;
        assert_eq!(bins(&points, &once, 8).iter().map(|bin| bin.count).sum::<u64>(), 50, "ten points, five times each");
        let none = Draw::all(0, 0);
        assert!(bins(&points, &none, 8).is_empty() && bins(&[], &none, 8).is_empty());
    }

    #[test]
    fn alike_is_not_enough() {
        let alike: Vec<NodeStep> = (0..48).map(|n| point(n % 8, 3.0, 0.1)).collect();
        let why = |points: &[NodeStep], nodes| {
            spread(points, &bins(points, &Draw::all(8, 1), 6), nodes).unwrap_err().to_string()
        };
        assert!(why(&alike, 8).contains("not enough spread: nodes had 3.00 to 3.00"));
        assert!(why(&alike, 1).contains("5 nodes are needed, and there is 1"));
        assert!(why(&alike[..20], 8).contains("24 node-steps"));
        let apart: Vec<NodeStep> = (0..48).map(|n| point(n % 8, 1.0 + n as f64, 0.1)).collect();
        assert_eq!(spread(&apart, &bins(&apart, &Draw::all(8, 1), 6), 8), Ok(()));
    }

    #[test]
    fn a_curve_is_straight_between_its_points_and_goes_on_beyond_them() {
        let curve = Curve(vec![(1.0, 10.0), (2.0, 20.0), (4.0, 0.0)]);
        assert_eq!([1.0, 1.5, 2.0, 3.0, 4.0].map(|at| curve.at(at)), [10.0, 15.0, 20.0, 10.0, 0.0].map(Some));
        assert_eq!([0.5, 4.5].map(|at| curve.at(at)), [10.0, -5.0].map(Some));
        let two = Curve(vec![(1.0, 10.0), (2.0, 20.0)]);
        assert_eq!(two.at(3.0), Some(30.0));
        assert_eq!((curve.ends(), Curve(Vec::new()).ends(), Curve(Vec::new()).at(1.0)), (Some((1.0, 4.0)), None, None));
        assert_eq!(Curve(vec![(1.0, 10.0)]).at(2.0), Some(10.0));
    }

    #[test]
    fn what_falls_is_put_together() {
        let curve =
            Curve([5.0, 1.0, 3.0, 9.0, 8.0, 10.0].into_iter().enumerate().map(|(n, y)| (n as f64, y)).collect());
        let values: Vec<f64> = curve.never_falling().0.into_iter().map(|(_, value)| value).collect();
        assert_eq!(values, [3.0, 3.0, 3.0, 8.5, 8.5, 10.0]);
    }
}
