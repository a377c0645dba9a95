//! OpenTelemetry's messages: `ExportMetricsServiceRequest` (github.com/open-telemetry/opentelemetry-proto,
//! `opentelemetry/proto/metrics/v1/metrics.proto`), for collectors that do not scrape.
//!
//! Counters are cumulative sums, and histograms exponential ones with the buckets of native histograms. A unit is not part of a
//! name there: what reads these metrics as Prometheus' puts it back.

use prost::Message;

use super::{
    Family, Histogram, Kind, Snapshot,
    families::{Sample, Value, families},
    histogram::{SCHEMA, ZERO_THRESHOLD},
    message::field,
};

/// What measures.
#[derive(Clone, Debug)]
pub struct Host {
    /// Where.
    pub hostname: String,
    /// The version of lagstop.
    pub version: String,
}

#[derive(Clone, PartialEq, Message)]
struct MetricHead {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    description: String,
    #[prost(string, tag = "3")]
    unit: String,
}

/// Without its attributes.
#[derive(Clone, PartialEq, Message)]
struct NumberDataPoint {
    #[prost(fixed64, tag = "2")]
    start_time_unix_nano: u64,
    #[prost(fixed64, tag = "3")]
    time_unix_nano: u64,
    #[prost(double, optional, tag = "4")]
    as_double: Option<f64>,
}

/// Without its attributes.
#[derive(Clone, PartialEq, Message)]
struct ExponentialHistogramDataPoint {
    #[prost(fixed64, tag = "2")]
    start_time_unix_nano: u64,
    #[prost(fixed64, tag = "3")]
    time_unix_nano: u64,
    #[prost(fixed64, tag = "4")]
    count: u64,
    #[prost(double, optional, tag = "5")]
    sum: Option<f64>,
    #[prost(sint32, tag = "6")]
    scale: i32,
    #[prost(fixed64, tag = "7")]
    zero_count: u64,
    #[prost(message, optional, tag = "8")]
    positive: Option<Buckets>,
    #[prost(double, tag = "14")]
    zero_threshold: f64,
}

#[derive(Clone, PartialEq, Message)]
struct Buckets {
    #[prost(sint32, tag = "1")]
    offset: i32,
    #[prost(uint64, repeated, tag = "2")]
    bucket_counts: Vec<u64>,
}

/// What is said of a `Sum` or `ExponentialHistogram`, behind its points.
#[derive(Clone, PartialEq, Eq, Message)]
struct Temporality {
    #[prost(int32, tag = "2")]
    aggregation_temporality: i32,
    #[prost(bool, tag = "3")]
    is_monotonic: bool,
}

/// Grows from when its series began.
const CUMULATIVE: i32 = 2;
/// A request is handed on once it has so many bytes. It gets longer by a point and some words at most: gateways that take no more
/// than 4 MiB take it.
const ENOUGH: usize = 2 << 20;

/// Tags of fields with a length.
mod tag {
    pub(super) const REQUEST_RESOURCE_METRICS: u8 = 1;
    pub(super) const RESOURCE_METRICS_RESOURCE: u8 = 1;
    pub(super) const RESOURCE_METRICS_SCOPE_METRICS: u8 = 2;
    pub(super) const RESOURCE_ATTRIBUTES: u8 = 1;
    pub(super) const SCOPE_METRICS_SCOPE: u8 = 1;
    pub(super) const SCOPE_METRICS_METRICS: u8 = 2;
    pub(super) const SCOPE_NAME: u8 = 1;
    pub(super) const SCOPE_VERSION: u8 = 2;
    pub(super) const METRIC_GAUGE: u8 = 5;
    pub(super) const METRIC_SUM: u8 = 7;
    pub(super) const METRIC_EXPONENTIAL_HISTOGRAM: u8 = 10;
    /// Of gauge, sum and histogram.
    pub(super) const DATA_POINTS: u8 = 1;
    pub(super) const NUMBER_ATTRIBUTES: u8 = 7;
    pub(super) const HISTOGRAM_ATTRIBUTES: u8 = 1;
    pub(super) const KEY_VALUE_KEY: u8 = 1;
    pub(super) const KEY_VALUE_VALUE: u8 = 2;
    pub(super) const ANY_VALUE_STRING: u8 = 1;
}

/// Hands all metrics of `snapshot` on to `send`, in requests of a few megabytes.
///
/// # Errors
/// What `send` says.
pub fn export<E>(snapshot: &Snapshot, host: &Host, mut send: impl FnMut(Vec<u8>) -> Result<(), E>) -> Result<(), E> {
    let mut metrics = Vec::new();
    for family in families() {
        let mut samples = family.samples(snapshot).peekable();
        // Points of a metric may come in several requests, each with its head.
        while samples.peek().is_some() {
            append(family, snapshot, &mut samples, &mut metrics);
            if metrics.len() >= ENOUGH {
                send(request(&metrics, host))?;
                metrics.clear();
            }
        }
    }
    if metrics.is_empty() { Ok(()) } else { send(request(&metrics, host)) }
}

/// Of metrics that are encoded already, each as a field.
fn request(metrics: &[u8], host: &Host) -> Vec<u8> {
    let mut resource = Vec::new();
    for (key, value) in [
        ("service.name", "lagstop"),
        ("service.instance.id", host.hostname.as_str()),
        ("host.name", host.hostname.as_str()),
    ] {
        attribute(tag::RESOURCE_ATTRIBUTES, key, value, &mut resource);
    }
    let mut scope = Vec::new();
    field(tag::SCOPE_NAME, b"lagstop", &mut scope);
    field(tag::SCOPE_VERSION, host.version.as_bytes(), &mut scope);
    let mut scope_metrics = Vec::with_capacity(metrics.len() + scope.len() + 16);
    field(tag::SCOPE_METRICS_SCOPE, &scope, &mut scope_metrics);
    scope_metrics.extend_from_slice(metrics);
    let mut resource_metrics = Vec::with_capacity(scope_metrics.len() + resource.len() + 16);
    field(tag::RESOURCE_METRICS_RESOURCE, &resource, &mut resource_metrics);
    field(tag::RESOURCE_METRICS_SCOPE_METRICS, &scope_metrics, &mut resource_metrics);
    let mut request = Vec::with_capacity(resource_metrics.len() + 8);
    field(tag::REQUEST_RESOURCE_METRICS, &resource_metrics, &mut request);
    request
}

/// Appends a metric with samples until there are no more, or it is enough.
fn append<'s>(
    family: &Family,
    snapshot: &Snapshot,
    samples: &mut impl Iterator<Item = Sample<'s>>,
    metrics: &mut Vec<u8>,
) {
    let (mut points, mut point) = (Vec::new(), Vec::new());
    for sample in samples {
        point.clear();
        write_point(&sample, snapshot, &mut point);
        field(tag::DATA_POINTS, &point, &mut points);
        if metrics.len() + points.len() >= ENOUGH {
            break;
        }
    }
    let (stem, is_seconds) = family.stem();
    let mut metric = MetricHead {
        // What an info is called is all that says what it is.
        name: if family.kind == Kind::Info { family.name } else { stem }.to_owned(),
        description: family.help.to_owned(),
        unit: if is_seconds { "s" } else { "" }.to_owned(),
    }
    .encode_to_vec();
    let (kind, temporality) = match family.kind {
        Kind::Gauge | Kind::Info => (tag::METRIC_GAUGE, None),
        Kind::Counter => (tag::METRIC_SUM, Some(true)),
        Kind::Histogram => (tag::METRIC_EXPONENTIAL_HISTOGRAM, Some(false)),
    };
    if let Some(is_monotonic) = temporality {
        let temporality = Temporality { aggregation_temporality: CUMULATIVE, is_monotonic };
        points.extend(temporality.encode_to_vec());
    }
    field(kind, &points, &mut metric);
    field(tag::SCOPE_METRICS_METRICS, &metric, metrics);
}

fn write_point(sample: &Sample<'_>, snapshot: &Snapshot, to: &mut Vec<u8>) {
    let time_unix_nano = snapshot.taken_in.0;
    let start_time_unix_nano = snapshot.taken_in.minus(snapshot.measured.minus(sample.began)).0;
    let number =
        |value| NumberDataPoint { start_time_unix_nano, time_unix_nano, as_double: Some(value) }.encode_to_vec();
    let (attributes, point) = match sample.value {
        Value::Count(count) => (tag::NUMBER_ATTRIBUTES, number(count as f64)),
        Value::Real(real) => (tag::NUMBER_ATTRIBUTES, number(real)),
        Value::Is => (tag::NUMBER_ATTRIBUTES, number(1.0)),
        Value::Histogram(of) => {
            let (zero_count, positive) = buckets(of);
            let point = ExponentialHistogramDataPoint {
                start_time_unix_nano,
                time_unix_nano,
                count: of.count(),
                sum: Some(of.sum()),
                scale: SCHEMA,
                zero_count,
                positive,
                zero_threshold: ZERO_THRESHOLD,
            };
            (tag::HISTOGRAM_ATTRIBUTES, point.encode_to_vec())
        }
    };
    for label in sample.labels.iter() {
        attribute(attributes, label.key, &label.value, to);
    }
    if let Some((key, value)) = sample.part {
        attribute(attributes, key, value, to);
    }
    to.extend(point);
}

/// Appends an attribute as a field with this tag.
fn attribute(of: u8, key: &str, value: &str, to: &mut Vec<u8>) {
    let (mut any, mut pair) = (Vec::new(), Vec::new());
    field(tag::ANY_VALUE_STRING, value.as_bytes(), &mut any);
    field(tag::KEY_VALUE_KEY, key.as_bytes(), &mut pair);
    field(tag::KEY_VALUE_VALUE, &any, &mut pair);
    field(of, &pair, to);
}

/// The bucket of zero, and the others, without gaps. A bucket is named by its lower bound here, by its upper one in Prometheus.
fn buckets(of: &Histogram) -> (u64, Option<Buckets>) {
    let native = of.native();
    let mut deltas = native.deltas.into_iter();
    let (mut count, mut bucket_counts) = (0, Vec::new());
    for (n, (gap, length)) in native.spans.iter().enumerate() {
        if n > 0 {
            bucket_counts.extend((0..*gap).map(|_| 0));
        }
        for delta in deltas.by_ref().take(*length as usize) {
            count += delta;
            bucket_counts.push(u64::try_from(count).unwrap_or(0));
        }
    }
    let positive = native.spans.first().map(|(first, _)| Buckets { offset: first - 1, bucket_counts });
    (native.zero, positive)
}
