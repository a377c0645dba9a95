//! How far chance alone moves a change, from what it does to the figure within either recording.

use crate::stats::{autocorrelation, bootstrap, student};

/// What one recording says of a figure.
#[derive(Clone, Copy, Debug)]
pub(super) struct Drawn<'a> {
    /// The figure of each draw; `None` where it divides by nothing.
    pub figures: &'a [Option<f64>],
    /// Variance of the figure, with the autocorrelation that was found in the recording.
    pub variance: f64,
    /// Effective sample size: the number of independent pieces that say as much as the recording.
    pub effective: f64,
}

/// What chance may have done to a change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Estimate {
    /// The ends of the interval.
    pub low: f64,
    pub high: f64,
    /// Probability of a change this large if nothing changed.
    pub p: f64,
}

/// How sure an interval shall be.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConfidenceQuantile {
    /// The probability that is left to chance.
    alpha: f64,
    /// The normal distribution's quantile of it.
    normal: f64,
}

impl Drawn<'_> {
    /// With fewer effective pieces, it cannot be estimated how much a figure varies. Chosen: docs/diff.md has the error rates that
    /// come of it.
    pub(super) const LEAST: f64 = 8.0;

    pub(super) fn is_enough(&self) -> bool {
        self.effective >= Self::LEAST
    }
}

impl ConfidenceQuantile {
    pub(super) fn of(confidence: f64) -> Self {
        let alpha = (1.0 - confidence).clamp(1e-9, 1.0);
        Self { alpha, normal: student::normal_quantile(alpha) }
    }

    /// The interval of `change`, from what either recording says. `None` where that is too little.
    pub(super) fn estimate(self, change: f64, before: Drawn<'_>, after: Drawn<'_>) -> Option<Estimate> {
        if !before.is_enough() || !after.is_enough() {
            return None;
        }
        let pairs = before.figures.iter().zip(after.figures);
        let mut changes: Vec<f64> = pairs.filter_map(|(before, after)| Some((*after)? - (*before)?)).collect();
        // Where most draws divide by nothing, the others say little of the figure.
        if changes.len() < 2 || 2 * changes.len() < before.figures.len() {
            return None;
        }
        let drawn = bootstrap::variance(changes.iter().copied());
        let (low, high) = bootstrap::ends(&mut changes, self.alpha)?;
        let all = before.variance + after.variance;
        if all <= 0.0 || drawn <= 0.0 {
            return Some(Estimate {
                low: low.min(change),
                high: high.max(change),
                p: f64::from(u8::from(change == 0.0)),
            });
        }
        // Welch's degrees of freedom.
        let share = |side: Drawn<'_>| side.variance * side.variance / autocorrelation::freedom(side.effective);
        let freedom = all * all / (share(before) + share(after));
        // The draws give the interval its shape. How wide it is, the measured autocorrelation says, which blocks catch a part of,
        // and Student's t, for few pieces give percentiles that are too close together (Hesterberg: What teachers should know
        // about the bootstrap, The American Statistician 69, 2015).
        let wider = student::quantile(self.alpha, freedom) / self.normal * (all / drawn).sqrt();
        Some(Estimate {
            low: change - wider * (change - low).max(0.0),
            high: change + wider * (high - change).max(0.0),
            p: student::two_sided(change / all.sqrt(), freedom),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{random::Random, stats::Resamples};

    /// The mean, its variance, and that of each draw.
    fn drawn(values: &[f64], seed: u64) -> (f64, f64, Vec<Option<f64>>) {
        let resamples = Resamples::draw(values.len(), 1, 4_000, Random::new(seed, 1));
        let count = values.len() as f64;
        let mean = |draw: &[u16]| draw.iter().zip(values).map(|(times, value)| f64::from(*times) * value).sum::<f64>();
        let variance = bootstrap::variance(values.iter().copied()) / count;
        (values.iter().sum::<f64>() / count, variance, resamples.draws().map(|draw| Some(mean(draw) / count)).collect())
    }

    #[test]
    fn of_means_it_is_welchs_test_with_half_the_freedom() {
        let (before, after) =
            ([20.1, 22.8, 19.4, 21.0, 20.5, 23.3, 18.9, 21.7], [24.0, 22.5, 26.1, 23.3, 25.2, 24.9, 22.8, 27.0]);
        let (a, of_a, one) = drawn(&before, 1);
        let (b, of_b, other) = drawn(&after, 2);
        let side = |figures, variance| Drawn { figures, variance, effective: 8.0 };
        let estimate = ConfidenceQuantile::of(0.95).estimate(b - a, side(&one, of_a), side(&other, of_b)).unwrap();
        // Welch: t = 4.44; with 7.0 degrees of freedom p = 0.0030, interval 1.64 to 5.38.
        assert!((1.5..1.8).contains(&estimate.low) && (5.2..5.5).contains(&estimate.high), "{estimate:?}");
        assert!((0.0029..0.0032).contains(&estimate.p), "{estimate:?}");
    }

    #[test]
    fn few_effective_pieces_say_nothing() {
        let (_, variance, figures) = drawn(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], 1);
        let enough = Drawn { figures: &figures, variance, effective: 8.0 };
        let few = Drawn { effective: 7.9, ..enough };
        let sure = ConfidenceQuantile::of(0.95);
        assert!(sure.estimate(0.0, enough, enough).is_some());
        assert_eq!([(enough, few), (few, enough)].map(|(before, after)| sure.estimate(0.0, before, after)), [None; 2]);
        let nothing = Drawn { figures: &[None, None, None], ..enough };
        assert_eq!(sure.estimate(0.0, nothing, nothing), None);
    }

    #[test]
    fn what_never_varies_is_sure() {
        let (_, variance, figures) = drawn(&[2.0; 9], 1);
        let same = Drawn { figures: &figures, variance, effective: 9.0 };
        let sure = ConfidenceQuantile::of(0.95);
        assert_eq!(sure.estimate(0.0, same, same), Some(Estimate { low: 0.0, high: 0.0, p: 1.0 }));
    }
}
