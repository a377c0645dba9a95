//! All metrics: name, meaning, and source in a snapshot. Metrics of counters are declared with the counters.
//! `docs/metrics.md` is generated from all of them.

use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

use super::{CgroupSeries, Histogram, Labels, ListenerSeries, MetricsSnapshot};
use crate::model::{
    Counter, CounterUnit, FileCounters, Host, HostTimes, ListenerTotals, Nanos, OwnCost, Pressure, Totals,
};
use crate::source::Watched;

/// A metric, and its samples in a snapshot.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// As Prometheus stores it.
    pub name: &'static str,
    /// What kind of metric it is.
    pub kind: Kind,
    /// Labels of its series.
    pub labels: &'static [&'static str],
    /// Its meaning, without a full stop.
    pub help: &'static str,
    /// Its source, as in docs/metrics.md.
    pub source: &'static str,
    of: Of,
}

/// Where its samples are.
#[derive(Clone, Copy, Debug)]
enum Of {
    MetricsSnapshot(for<'s> fn(&'s MetricsSnapshot) -> Samples<'s>),
    /// One of [`HostTimes::COUNTERS`].
    Times(usize),
    /// One of [`Pressure::COUNTERS`].
    Pressure(usize),
    /// One of [`OwnCost::COUNTERS`].
    OwnCost(usize),
    /// One of [`Totals::COUNTERS`].
    Totals(usize),
    /// One of [`FileCounters::COUNTERS`].
    Files(usize),
    /// One of [`ListenerTotals::COUNTERS`].
    Listener(usize),
}

/// What a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows; its name ends in `_total`.
    Counter,
    /// Goes up and down.
    Gauge,
    Histogram,
    /// 1, and labels that tell something; its name ends in `_info`.
    Info,
}

impl Kind {
    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::Info => "info",
        }
    }
}

/// Samples of a metric.
pub(super) type Samples<'s> = Box<dyn Iterator<Item = Sample<'s>> + 's>;

/// One series of a metric now.
pub(super) struct Sample<'s> {
    pub(super) labels: &'s Labels,
    /// One more label, beside those.
    pub(super) part: Option<Part>,
    pub(super) value: Value<'s>,
}

/// A label of which a metric has several for the same thing.
pub(super) type Part = (&'static str, &'static str);

/// Parts, and what there is of each.
type Parts<'s, const N: usize> = [(Part, Option<Value<'s>>); N];

/// What it says.
#[derive(Clone, Copy)]
pub(super) enum Value<'s> {
    Count(u64),
    Real(f64),
    Histogram(&'s Histogram),
    /// 1.
    Is,
}

impl Family {
    /// Its name in OpenMetrics, without unit and without what its kind puts at the end; and whether it is in seconds.
    pub(super) fn stem(&self) -> (&'static str, bool) {
        let name = match self.kind {
            Kind::Counter => self.name.strip_suffix("_total"),
            Kind::Info => self.name.strip_suffix("_info"),
            Kind::Gauge | Kind::Histogram => None,
        };
        let name = name.unwrap_or(self.name);
        name.strip_suffix("_seconds").map_or((name, false), |stem| (stem, true))
    }

    pub(super) fn samples<'s>(&self, snapshot: &'s MetricsSnapshot) -> Samples<'s> {
        match self.of {
            Of::MetricsSnapshot(samples) => samples(snapshot),
            Of::Times(n) => of_host(snapshot, &HostTimes::COUNTERS[n], |sum| sum.times.figures()[n]),
            Of::Pressure(n) => of_host(snapshot, &Pressure::COUNTERS[n], |sum| sum.pressure?.figures()[n]),
            Of::OwnCost(n) => of_host(snapshot, &OwnCost::COUNTERS[n], |sum| sum.own_cost.figures()[n]),
            Of::Totals(n) => {
                let unit = Totals::COUNTERS[n].unit;
                counted(&snapshot.cgroups, |it| &it.labels, move |it| in_unit(unit, it.totals.as_ref()?.figures()[n]))
            }
            Of::Files(n) => {
                let unit = FileCounters::COUNTERS[n].unit;
                counted(&snapshot.cgroups, |it| &it.labels, move |it| in_unit(unit, it.files.figures()[n]))
            }
            Of::Listener(n) => {
                let unit = ListenerTotals::COUNTERS[n].unit;
                counted(&snapshot.listeners, |it| &it.labels, move |it| in_unit(unit, it.totals?.figures()[n]))
            }
        }
    }

    /// Those of counters that have one of their own.
    fn of_counters(
        counters: &'static [Counter],
        labels: &'static [&'static str],
        of: fn(usize) -> Of,
    ) -> impl Iterator<Item = Self> {
        let family = move |(n, counter): (usize, &'static Counter)| {
            let help = counter.meaning.trim_end_matches('.');
            Some(Self { name: counter.metric?, kind: Kind::Counter, labels, help, source: counter.source, of: of(n) })
        };
        counters.iter().enumerate().filter_map(family)
    }
}

/// Metrics about one thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    Host,
    Cgroups,
    Listeners,
    Itself,
}

/// All about one thing, in the order in which they are written.
pub fn families_about(about: About) -> Vec<Family> {
    let named = match about {
        About::Host => HOST,
        About::Cgroups => CGROUP_FAMILIES,
        About::Listeners => LISTENER_FAMILIES,
        About::Itself => ITSELF,
    };
    let mut all = named.to_vec();
    match about {
        About::Cgroups => {
            all.extend(Family::of_counters(&Totals::COUNTERS, CGROUP, Of::Totals));
            all.extend(Family::of_counters(&FileCounters::COUNTERS, CGROUP, Of::Files));
        }
        About::Listeners => all.extend(Family::of_counters(&ListenerTotals::COUNTERS, LISTENER, Of::Listener)),
        About::Host => {
            all.extend(Family::of_counters(&HostTimes::COUNTERS, &[], Of::Times));
            all.extend(Family::of_counters(&Pressure::COUNTERS, &[], Of::Pressure));
        }
        About::Itself => all.extend(Family::of_counters(&OwnCost::COUNTERS, &[], Of::OwnCost)),
    }
    all
}

/// All of them, in the order in which they are written.
pub fn families() -> &'static [Family] {
    static ALL: LazyLock<Vec<Family>> = LazyLock::new(|| {
        [About::Itself, About::Host, About::Cgroups, About::Listeners].into_iter().flat_map(families_about).collect()
    });
    &ALL
}

const CGROUP: &[&str] = &["cgroup", "unit", "namespace", "pod", "container"];
const CGROUP_PHASE: &[&str] = &["cgroup", "unit", "namespace", "pod", "container", "phase"];
const CGROUP_CAUSE: &[&str] = &["cgroup", "unit", "namespace", "pod", "container", "cause"];
const PAIR: &[&str] = &["cgroup", "unit", "namespace", "pod", "container", "by", "by_namespace", "by_pod"];
const CGROUP_KIND: &[&str] = &["cgroup", "unit", "namespace", "pod", "container", "kind"];
const LISTENER: &[&str] = &["netns", "address", "cgroup", "namespace", "pod", "container"];
const PICK: Part = ("phase", "pick");
const SWAP: Part = ("phase", "swap");
const VOLUNTARY: Part = ("kind", "voluntary");
const INVOLUNTARY: Part = ("kind", "involuntary");

static HOST: &[Family] = &[
    Family {
        name: "lagstop_host_cpus_online",
        kind: Kind::Gauge,
        labels: &[],
        help: "CPUs online",
        source: "`/sys/devices/system/cpu/online`, at the end of the interval",
        of: Of::MetricsSnapshot(|snapshot| host(snapshot.host.sum.as_ref().map(|sum| Value::Count(sum.cpus_online)))),
    },
    Family {
        name: "lagstop_host_cgroups_active",
        kind: Kind::Gauge,
        labels: &[],
        help: "Cgroups that ran in the last interval",
        source: "cgroups with any nonzero counter",
        of: Of::MetricsSnapshot(|snapshot| host(snapshot.host.active.map(Value::Count))),
    },
    Family {
        name: "lagstop_host_runnable_tasks_per_cpu",
        kind: Kind::Gauge,
        labels: &[],
        help: "Average number of tasks per CPU that ran or waited for a CPU in the last interval",
        source: "(busy time + run-queue wait) / time of all CPUs",
        of: Of::MetricsSnapshot(|snapshot| host(snapshot.host.runnable_per_cpu.map(Value::Real))),
    },
    Family {
        name: "lagstop_host_switch_cost_seconds_total",
        kind: Kind::Counter,
        labels: &["phase"],
        help: "Scheduler time for choosing tasks (pick) and switching to them (swap), without idle tasks",
        source: "Σ cgroups without idle, like [overhead](measures.md). pick: entry of `__schedule()` → `sched_switch`, and calls that kept the task; swap: `sched_switch` → exit",
        of: Of::MetricsSnapshot(|snapshot| {
            let host = &snapshot.host;
            let pick = host.without_idle(|all| all.pick_ns, |idle| idle.pick_ns);
            let swap = host.without_idle(|all| all.swap_ns, |idle| idle.swap_ns);
            parts(Labels::NONE, [(PICK, pick.and_then(seconds)), (SWAP, swap.and_then(seconds))])
        }),
    },
    Family {
        name: "lagstop_host_kept_running_seconds_total",
        kind: Kind::Counter,
        labels: &[],
        help: "Part of phase pick: scheduler calls that kept the running task",
        source: "Σ cgroups without idle; entry → exit of calls without a switch. Phase pick includes it",
        of: Of::MetricsSnapshot(|snapshot| {
            host(snapshot.host.without_idle(|all| all.kept_ns, |idle| idle.kept_ns).and_then(seconds))
        }),
    },
    Family {
        name: "lagstop_host_switches_total",
        kind: Kind::Counter,
        labels: &["kind"],
        help: "Switches away from tasks other than idle",
        source: "Σ cgroups without idle",
        of: Of::MetricsSnapshot(|snapshot| {
            let count = |count| Some(Value::Count(count));
            let host = &snapshot.host;
            parts(Labels::NONE, [(VOLUNTARY, count(host.voluntary)), (INVOLUNTARY, count(host.involuntary))])
        }),
    },
    Family {
        name: "lagstop_host_migrations_total",
        kind: Kind::Counter,
        labels: &[],
        help: "Migrations of tasks to another CPU",
        source: "`sched_migrate_task` to another CPU",
        of: Of::MetricsSnapshot(|snapshot| {
            host(snapshot.host.sum.as_ref().and_then(|sum| sum.totals.migrations).map(Value::Count))
        }),
    },
    Family {
        name: "lagstop_host_runqueue_wait_seconds",
        kind: Kind::Histogram,
        labels: &[],
        help: "Run-queue waits of all tasks",
        source: "Σ cgroups; growth of `sched_info.run_delay`",
        of: Of::MetricsSnapshot(|snapshot| host(snapshot.host.runq_wait.as_ref().map(Value::Histogram))),
    },
];

static CGROUP_FAMILIES: &[Family] = &[
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
        source: "`behind`: tasks of other cgroups ran; `self`: its own tasks ran; `kernel`: kernel threads ran; `idle`: the CPU was still idle, and about to run the task; `throttled`: the quota was used up; `elsewhere`: on another CPU, before the task was migrated; `unknown`: unattributed",
        of: Of::MetricsSnapshot(|snapshot| {
            each(snapshot, |cgroup| {
                let wait = |of: fn(&Totals) -> Option<Nanos>| cgroup.totals.as_ref().and_then(of).and_then(seconds);
                [
                    (("cause", "behind"), wait(|totals| totals.wait_behind_ns)),
                    (("cause", "self"), wait(|totals| totals.wait_self_ns)),
                    (("cause", "kernel"), wait(|totals| totals.wait_kernel_ns)),
                    (("cause", "idle"), wait(|totals| totals.wait_idle_ns)),
                    (("cause", "throttled"), wait(|totals| totals.wait_throttled_ns)),
                    (("cause", "elsewhere"), wait(|totals| totals.wait_elsewhere_ns)),
                    (("cause", "unknown"), wait(|totals| totals.wait_unknown_ns)),
                ]
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
        help: "Load Credit: moving average of its runnable tasks over several seconds",
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
    Family {
        name: "lagstop_cgroup_quota_cores",
        kind: Kind::Gauge,
        labels: CGROUP,
        help: "CPUs that its quota allows",
        source: "`cpu.max`, or `cpu.cfs_quota_us` / `cpu.cfs_period_us`; absent without a quota",
        of: Of::MetricsSnapshot(|snapshot| cgroups(snapshot, |cgroup| cgroup.quota.and_then(seconds))),
    },
];

static LISTENER_FAMILIES: &[Family] = &[
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

static ITSELF: &[Family] = &[
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
            let time =
                |of: fn(&Watched) -> Duration| snapshot.sentinel.as_ref().map(|it| Value::Real(of(it).as_secs_f64()));
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

impl<'s> Sample<'s> {
    const fn of(labels: &'s Labels, value: Value<'s>) -> Self {
        Self { labels, part: None, value }
    }
}

/// As every time is written.
fn seconds<'s>(time: Nanos) -> Option<Value<'s>> {
    Some(Value::Real(time.seconds()))
}

fn one<'s>(labels: &'s Labels, value: Value<'s>) -> Samples<'s> {
    Box::new(std::iter::once(Sample::of(labels, value)))
}

/// Without labels.
fn host(value: Option<Value<'_>>) -> Samples<'_> {
    Box::new(value.map(|value| Sample::of(Labels::NONE, value)).into_iter())
}

/// A counter of the host.
fn of_host<'s>(
    snapshot: &'s MetricsSnapshot,
    counter: &Counter,
    figure: impl Fn(&'s Host) -> Option<u64>,
) -> Samples<'s> {
    host(snapshot.host.sum.as_ref().and_then(|sum| in_unit(counter.unit, figure(sum))))
}

fn parts<'s, const N: usize>(labels: &'s Labels, values: Parts<'s, N>) -> Samples<'s> {
    let sample =
        move |(part, value): (Part, Option<Value<'s>>)| Some(Sample { labels, part: Some(part), value: value? });
    Box::new(values.into_iter().filter_map(sample))
}

fn cgroups<'s>(snapshot: &'s MetricsSnapshot, value: fn(&'s CgroupSeries) -> Option<Value<'s>>) -> Samples<'s> {
    let of = move |cgroup: &'s Arc<CgroupSeries>| Some(Sample::of(&cgroup.labels, value(cgroup)?));
    Box::new(snapshot.cgroups.iter().filter_map(of))
}

fn counted<'s, T>(
    all: &'s [Arc<T>],
    labels: fn(&T) -> &Arc<Labels>,
    value: impl Fn(&T) -> Option<Value<'s>> + 's,
) -> Samples<'s> {
    Box::new(all.iter().filter_map(move |one| Some(Sample::of(labels(one), value(one)?))))
}

fn in_unit<'s>(unit: CounterUnit, count: Option<u64>) -> Option<Value<'s>> {
    match unit {
        CounterUnit::Count => count.map(Value::Count),
        CounterUnit::Nanos => seconds(Nanos(count?)),
    }
}

fn each<'s, const N: usize>(
    snapshot: &'s MetricsSnapshot,
    values: fn(&'s CgroupSeries) -> Parts<'s, N>,
) -> Samples<'s> {
    let of = move |cgroup: &'s Arc<CgroupSeries>| parts(&cgroup.labels, values(cgroup));
    Box::new(snapshot.cgroups.iter().flat_map(of))
}

fn listeners<'s>(snapshot: &'s MetricsSnapshot, value: fn(&'s ListenerSeries) -> Option<Value<'s>>) -> Samples<'s> {
    let of = move |listener: &'s Arc<ListenerSeries>| Some(Sample::of(&listener.labels, value(listener)?));
    Box::new(snapshot.listeners.iter().filter_map(of))
}
