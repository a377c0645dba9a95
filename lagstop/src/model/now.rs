//! What people look at first of a host and of a cgroup: on the page of `lagstop serve`, and by `lagstop mcp`.

use std::{borrow::Cow, sync::Arc};

use schemars::JsonSchema;
use serde::Serialize;

use super::{Cgroup, CgroupId, Host, Nanos, Session, cgroup_id::id_as_text};
use crate::display::short_name;

/// The host.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct HostNow {
    pub name: String,
    pub kernel: String,
    pub lagstop: String,
    /// CPUs online.
    pub cpus: u64,
    /// Share of the time of all CPUs that was not idle.
    pub utilisation: f64,
    /// Share of the time of all CPUs that went into choosing and changing tasks. `None` if not measured.
    pub overhead: Option<f64>,
    /// Average number of tasks that waited for a CPU. `None` if not measured.
    pub waiting: Option<f64>,
    /// Share of the time of all CPUs that a hypervisor took. `None` if not measured.
    pub steal: Option<f64>,
    /// Share of the time in which a task waited for a CPU (PSI some). `None` if not measured.
    pub pressure: Option<f64>,
}

/// A cgroup.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CgroupNow {
    /// Its id, as text: browsers round large numbers.
    #[serde(serialize_with = "id_as_text")]
    #[schemars(with = "String")]
    pub id: CgroupId,
    /// Readable name. Any user of the host may have chosen it.
    pub name: Arc<str>,
    /// Path from the root of its hierarchy. Any user of the host may have chosen it.
    pub path: Arc<str>,
    /// CPU time, in cores.
    pub cpu: f64,
    /// Average number of its tasks that waited for a CPU. `None` if not measured.
    pub waiting: Option<f64>,
    /// 99th percentile of its run-queue waits, in nanoseconds. `None` if it had none, or if they were not measured.
    pub wait_p99_ns: Option<Nanos>,
    /// Share of the periods of its quota in which the quota was used up. `None` without a quota.
    pub throttled: Option<f64>,
    /// Time spent in choosing and changing its tasks, in cores. `None` if not measured.
    pub switch_cost: Option<f64>,
}

impl HostNow {
    /// Of an interval of this length.
    pub fn of(host: &Host, session: &Session, duration: Nanos) -> Self {
        let cores = |time: Nanos| time.cores(duration).0;
        Self {
            name: short_name(&session.hostname, CgroupNow::LONGEST_NAME).into_owned(),
            kernel: short_name(&session.kernel, CgroupNow::LONGEST_NAME).into_owned(),
            lagstop: session.lagstop_version.clone(),
            cpus: host.cpus_online,
            utilisation: host.cpu_utilisation(),
            overhead: host.overhead(),
            waiting: host.totals.runq_wait_ns.map(cores),
            steal: host.steal(duration),
            pressure: host.pressure.map(|pressure| cores(pressure.some_ns)),
        }
    }
}

impl CgroupNow {
    /// Characters of a name or a path.
    pub(crate) const LONGEST_NAME: usize = 200;

    /// Of an interval of this length.
    pub fn of(cgroup: &Cgroup, duration: Nanos) -> Self {
        let cores = |time: Nanos| time.cores(duration).0;
        let name = match (cgroup.id, &*cgroup.name, &*cgroup.path) {
            (CgroupId::OTHER, ..) => "(other)".into(),
            (id, "", "") => format!("cgroup {}", id.0).into(),
            (_, "", _) => harmless(&cgroup.path),
            _ => harmless(&cgroup.name),
        };
        Self {
            id: cgroup.id,
            name,
            path: harmless(&cgroup.path),
            cpu: cores(cgroup.totals.cpu_ns),
            waiting: cgroup.totals.runq_wait_ns.map(cores),
            wait_p99_ns: cgroup.runq_wait.as_ref().and_then(|waits| waits.quantile(0.99)),
            throttled: cgroup.files.throttled(),
            switch_cost: cgroup.totals.switch_cost().map(cores),
        }
    }
}

/// A name without misleading characters, and not too long. Usually it shares the memory of the original.
fn harmless(name: &Arc<str>) -> Arc<str> {
    match short_name(name, CgroupNow::LONGEST_NAME) {
        Cow::Borrowed(_) => Arc::clone(name),
        Cow::Owned(name) => name.into(),
    }
}
