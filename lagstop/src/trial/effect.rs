//! What a policy does to a figure, from its values in blocks without and with it, in turn.

use crate::stats::student;

/// How sure an interval is to hold the true change. By convention.
pub(super) const CONFIDENCE: f64 = 0.95;

/// How it is counted.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Scale {
    /// As the logarithm of a ratio: what halves and what doubles are as far from no change.
    Ratio,
    /// As a difference, in shares of the mean without: of what was 0 in a block there is no ratio.
    Difference,
}

/// What it does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Effect {
    scale: Scale,
    mean: f64,
    /// Standard error of the mean, and its degrees of freedom. `None` for a single pair.
    spread: Option<(f64, f64)>,
    /// How far the values themselves may be off, on the same scale.
    resolution: f64,
}

/// A block with the policy, and the two around it.
#[derive(Clone, Copy)]
struct Pair {
    before: f64,
    with: f64,
    after: f64,
}

impl Pair {
    fn ratio(self) -> f64 {
        // Against the geometric mean: against the arithmetic one, which is more, chance alone would look like less.
        self.with.ln() - f64::midpoint(self.before.ln(), self.after.ln())
    }

    const fn without(self) -> f64 {
        f64::midpoint(self.before, self.after)
    }
}

impl Effect {
    /// From the values of blocks, of which every other one is with the policy, and the first and the last are not.
    ///
    /// # Errors
    /// Why it cannot be said.
    pub(super) fn of(blocks: &[Option<f64>]) -> Result<Self, &'static str> {
        let pairs = blocks.windows(3).step_by(2).map(|around| match *around {
            [Some(before), Some(with), Some(after)] => Ok(Pair { before, with, after }),
            _ => Err("it was not measured in every block"),
        });
        let pairs: Vec<Pair> = pairs.collect::<Result<_, _>>()?;
        if pairs.is_empty() {
            return Err("no block with the policy was complete");
        }
        let without = mean(pairs.iter().map(|pair| pair.without()));
        if without <= 0.0 {
            return Err("it was 0 in all blocks without the policy, so there is no ratio");
        }
        let least = pairs.iter().flat_map(|pair| [pair.before, pair.with, pair.after]).fold(f64::INFINITY, f64::min);
        let (scale, each) = if least >= NEXT_TO_NOTHING * without {
            (Scale::Ratio, pairs.iter().map(|pair| pair.ratio()).collect::<Vec<_>>())
        } else {
            (Scale::Difference, pairs.iter().map(|pair| (pair.with - pair.without()) / without).collect())
        };
        let mean = mean(each.iter().copied());
        let spread = match scale {
            Scale::Ratio => standard_error(&each).map(|error| (error, each.len() as f64 - 1.0)),
            // Two pairs share one of three blocks: what is 0 in both blocks with the policy has no spread then, whatever there was.
            Scale::Difference if each.len() < 3 => None,
            // Of what rises, the blocks without vary less than those with, and both are in the ratio: the larger of the two errors.
            Scale::Difference => {
                let left = |pair: &Pair| (pair.with - (1.0 + mean) * pair.without()) / without;
                let of_ratio = standard_error(&pairs.iter().map(left).collect::<Vec<_>>());
                let error = standard_error(&each).zip(of_ratio).map(|(one, other)| one.max(other));
                error.filter(|error| *error > 0.0).map(|error| (error, each.len() as f64 - 1.0))
            }
        };
        Ok(Self { scale, mean, spread, resolution: 0.0 })
    }

    /// Why there is no interval, if there is none.
    pub(super) const fn why_no_interval(&self) -> Option<&'static str> {
        match (self.spread, self.scale) {
            (Some(_), _) => None,
            (None, Scale::Ratio) => Some("one block has no spread, so chance cannot be estimated"),
            (None, Scale::Difference) => Some(
                "it was nearly 0 in a block, and chance cannot be estimated from so few others: use a longer --duration",
            ),
        }
    }

    /// The same for values that are known only to a bucket. `resolution` is how far they may be off, as a logarithm.
    pub(super) fn off_by(self, resolution: f64) -> Self {
        let resolution = match self.scale {
            Scale::Ratio => resolution,
            Scale::Difference => resolution.exp_m1(),
        };
        Self { resolution, ..self }
    }

    /// The change, as a share of what it was without.
    pub(super) fn change(&self) -> f64 {
        self.share(self.mean)
    }

    /// Nothing falls by more than all of it.
    fn share(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Ratio => value.exp_m1(),
            Scale::Difference => value.max(-1.0),
        }
    }

    /// The interval that holds the true change, with a confidence of 95 %.
    pub(super) fn interval(&self) -> Option<(f64, f64)> {
        let (spread, freedom) = self.spread?;
        let reach = student::quantile(1.0 - CONFIDENCE, freedom) * spread + self.resolution;
        Some((self.share(self.mean - reach), self.share(self.mean + reach)))
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

/// The part of the mean without, below which a block counts as 0. Chosen: a hundredth. What is corrected by an estimate may come to
/// nearly nothing as well as to nothing, and its logarithm would be all there is.
const NEXT_TO_NOTHING: f64 = 0.01;

/// Standard error of the mean over pairs. `None` for a single one.
fn standard_error(each: &[f64]) -> Option<f64> {
    let (count, middle) = (each.len() as f64, mean(each.iter().copied()));
    let variance = each.iter().map(|one| (one - middle).powi(2)).sum::<f64>() / (count - 1.0);
    // Neighbouring pairs share a block without the policy: their mean varies more than that of independent pairs.
    let half = 0.5 / count;
    let shared = (2.0 - half) / (1.5 - half);
    (each.len() > 1).then(|| (shared * variance / count).sqrt())
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len() as f64;
    values.sum::<f64>() / count
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
    fn what_is_0_in_a_block_has_a_change_all_the_same() {
        let effect = of(&[4.0, 0.0, 4.4, 0.1, 3.6, 0.2, 4.0]);
        let (low, high) = effect.interval().unwrap();
        assert!((effect.change() + 0.975).abs() < 0.01, "{effect:?}");
        assert!(near(low, -1.0) && high < -0.7 && effect.p().unwrap() < 0.01, "{effect:?}");
        assert!(near(of(&[2.0, 0.0, 2.0]).change(), -1.0), "one block is enough for the change");
        // Zeros on both sides: nothing changed.
        let rare = of(&[4.0, 0.0, 0.0, 5.0, 0.0, 0.0, 4.0, 3.0, 0.0]);
        let (low, high) = rare.interval().unwrap();
        assert!(low < 0.0 && high > 0.0 && rare.p().unwrap() > 0.05, "{rare:?}");
        // What happened once, and without the policy, may be chance.
        let once = of(&[0.0, 0.0, 0.0, 0.0, 5.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
        assert!(near(once.change(), -1.0) && once.interval().unwrap().1 > 0.0 && once.p().unwrap() > 0.1, "{once:?}");
        // Nearly nothing is as little.
        let nearly = of(&[4.0, 1e-6, 4.4, 0.1, 3.6, 0.2, 4.0]);
        assert!((nearly.change() - effect.change()).abs() < 1e-6 && nearly.interval().unwrap().1 < -0.7, "{nearly:?}");
        // Two pairs tell nothing about chance.
        for two in [[0.0, 0.0, 5.0, 0.0, 0.0], [3.0, 0.0, 5.0, 0.0, 3.0]] {
            let effect = of(&two);
            assert!(effect.interval().is_none() && effect.p().is_none() && effect.why_no_interval().is_some());
        }
        // A bucket wide is as far here as there.
        let known = of(&[4.0, 0.0, 4.0, 1.0, 4.0, 0.5, 4.0]);
        assert!(near(known.off_by(1.25f64.ln()).interval().unwrap().1 - known.interval().unwrap().1, 0.25));
    }

    /// Bursts that come now and then, and a policy that changes nothing, or doubles them.
    #[test]
    fn what_is_rare_is_seldom_said_to_change_by_chance() {
        let mut random = crate::random::Random::new(5, 0);
        let mut rare = |part: f64| if random.unit() < part { -random.unit().ln() } else { 0.0 };
        let mut share_outside = |part: f64, factor: f64| {
            let (mut outside, mut all) = (0.0, 0.0);
            for _ in 0..2_000 {
                let blocks: Vec<Option<f64>> =
                    (0..13).map(|n| Some(rare(part) * if n % 2 == 1 { factor } else { 1.0 })).collect();
                let Some((low, high)) = Effect::of(&blocks).ok().and_then(|effect| effect.interval()) else { continue };
                outside += f64::from(u8::from(!(low..=high).contains(&(factor - 1.0))));
                all += 1.0;
            }
            outside / all
        };
        for part in [0.3, 0.5, 0.7, 0.9] {
            let share = share_outside(part, 1.0);
            assert!(share < 0.07, "{part}: {share}");
        }
        // The mean of so few bursts says less of a rise than Student's t allows for.
        let share = share_outside(0.7, 2.0);
        assert!(share < 0.15, "{share}");
    }

    #[test]
    fn what_is_not_known_is_not_said() {
        let one = of(&[4.0, 2.0, 4.0]);
        assert!(near(one.change(), -0.5) && one.interval().is_none() && one.p().is_none());
        assert!(Effect::of(&[]).unwrap_err().contains("no block"));
        for blocks in [[0.0, 2.0, 0.0], [0.0; 3]] {
            assert!(Effect::of(&blocks.map(Some)).unwrap_err().contains("it was 0"), "{blocks:?}");
        }
        assert!(Effect::of(&[Some(4.0), None, Some(4.0)]).unwrap_err().contains("not measured"));
    }
}
