//! Where a curve bends: the density from which on each further cgroup costs more than those before.

use schemars::JsonSchema;
use serde::Serialize;
use thiserror::Error;

use super::{
    Bin, NodeStep,
    curve::{FEWEST_BINS, bins},
    draws::{Draw, HOLDS},
};
use crate::stats::bootstrap;

/// A bend must leave less than this share of what a straight line leaves unexplained, each per degree of freedom. Chosen.
/// docs/fleet.md has the error rates that come of this and of [`STRONG`].
const LEAVES: f64 = 0.5;
/// How many times as steep the curve must be beyond the knee. Chosen: a smaller bend changes no decision.
const STEEPER: f64 = 1.5;
/// By so much a bend must be better than any curve that grows ever steeper, in BIC: strong evidence is 6 (Kass, Raftery: Bayes
/// factors, 1995, §3.2). In a draw it must only be better: a draw is noisier than what it is drawn from.
const STRONG: f64 = 6.0;
const BETTER: f64 = 0.0;
/// Share of the draws that must have a knee. Chosen: the same share as the interval of its place holds.
const AGREE: f64 = HOLDS;
/// Number of bends that are tried between two bins.
const BETWEEN: usize = 4;
/// Curves that grow ever steeper: e^(r·x), and 1 / (pole − x) as waits in a queue, where x goes from 0 to 1.
const RATES: [f64; 7] = [1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0];
const POLES: [f64; 5] = [1.02, 1.05, 1.1, 1.2, 1.5];
/// Residuals below this share of the squares count as 0.
const ROUNDING: f64 = 1e-12;

/// Density at which a curve bends upwards.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Knee {
    /// Active cgroups per CPU.
    pub density: f64,
    /// Lower end of the 90 % interval of the density, over draws of nodes and steps.
    pub low: f64,
    /// Upper end of this interval.
    pub high: f64,
    /// What each additional cgroup per CPU adds below the knee, in the metric's unit.
    pub before: f64,
    /// What each additional cgroup per CPU adds above the knee.
    pub beyond: f64,
}

/// A bend as one sample of nodes and steps has it.
#[derive(Clone, Copy, Debug)]
struct Bend {
    density: f64,
    before: f64,
    beyond: f64,
}

/// Why there is no knee.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
pub(super) enum NoKnee {
    #[error("it was not measured")]
    NotMeasured,
    #[error("there are too few different densities to find one")]
    TooFew,
    #[error("within measurement precision, it grows evenly, without a bend")]
    Straight,
    #[error("it gets steeper gradually, without a bend at any density")]
    Smooth,
    #[error(
        "the apparent bend at {density:.1} cgroups per CPU is missing in {without} of {draws} draws of nodes and steps"
    )]
    Chance { density: f64, without: usize, draws: usize },
}

impl Knee {
    /// Of a figure of the bins; `all` is everything once, `draws` are for the interval.
    ///
    /// # Errors
    /// When there is none, or none that is more than chance; says which.
    pub(super) fn find(
        points: &[NodeStep],
        count: usize,
        all: &Draw,
        draws: &[Draw],
        figure: fn(&Bin) -> Option<f64>,
    ) -> Result<Self, NoKnee> {
        let known = |draw: &Draw| -> Vec<(f64, f64)> {
            bins(points, draw, count).iter().filter_map(|bin| Some((bin.density, figure(bin)?))).collect()
        };
        let measured = known(all);
        if measured.is_empty() {
            return Err(NoKnee::NotMeasured);
        }
        let found = bend(&measured, STRONG)?;
        let mut bends: Vec<f64> =
            draws.iter().filter_map(|draw| bend(&known(draw), BETTER).ok()).map(|bend| bend.density).collect();
        if (bends.len() as f64) < AGREE * draws.len() as f64 {
            let (density, draws) = (found.density, draws.len());
            return Err(NoKnee::Chance { density, without: draws - bends.len(), draws });
        }
        let (low, high) = bootstrap::ends(&mut bends, 1.0 - HOLDS).unwrap_or((found.density, found.density));
        Ok(Self {
            density: found.density,
            low: low.min(found.density),
            high: high.max(found.density),
            before: found.before,
            beyond: found.beyond,
        })
    }
}

/// The two straight lines that meet and fit best: a bend, where they fit much better than one line, where the second is
/// steeper, and where they are better than each curve that has no special point, by `margin` in BIC.
///
/// # Errors
/// Says which of these it is not.
fn bend(points: &[(f64, f64)], margin: f64) -> Result<Bend, NoKnee> {
    let count = points.len();
    if count < FEWEST_BINS {
        return Err(NoKnee::TooFew);
    }
    let (from, range) = (points[0].0, points[count - 1].0 - points[0].0);
    let points: Vec<(f64, f64)> = points.iter().map(|&(x, y)| ((x - from) / range, y)).collect();
    let straight = fit(&points, None).ok_or(NoKnee::Straight)?;
    let nothing = ROUNDING * points.iter().map(|(_, y)| y * y).sum::<f64>();
    if straight.left <= nothing {
        return Err(NoKnee::Straight);
    }
    let between = points[1..count - 1]
        .windows(2)
        .flat_map(|ends| (0..BETWEEN).map(move |n| ends[0].0 + (ends[1].0 - ends[0].0) * n as f64 / BETWEEN as f64));
    let tried = between.filter_map(|at| Some((at, fit(&points, Some(&|x| (x - at).max(0.0)))?)));
    let (at, best) = tried.min_by(|(_, a), (_, b)| a.left.total_cmp(&b.left)).ok_or(NoKnee::Straight)?;
    let of_one = |left: f64, fitted: usize| left / (count - fitted) as f64;
    let (before, beyond) = (best.slope / range, (best.slope + best.change) / range);
    let is_better = of_one(best.left, 4) < LEAVES * of_one(straight.left, 2);
    if !(is_better && beyond > 0.0 && beyond > STEEPER * before) {
        return Err(NoKnee::Straight);
    }
    // Bayesian information criterion (Schwarz 1978): the less, the better.
    let n = count as f64;
    let bic = |fit: &Fit, fitted: f64| n * (fit.left.max(nothing) / n).ln() + fitted * n.ln();
    let parabola = fit(&points, Some(&|x| x * x)).map(|fit| bic(&fit, 3.0));
    let exponentials = RATES.iter().filter_map(|rate| fit(&points, Some(&|x| (rate * (x - 1.0)).exp())));
    let hyperbolas = POLES.iter().filter_map(|pole| fit(&points, Some(&|x| 1.0 / (pole - x))));
    let smooth = exponentials.chain(hyperbolas).map(|fit| bic(&fit, 4.0)).chain(parabola);
    if bic(&best, 4.0) + margin < smooth.fold(f64::INFINITY, f64::min) {
        Ok(Bend { density: from + at * range, before, beyond })
    } else {
        Err(NoKnee::Smooth)
    }
}

struct Fit {
    slope: f64,
    change: f64,
    left: f64,
}

/// Least squares of `a + slope · x + change · bent(x)`; of a straight line where there is nothing bent.
fn fit(points: &[(f64, f64)], bent: Option<&dyn Fn(f64) -> f64>) -> Option<Fit> {
    let of = |x: f64| bent.map_or(0.0, |bent| bent(x));
    // Centred, so that little is lost to rounding.
    let mean = |of: &dyn Fn(f64) -> f64| points.iter().map(|&(x, _)| of(x)).sum::<f64>() / points.len() as f64;
    let (centre, bent_centre) = (mean(&|x| x), mean(&of));
    let row = |x: f64| [1.0, x - centre, of(x) - bent_centre];
    let mut normal = [[0.0; 4]; 3];
    for &(x, y) in points {
        let row = row(x);
        for (line, &a) in normal.iter_mut().zip(&row) {
            for (cell, &b) in line.iter_mut().zip(row.iter().chain([&y])) {
                *cell += a * b;
            }
        }
    }
    if bent.is_none() {
        normal[2] = [0.0, 0.0, 1.0, 0.0];
    }
    let [a, slope, change] = solve(normal)?;
    let left = points
        .iter()
        .map(|&(x, y)| {
            let row = row(x);
            (y - a * row[0] - slope * row[1] - change * row[2]).powi(2)
        })
        .sum();
    Some(Fit { slope, change, left })
}

/// Gaussian elimination. `None` if the solution is not unique.
fn solve(mut lines: [[f64; 4]; 3]) -> Option<[f64; 3]> {
    for column in 0..3 {
        let pivot = (column..3).max_by(|&a, &b| lines[a][column].abs().total_cmp(&lines[b][column].abs()))?;
        lines.swap(column, pivot);
        let head = lines[column];
        if head[column].abs() < 1e-12 || !head[column].is_finite() {
            return None;
        }
        for (_, line) in lines.iter_mut().enumerate().filter(|(other, _)| *other != column) {
            let times = line[column] / head[column];
            line.iter_mut().zip(&head).for_each(|(cell, &above)| *cell -= times * above);
        }
    }
    Some([0, 1, 2].map(|line| lines[line][3] / lines[line][line]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn line(of: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
        (1..=20).map(|n| (f64::from(n), of(f64::from(n)))).collect()
    }

    #[test]
    fn a_bend_is_found_where_it_is() {
        let bent = bend(&line(|x| 0.01 + 0.002 * x + 0.01 * (x - 9.0_f64).max(0.0)), STRONG).unwrap();
        assert!((bent.density - 9.0).abs() < 0.3, "{bent:?}");
        assert!((bent.before - 0.002).abs() < 2e-4 && (bent.beyond - 0.012).abs() < 2e-4, "{bent:?}");
    }

    #[test]
    fn what_is_straight_flat_or_bends_down_has_none() {
        let why = |points: &[(f64, f64)]| bend(points, STRONG).unwrap_err();
        assert_eq!(why(&line(|x| 0.01 * x)), NoKnee::Straight);
        assert_eq!([why(&line(|_| 0.3)), why(&line(|_| 0.0))], [NoKnee::Straight; 2]);
        assert_eq!(why(&line(|x| 0.1 * x.min(9.0))), NoKnee::Straight);
        assert_eq!(why(&line(f64::sqrt)), NoKnee::Straight);
        assert_eq!(why(&[(1.0, 1.0); 12]), NoKnee::Straight, "one density");
        assert_eq!(why(&line(|x| 0.01 * x)[..5]), NoKnee::TooFew);
    }

    #[test]
    fn noise_alone_hardly_ever_bends() {
        let mut random = Random::new(3, 0);
        let found = (0..200).filter(|_| {
            let noise: Vec<f64> = (0..21).map(|_| random.unit()).collect();
            bend(&line(|x| 0.02 * x + 0.05 * noise[x as usize]), BETTER).is_ok()
        });
        assert!(found.count() < 10);
    }

    /// Seeds of 100 with a bend, and how far off it is on average: 24 bins up to `densest`, with normal noise of so much of
    /// what the densest has.
    fn bends(of: &dyn Fn(f64) -> f64, densest: f64, noise: f64, at: f64) -> (usize, f64) {
        let found: Vec<f64> = (0..100)
            .filter_map(|seed| {
                let mut random = Random::new(seed, 0);
                // Twelve of even distribution are normal with a variance of 1.
                let mut normal = || (0..12).map(|_| random.unit()).sum::<f64>() - 6.0;
                let x = |n: u32| 1.0 + (densest - 1.0) * f64::from(n) / 23.0;
                let points: Vec<_> = (0..24).map(|n| (x(n), of(x(n)) + noise * of(densest) * normal())).collect();
                bend(&points, STRONG).ok().map(|bend| (bend.density - at).abs())
            })
            .collect();
        (found.len(), found.iter().sum::<f64>() / found.len() as f64)
    }

    #[test]
    fn curves_that_grow_ever_steeper_have_no_knee_wherever_the_measuring_ended() {
        for densest in [10.0, 20.0, 30.0, 38.0] {
            let curves: [(&str, &dyn Fn(f64) -> f64); 4] = [
                ("quadratic", &|x| 1.0 + x * x),
                ("exponential", &|x| (x / 4.0).exp()),
                ("a slower one", &|x| (x / 8.0).exp()),
                ("a queue's", &move |x| 1.0 / (1.05 * densest - x)),
            ];
            for (name, of) in curves {
                for noise in [0.0, 0.01, 0.03, 0.1] {
                    let (found, _) = bends(of, densest, noise, 0.0);
                    assert!(found <= 5, "{name} up to {densest} with noise of {noise}: {found} of 100");
                }
            }
        }
        assert_eq!(bend(&line(|x| x * x), STRONG).unwrap_err(), NoKnee::Smooth);
    }

    #[test]
    fn a_real_bend_is_still_seen_in_noise() {
        for at in [7.0, 9.0, 11.0] {
            let of = |x: f64| 1.0 + 0.5 * x + 6.0 * (x - at).max(0.0);
            for noise in [0.0, 0.01, 0.02] {
                let (found, off) = bends(&of, 15.0, noise, at);
                assert!(found >= 95 && off < 0.3, "at {at} with noise of {noise}: {found} of 100, off by {off}");
            }
        }
    }
}
