//! Samples of metrics, and how they are taken from a snapshot.

use std::sync::Arc;

use crate::{
    metrics::{CgroupSeries, Histogram, Labels, ListenerSeries, MetricsSnapshot},
    model::{Counter, CounterUnit, Host, Nanos},
};

pub(in crate::metrics) type Samples<'s> = Box<dyn Iterator<Item = Sample<'s>> + 's>;

/// One series of a metric now.
pub(in crate::metrics) struct Sample<'s> {
    pub(in crate::metrics) labels: &'s Labels,
    /// An additional label.
    pub(in crate::metrics) part: Option<Part>,
    pub(in crate::metrics) value: Value<'s>,
}

/// A label by which a metric has several series for the same subject.
pub(in crate::metrics) type Part = (&'static str, &'static str);

/// Parts with their values.
pub(super) type Parts<'s, const N: usize> = [(Part, Option<Value<'s>>); N];

/// Value of a sample.
#[derive(Clone, Copy)]
pub(in crate::metrics) enum Value<'s> {
    Count(u64),
    Real(f64),
    Histogram(&'s Histogram),
    /// 1.
    Is,
}

pub(super) const PICK: Part = ("phase", "pick");
pub(super) const SWAP: Part = ("phase", "swap");
pub(super) const VOLUNTARY: Part = ("kind", "voluntary");
pub(super) const INVOLUNTARY: Part = ("kind", "involuntary");

impl<'s> Sample<'s> {
    pub(super) const fn of(labels: &'s Labels, value: Value<'s>) -> Self {
        Self { labels, part: None, value }
    }
}

/// Times are written in seconds.
pub(super) fn seconds<'s>(time: Nanos) -> Option<Value<'s>> {
    Some(Value::Real(time.seconds()))
}

pub(super) fn one<'s>(labels: &'s Labels, value: Value<'s>) -> Samples<'s> {
    Box::new(std::iter::once(Sample::of(labels, value)))
}

/// A sample without labels.
pub(super) fn host(value: Option<Value<'_>>) -> Samples<'_> {
    Box::new(value.map(|value| Sample::of(Labels::NONE, value)).into_iter())
}

/// A counter of the host.
pub(super) fn of_host<'s>(
    snapshot: &'s MetricsSnapshot,
    counter: &Counter,
    figure: impl Fn(&'s Host) -> Option<u64>,
) -> Samples<'s> {
    host(snapshot.host.sum.as_ref().and_then(|sum| in_unit(counter.unit, figure(sum))))
}

pub(super) fn parts<'s, const N: usize>(labels: &'s Labels, values: Parts<'s, N>) -> Samples<'s> {
    let sample =
        move |(part, value): (Part, Option<Value<'s>>)| Some(Sample { labels, part: Some(part), value: value? });
    Box::new(values.into_iter().filter_map(sample))
}

pub(super) fn cgroups<'s>(
    snapshot: &'s MetricsSnapshot,
    value: fn(&'s CgroupSeries) -> Option<Value<'s>>,
) -> Samples<'s> {
    let of = move |cgroup: &'s Arc<CgroupSeries>| Some(Sample::of(&cgroup.labels, value(cgroup)?));
    Box::new(snapshot.cgroups.iter().filter_map(of))
}

pub(super) fn counted<'s, T>(
    all: &'s [Arc<T>],
    labels: fn(&T) -> &Arc<Labels>,
    value: impl Fn(&T) -> Option<Value<'s>> + 's,
) -> Samples<'s> {
    Box::new(all.iter().filter_map(move |one| Some(Sample::of(labels(one), value(one)?))))
}

pub(super) fn in_unit<'s>(unit: CounterUnit, count: Option<u64>) -> Option<Value<'s>> {
    match unit {
        CounterUnit::Count => count.map(Value::Count),
        CounterUnit::Nanos => seconds(Nanos(count?)),
    }
}

pub(super) fn each<'s, const N: usize>(
    snapshot: &'s MetricsSnapshot,
    values: fn(&'s CgroupSeries) -> Parts<'s, N>,
) -> Samples<'s> {
    let of = move |cgroup: &'s Arc<CgroupSeries>| parts(&cgroup.labels, values(cgroup));
    Box::new(snapshot.cgroups.iter().flat_map(of))
}

pub(super) fn listeners<'s>(
    snapshot: &'s MetricsSnapshot,
    value: fn(&'s ListenerSeries) -> Option<Value<'s>>,
) -> Samples<'s> {
    let of = move |listener: &'s Arc<ListenerSeries>| Some(Sample::of(&listener.labels, value(listener)?));
    Box::new(snapshot.listeners.iter().filter_map(of))
}
