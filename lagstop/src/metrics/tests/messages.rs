//! Messages of Prometheus, read as a scraper reads them.

use prost::Message;

use super::*;
use crate::metrics::protobuf::{HistogramMessage, Number};

/// A family as Prometheus reads it, all in one.
#[derive(Clone, PartialEq, Message)]
struct MetricFamily {
    #[prost(string, optional, tag = "1")]
    name: Option<String>,
    #[prost(int32, optional, tag = "3")]
    kind: Option<i32>,
    #[prost(message, repeated, tag = "4")]
    metric: Vec<Metric>,
}

#[derive(Clone, PartialEq, Eq, Message)]
struct LabelPair {
    #[prost(string, optional, tag = "1")]
    name: Option<String>,
    #[prost(string, optional, tag = "2")]
    value: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct Metric {
    #[prost(message, repeated, tag = "1")]
    label: Vec<LabelPair>,
    #[prost(message, optional, tag = "2")]
    gauge: Option<Number>,
    #[prost(message, optional, tag = "3")]
    counter: Option<Number>,
    #[prost(message, optional, tag = "7")]
    histogram: Option<HistogramMessage>,
}

/// All families in a stream of messages.
fn decode(mut bytes: &[u8]) -> Vec<MetricFamily> {
    std::iter::from_fn(|| (!bytes.is_empty()).then(|| MetricFamily::decode_length_delimited(&mut bytes).unwrap()))
        .collect()
}

#[test]
fn messages_say_what_the_text_says() {
    let everything = everything();
    let text = openmetrics(&everything);
    let mut samples = BTreeMap::new();
    for family in decode(&bytes(Exposition::Protobuf, &everything)) {
        let name = family.name.unwrap();
        for metric in family.metric {
            let labels: BTreeMap<String, String> =
                metric.label.into_iter().map(|pair| (pair.name.unwrap(), pair.value.unwrap())).collect();
            let mut add = |name: String, labels: &BTreeMap<String, String>, value: f64| {
                assert_eq!(samples.insert((name, labels.clone()), value), None);
            };
            if let Some(histogram) = metric.histogram {
                assert_eq!((family.kind, histogram.schema), (Some(4), Some(3)));
                add(format!("{name}_count"), &labels, histogram.sample_count.unwrap() as f64);
                add(format!("{name}_sum"), &labels, histogram.sample_sum.unwrap());
                let infinite = [(f64::INFINITY, histogram.sample_count.unwrap())];
                let buckets = histogram.bucket.iter().map(|b| (b.upper_bound.unwrap(), b.cumulative_count.unwrap()));
                for (bound, count) in buckets.chain(infinite) {
                    let mut labels = labels.clone();
                    let bound = if bound.is_finite() { format!("{bound:?}") } else { "+Inf".to_owned() };
                    labels.insert("le".to_owned(), bound);
                    add(format!("{name}_bucket"), &labels, count as f64);
                }
            } else {
                let kind = if metric.counter.is_some() { 0 } else { 1 };
                assert_eq!(family.kind, Some(kind), "{name}");
                add(name.clone(), &labels, metric.counter.or(metric.gauge).unwrap().value.unwrap());
            }
        }
    }
    assert_eq!(samples, text);
}
