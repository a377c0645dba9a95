//! Metrics of the host.

use super::{
    Family, Kind, Of,
    samples::{INVOLUNTARY, PICK, SWAP, VOLUNTARY, Value, host, parts, seconds},
};
use crate::{
    metrics::Labels,
    model::{Derived, Reading},
};

pub(super) static HOST: &[Family] = &[
    Family::of_reading(Reading::CPUS_ONLINE, Kind::Gauge, &[], |snapshot| {
        host(snapshot.host.sum.as_ref().map(|sum| Value::Count(sum.cpus_online)))
    }),
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
        source: Derived::RUNNABLE_PER_CPU.formula,
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
