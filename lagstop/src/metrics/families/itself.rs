//! Metrics of lagstop itself.

use super::{
    Family, Kind, Of,
    samples::{Sample, Value, host, one, seconds},
};
use crate::metrics::Labels;

pub(super) static ITSELF: &[Family] = &[
    Family {
        name: "lagstop_build_info",
        kind: Kind::Info,
        labels: &["version"],
        help: "Version of lagstop",
        source: "1",
        of: Of::MetricsSnapshot(|snapshot| one(&snapshot.build, Value::Is)),
    },
    Family {
        name: "lagstop_hook_info",
        kind: Kind::Info,
        labels: &["hook", "state", "way", "measures", "detail"],
        help: "Measurement method of each measure, or the reason why it is not measured",
        source: "1; labels as in `lagstop check`",
        of: Of::MetricsSnapshot(|snapshot| Box::new(snapshot.hooks.iter().map(|labels| Sample::of(labels, Value::Is)))),
    },
    Family {
        name: "lagstop_lost_total",
        kind: Kind::Counter,
        labels: &["kind"],
        help: "Events that could not be measured, by kind. Expected to be 0",
        source: "the kinds are the fields of `lost` in [recordings](recording.md)",
        of: Of::MetricsSnapshot(|snapshot| {
            let kinds = snapshot.host.sum.iter().flat_map(|sum| sum.lost.kinds());
            let sample =
                |(kind, count)| Sample { labels: Labels::NONE, part: Some(("kind", kind)), value: Value::Count(count) };
            Box::new(kinds.map(sample))
        }),
    },
    Family {
        name: "lagstop_intervals_total",
        kind: Kind::Counter,
        labels: &[],
        help: "Intervals processed since start",
        source: "intervals since `lagstop serve` was started",
        of: Of::MetricsSnapshot(|snapshot| host(Some(Value::Count(snapshot.intervals)))),
    },
    Family {
        name: "lagstop_timed_intervals_total",
        kind: Kind::Counter,
        labels: &[],
        help: "Intervals in which switches were timed, where not all are: `--cost-sampling`",
        source: "costs in the other intervals are estimates: switches × mean cost per switch of the last timed intervals",
        of: Of::MetricsSnapshot(|snapshot| host(snapshot.timed_intervals.map(Value::Count))),
    },
    Family {
        name: "lagstop_switch_cost_relative_standard_error",
        kind: Kind::Gauge,
        labels: &[],
        help: "Standard error of the mean switch cost of the host, as a share of it, where not all intervals are timed",
        source: "how the last timed intervals differ, at most 60; absent where all are timed",
        of: Of::MetricsSnapshot(|snapshot| host(snapshot.switch_cost_error.map(Value::Real))),
    },
    Family {
        name: "lagstop_last_interval_timestamp_seconds",
        kind: Kind::Gauge,
        labels: &[],
        help: "Unix time at which the last interval was processed. It stops growing if measuring is stuck",
        source: "clock of the host",
        of: Of::MetricsSnapshot(|snapshot| host(seconds(snapshot.taken_in))),
    },
    Family {
        name: "lagstop_cgroups_exported",
        kind: Kind::Gauge,
        labels: &[],
        help: "Cgroups with their own series",
        source: "at most `--top`",
        of: Of::MetricsSnapshot(|snapshot| host(Some(Value::Count(snapshot.exported)))),
    },
    Family {
        name: "lagstop_cgroups_in_other",
        kind: Kind::Gauge,
        labels: &[],
        help: "Cgroups that ran in the last interval and have no series of their own. They are summed as other",
        source: "",
        of: Of::MetricsSnapshot(|snapshot| host(Some(Value::Count(snapshot.in_other)))),
    },
    Family {
        name: "lagstop_listeners_left_out",
        kind: Kind::Gauge,
        labels: &[],
        help: "Listeners with traffic that have no series because there are too many",
        source: "listeners with traffic beyond the first 500",
        of: Of::MetricsSnapshot(|snapshot| host(Some(Value::Count(snapshot.listeners_left_out)))),
    },
];
