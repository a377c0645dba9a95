//! Metrics of listeners.

use super::{
    Family, Kind,
    samples::{Sample, Value, listeners},
};
use crate::model::Reading;

pub(super) const LISTENER: &[&str] = &["netns", "address", "cgroup", "namespace", "pod", "container"];

pub(super) static LISTENER_FAMILIES: &[Family] = &[
    Family::of_reading(Reading::DROPS, Kind::Counter, LISTENER, |snapshot| {
        listeners(snapshot, |listener| listener.drops.map(Value::Count))
    }),
    Family::of_reading(Reading::BACKLOG, Kind::Gauge, LISTENER, |snapshot| {
        listeners(snapshot, |listener| listener.backlog.map(Value::Count))
    }),
    Family::of_reading(Reading::BACKLOG_CAPACITY, Kind::Gauge, LISTENER, |snapshot| {
        listeners(snapshot, |listener| listener.backlog_capacity.map(Value::Count))
    }),
    Family::of_reading(Reading::LISTEN_OVERFLOWS, Kind::Counter, &["netns"], |snapshot| {
        Box::new(snapshot.overflows.iter().map(|(labels, count)| Sample::of(labels, Value::Count(*count))))
    }),
];
