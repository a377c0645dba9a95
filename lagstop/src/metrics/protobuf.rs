//! The messages of Prometheus, which alone carry native histograms: `io.prometheus.client.MetricFamily`, each behind its
//! length (github.com/prometheus/client_model, `io/prometheus/client/metrics.proto`).

use std::{collections::HashMap, io};

use prost::Message;

use super::{
    Family, Histogram, Kind, MetricsSnapshot,
    families::{Part, Value, families},
    histogram::{SCHEMA, ZERO_THRESHOLD},
    message::{field, label, length},
};

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

/// Without its labels, which are encoded separately, because thousands of metrics share them.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Metric {
    #[prost(message, optional, tag = "2")]
    pub(super) gauge: Option<Number>,
    #[prost(message, optional, tag = "3")]
    pub(super) counter: Option<Number>,
    #[prost(message, optional, tag = "7")]
    pub(super) histogram: Option<HistogramMessage>,
}

/// Without its metrics, each of which is encoded on its own.
#[derive(Clone, PartialEq, Message)]
pub(super) struct MetricFamily {
    #[prost(string, optional, tag = "1")]
    pub(super) name: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub(super) help: Option<String>,
    /// 0 counter, 1 gauge, 4 histogram.
    #[prost(int32, optional, tag = "3")]
    pub(super) kind: Option<i32>,
}

/// The tag of the metrics of a family.
const METRIC: u8 = 4;

pub(super) fn messages(snapshot: &MetricsSnapshot, to: &mut dyn io::Write) -> io::Result<()> {
    let mut parts = Parts::default();
    let (mut whole, mut one, mut before) = (Vec::new(), Vec::new(), Vec::new());
    for family in families() {
        let mut samples = family.samples(snapshot).peekable();
        if samples.peek().is_none() {
            continue;
        }
        whole.clear();
        head(family).encode(&mut whole)?;
        for sample in samples {
            one.clear();
            one.extend_from_slice(sample.labels.messages());
            one.extend_from_slice(sample.part.map_or(&[], |part| parts.label(part)));
            metric(family.kind, sample.value).encode(&mut one)?;
            field(METRIC, &one, &mut whole);
        }
        before.clear();
        length(whole.len(), &mut before);
        to.write_all(&before)?;
        to.write_all(&whole)?;
    }
    Ok(())
}

fn head(family: &Family) -> MetricFamily {
    let kind = match family.kind {
        Kind::Counter => 0,
        // The format has no kind for info.
        Kind::Gauge | Kind::Info => 1,
        Kind::Histogram => 4,
    };
    MetricFamily { name: Some(family.name.to_owned()), help: Some(family.help.to_owned()), kind: Some(kind) }
}

/// Labels of parts, encoded once.
#[derive(Default)]
struct Parts(HashMap<Part, Vec<u8>>);

impl Parts {
    fn label(&mut self, part: Part) -> &[u8] {
        self.0.entry(part).or_insert_with(|| label(part.0, part.1))
    }
}

fn metric(kind: Kind, value: Value<'_>) -> Metric {
    let number = |value| Some(Number { value: Some(value) });
    let (number, histogram) = match value {
        Value::Count(count) => (number(count as f64), None),
        Value::Real(real) => (number(real), None),
        Value::Is => (number(1.0), None),
        Value::Histogram(of) => (None, Some(histogram(of))),
    };
    match kind {
        Kind::Counter => Metric { counter: number, ..Metric::default() },
        Kind::Gauge | Kind::Info => Metric { gauge: number, ..Metric::default() },
        Kind::Histogram => Metric { histogram, ..Metric::default() },
    }
}

/// Writes both kinds of buckets. The scraper decides which to keep.
fn histogram(of: &Histogram) -> HistogramMessage {
    let native = of.native();
    let mut below = 0;
    let bucket = of
        .classic()
        .into_iter()
        // The last bucket has no bound. It is left out, because it would only repeat the count.
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
