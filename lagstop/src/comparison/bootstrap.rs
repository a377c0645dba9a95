//! How far chance alone moves a figure: found out by drawing the blocks of each recording anew, again and again.

use super::{
    blocks::Blocks,
    series::Series,
    student::{self, NORMAL},
};
use crate::random::Random;

/// How often each block was drawn, in each of many draws of as many blocks as there are. All cgroups and the host share the
/// draws: what happened at the same time stays together.
#[derive(Clone, Debug)]
pub(super) struct Resamples {
    blocks: usize,
    /// One draw after the other.
    counts: Vec<u16>,
}

impl Resamples {
    pub(super) fn draw(blocks: usize, resamples: u32, mut random: Random) -> Self {
        let mut counts = vec![0; blocks * resamples as usize];
        if blocks > 0 {
            for draw in counts.chunks_exact_mut(blocks) {
                (0..blocks).for_each(|_| draw[random.below(blocks)] += 1);
            }
        }
        Self { blocks, counts }
    }

    /// The sums of `series` in each draw.
    pub(super) fn sums<const N: usize>(&self, series: &Series<N>) -> Vec<[f64; N]> {
        let sums_of = |draw: &[u16]| {
            let mut sums = [0.0; N];
            for (block, values) in series.blocks() {
                let times = draw.get(*block as usize).copied().map_or(0.0, f64::from);
                if times > 0.0 {
                    sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += times * value);
                }
            }
            sums
        };
        self.counts.chunks_exact(self.blocks.max(1)).map(sums_of).collect()
    }
}

/// What draws of one recording say of a figure.
#[derive(Clone, Copy, Debug)]
pub(super) struct Drawn<'a> {
    /// The figure of each draw; `None` where it divides by nothing.
    pub figures: &'a [Option<f64>],
    /// Blocks that have anything to say.
    pub blocks: usize,
}

/// What chance may have done to a change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Estimate {
    /// The ends of the interval.
    pub low: f64,
    pub high: f64,
    /// How likely a change this large is where nothing changed.
    pub p: f64,
}

/// How sure an interval shall be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Confidence {
    /// What is left to chance.
    alpha: f64,
    /// The normal distribution's quantile of it.
    normal: f64,
}

impl Confidence {
    pub(super) fn of(confidence: f64) -> Self {
        let alpha = (1.0 - confidence).clamp(1e-9, 1.0);
        Self { alpha, normal: student::quantile(alpha, NORMAL) }
    }

    /// The interval of `change`, from what the draws of either recording say. `None` where that is too little.
    pub(super) fn estimate(self, change: f64, before: Drawn<'_>, after: Drawn<'_>) -> Option<Estimate> {
        if before.blocks.min(after.blocks) < Blocks::LEAST {
            return None;
        }
        let pairs = before.figures.iter().zip(after.figures);
        let pairs: Vec<(f64, f64)> = pairs.filter_map(|(before, after)| Some(((*before)?, (*after)?))).collect();
        if pairs.len() < 2 || 2 * pairs.len() < before.figures.len() {
            return None;
        }
        // Drawn from n blocks, the variance comes out too small by (n − 1) / n.
        let spread = |blocks: usize, value: fn(&(f64, f64)) -> f64| {
            variance(pairs.iter().map(value)) * blocks as f64 / (blocks as f64 - 1.0)
        };
        let spreads = [
            (spread(before.blocks, |pair| pair.0), before.blocks),
            (spread(after.blocks, |pair| pair.1), after.blocks),
        ];
        let all: f64 = spreads.iter().map(|(spread, _)| spread).sum();
        let mut changes: Vec<f64> = pairs.iter().map(|(before, after)| after - before).collect();
        let (low, high) = ends(&mut changes, self.alpha);
        if all <= 0.0 {
            return Some(Estimate {
                low: low.min(change),
                high: high.max(change),
                p: f64::from(u8::from(change == 0.0)),
            });
        }
        // Welch's degrees of freedom.
        let freedom = all * all / spreads.iter().map(|(spread, n)| spread * spread / (*n as f64 - 1.0)).sum::<f64>();
        let drawn = spreads.iter().map(|(spread, n)| spread * (1.0 - 1.0 / *n as f64)).sum::<f64>();
        // Few blocks give percentiles that are too close together (Hesterberg: What teachers should know about the bootstrap,
        // The American Statistician 69, 2015).
        let wider = student::quantile(self.alpha, freedom) / self.normal * (all / drawn).sqrt();
        Some(Estimate {
            low: change - wider * (change - low).max(0.0),
            high: change + wider * (high - change).max(0.0),
            p: student::two_sided(change / all.sqrt(), freedom),
        })
    }
}

fn variance(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let count = values.clone().count() as f64;
    let mean = values.clone().sum::<f64>() / count;
    values.map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0)
}

/// What a share `alpha` / 2 of `values` is below, and what as many are above.
fn ends(values: &mut [f64], alpha: f64) -> (f64, f64) {
    let outside = (values.len() as f64 * alpha / 2.0) as usize;
    let last = values.len() - 1;
    let mut at = |n: usize| *values.select_nth_unstable_by(n, f64::total_cmp).1;
    (at(outside.min(last)), at(last - outside.min(last)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(values: &[f64], seed: u64) -> (f64, Vec<Option<f64>>) {
        let mut series = Series::default();
        values.iter().enumerate().for_each(|(block, value)| series.add(block, &[Some(*value), Some(1.0)]));
        let resamples = Resamples::draw(values.len(), 4_000, Random::new(seed, 1));
        let sums = resamples.sums(&series);
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        (mean, sums.iter().map(|[sum, count]| Some(sum / count)).collect())
    }

    #[test]
    fn of_means_it_is_welchs_test() {
        let (before, after) =
            ([20.1, 22.8, 19.4, 21.0, 20.5, 23.3, 18.9, 21.7], [24.0, 22.5, 26.1, 23.3, 25.2, 24.9, 22.8, 27.0]);
        let (a, one) = drawn(&before, 1);
        let (b, other) = drawn(&after, 2);
        let side = |figures| Drawn { figures, blocks: 8 };
        let estimate = Confidence::of(0.95).estimate(b - a, side(&one), side(&other)).unwrap();
        // Welch: t = 4.59, 14.0 degrees of freedom, p = 0.00042, interval 1.87 to 5.16.
        assert!((1.6..2.1).contains(&estimate.low) && (4.9..5.4).contains(&estimate.high), "{estimate:?}");
        assert!((2e-4..9e-4).contains(&estimate.p), "{estimate:?}");
    }

    #[test]
    fn few_blocks_say_nothing() {
        let (_, figures) = drawn(&[1.0, 2.0, 3.0, 4.0], 1);
        let few = Drawn { figures: &figures, blocks: 4 };
        assert_eq!(Confidence::of(0.95).estimate(0.0, few, few), None);
        let nothing = Drawn { figures: &[None, None, None], blocks: 9 };
        assert_eq!(Confidence::of(0.95).estimate(0.0, nothing, nothing), None);
    }

    #[test]
    fn what_never_varies_is_sure() {
        let (_, figures) = drawn(&[2.0; 6], 1);
        let same = Drawn { figures: &figures, blocks: 6 };
        let sure = Confidence::of(0.95);
        assert_eq!(sure.estimate(0.0, same, same), Some(Estimate { low: 0.0, high: 0.0, p: 1.0 }));
    }

    #[test]
    fn every_draw_has_as_many_blocks() {
        let resamples = Resamples::draw(9, 50, Random::new(3, 4));
        assert!(resamples.counts.chunks(9).all(|draw| draw.iter().sum::<u16>() == 9));
        let none = Resamples::draw(0, 50, Random::new(3, 4));
        assert!(none.sums(&Series::<2>::default()).is_empty());
    }
}
