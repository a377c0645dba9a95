//! What there are tables of. `docs/recording.md` defines the figures; columns are called as they are there.

use std::sync::Arc;

use super::{ExportError, row::Row};
use crate::{
    model::{Cgroup, Cpu, Host, Interval, Listener, NetworkNamespace, Place, Session, Totals, Workload},
    recording::Epoch,
};

/// What a row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// A cgroup in an interval.
    Cgroups,
    /// The host in an interval.
    Host,
    /// A CPU in an interval.
    Cpus,
    /// A listening address in an interval.
    Listeners,
}

impl Table {
    /// A row from which all columns can be told.
    pub(super) fn columns(self) -> Row {
        let mut row = Row::default();
        interval(&mut row, None, &Interval::default());
        match self {
            Self::Cgroups => cgroup(&mut row, &Cgroup::default()),
            Self::Host => host(&mut row, &Host::default()),
            Self::Cpus => cpu(&mut row, &Cpu::default(), None),
            Self::Listeners => listener(&mut row, &Listener::new(0, ([0, 0, 0, 0], 0).into()), None),
        }
        row
    }

    /// Gives `take` each row of the interval, made in `row`.
    pub(super) fn rows(
        self,
        session: &Session,
        epoch: Option<Epoch>,
        of: &Interval,
        row: &mut Row,
        mut take: impl FnMut(&Row) -> Result<(), ExportError>,
    ) -> Result<(), ExportError> {
        row.truncate(0);
        interval(row, epoch, of);
        let shared = row.len();
        let mut each = |fill: &dyn Fn(&mut Row)| {
            row.truncate(shared);
            fill(row);
            take(row)
        };
        match self {
            Self::Cgroups => of.cgroups.iter().try_for_each(|one| each(&|row| cgroup(row, one))),
            Self::Host => each(&|row| host(row, &of.host)),
            Self::Cpus => of.cpus.iter().try_for_each(|one| {
                let place = session.topology.iter().find(|place| place.cpu == one.cpu);
                each(&|row| cpu(row, one, place))
            }),
            Self::Listeners => of.listeners.iter().try_for_each(|one| {
                let namespace = of.network_namespaces.iter().find(|namespace| namespace.netns == one.netns);
                each(&|row| listener(row, one, namespace))
            }),
        }
    }
}

/// What every row begins with.
fn interval(row: &mut Row, epoch: Option<Epoch>, of: &Interval) {
    row.time("time", epoch.map(|epoch| epoch.unix(of.start_ns)));
    row.count("seq", of.seq);
    row.nanos("start_ns", of.start_ns);
    row.nanos("duration_ns", of.duration_ns);
    row.count("merged", of.merged);
    row.text("switch_cost_way", of.switch_cost_way.clone());
    row.text("pick_function_way", of.pick_function_way.clone());
}

fn totals(row: &mut Row, of: &Totals) {
    for (name, figure) in Totals::NAMES.into_iter().zip(of.figures()) {
        row.count(name, figure);
    }
}

fn cgroup(row: &mut Row, of: &Cgroup) {
    let part = |part: fn(&Workload) -> &Option<Arc<str>>| of.workload.as_deref().and_then(|w| part(w).clone());
    row.count("id", of.id.0);
    row.text("path", Arc::clone(&of.path));
    row.text("name", Arc::clone(&of.name));
    row.text("namespace", part(|workload| &workload.namespace));
    row.text("pod", part(|workload| &workload.pod));
    row.text("container", part(|workload| &workload.container));
    totals(row, &of.totals);
    row.tasks("runnable_load", of.runnable_load);
    row.tasks("load_credit", of.load_credit);
    row.count("nr_periods", of.nr_periods);
    row.count("nr_throttled", of.nr_throttled);
    row.nanos("throttled_ns", of.throttled_ns);
    row.distribution("switch_cost_", of.switch_cost.as_ref());
    row.distribution("runq_wait_", of.runq_wait.as_ref());
    row.distribution("accept_wait_", of.accept_wait.as_ref());
}

fn host(row: &mut Row, of: &Host) {
    totals(row, &of.totals);
    row.prefix("idle_");
    row.count("switches", of.idle.switches);
    row.count("schedule_calls", of.idle.schedule_calls);
    row.nanos("pick_ns", of.idle.pick_ns);
    row.nanos("kept_ns", of.idle.kept_ns);
    row.nanos("swap_ns", of.idle.swap_ns);
    row.prefix("");
    row.count("cpus_online", of.cpus_online);
    row.nanos("busy_ns", of.busy_ns);
    row.nanos("idle_ns", of.idle_ns);
    row.nanos("steal_ns", of.steal_ns);
    row.nanos("self_cpu_ns", of.self_cpu_ns);
    row.nanos("self_probe_ns", of.self_probe_ns);
    row.nanos("pressure_some_ns", of.pressure.map(|pressure| pressure.some_ns));
    row.prefix("lost_");
    for (name, count) in of.lost.kinds() {
        row.count(name, count);
    }
    row.prefix("");
}

fn cpu(row: &mut Row, of: &Cpu, place: Option<&Place>) {
    const CROWD: [&str; Cpu::CROWD] = ["crowd_1_", "crowd_2_", "crowd_3_"];
    row.count("cpu", u64::from(of.cpu));
    row.count("llc", place.map(|place| place.llc.into()));
    row.count("numa", place.map(|place| place.numa.into()));
    row.count("switches", of.switches);
    row.nanos("pick_ns", of.pick_ns);
    row.nanos("swap_ns", of.swap_ns);
    row.count("runq_waits", of.runq_waits);
    row.nanos("runq_wait_ns", of.runq_wait_ns);
    row.nanos("busy_ns", of.busy_ns);
    row.nanos("idle_ns", of.idle_ns);
    for (n, prefix) in CROWD.into_iter().enumerate() {
        let one = of.crowd.get(n);
        row.prefix(prefix);
        row.count("id", one.map(|one| one.id.0));
        row.nanos("cpu_ns", one.map(|one| one.cpu_ns));
        row.nanos("runq_wait_ns", one.and_then(|one| one.runq_wait_ns));
    }
    row.prefix("");
}

fn listener(row: &mut Row, of: &Listener, namespace: Option<&NetworkNamespace>) {
    row.count("netns", u64::from(of.netns));
    row.text("address", Arc::<str>::from(of.address.to_string()));
    row.count("cgroup", of.cgroup.map(|cgroup| cgroup.0));
    row.count("sockets", of.sockets);
    row.count("backlog", of.backlog);
    row.count("backlog_capacity", of.backlog_capacity);
    row.count("drops", of.drops);
    row.count("established", of.totals.map(|totals| totals.established));
    row.count("accepts", of.totals.map(|totals| totals.accepts));
    row.nanos("accept_wait_ns", of.totals.map(|totals| totals.accept_wait_ns));
    row.count("abandoned", of.totals.map(|totals| totals.abandoned));
    row.count("listen_overflows", namespace.and_then(|namespace| namespace.listen_overflows));
}
