//! Where a curve bends: the density from which on each further cgroup costs more than those before.

use schemars::JsonSchema;
use serde::Serialize;

use super::{
    Bin, Point,
    curve::{Times, bins},
};

/// Of what a straight line leaves unexplained, a bend must leave less than this, each by the degrees of freedom it has.
const LEAVES: f64 = 0.5;
/// How much steeper it must be beyond.
const STEEPER: f64 = 1.5;
/// Part of the draws that must have a knee.
const AGREE: f64 = 0.9;
/// Part of the draws that the interval holds.
pub(super) const HOLDS: f64 = 0.9;
/// Bends that are tried between two bins.
const BETWEEN: usize = 4;

/// A bend upwards.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Knee {
    /// Active cgroups per CPU.
    pub density: f64,
    /// Nine in ten draws of the nodes have it above.
    pub low: f64,
    /// The same below.
    pub high: f64,
    /// What a further cgroup per CPU adds before, in the figure's unit.
    pub before: f64,
    /// The same beyond.
    pub beyond: f64,
}

/// A bend as one sample of nodes has it.
#[derive(Clone, Copy, Debug)]
struct Bend {
    density: f64,
    before: f64,
    beyond: f64,
}

impl Knee {
    /// Of a figure of the bins; `draws` say how often each node was drawn in each of many draws.
    ///
    /// # Errors
    /// When there is none, or none that is more than chance; says which.
    pub(super) fn find(
        points: &[Point],
        nodes: usize,
        count: usize,
        draws: &[Vec<u16>],
        figure: fn(&Bin) -> Option<f64>,
    ) -> Result<Self, String> {
        let of = |times: Times<'_>| {
            let bins = bins(points, times, count);
            let known: Vec<(f64, f64)> = bins.iter().filter_map(|bin| Some((bin.density, figure(bin)?))).collect();
            bend(&known)
        };
        let all = vec![1; nodes];
        if bins(points, &all, count).iter().all(|bin| figure(bin).is_none()) {
            return Err("it was not measured".to_owned());
        }
        let found = of(&all).ok_or("it grows as evenly as was measured, without a bend")?;
        let mut bends: Vec<f64> = draws.iter().filter_map(|times| of(times)).map(|bend| bend.density).collect();
        if (bends.len() as f64) < AGREE * draws.len() as f64 {
            return Err(format!(
                "what looks like a bend at {:.1} cgroups per CPU is not there in {} of {} draws of the nodes",
                found.density,
                draws.len() - bends.len(),
                draws.len()
            ));
        }
        bends.sort_by(f64::total_cmp);
        let (low, high) = middle(&bends).unwrap_or((found.density, found.density));
        Ok(Self {
            density: found.density,
            low: low.min(found.density),
            high: high.max(found.density),
            before: found.before,
            beyond: found.beyond,
        })
    }
}

/// The ends of the middle of what is sorted.
pub(super) fn middle(sorted: &[f64]) -> Option<(f64, f64)> {
    let last = sorted.len().checked_sub(1)?;
    let at = |share: f64| sorted.get((last as f64 * share).round() as usize).copied();
    at((1.0 - HOLDS) / 2.0).zip(at((1.0 + HOLDS) / 2.0))
}

/// The two straight lines that meet and fit best, where they fit much better than one, and the second is steeper.
fn bend(points: &[(f64, f64)]) -> Option<Bend> {
    let count = points.len();
    // Four numbers are fitted; and each side takes two points.
    if count < 6 {
        return None;
    }
    let straight = fit(points, f64::INFINITY)?;
    let scale: f64 = points.iter().map(|(_, y)| y * y).sum();
    if straight.left <= 1e-9 * scale {
        return None;
    }
    let between = points[1..count - 1]
        .windows(2)
        .flat_map(|ends| (0..BETWEEN).map(move |n| ends[0].0 + (ends[1].0 - ends[0].0) * n as f64 / BETWEEN as f64));
    let tried = between.filter_map(|at| Some((at, fit(points, at)?)));
    let (density, best) = tried.min_by(|(_, a), (_, b)| a.left.total_cmp(&b.left))?;
    let of_one = |left: f64, fitted: usize| left / (count - fitted) as f64;
    let (before, beyond) = (best.slope, best.slope + best.change);
    let is_better = of_one(best.left, 4) < LEAVES * of_one(straight.left, 2);
    (is_better && beyond > 0.0 && beyond > STEEPER * before).then_some(Bend { density, before, beyond })
}

struct Fit {
    slope: f64,
    change: f64,
    left: f64,
}

/// Least squares of `a + slope · x + change · max(x − at, 0)`.
fn fit(points: &[(f64, f64)], at: f64) -> Option<Fit> {
    let is_straight = at.is_infinite();
    // Centred, so that little is lost where densities are large.
    let mean = points.iter().map(|(x, _)| x).sum::<f64>() / points.len() as f64;
    let row = |x: f64| [1.0, x - mean, if is_straight { 0.0 } else { (x - at).max(0.0) }];
    let mut normal = [[0.0; 4]; 3];
    for &(x, y) in points {
        let row = row(x);
        for (line, &a) in normal.iter_mut().zip(&row) {
            for (cell, &b) in line.iter_mut().zip(row.iter().chain([&y])) {
                *cell += a * b;
            }
        }
    }
    if is_straight {
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

/// Gauss's elimination. `None` where there is more than one answer.
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
        let bent = bend(&line(|x| 0.01 + 0.002 * x + 0.01 * (x - 9.0_f64).max(0.0))).unwrap();
        assert!((bent.density - 9.0).abs() < 0.3, "{bent:?}");
        assert!((bent.before - 0.002).abs() < 2e-4 && (bent.beyond - 0.012).abs() < 2e-4, "{bent:?}");
    }

    #[test]
    fn what_is_straight_flat_or_bends_down_has_none() {
        assert!(bend(&line(|x| 0.01 * x)).is_none());
        assert!(bend(&line(|_| 0.3)).is_none() && bend(&line(|_| 0.0)).is_none());
        assert!(bend(&line(|x| 0.1 * x.min(9.0))).is_none());
        assert!(bend(&line(f64::sqrt)).is_none());
        assert!(bend(&[(1.0, 1.0); 12]).is_none(), "one density");
        assert!(bend(&line(|x| 0.01 * x)[..5]).is_none());
    }

    #[test]
    fn noise_alone_hardly_ever_bends() {
        let mut random = Random::new(3, 0);
        let found = (0..200).filter(|_| {
            let noise: Vec<f64> = (0..21).map(|_| random.unit()).collect();
            bend(&line(|x| 0.02 * x + 0.05 * noise[x as usize])).is_some()
        });
        assert!(found.count() < 10);
    }
}
