//! Metrics of listeners.

use super::{
    Family, Kind, Of,
    samples::{Sample, Value, listeners},
};

pub(super) const LISTENER: &[&str] = &["netns", "address", "cgroup", "namespace", "pod", "container"];

pub(super) static LISTENER_FAMILIES: &[Family] = &[
    Family {
        name: "lagstop_listener_drops_total",
        kind: Kind::Counter,
        labels: LISTENER,
        help: "Connections and connection requests that it dropped, for any reason",
        source: "`sk_drops` of its sockets",
        of: Of::MetricsSnapshot(|snapshot| listeners(snapshot, |listener| listener.drops.map(Value::Count))),
    },
    Family {
        name: "lagstop_listener_backlog",
        kind: Kind::Gauge,
        labels: LISTENER,
        help: "Connections in its accept queues",
        source: "`sock_diag`, at the end of the interval",
        of: Of::MetricsSnapshot(|snapshot| listeners(snapshot, |listener| listener.backlog.map(Value::Count))),
    },
    Family {
        name: "lagstop_listener_backlog_capacity",
        kind: Kind::Gauge,
        labels: LISTENER,
        help: "Capacity of its accept queues, in connections",
        source: "`sock_diag`: Σ sockets, limit + 1 each",
        of: Of::MetricsSnapshot(|snapshot| listeners(snapshot, |listener| listener.backlog_capacity.map(Value::Count))),
    },
    Family {
        name: "lagstop_netns_listen_overflows_total",
        kind: Kind::Counter,
        labels: &["netns"],
        help: "Connections that found the accept queue of any listener in the network namespace full",
        source: "`ListenOverflows` of `/proc/net/netstat`",
        of: Of::MetricsSnapshot(|snapshot| {
            Box::new(snapshot.overflows.iter().map(|(labels, count)| Sample::of(labels, Value::Count(*count))))
        }),
    },
];
