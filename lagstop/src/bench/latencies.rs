//! How long requests took.

use std::fmt;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize, de, ser};

use crate::{model::Nanos, recording::histogram};

/// How long requests took, to three digits.
#[derive(Clone, PartialEq)]
pub struct Latencies(Histogram<u64>);

impl Default for Latencies {
    fn default() -> Self {
        Self(Histogram::new_with_bounds(1, Self::LONGEST, 3).unwrap_or_else(|_| unreachable!("bounds that fit")))
    }
}

/// Omits the counts, of which there are thousands.
impl fmt::Debug for Latencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {:?} on average", self.count(), self.mean())
    }
}

impl Latencies {
    /// An hour, in microseconds. What takes longer counts as that.
    const LONGEST: u64 = 3_600_000_000;

    pub fn add(&mut self, latency: Nanos) {
        self.0.saturating_record((latency.0 / 1_000).max(1));
    }

    pub fn merge(&mut self, other: &Self) {
        // Both have the same bounds.
        let _ = self.0.add(&other.0);
    }

    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// What a share of them did not exceed. `None` of none.
    pub fn quantile(&self, share: f64) -> Option<Nanos> {
        (!self.0.is_empty()).then(|| Nanos(self.0.value_at_quantile(share) * 1_000))
    }

    /// The mean. `None` of none.
    pub fn mean(&self) -> Option<Nanos> {
        (!self.0.is_empty()).then(|| Nanos((self.0.mean() * 1_000.0) as u64))
    }
}

/// As HdrHistogram's V2 compressed encoding of microseconds, in base64.
impl Serialize for Latencies {
    fn serialize<S: ser::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&histogram::encode(&self.0).map_err(ser::Error::custom)?)
    }
}

impl<'de> Deserialize<'de> for Latencies {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let read = histogram::decode(&String::deserialize(deserializer)?).map_err(de::Error::custom)?;
        let mut latencies = Self::default();
        latencies.0.add(&read).map_err(de::Error::custom)?;
        Ok(latencies)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_what_was_added() {
        let mut latencies = Latencies::default();
        assert_eq!((latencies.quantile(0.5), latencies.mean()), (None, None));
        (1..=1_000).for_each(|ms| latencies.add(Nanos(ms * 1_000_000)));
        for (share, ms) in [(0.5, 500.0), (0.95, 950.0), (1.0, 1_000.0)] {
            let found = latencies.quantile(share).unwrap().0 as f64 / 1e6;
            assert!((found / ms - 1.0).abs() < 0.002, "{share}: {found}");
        }
        latencies.add(Nanos(u64::MAX));
        assert_eq!(latencies.count(), 1_001);
    }

    #[test]
    fn it_travels_as_text() {
        let mut latencies = Latencies::default();
        [1, 17_000, 3_000_000_000].map(Nanos).into_iter().for_each(|latency| latencies.add(latency));
        let text = serde_json::to_string(&latencies).unwrap();
        assert_eq!(serde_json::from_str::<Latencies>(&text).unwrap(), latencies);
        for wrong in ["\"\"", "\"%\"", "\"AAAA\"", "7"] {
            assert!(serde_json::from_str::<Latencies>(wrong).is_err(), "{wrong}");
        }
    }
}
