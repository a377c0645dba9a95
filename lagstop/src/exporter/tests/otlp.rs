//! Messages of OpenTelemetry, read as a collector reads them.

use prost::Message;

use super::*;
use crate::exporter::{OtlpHost, export};

#[derive(Clone, PartialEq, Message)]
struct Request {
    #[prost(message, repeated, tag = "1")]
    resource_metrics: Vec<ResourceMetrics>,
}

#[derive(Clone, PartialEq, Message)]
struct ResourceMetrics {
    #[prost(message, optional, tag = "1")]
    resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    scope_metrics: Vec<ScopeMetrics>,
}

#[derive(Clone, PartialEq, Eq, Message)]
struct Resource {
    #[prost(message, repeated, tag = "1")]
    attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct ScopeMetrics {
    #[prost(message, repeated, tag = "2")]
    metrics: Vec<Metric>,
}

#[derive(Clone, PartialEq, Message)]
struct Metric {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "3")]
    unit: String,
    #[prost(message, optional, tag = "5")]
    gauge: Option<Sum>,
    #[prost(message, optional, tag = "7")]
    sum: Option<Sum>,
    #[prost(message, optional, tag = "10")]
    exponential_histogram: Option<ExponentialHistogram>,
}

#[derive(Clone, PartialEq, Message)]
struct Sum {
    #[prost(message, repeated, tag = "1")]
    data_points: Vec<Number>,
    #[prost(int32, tag = "2")]
    aggregation_temporality: i32,
    #[prost(bool, tag = "3")]
    is_monotonic: bool,
}

#[derive(Clone, PartialEq, Message)]
struct Number {
    #[prost(fixed64, tag = "2")]
    start_time_unix_nano: u64,
    #[prost(fixed64, tag = "3")]
    time_unix_nano: u64,
    #[prost(double, optional, tag = "4")]
    as_double: Option<f64>,
    #[prost(message, repeated, tag = "7")]
    attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct ExponentialHistogram {
    #[prost(message, repeated, tag = "1")]
    data_points: Vec<Histogram>,
    #[prost(int32, tag = "2")]
    aggregation_temporality: i32,
}

#[derive(Clone, PartialEq, Message)]
struct Histogram {
    #[prost(message, repeated, tag = "1")]
    attributes: Vec<KeyValue>,
    #[prost(fixed64, tag = "4")]
    count: u64,
    #[prost(sint32, tag = "6")]
    scale: i32,
    #[prost(message, optional, tag = "8")]
    positive: Option<Buckets>,
}

#[derive(Clone, PartialEq, Eq, Message)]
struct Buckets {
    #[prost(sint32, tag = "1")]
    offset: i32,
    #[prost(uint64, repeated, tag = "2")]
    bucket_counts: Vec<u64>,
}

#[derive(Clone, PartialEq, Eq, Message)]
struct KeyValue {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(message, optional, tag = "2")]
    value: Option<AnyValue>,
}

#[derive(Clone, PartialEq, Eq, Message)]
struct AnyValue {
    #[prost(string, optional, tag = "1")]
    string_value: Option<String>,
}

fn attributes_text(attributes: &[KeyValue]) -> Vec<(&str, &str)> {
    fn text(pair: &KeyValue) -> &str {
        pair.value.as_ref().unwrap().string_value.as_deref().unwrap()
    }
    attributes.iter().map(|pair| (pair.key.as_str(), text(pair))).collect()
}

/// The metrics of all requests that `snapshot` is pushed as, and how many these are.
fn pushed(snapshot: &Snapshot) -> (Vec<Metric>, usize) {
    let host = OtlpHost { hostname: "here".to_owned(), version: "1.2.3".to_owned() };
    let (mut metrics, mut requests) = (Vec::new(), 0);
    let taken: Result<(), ()> = export(snapshot, &host, |request| {
        assert!(request.len() < 4 << 20, "gateways take no more: {} bytes", request.len());
        let mut request = Request::decode(request.as_slice()).unwrap();
        let mut resource = request.resource_metrics.remove(0);
        let attributes = resource.resource.unwrap().attributes;
        let expected = [("service.name", "lagstop"), ("service.instance.id", "here"), ("host.name", "here")];
        assert_eq!(attributes_text(&attributes), expected);
        metrics.extend(resource.scope_metrics.remove(0).metrics);
        requests += 1;
        Ok(())
    });
    assert_eq!(taken, Ok(()));
    (metrics, requests)
}

#[test]
fn collectors_get_the_same_figures_buckets_and_beginnings() {
    let mut accumulator = Accumulator::new(&session(), settings(2));
    accumulator.add(&interval(vec![cgroup(5, "/a", 4)]));
    accumulator.add(&interval(vec![cgroup(6, "/b", 1)]));
    let snapshot = Snapshot { taken_in: Nanos(1_002 * Nanos::SECOND.0), ..accumulator.snapshot() };
    let (metrics, requests) = pushed(&snapshot);
    let there = families().iter().filter(|family| family.samples(&snapshot).next().is_some());
    assert_eq!((metrics.len(), requests), (there.count(), 1));
    let metric = |name: &str| metrics.iter().find(|metric| metric.name == name).unwrap();
    let cpu = metric("lagstop_cgroup_cpu");
    let sum = cpu.sum.as_ref().unwrap();
    assert!(cpu.unit == "s" && sum.is_monotonic && sum.aggregation_temporality == 2);
    let points: Vec<_> = sum
        .data_points
        .iter()
        .map(|point| {
            let [start, time] = [point.start_time_unix_nano, point.time_unix_nano].map(|ns| ns / Nanos::SECOND.0);
            (attributes_text(&point.attributes)[0], start, time, point.as_double.unwrap())
        })
        .collect();
    assert_eq!(points, [(("cgroup", "/a"), 1_000, 1_002, 0.04), (("cgroup", "/b"), 1_001, 1_002, 0.01)]);
    let switches = &metric("lagstop_cgroup_switches").sum.as_ref().unwrap().data_points[0];
    assert_eq!(attributes_text(&switches.attributes)[5], ("kind", "voluntary"));
    let build = &metric("lagstop_build_info").gauge.as_ref().unwrap().data_points[0];
    assert_eq!(build.as_double, Some(1.0));
    let waits = metric("lagstop_cgroup_runqueue_wait").exponential_histogram.as_ref().unwrap();
    assert_eq!(waits.aggregation_temporality, 2);
    assert_eq!(attributes_text(&waits.data_points[1].attributes)[0], ("cgroup", "/b"));
    let host = &metric("lagstop_host_runqueue_wait").exponential_histogram.as_ref().unwrap().data_points[0];
    let buckets = host.positive.as_ref().unwrap();
    assert_eq!((host.count, host.scale, buckets.bucket_counts.as_slice()), (5, 3, &[5][..]));
    // The bucket of 2 ms is (offset, offset + 1] there, in eighths of powers of two.
    let bound = |offset: i32| 2f64.powf(f64::from(offset) / 8.0);
    assert!(bound(buckets.offset) < 0.001_966 && 0.001_966 <= bound(buckets.offset + 1), "{}", buckets.offset);
}

#[test]
fn thousands_of_cgroups_are_pushed_in_several_requests() {
    let mut accumulator = Accumulator::new(&session(), settings(2_500));
    accumulator.add(&interval((0..2_500).map(|n| cgroup(n + 5, &format!("/pods/{n}"), n + 1)).collect()));
    let (metrics, requests) = pushed(&accumulator.snapshot());
    assert!(requests > 1, "{requests}");
    assert_eq!(points(&metrics, "lagstop_cgroup_cpu").len(), 2_500);
}

/// The cgroup of each point of a counter, whatever requests it came in.
fn points<'m>(metrics: &'m [Metric], name: &str) -> Vec<&'m str> {
    let parts = metrics.iter().filter(|metric| metric.name == name);
    let points = parts.flat_map(|metric| &metric.sum.as_ref().unwrap().data_points);
    points.map(|point| attributes_text(&point.attributes)[0].1).collect()
}

/// Each of these paths takes a kilobyte, so that one metric alone is longer than a request may be.
#[test]
fn a_metric_that_is_too_long_is_pushed_in_parts() {
    let mut accumulator = Accumulator::new(&session(), settings(3_000));
    let path = |n: u64| format!("/{}/{n:04}", "x".repeat(1_000));
    accumulator.add(&interval((0..3_000).map(|n| cgroup(n + 5, &path(n), n + 1)).collect()));
    let (metrics, _) = pushed(&accumulator.snapshot());
    let mut cgroups = points(&metrics, "lagstop_cgroup_cpu");
    assert!(metrics.iter().filter(|metric| metric.name == "lagstop_cgroup_cpu").count() > 1);
    cgroups.sort_unstable();
    cgroups.dedup();
    assert_eq!(cgroups.len(), 3_000, "each once");
}
