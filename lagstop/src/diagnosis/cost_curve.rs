//! What a switch costs at which run-queue length, on this host.

use super::HostSample;

/// The most points of the curve. Chosen.
const MOST_POINTS: usize = 8;
/// The fewest intervals for a point: a single one may be an outlier.
const FEWEST_INTERVALS: usize = 2;

/// What a switch costs at which run-queue length: this host's own, from its intervals.
#[derive(Clone, Debug, PartialEq)]
pub struct CostCurve {
    /// Runnable tasks per CPU, and the mean cost of a switch in nanoseconds then; the shortest queue first.
    points: Vec<(f64, f64)>,
}

impl CostCurve {
    /// From intervals. `None` where costs were not measured, or in too few of them.
    pub(super) fn of(samples: &[HostSample]) -> Option<Self> {
        let mut by_load: Vec<(f64, &HostSample)> = samples
            .iter()
            .filter(|sample| sample.capacity_ns > 0.0 && sample.mean_cost_ns().is_some())
            .map(|sample| (sample.load_per_cpu(), sample))
            .collect();
        by_load.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        let each = by_load.len().div_ceil(MOST_POINTS).max(FEWEST_INTERVALS);
        let point = |part: &[(f64, &HostSample)]| {
            let sum = HostSample::sum(part.iter().map(|&(_, sample)| sample));
            Some((sum.load_per_cpu(), sum.mean_cost_ns()?))
        };
        let points: Vec<(f64, f64)> =
            by_load.chunks(each).filter(|part| part.len() >= FEWEST_INTERVALS).filter_map(point).collect();
        let are_real = points.iter().all(|(load, cost)| load.is_finite() && cost.is_finite());
        (are_real && !points.is_empty()).then_some(Self { points })
    }

    /// The points, the shortest queue first: runnable tasks per CPU, and the mean cost of a switch in nanoseconds.
    pub fn points(&self) -> &[(f64, f64)] {
        &self.points
    }

    /// The cost of a switch with this many runnable tasks per CPU, in nanoseconds. Outside the measured range it is
    /// that of the nearest point.
    pub(super) fn at(&self, load: f64) -> f64 {
        let after = self.points.partition_point(|&(at, _)| at < load);
        match (after.checked_sub(1).and_then(|before| self.points.get(before)), self.points.get(after)) {
            (Some(&(x0, y0)), Some(&(x1, y1))) if x1 > x0 => y0 + (y1 - y0) * (load - x0) / (x1 - x0),
            (_, Some(&(_, cost))) | (Some(&(_, cost)), None) => cost,
            (None, None) => f64::NAN,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(load: f64, cost: f64) -> HostSample {
        HostSample {
            capacity_ns: 1e9,
            busy_ns: load * 1e9,
            wait_ns: Some(0.0),
            switches: 1_000,
            switching_ns: Some(cost * 1_000.0),
            kept_ns: Some(0.0),
        }
    }

    #[test]
    fn between_its_points_it_is_straight_and_beyond_them_flat() {
        let samples: Vec<HostSample> =
            (0..32).rev().map(|n| sample(f64::from(n), 1_000.0 + 100.0 * f64::from(n))).collect();
        let curve = CostCurve::of(&samples).unwrap();
        assert_eq!(curve.points().len(), 8);
        for load in [2.0, 10.0, 29.0] {
            assert!((curve.at(load) - (1_000.0 + 100.0 * load)).abs() < 1e-6, "{load}");
        }
        assert_eq!((curve.at(-1.0), curve.at(99.0)), (curve.points()[0].1, curve.points()[7].1));
    }

    #[test]
    fn without_costs_or_intervals_there_is_none() {
        assert_eq!(CostCurve::of(&[]), None);
        assert_eq!(CostCurve::of(&[sample(1.0, 1.0)]), None, "one is no point");
        let unmeasured = HostSample { switching_ns: None, ..sample(1.0, 1.0) };
        assert_eq!(CostCurve::of(&[unmeasured; 9]), None);
        assert_eq!(CostCurve::of(&[sample(1.0, 500.0); 9]).unwrap().at(7.0), 500.0, "all the same");
    }
}
