//! Distributions of durations.

mod untrusted;

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use hdrhistogram::{
    Histogram,
    serialization::{Deserializer as HistogramReader, Serializer as _, V2DeflateSerializer},
};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _, ser::Error as _};
use thiserror::Error;

use super::Nanos;

/// How many durations fell into each of some bins, each bin named by the duration that stands for it.
///
/// Between two snapshots the counts are those since the start and wrap at 2³²; in an interval they are the interval's
/// own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Distribution {
    /// Ascending by duration; no bin twice.
    bins: Vec<(Nanos, u32)>,
}

/// A distribution that cannot be read or written.
#[derive(Debug, Error)]
pub enum DistributionError {
    /// The text is not base64.
    #[error("the distribution is not base64: {0}")]
    Base64(#[from] base64::DecodeError),
    /// The bytes are no histogram.
    #[error("the distribution is no HdrHistogram in the V2 compressed encoding: {0}")]
    Read(#[from] hdrhistogram::serialization::DeserializeError),
    /// The histogram could not be encoded.
    #[error("the distribution cannot be encoded: {0}")]
    Write(#[from] hdrhistogram::serialization::V2DeflateSerializeError),
    /// A duration outside what a histogram here may hold.
    #[error("the distribution is not one that lagstop keeps: {0}")]
    Range(String),
}

impl Distribution {
    /// Longest duration that is told apart: that of a histogram made here.
    const HIGHEST: u64 = 1 << 38;
    /// Significant figures of a histogram made here: its own error, below 1 %, adds next to nothing to the bins'.
    const FIGURES: u8 = 2;

    /// From bins in ascending order.
    pub fn from_bins(bins: impl IntoIterator<Item = (Nanos, u32)>) -> Self {
        Self { bins: bins.into_iter().collect() }
    }

    /// The bins that hold something, ascending.
    pub fn bins(&self) -> impl Iterator<Item = (Nanos, u32)> {
        self.bins.iter().copied().filter(|&(_, count)| count > 0)
    }

    /// Number of durations counted.
    pub fn count(&self) -> u64 {
        self.bins.iter().map(|&(_, count)| u64::from(count)).sum()
    }

    /// What was counted since `earlier`, of the same growing distribution.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut before = earlier.bins.iter().peekable();
        let bins = self.bins.iter().filter_map(|&(value, count)| {
            while before.next_if(|&&(earlier, _)| earlier < value).is_some() {}
            let then = before.next_if(|&&(earlier, _)| earlier == value).map_or(0, |&(_, count)| count);
            let more = count.wrapping_sub(then);
            (more > 0).then_some((value, more))
        });
        Self { bins: bins.collect() }
    }

    /// Adds what `other` counted.
    pub fn merge(&mut self, other: &Self) {
        let mut merged = Vec::with_capacity(self.bins.len() + other.bins.len());
        let (mut mine, mut theirs) = (self.bins.iter().peekable(), other.bins.iter().peekable());
        loop {
            let next = match (mine.peek(), theirs.peek()) {
                (Some(&&(a, _)), Some(&&(b, _))) => a.min(b),
                (Some(&&(value, _)), None) | (None, Some(&&(value, _))) => value,
                (None, None) => break,
            };
            let take = |bins: &mut std::iter::Peekable<std::slice::Iter<'_, (Nanos, u32)>>| {
                bins.next_if(|&&(value, _)| value == next).map_or(0, |&(_, count)| count)
            };
            let count = take(&mut mine).saturating_add(take(&mut theirs));
            merged.push((next, count));
        }
        self.bins = merged;
    }

    /// What all of them counted together.
    pub fn sum<'a>(all: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut bins: Vec<(Nanos, u32)> = all.into_iter().flat_map(Self::bins).collect();
        bins.sort_unstable_by_key(|&(value, _)| value);
        bins.dedup_by(|(value, more), (kept, count)| {
            let same = value == kept;
            if same {
                *count = count.saturating_add(*more);
            }
            same
        });
        Self { bins }
    }

    /// The duration that a share `quantile` (0 to 1) of the durations does not exceed. `None` where none was counted.
    pub fn quantile(&self, quantile: f64) -> Option<Nanos> {
        let rank = ((self.count() as f64 * quantile).ceil() as u64).max(1);
        let mut seen = 0;
        self.bins.iter().find_map(|&(value, count)| {
            seen += u64::from(count);
            (seen >= rank).then_some(value)
        })
    }

    /// As a histogram of the `hdrhistogram` library.
    ///
    /// # Errors
    /// When a duration is out of the histogram's range: not of a distribution measured here.
    pub fn to_histogram(&self) -> Result<Histogram<u64>, DistributionError> {
        let range = |error: &dyn std::fmt::Display| DistributionError::Range(error.to_string());
        let mut histogram = Histogram::new_with_bounds(1, Self::HIGHEST, Self::FIGURES).map_err(|e| range(&e))?;
        for (value, count) in self.bins() {
            histogram.record_n(value.0, count.into()).map_err(|e| range(&e))?;
        }
        Ok(histogram)
    }

    /// HdrHistogram's own V2 compressed encoding, in base64: what its standard tools read.
    ///
    /// # Errors
    /// When the histogram cannot be made or encoded.
    pub fn encode(&self) -> Result<String, DistributionError> {
        let mut bytes = Vec::new();
        V2DeflateSerializer::new().serialize(&self.to_histogram()?, &mut bytes)?;
        Ok(BASE64.encode(bytes))
    }

    /// Reads what [`Self::encode`] wrote, or any other histogram of durations in nanoseconds in that encoding.
    ///
    /// # Errors
    /// When `text` is not base64 of such a histogram.
    pub fn decode(text: &str) -> Result<Self, DistributionError> {
        Self::from_bytes(BASE64.decode(text)?)
    }

    fn from_bytes(bytes: Vec<u8>) -> Result<Self, DistributionError> {
        let bytes = untrusted::look_over(bytes)?;
        let histogram: Histogram<u64> = HistogramReader::new().deserialize(&mut bytes.as_slice())?;
        let bins = histogram.iter_recorded().map(|bin| {
            let count = u32::try_from(bin.count_since_last_iteration())
                .map_err(|_| DistributionError::Range("more than 2³² durations in one bin".to_owned()))?;
            Ok((Nanos(histogram.median_equivalent(bin.value_iterated_to())), count))
        });
        Ok(Self { bins: bins.collect::<Result<_, DistributionError>>()? })
    }
}

impl Serialize for Distribution {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.encode().map_err(S::Error::custom)?)
    }
}

impl<'de> Deserialize<'de> for Distribution {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::decode(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(bins: &[(u64, u32)]) -> Distribution {
        Distribution::from_bins(bins.iter().map(|&(value, count)| (Nanos(value), count)))
    }

    #[test]
    fn quantiles_are_the_bins_that_reach_the_rank() {
        let d = of(&[(10, 50), (100, 49), (1000, 1)]);
        assert_eq!(d.quantile(0.5), Some(Nanos(10)));
        assert_eq!(d.quantile(0.51), Some(Nanos(100)));
        assert_eq!(d.quantile(0.99), Some(Nanos(100)));
        assert_eq!(d.quantile(1.0), Some(Nanos(1000)));
        assert_eq!(Distribution::default().quantile(0.5), None);
    }

    #[test]
    fn differences_survive_the_wrap_of_the_counters() {
        let before = of(&[(10, u32::MAX - 1), (20, 7)]);
        let after = of(&[(10, 3), (20, 7), (30, 2)]);
        assert_eq!(after.since(&before), of(&[(10, 5), (30, 2)]));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(bins in prop::collection::btree_map(1u64..1 << 37, 1u32..1 << 20, 0..40)) {
            let d = Distribution::from_bins(bins.iter().map(|(&v, &c)| (Nanos(v), c)));
            let back = Distribution::decode(&d.encode().unwrap()).unwrap();
            prop_assert_eq!(back.count(), d.count());
            for quantile in [0.0, 0.5, 0.9, 0.99, 1.0] {
                match (d.quantile(quantile), back.quantile(quantile)) {
                    (Some(a), Some(b)) => prop_assert!(a.0.abs_diff(b.0) * 100 <= a.0, "{a:?} came back as {b:?}"),
                    (a, b) => prop_assert_eq!(a, b),
                }
            }
            prop_assert_eq!(back.encode().unwrap(), d.encode().unwrap());
        }

        #[test]
        fn merging_undoes_a_difference(
            a in prop::collection::btree_map(1u64..100, 0u32..1000, 0..20),
            b in prop::collection::btree_map(1u64..100, 0u32..1000, 0..20),
        ) {
            let [a, b] = [a, b].map(|bins| Distribution::from_bins(bins.into_iter().map(|(v, c)| (Nanos(v), c))));
            let mut both = a.clone();
            both.merge(&b);
            prop_assert_eq!(both.count(), a.count() + b.count());
            prop_assert!(Distribution::sum([&a, &b]).bins().eq(both.bins()));
            prop_assert!(both.since(&a).bins().eq(b.bins()));
        }
    }
}
