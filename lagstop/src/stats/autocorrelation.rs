//! How much a series repeats itself, and so how much less it says than as many values that have nothing to do with each other.

use super::difference;

/// Of a stationary series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Autocorrelation {
    /// Variance of a value.
    pub variance: f64,
    /// Integrated autocorrelation time, 1 + 2 Σ ρₖ: so many values in a row say as much as one that stands alone. At least 1:
    /// values that alternate are not taken to say more.
    pub time: f64,
    values: usize,
}

impl Autocorrelation {
    /// Refinements of what the mean takes away.
    const ROUNDS: usize = 30;

    /// Of `values`, in their order.
    pub(crate) fn of(values: &[f64]) -> Self {
        let centred = centred(values.iter().copied().map(Some));
        Self::found(&covariances(&[centred], |lag| values.len() - lag), values.len())
    }

    /// Of several series of the same length that go on alike, each around a mean of its own; `None` is a value that is missing.
    pub(crate) fn of_several(series: &[&[Option<f64>]]) -> Self {
        let length = series.first().map_or(0, |one| one.len());
        let pairs = |lag| {
            let of_one =
                |one: &&[Option<f64>]| one.iter().zip(&one[lag..]).filter(|(a, b)| a.is_some() && b.is_some()).count();
            series.iter().map(of_one).sum()
        };
        let centred: Vec<Vec<f64>> = series.iter().map(|one| centred(one.iter().copied())).collect();
        Self::found(&covariances(&centred, pairs), length)
    }

    /// From autocovariances, of a series of so many values.
    ///
    /// The sum goes over pairs of lags as long as they are positive and falling (Geyer: Practical Markov chain Monte Carlo,
    /// Statistical Science 7, 1992: initial monotone sequence): it takes no model, and ends by itself where only noise is left.
    /// The mean is the series' own, which makes each autocovariance too small by the mean's variance (Anderson: The statistical
    /// analysis of time series, 1971, 8.2). In a short series that is most of it. So it is added back, with the variance
    /// that follows, until the two agree. Where they never do, all of the series says as much as one value.
    fn found(covariances: &[f64], values: usize) -> Self {
        let own = covariances.first().copied().unwrap_or_default();
        let mut found = Self { variance: own, time: 1.0, values };
        if own <= 0.0 {
            return found;
        }
        let mut of_mean = 0.0;
        for _ in 0..Self::ROUNDS {
            found.variance = own + of_mean;
            found.time = (integrated(covariances, of_mean) / found.variance).max(1.0);
            if found.time >= values as f64 {
                found.time = values as f64;
                break;
            }
            let before = std::mem::replace(&mut of_mean, found.of_mean());
            if (of_mean - before).abs() <= 1e-6 * of_mean {
                break;
            }
        }
        found
    }

    /// Variance of the mean of all values.
    pub(crate) fn of_mean(&self) -> f64 {
        self.variance * self.time / self.values.max(1) as f64
    }

    /// Effective sample size: so many values that have nothing to do with each other say as much as `values` of these.
    pub(crate) fn effective(&self, values: usize) -> f64 {
        values as f64 / self.time
    }
}

/// Degrees of freedom of a variance with such an effective sample size: half of what independent values would give, because the
/// autocorrelation is estimated, too. By simulation: with all of them, a p of 1/80 comes up once in 60 times without any change.
pub(crate) fn freedom(effective: f64) -> f64 {
    ((effective - 1.0) / 2.0).max(1.0)
}

/// What values are off their mean; nothing where one is missing.
fn centred(values: impl Iterator<Item = Option<f64>> + Clone) -> Vec<f64> {
    let known = values.clone().flatten();
    let mean = known.clone().sum::<f64>() / known.count().max(1) as f64;
    values.map(|value| value.map_or(0.0, |value| difference(value, mean))).collect()
}

/// Autocovariances up to half of the series' length, that of lag 0 first. Beyond, too few pairs are left. `pairs` says how many
/// have that lag.
fn covariances(series: &[Vec<f64>], pairs: impl Fn(usize) -> usize) -> Vec<f64> {
    let length = series.first().map_or(0, Vec::len);
    let covariance = |lag: usize| {
        let of_one = |one: &Vec<f64>| one.iter().zip(&one[lag..]).map(|(one, other)| one * other).sum::<f64>();
        series.iter().map(of_one).sum::<f64>() / pairs(lag).max(1) as f64
    };
    (0..length.div_ceil(2)).map(covariance).collect()
}

/// γ₀ + 2 Σ γₖ, where each γ is larger by `missing` than what was found.
fn integrated(covariances: &[f64], missing: f64) -> f64 {
    let mut least = f64::INFINITY;
    let mut sum = 0.0;
    for pair in covariances.chunks_exact(2) {
        let both = pair[0] + pair[1] + 2.0 * missing;
        if both <= 0.0 {
            break;
        }
        least = least.min(both);
        sum += least;
    }
    2.0 * sum - covariances[0] - missing
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::fixture;

    /// The mean over so many series of `count` values: the time, and the variance of the mean.
    fn means(series: u64, count: usize, memory: f64) -> (f64, f64) {
        let found = (0..series).map(|seed| Autocorrelation::of(&fixture::series(count, memory, seed)));
        let (time, of_mean) = found.fold((0.0, 0.0), |(time, of_mean), one| (time + one.time, of_mean + one.of_mean()));
        (time / series as f64, of_mean / series as f64)
    }

    #[test]
    fn a_long_series_tells_its_time() {
        for memory in [0.0, 0.5, 0.8, 0.9] {
            let expected = (1.0 + memory) / (1.0 - memory);
            let (time, of_mean) = means(40, 2_000, memory);
            assert!((0.95..1.2).contains(&(time / expected)), "{memory}: {time}, not {expected}");
            assert!((0.9..1.2).contains(&(of_mean * 2_000.0 / expected)), "{memory}: {of_mean}");
        }
    }

    /// Without what the mean takes away it would be half as much.
    #[test]
    fn a_short_series_is_not_taken_for_a_calm_one() {
        for (count, memory, expected) in [(30, 0.5, 3.0), (60, 0.8, 9.0), (120, 0.9, 19.0)] {
            let (time, _) = means(300, count, memory);
            assert!(time > 0.9 * expected, "{count}, {memory}: {time}, not {expected}");
        }
    }

    #[test]
    fn several_series_with_gaps_and_means_of_their_own_tell_the_time_of_all() {
        let mut series: Vec<Vec<Option<f64>>> = (0..40)
            .map(|seed| fixture::series(300, 0.8, seed).into_iter().map(|value| Some(value + seed as f64)).collect())
            .collect();
        let whole = Autocorrelation::of_several(&series.iter().map(Vec::as_slice).collect::<Vec<_>>()).time;
        series.iter_mut().for_each(|one| one.iter_mut().step_by(7).for_each(|value| *value = None));
        let with_gaps = Autocorrelation::of_several(&series.iter().map(Vec::as_slice).collect::<Vec<_>>()).time;
        assert!((7.0..11.0).contains(&whole) && (7.0..11.0).contains(&with_gaps), "{whole}, {with_gaps}, not 9");
        assert_eq!(Autocorrelation::of_several(&[]).time, 1.0);
    }

    #[test]
    fn values_apart_say_as_much_as_they_are() {
        let (time, of_mean) = means(300, 60, 0.0);
        assert!(time < 1.6 && (0.9..1.6).contains(&(of_mean * 60.0)), "{time}, {of_mean}");
    }

    #[test]
    fn what_only_rises_says_as_much_as_one_value() {
        let rising: Vec<f64> = (0..100).map(f64::from).collect();
        assert!(Autocorrelation::of(&rising).effective(100) < 2.0);
        let twice: Vec<f64> = (0..100).map(|n| f64::from(n / 50)).collect();
        assert!(Autocorrelation::of(&twice).effective(100) < 4.0);
    }

    #[test]
    fn what_alternates_or_never_varies_has_no_memory() {
        let alternating: Vec<f64> = (0..100).map(|n| f64::from(n % 2)).collect();
        assert_eq!(Autocorrelation::of(&alternating).time, 1.0);
        for values in [&[][..], &[3.0], &[0.1; 60]] {
            let found = Autocorrelation::of(values);
            assert_eq!((found.time, found.variance, found.of_mean()), (1.0, 0.0, 0.0), "{values:?}");
        }
        assert!(Autocorrelation::of(&[1.0, 2.0]).time.is_finite());
    }
}
