//! Metrics of a sentinel.

use std::time::Duration;

use super::{
    Family, Kind, Of,
    samples::{Value, host, parts},
};
use crate::{metrics::Labels, source::SentinelState};

pub(super) static SENTINEL: &[Family] = &[
    Family {
        name: "lagstop_sentinel_attached",
        kind: Kind::Gauge,
        labels: &[],
        help: "1 while something is wrong and programs are attached, 0 while files are watched. Only with `--sentinel`",
        source: "While it is 0, the counters of cgroups, listeners and the host stand still: nothing is measured",
        of: Of::MetricsSnapshot(|snapshot| {
            host(snapshot.sentinel.as_ref().map(|sentinel| Value::Count(sentinel.is_attached.into())))
        }),
    },
    Family {
        name: "lagstop_sentinel_seconds_total",
        kind: Kind::Counter,
        labels: &["state"],
        help: "Time in which programs were attached (measuring), and in which only files were watched (watching)",
        source: "from one look at the files to the next",
        of: Of::MetricsSnapshot(|snapshot| {
            let time = |of: fn(&SentinelState) -> Duration| {
                snapshot.sentinel.as_ref().map(|it| Value::Real(of(it).as_secs_f64()))
            };
            parts(
                Labels::NONE,
                [
                    (("state", "measuring"), time(|sentinel| sentinel.measuring)),
                    (("state", "watching"), time(|sentinel| sentinel.watching)),
                ],
            )
        }),
    },
    Family {
        name: "lagstop_sentinel_attachments_total",
        kind: Kind::Counter,
        labels: &[],
        help: "Times that programs were attached because something was wrong",
        source: "without the first time, which tests that it is possible",
        of: Of::MetricsSnapshot(|snapshot| host(snapshot.sentinel.as_ref().map(|it| Value::Count(it.attached)))),
    },
    Family {
        name: "lagstop_sentinel_worst_ratio",
        kind: Kind::Gauge,
        labels: &["sign"],
        help: "Worst of each sign that is watched: share of the time that a cgroup waited (pressure), share of throttled periods (throttled), tasks waiting for a CPU (waiting)",
        source: "`cpu.pressure` and `cpu.stat` of cgroups, `/proc/pressure/cpu`, `/proc/schedstat`; absent where the kernel has none",
        of: Of::MetricsSnapshot(|snapshot| {
            let signs = snapshot.sentinel.as_ref().map(|sentinel| &sentinel.signs);
            let pressure = signs.and_then(|signs| signs.pressure.as_ref()).map(|worst| Value::Real(worst.0));
            let throttled = signs.and_then(|signs| signs.throttled.as_ref()).map(|worst| Value::Real(worst.0));
            let waiting = signs.and_then(|signs| signs.waiting).map(|worst| Value::Real(worst.0));
            let parts_of = [("pressure", pressure), ("throttled", throttled), ("waiting", waiting)];
            parts(Labels::NONE, parts_of.map(|(sign, value)| (("sign", sign), value)))
        }),
    },
    Family {
        name: "lagstop_sentinel_cgroups_left_out",
        kind: Kind::Gauge,
        labels: &[],
        help: "Cgroups whose pressure is not watched, because lagstop may not open as many files. Only with `--sentinel`",
        source: "raise `LimitNOFILE=` of the unit; 0 is as it should be",
        of: Of::MetricsSnapshot(|snapshot| host(snapshot.sentinel.as_ref().map(|it| Value::Count(it.signs.left_out)))),
    },
];
