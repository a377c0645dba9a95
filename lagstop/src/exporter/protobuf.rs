//! The messages of Prometheus, which alone carry native histograms: `io.prometheus.client.MetricFamily`, each behind its
//! length (github.com/prometheus/client_model, `io/prometheus/client/metrics.proto`).

use std::io;

use prost::{Message, bytes::Bytes};

use super::{
    Family, Histogram, Kind, Snapshot,
    families::{Part, Sample, Value, families},
    histogram::{SCHEMA, ZERO_THRESHOLD},
};

/// A label.
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct LabelPair {
    #[prost(string, optional, tag = "1")]
    pub(super) name: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub(super) value: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Number {
    #[prost(double, optional, tag = "1")]
    pub(super) value: Option<f64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct HistogramMessage {
    #[prost(uint64, optional, tag = "1")]
    pub(super) sample_count: Option<u64>,
    #[prost(double, optional, tag = "2")]
    pub(super) sample_sum: Option<f64>,
    #[prost(message, repeated, tag = "3")]
    pub(super) bucket: Vec<Bucket>,
    #[prost(sint32, optional, tag = "5")]
    pub(super) schema: Option<i32>,
    #[prost(double, optional, tag = "6")]
    pub(super) zero_threshold: Option<f64>,
    #[prost(uint64, optional, tag = "7")]
    pub(super) zero_count: Option<u64>,
    #[prost(message, repeated, tag = "12")]
    pub(super) positive_span: Vec<BucketSpan>,
    #[prost(sint64, repeated, tag = "13")]
    pub(super) positive_delta: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Bucket {
    #[prost(uint64, optional, tag = "1")]
    pub(super) cumulative_count: Option<u64>,
    #[prost(double, optional, tag = "2")]
    pub(super) upper_bound: Option<f64>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct BucketSpan {
    #[prost(sint32, optional, tag = "1")]
    pub(super) offset: Option<i32>,
    #[prost(uint32, optional, tag = "2")]
    pub(super) length: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Metric {
    /// Each a [`LabelPair`], encoded before: on the wire a message is bytes. Thousands of metrics share them.
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub(super) label: Vec<Bytes>,
    #[prost(message, optional, tag = "2")]
    pub(super) gauge: Option<Number>,
    #[prost(message, optional, tag = "3")]
    pub(super) counter: Option<Number>,
    #[prost(message, optional, tag = "7")]
    pub(super) histogram: Option<HistogramMessage>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct MetricFamily {
    #[prost(string, optional, tag = "1")]
    pub(super) name: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub(super) help: Option<String>,
    /// 0 counter, 1 gauge, 4 histogram.
    #[prost(int32, optional, tag = "3")]
    pub(super) kind: Option<i32>,
    #[prost(message, repeated, tag = "4")]
    pub(super) metric: Vec<Metric>,
}

/// Writes all metrics.
pub(super) fn messages(snapshot: &Snapshot, to: &mut dyn io::Write) -> io::Result<()> {
    let (mut parts, mut bytes) = (Parts::default(), Vec::new());
    for family in families() {
        let metric: Vec<Metric> =
            family.samples(snapshot).map(|sample| metric(family.kind, &sample, &mut parts)).collect();
        if !metric.is_empty() {
            bytes.clear();
            message(family, metric).encode_length_delimited(&mut bytes)?;
            to.write_all(&bytes)?;
        }
    }
    Ok(())
}

fn message(family: &Family, metric: Vec<Metric>) -> MetricFamily {
    let kind = match family.kind {
        Kind::Counter => 0,
        // It has no kind of its own there.
        Kind::Gauge | Kind::Info => 1,
        Kind::Histogram => 4,
    };
    MetricFamily { name: Some(family.name.to_owned()), help: Some(family.help.to_owned()), kind: Some(kind), metric }
}

/// Labels of parts, encoded once.
#[derive(Default)]
struct Parts(Vec<(Part, Bytes)>);

impl Parts {
    fn message(&mut self, part: Part) -> Bytes {
        if let Some((_, message)) = self.0.iter().find(|(known, _)| *known == part) {
            return message.clone();
        }
        let (name, value) = part;
        let pair = LabelPair { name: Some(name.to_owned()), value: Some(value.to_owned()) };
        let message: Bytes = pair.encode_to_vec().into();
        self.0.push((part, message.clone()));
        message
    }
}

fn metric(kind: Kind, sample: &Sample<'_>, parts: &mut Parts) -> Metric {
    let own = sample.labels.iter().map(|label| label.message().clone());
    let label = own.chain(sample.part.map(|part| parts.message(part))).collect();
    let number = |value| Some(Number { value: Some(value) });
    let (number, histogram) = match sample.value {
        Value::Count(count) => (number(count as f64), None),
        Value::Real(real) => (number(real), None),
        Value::Is => (number(1.0), None),
        Value::Histogram(of) => (None, Some(histogram(of))),
    };
    match kind {
        Kind::Counter => Metric { label, counter: number, ..Metric::default() },
        Kind::Gauge | Kind::Info => Metric { label, gauge: number, ..Metric::default() },
        Kind::Histogram => Metric { label, histogram, ..Metric::default() },
    }
}

/// Both kinds of buckets: which are kept is for the scraper to decide.
fn histogram(of: &Histogram) -> HistogramMessage {
    let native = of.native();
    let mut below = 0;
    let bucket = of
        .classic()
        .into_iter()
        // The last, without a bound, is all of them, and left out.
        .filter(|(bound, _)| bound.is_finite())
        .map(|(bound, count)| {
            below += count;
            Bucket { cumulative_count: Some(below), upper_bound: Some(bound) }
        })
        .collect();
    HistogramMessage {
        sample_count: Some(of.count()),
        sample_sum: Some(of.sum()),
        bucket,
        schema: Some(SCHEMA),
        zero_threshold: Some(ZERO_THRESHOLD),
        zero_count: Some(native.zero),
        positive_span: native
            .spans
            .into_iter()
            .map(|(offset, length)| BucketSpan { offset: Some(offset), length: Some(length) })
            .collect(),
        positive_delta: native.deltas,
    }
}
