//! The density at which most CPU time was left for the tasks themselves, and what more cgroups cost since.

use super::Density;
use crate::{
    random::Random,
    stats::{
        Autocorrelation, Resamples, autocorrelation,
        bootstrap::{self, MEMORIES},
        difference, student,
    },
};

/// The most densities that are told apart. Chosen: of the intervals that a verdict needs (`density_intervals`), each has four.
pub(super) const BINS: usize = 6;
/// The most knots of the piecewise linear curve that separates the effect of density from noise. Chosen: finer than [`BINS`], so
/// that what density does within one is not taken for noise.
const KNOTS: usize = 12;
/// Number of resamples of the intervals, and their seed.
const RESAMPLES: u32 = 1_000;
const SEED: u64 = 1;
/// Share of the draws that are inside of the interval of the peak. By convention.
const HOLDS: f64 = 0.9;
/// How sure the lower bound of a difference of means is. By convention.
const SURE: f64 = 0.95;
/// With more intervals than this, neighbours are merged.
const MOST: usize = 1_000;
/// This part of the intervals, the last ones, are "now": a quarter. Chosen: long enough for a mean.
const NOW: usize = 4;

/// Where most CPU time was left, and how sure that is.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Peak {
    /// Each density as the mean of its intervals, the emptiest first.
    pub bins: Vec<Density>,
    pub at: Density,
    /// The fewest and the most active cgroups at the peak, by its interval.
    pub from: u64,
    pub to: u64,
    /// The last intervals.
    pub now: Density,
    /// Work at the peak minus work now, as a share of all CPU time.
    pub lost: Excess,
    /// How much longer the p99 wait is now than at the peak, in nanoseconds. `None` where it was not measured.
    pub waits_more: Option<Excess>,
    /// Effective sample size of the intervals, for work.
    pub independent: f64,
}

/// How much more one mean is than another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Excess {
    pub value: f64,
    pub low: f64,
}

/// A value of each interval, in the order of time.
type Values = Vec<f64>;

impl Peak {
    /// Of intervals in the order of time. `None` of none.
    pub(super) fn find(points: &[Density]) -> Option<Self> {
        let points: Vec<Density> = points.chunks(points.len().div_ceil(MOST).max(1)).map(Density::mean).collect();
        let points = points.as_slice();
        let (bins, bin_of) = bins(points, BINS);
        let (knots, _) = self::bins(points, KNOTS);
        let works: Values = points.iter().map(|point| point.work).collect();
        let waits: Option<Values> = points.iter().map(|point| point.wait_p99).collect();
        let at = fullest(bins.iter().map(|bin| Some(bin.work)))?;
        let now = points.len() - points.len() / NOW;

        let work = Noise::of(points, &knots, &works, |bin| Some(bin.work))?;
        let length = (MEMORIES * work.found.time).ceil() as usize;
        let resamples = Resamples::draw(points.len(), length, RESAMPLES, Random::new(SEED, 0));

        let mut peaks: Vec<f64> = resamples
            .draws()
            .filter_map(|draw| fullest(means(&works, draw, &bin_of, bins.len())))
            .map(|bin| bins[bin].active as f64)
            .collect();
        let (from, to) = bootstrap::ends(&mut peaks, 1.0 - HOLDS)?;
        // The peak was chosen among the bins because it looked best: each of them had a chance to.
        let alpha = (1.0 - SURE) / bins.len() as f64;
        let excess = |values: &[f64], noise: &Noise, more: &dyn Fn(usize) -> bool, less: &dyn Fn(usize) -> bool| {
            let of = |draw: &[u16]| Some(mean(values, draw, more)? - mean(values, draw, less)?);
            let value = of(&vec![1; points.len()])?;
            let mut drawn: Vec<f64> = resamples.draws().filter_map(of).collect();
            let (low, _) = bootstrap::ends(&mut drawn, alpha)?;
            let wider = student::quantile(alpha, autocorrelation::freedom(noise.independent()))
                / student::normal_quantile(alpha);
            Some(Excess { value, low: value - wider * noise.missed(&resamples) * (value - low).max(0.0) })
        };
        let (is_at, is_now) = (|n: usize| bin_of[n] == at, |n: usize| n >= now);
        Some(Self {
            at: bins[at],
            from: (from as u64).min(bins[at].active),
            to: (to as u64).max(bins[at].active),
            now: Density::mean(&points[now..]),
            lost: excess(&works, &work, &is_at, &is_now)?,
            waits_more: waits.and_then(|waits| {
                let noise = Noise::of(points, &knots, &waits, |bin| bin.wait_p99)?;
                excess(&waits, &noise, &is_now, &is_at)
            }),
            independent: work.independent(),
            bins,
        })
    }

    /// May the peak be at the lowest density, by its interval? Then the true one may be even lower.
    pub(super) fn may_be_first(&self) -> bool {
        self.bins.first().is_none_or(|first| self.from <= first.active)
    }

    /// May the peak be at the highest density, by its interval? Then the true one may not have been reached.
    pub(super) fn may_be_last(&self) -> bool {
        self.bins.last().is_none_or(|last| self.to >= last.active)
    }
}

/// Groups of intervals of about the same density, the emptiest first, and the group of each interval.
fn bins(points: &[Density], count: usize) -> (Vec<Density>, Vec<usize>) {
    let mut order: Vec<usize> = (0..points.len()).collect();
    order.sort_by_key(|&n| points[n].active);
    let mut members: Vec<(u64, Vec<usize>)> = Vec::new();
    for chunk in order.chunks(points.len().div_ceil(count).max(1)) {
        let active = Density::mean(chunk.iter().map(|&n| &points[n])).active;
        match members.last_mut() {
            // Groups of the same density are merged: which of them looks better is chance.
            Some((last, members)) if *last == active => members.extend(chunk),
            _ => members.push((active, chunk.to_vec())),
        }
    }
    let mut bin_of = vec![0; points.len()];
    let mean = |(bin, (_, members)): (usize, &(u64, Vec<usize>))| {
        members.iter().for_each(|&n| bin_of[n] = bin);
        Density::mean(members.iter().map(|&n| &points[n]))
    };
    let bins = members.iter().enumerate().map(mean).collect();
    (bins, bin_of)
}

fn fullest(works: impl Iterator<Item = Option<f64>>) -> Option<usize> {
    let known = works.enumerate().filter_map(|(bin, work)| Some((bin, work?)));
    known.max_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(bin, _)| bin)
}

/// The mean of those values of a draw that `among` selects. `None` if it selects none.
fn mean(values: &[f64], draw: &[u16], among: impl Fn(usize) -> bool) -> Option<f64> {
    let mut count = 0.0;
    let mut sum = 0.0;
    for (n, (value, &times)) in values.iter().zip(draw).enumerate() {
        if times > 0 && among(n) {
            count += f64::from(times);
            sum += f64::from(times) * value;
        }
    }
    (count > 0.0).then(|| sum / count)
}

/// The mean of a draw's values in each of `bins` bins.
fn means(values: &[f64], draw: &[u16], bin_of: &[usize], bins: usize) -> impl Iterator<Item = Option<f64>> + use<> {
    let mut sums = vec![(0.0, 0.0); bins];
    for ((value, &times), &bin) in values.iter().zip(draw).zip(bin_of) {
        sums[bin].0 += f64::from(times) * value;
        sums[bin].1 += f64::from(times);
    }
    sums.into_iter().map(|(sum, count)| (count > 0.0).then(|| sum / count))
}

/// The values minus the effect of density.
struct Noise {
    values: Values,
    found: Autocorrelation,
}

impl Noise {
    fn of(points: &[Density], knots: &[Density], values: &[f64], figure: fn(&Density) -> Option<f64>) -> Option<Self> {
        let curve: Option<Vec<(f64, f64)>> =
            knots.iter().map(|knot| Some((knot.active as f64, figure(knot)?))).collect();
        let curve = curve?;
        let left = |(point, value): (&Density, &f64)| difference(*value, on(&curve, point.active as f64));
        let values: Values = points.iter().zip(values).map(left).collect();
        let found = Autocorrelation::of(&values);
        Some(Self { values, found })
    }

    fn independent(&self) -> f64 {
        self.found.effective(self.values.len())
    }

    /// How much wider the true spread of the mean is than that of the draws, which break the memory at the ends of
    /// blocks.
    fn missed(&self, resamples: &Resamples) -> f64 {
        let means: Vec<f64> = resamples.draws().filter_map(|draw| mean(&self.values, draw, |_| true)).collect();
        let share = (self.found.of_mean() / bootstrap::variance(means.iter().copied())).sqrt();
        if share.is_finite() { share.max(1.0) } else { 1.0 }
    }
}

/// Linear interpolation of a curve, extrapolated beyond its ends.
fn on(curve: &[(f64, f64)], x: f64) -> f64 {
    let after = curve.partition_point(|point| point.0 < x).clamp(1, curve.len().max(2) - 1);
    match curve.get(after - 1).zip(curve.get(after)) {
        Some((a, b)) => a.1 + (b.1 - a.1) * (x - a.0) / (b.0 - a.0),
        None => curve.first().map_or(0.0, |only| only.1),
    }
}
