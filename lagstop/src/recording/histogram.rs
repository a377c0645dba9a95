//! How distributions are written: as histograms in HdrHistogram's own V2 compressed encoding, in base64, which its standard
//! tools read.

mod untrusted;

use std::{borrow::Cow, io};

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use hdrhistogram::{
    CreationError, Histogram, RecordError,
    serialization::{Deserializer as HistogramReader, Serializer as _, V2DeflateSerializer},
};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _, ser::Error as _};
use thiserror::Error;

use crate::model::{Distribution, Nanos};

/// A histogram that cannot be read or written.
#[derive(Debug, Error)]
pub(crate) enum HistogramError {
    #[error("the distribution is not base64: {0}")]
    Base64(#[from] base64::DecodeError),
    #[error("the distribution is not an HdrHistogram in the V2 compressed encoding: {0}")]
    Read(#[from] hdrhistogram::serialization::DeserializeError),
    #[error("cannot encode the distribution: {0}")]
    Write(#[from] hdrhistogram::serialization::V2DeflateSerializeError),
    #[error("the distribution cannot be decompressed: {0}")]
    Inflate(#[source] io::Error),
    /// More exact than any that lagstop writes.
    #[error("the distribution has more than {most} significant figures")]
    TooPrecise { most: usize },
    #[error("the distribution is cut short")]
    Cut,
    /// Decompressed, it is longer than any that lagstop writes.
    #[error("the distribution has more than {most} bytes")]
    TooLong { most: u64 },
    /// A count does not fit.
    #[error("the distribution has more than 2³² durations in one bin")]
    TooMany,
    #[error("cannot make a histogram: {0}")]
    Create(#[from] CreationError),
    /// A duration outside what a histogram here may hold.
    #[error("the distribution is out of lagstop's range: {0}")]
    Record(#[from] RecordError),
}

/// Longest duration that a histogram made here can distinguish.
const HIGHEST: u64 = 1 << 38;
/// Significant figures of a histogram made here: its own error, below 1 %, adds next to nothing to the buckets'.
const FIGURES: u8 = 2;

pub(crate) fn encode(histogram: &Histogram<u64>) -> Result<String, HistogramError> {
    let mut bytes = Vec::new();
    V2DeflateSerializer::new().serialize(histogram, &mut bytes)?;
    Ok(BASE64.encode(bytes))
}

/// Reads any histogram in HdrHistogram's V2 encoding, from any source.
pub(crate) fn decode(text: &str) -> Result<Histogram<u64>, HistogramError> {
    let bytes = untrusted::look_over(BASE64.decode(text)?)?;
    Ok(HistogramReader::new().deserialize(&mut bytes.as_slice())?)
}

/// A histogram of the durations that stand for the buckets, in nanoseconds.
fn of(distribution: &Distribution) -> Result<Histogram<u64>, HistogramError> {
    let mut histogram = Histogram::new_with_bounds(1, HIGHEST, FIGURES)?;
    for (value, count) in distribution.bins() {
        histogram.record_n(value.0, count.into())?;
    }
    Ok(histogram)
}

/// What a histogram of durations in nanoseconds says, in the buckets here.
fn distribution(histogram: &Histogram<u64>) -> Result<Distribution, HistogramError> {
    let durations = histogram.iter_recorded().map(|bin| {
        let count = u32::try_from(bin.count_since_last_iteration()).map_err(|_| HistogramError::TooMany)?;
        Ok((Nanos(histogram.median_equivalent(bin.value_iterated_to())), count))
    });
    Ok(Distribution::of(durations.collect::<Result<Vec<_>, HistogramError>>()?))
}

impl JsonSchema for Distribution {
    fn schema_name() -> Cow<'static, str> {
        "Distribution".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "contentEncoding": "base64",
            "description": "Durations in nanoseconds: base64 of HdrHistogram's V2 compressed encoding.",
        })
    }
}

impl Serialize for Distribution {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let histogram = of(self).map_err(S::Error::custom)?;
        serializer.serialize_str(&encode(&histogram).map_err(S::Error::custom)?)
    }
}

impl<'de> Deserialize<'de> for Distribution {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let histogram = decode(&String::deserialize(deserializer)?).map_err(D::Error::custom)?;
        distribution(&histogram).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::Bucket;

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            counts in prop::collection::btree_map(0..144 as Bucket, 1u32..1 << 20, 0..40),
        ) {
            let written = Distribution::from_buckets(counts).unwrap();
            let read: Distribution = serde_json::from_str(&serde_json::to_string(&written).unwrap()).unwrap();
            prop_assert_eq!(read, written);
        }
    }
}
