//! Metrics of cgroups.

use super::{
    Family, Kind, Of,
    samples::{INVOLUNTARY, PICK, SWAP, VOLUNTARY, Value, cgroups, counted, each, seconds},
};
use crate::model::{Derived, Nanos, Reading, Totals, WaitCause};

pub(super) const CGROUP: &[&str] = &["cgroup", "unit", "namespace", "pod", "container"];
const CGROUP_PHASE: &[&str] = &["cgroup", "unit", "namespace", "pod", "container", "phase"];
const CGROUP_CAUSE: &[&str] = &["cgroup", "unit", "namespace", "pod", "container", "cause"];
const PAIR: &[&str] = &["cgroup", "unit", "namespace", "pod", "container", "by", "by_namespace", "by_pod"];
const CGROUP_KIND: &[&str] = &["cgroup", "unit", "namespace", "pod", "container", "kind"];

pub(super) static CGROUP_FAMILIES: &[Family] = &[
    Family {
        name: "lagstop_cgroup_switch_cost_seconds_total",
        kind: Kind::Counter,
        labels: CGROUP_PHASE,
        help: "Scheduler time for choosing the next task after its tasks (pick) and for switching to its tasks (swap)",
        source: "as for the host; pick is charged to the cgroup switched away from, swap to the cgroup switched to",
        of: Of::MetricsSnapshot(|snapshot| {
            each(snapshot, |cgroup| {
                let cost = |of: fn(&Totals) -> Option<Nanos>| cgroup.totals.as_ref().and_then(of).and_then(seconds);
                [(PICK, cost(|totals| totals.pick_ns)), (SWAP, cost(|totals| totals.swap_ns))]
            })
        }),
    },
    Family {
        name: "lagstop_cgroup_switches_total",
        kind: Kind::Counter,
        labels: CGROUP_KIND,
        help: "Switches away from its tasks",
        source: "voluntary: counted by the kernel in `nvcsw`; involuntary: all others",
        of: Of::MetricsSnapshot(|snapshot| {
            each(snapshot, |cgroup| {
                let count = |of: fn(&Totals) -> u64| cgroup.totals.as_ref().map(of).map(Value::Count);
                [
                    (VOLUNTARY, count(|totals| totals.voluntary_switches)),
                    (INVOLUNTARY, count(|totals| totals.involuntary_switches)),
                ]
            })
        }),
    },
    Family {
        name: "lagstop_cgroup_runqueue_wait_seconds",
        kind: Kind::Histogram,
        labels: CGROUP,
        help: "Run-queue waits of its tasks",
        source: "growth of `sched_info.run_delay`, counted when the wait ends",
        of: Of::MetricsSnapshot(|snapshot| cgroups(snapshot, |cgroup| cgroup.runq_wait.as_ref().map(Value::Histogram))),
    },
    Family {
        name: "lagstop_cgroup_wait_seconds_total",
        kind: Kind::Counter,
        labels: CGROUP_CAUSE,
        help: "Its run-queue wait by cause, that is, by what the CPU did during the wait. All causes add up to the whole wait",
        source: "[what a wait is caused by](measures.md#what-a-wait-is-caused-by)",
        of: Of::MetricsSnapshot(|snapshot| {
            each(snapshot, |cgroup| {
                WaitCause::ALL.map(|cause| {
                    let time = cgroup.totals.as_ref().and_then(|totals| cause.of(totals));
                    (("cause", cause.name()), time.and_then(seconds))
                })
            })
        }),
    },
    Family {
        name: "lagstop_cgroup_wait_caused_seconds_total",
        kind: Kind::Counter,
        labels: PAIR,
        help: "Run-queue wait of this cgroup while tasks of the cgroup in label by ran. The sum over by equals cause behind of lagstop_cgroup_wait_seconds_total",
        source: "the 500 pairs with the longest waits (moving average over five minutes); the rest of each victim's wait is `by=\"(other)\"`. Includes steal and interrupts while the culprit ran",
        of: Of::MetricsSnapshot(|snapshot| counted(&snapshot.caused, |it| &it.labels, |it| seconds(it.wait))),
    },
    Family {
        name: "lagstop_cgroup_accept_wait_seconds",
        kind: Kind::Histogram,
        labels: CGROUP,
        help: "Accept waits of connections that it accepted; absent until it accepts the first one",
        source: "ESTABLISHED until accepted; charged to the cgroup that accepts",
        of: Of::MetricsSnapshot(|snapshot| {
            cgroups(snapshot, |cgroup| cgroup.accept_wait.as_ref().map(Value::Histogram))
        }),
    },
    Family {
        name: "lagstop_cgroup_load_credit_tasks",
        kind: Kind::Gauge,
        labels: CGROUP,
        help: Derived::LOAD_CREDIT.meaning,
        source: "exponential moving average of (CPU time + run-queue wait) / duration, time constant `--load-credit-time`; decays while it is idle. For `other`: Σ of its cgroups that ran",
        of: Of::MetricsSnapshot(|snapshot| {
            cgroups(snapshot, |cgroup| cgroup.load_credit.filter(|it| it.is_finite()).map(Value::Real))
        }),
    },
    Family {
        name: "lagstop_cgroup_light",
        kind: Kind::Gauge,
        labels: CGROUP,
        help: "1 if its Load Credit is below the mean of all cgroups that ran in the last interval, else 0",
        source: "CFS-LAGS group-low, for equal weights; absent if it did not run, for the root, and for `other`",
        of: Of::MetricsSnapshot(|snapshot| {
            cgroups(snapshot, |cgroup| cgroup.is_light.map(|light| Value::Count(light.into())))
        }),
    },
    Family {
        name: "lagstop_cgroup_threads",
        kind: Kind::Gauge,
        labels: CGROUP,
        help: "Tasks seen running in the last interval",
        source: "distinct tasks; 0 if it did not run",
        of: Of::MetricsSnapshot(|snapshot| cgroups(snapshot, |cgroup| cgroup.threads.map(Value::Count))),
    },
    Family::of_reading(Reading::QUOTA, Kind::Gauge, CGROUP, |snapshot| {
        cgroups(snapshot, |cgroup| cgroup.quota.and_then(seconds))
    }),
];
