//! What a policy does to a figure, from its values in blocks without and with it, in turn.

use crate::stats::student;

/// How sure an interval is to hold the true change. By convention.
pub(super) const CONFIDENCE: f64 = 0.95;

/// What it does, as the logarithm of a ratio: what halves and what doubles are as far from no change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Effect {
    mean: f64,
    /// Standard error of the mean, and its degrees of freedom. `None` for a single pair.
    spread: Option<(f64, f64)>,
    /// How far the values themselves may be off.
    resolution: f64,
}

impl Effect {
    /// From the values of blocks, of which every other one is with the policy, and the first and the last are not.
    ///
    /// # Errors
    /// Why it cannot be said.
    pub(super) fn of(blocks: &[Option<f64>]) -> Result<Self, &'static str> {
        let pairs = blocks.windows(3).step_by(2).map(|around| match *around {
            [Some(before), Some(with), Some(after)] => {
                // Against the geometric mean: against the arithmetic one, which is more, chance alone would look like less.
                let pair = with.ln() - f64::midpoint(before.ln(), after.ln());
                if pair.is_finite() { Ok(pair) } else { Err("it was 0 in a block, so there is no ratio") }
            }
            _ => Err("it was not measured in every block"),
        });
        let pairs: Vec<f64> = pairs.collect::<Result<_, _>>()?;
        if pairs.is_empty() {
            return Err("no block with the policy was complete");
        }
        let count = pairs.len() as f64;
        let mean = pairs.iter().sum::<f64>() / count;
        let spread = (pairs.len() > 1).then(|| {
            let freedom = count - 1.0;
            let variance = pairs.iter().map(|pair| (pair - mean).powi(2)).sum::<f64>() / freedom;
            // Neighbouring pairs share a block without the policy: their mean varies more than that of independent pairs.
            let half = 0.5 / count;
            let shared = (2.0 - half) / (1.5 - half);
            ((shared * variance / count).sqrt(), freedom)
        });
        Ok(Self { mean, spread, resolution: 0.0 })
    }

    /// The same for values that are known only to a bucket. `resolution` is how far they may be off, as a logarithm.
    pub(super) const fn off_by(self, resolution: f64) -> Self {
        Self { resolution, ..self }
    }

    /// The change, as a share of what it was without.
    pub(super) fn change(&self) -> f64 {
        self.mean.exp_m1()
    }

    /// The interval that holds the true change, with a confidence of 95 %.
    pub(super) fn interval(&self) -> Option<(f64, f64)> {
        let (spread, freedom) = self.spread?;
        let reach = student::quantile(1.0 - CONFIDENCE, freedom) * spread + self.resolution;
        Some(((self.mean - reach).exp_m1(), (self.mean + reach).exp_m1()))
    }

    /// Probability that chance alone makes an effect at least this large.
    pub(super) fn p(&self) -> Option<f64> {
        let (spread, freedom) = self.spread?;
        let mean = (self.mean.abs() - self.resolution).max(0.0);
        Some(if spread > 0.0 {
            student::two_sided(mean / spread, freedom)
        } else if mean == 0.0 {
            1.0
        } else {
            0.0
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(blocks: &[f64]) -> Effect {
        Effect::of(&blocks.iter().copied().map(Some).collect::<Vec<_>>()).unwrap()
    }

    fn near(found: f64, expected: f64) -> bool {
        (found - expected).abs() < 1e-9
    }

    #[test]
    fn a_block_is_held_against_those_around_it() {
        // It doubles with each block, whatever is tried, and halves where it is.
        let effect = of(&[4.0, 4.0, 16.0, 16.0, 64.0, 64.0, 256.0]);
        assert!(near(effect.change(), -0.5), "{effect:?}");
        let (low, high) = effect.interval().unwrap();
        assert!(near(low, -0.5) && near(high, -0.5) && effect.p().unwrap() < 1e-6, "{effect:?}");
    }

    #[test]
    fn what_only_swings_does_not_fall() {
        // Between 1 and 9: the arithmetic mean would be 5, and every block with the policy 40 % less.
        let effect = of(&[1.0, 3.0, 9.0, 3.0, 1.0, 3.0, 9.0]);
        assert!(near(effect.change(), 0.0), "{effect:?}");
    }

    #[test]
    fn what_differs_by_chance_has_an_interval_around_nothing() {
        let effect = of(&[4.0, 5.0, 4.0, 3.0, 4.0, 4.4, 4.0, 3.7, 4.0]);
        let (low, high) = effect.interval().unwrap();
        assert!(low < 0.0 && high > 0.0 && effect.p().unwrap() > 0.05, "{effect:?}");
        assert_eq!(of(&[4.0; 5]).p(), Some(1.0));
    }

    #[test]
    fn an_interval_excludes_zero_where_chance_is_that_unlikely() {
        for blocks in [
            [4.0, 2.0, 4.1, 2.3, 3.9, 1.9, 4.0],
            [4.0, 2.0, 4.1, 8.0, 3.9, 2.0, 4.0],
            [4.0, 3.5, 4.1, 3.3, 4.0, 3.7, 4.2],
        ] {
            let effect = of(&blocks);
            let (low, high) = effect.interval().unwrap();
            assert_eq!(low > 0.0 || high < 0.0, effect.p().unwrap() < 0.05, "{effect:?}");
        }
    }

    #[test]
    fn nothing_falls_by_more_than_all_of_it() {
        // Two blocks that differ by far: two degrees of freedom go far.
        let effect = of(&[4.0, 0.04, 4.0, 2.0, 4.0, 0.4, 4.0]);
        let mean = ((0.01f64.ln() + 0.5f64.ln() + 0.1f64.ln()) / 3.0).exp() - 1.0;
        let (low, high) = effect.interval().unwrap();
        assert!(near(effect.change(), mean) && low > -1.0 && low < mean && high > 0.0, "{effect:?}");
        // What doubles is as sure as what halves.
        let ends = |blocks| {
            let (low, high) = of(blocks).interval().unwrap();
            (low.ln_1p(), high.ln_1p())
        };
        let (fell, rose) = (ends(&[4.0, 2.0, 4.0, 1.0, 4.0]), ends(&[4.0, 8.0, 4.0, 16.0, 4.0]));
        assert!(near(fell.0, -rose.1) && near(fell.1, -rose.0), "{fell:?} {rose:?}");
    }

    #[test]
    fn what_is_known_to_a_bucket_is_no_surer_than_that() {
        // All without are in one bucket, and all with in the next.
        let effect = of(&[25.0, 20.0, 25.0, 20.0, 25.0]).off_by(1.25f64.ln());
        let (low, high) = effect.interval().unwrap();
        assert!(low < -0.3 && high >= 0.0 && effect.p() == Some(1.0), "{effect:?}");
        let far = of(&[25.0, 5.0, 25.0, 5.0, 25.0]).off_by(1.25f64.ln());
        assert!(far.interval().unwrap().1 < -0.7 && far.p() == Some(0.0), "{far:?}");
    }

    #[test]
    fn what_is_not_known_is_not_said() {
        let one = of(&[4.0, 2.0, 4.0]);
        assert!(near(one.change(), -0.5) && one.interval().is_none() && one.p().is_none());
        assert!(Effect::of(&[]).unwrap_err().contains("no block"));
        for blocks in [[0.0, 2.0, 0.0], [2.0, 0.0, 2.0], [0.0; 3]] {
            assert!(Effect::of(&blocks.map(Some)).unwrap_err().contains("it was 0"), "{blocks:?}");
        }
        assert!(Effect::of(&[Some(4.0), None, Some(4.0)]).unwrap_err().contains("not measured"));
    }
}
