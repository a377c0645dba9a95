//! What there are tables of. `docs/recording.md` defines the figures; columns are called as they are there.

use std::{collections::HashMap, sync::Arc};

use super::{ExportError, row::Row};
use crate::{
    model::{
        Cgroup, CgroupId, Cpu, CpuTotals, FileCounters, Host, HostTimes, Idle, Interval, Listener, ListenerTotals,
        Lost, NetworkNamespace, OwnCost, Place, Pressure, Services, Session, Totals, WaitBehind, Workload,
    },
    recording::Epoch,
};

/// What a row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableKind {
    /// A cgroup in an interval.
    Cgroups,
    /// The host in an interval.
    Host,
    /// A CPU in an interval.
    Cpus,
    /// A listening address in an interval.
    Listeners,
}

impl TableKind {
    /// A row that has all columns.
    pub(super) fn columns(self) -> Row {
        let mut row = Row::default();
        interval(&mut row, None, &Interval::default());
        match self {
            Self::Cgroups => cgroup(&mut row, &Cgroup::default(), None),
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
            Self::Cgroups => {
                let paths: HashMap<CgroupId, &Arc<str>> = of.cgroups.iter().map(|one| (one.id, &one.path)).collect();
                of.cgroups.iter().try_for_each(|one| {
                    let worst = one.waits_behind.first().and_then(|behind| Some((*behind, *paths.get(&behind.id)?)));
                    each(&|row| cgroup(row, one, worst))
                })
            }
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

/// A column for each of the fields, called as the field is.
macro_rules! columns {
    ($row:expr, $of:expr; $($kind:ident: $($field:ident)+;)+) => {
        $($($row.$kind(stringify!($field), $of.$field);)+)+
    };
}

/// The columns that every row begins with.
fn interval(row: &mut Row, epoch: Option<Epoch>, of: &Interval) {
    row.time("time", epoch.map(|epoch| epoch.unix(of.start_ns)));
    columns! { row, of; count: seq; nanos: start_ns duration_ns; count: merged; }
    row.text("switch_cost_way", of.switch_cost_way.clone());
    row.text("pick_function_way", of.pick_function_way.clone());
    row.text("sched_ext", of.sched_ext.clone());
}

/// `worst` is the cgroup that it waits behind most, with its path.
fn cgroup(row: &mut Row, of: &Cgroup, worst: Option<(WaitBehind, &Arc<str>)>) {
    type Part = fn(&Workload) -> &Option<Arc<str>>;
    const PARTS: [(&str, Part); 3] =
        [("namespace", |all| &all.namespace), ("pod", |all| &all.pod), ("container", |all| &all.container)];
    row.count("id", of.id.0);
    row.text("path", Arc::clone(&of.path));
    row.text("name", Arc::clone(&of.name));
    for (name, part) in PARTS {
        row.text(name, of.workload.as_deref().and_then(|workload| part(workload).clone()));
    }
    let levels = of.levels.as_ref().and_then(|levels| serde_json::to_string(levels).ok());
    row.text("levels", levels.map(Arc::from));
    row.text("cpus", of.cpus.clone());
    row.counters("", Totals::NAMES, Some(of.totals.figures()));
    row.text("waits_behind_worst_path", worst.map(|(_, path)| Arc::clone(path)));
    row.nanos("waits_behind_worst_ns", worst.map(|(behind, _)| behind.wait_ns));
    columns! { row, of; tasks: runnable_load load_credit; cores: entitled_cpu; }
    row.counters("", FileCounters::NAMES, Some(of.files.figures()));
    columns! { row, of; nanos: quota_ns; }
    row.distribution("switch_cost_", of.switch_cost.as_ref());
    row.distribution("runq_wait_", of.runq_wait.as_ref());
    row.distribution("accept_wait_", of.accept_wait.as_ref());
}

fn host(row: &mut Row, of: &Host) {
    row.counters("", Totals::NAMES, Some(of.totals.figures()));
    row.counters("idle_", Idle::NAMES, Some(of.idle.figures()));
    columns! { row, of; count: cpus_online; }
    row.counters("", HostTimes::NAMES, Some(of.times.figures()));
    row.counters("", OwnCost::NAMES, Some(of.own_cost.figures()));
    row.counters("pressure_", Pressure::NAMES, of.pressure.map(|pressure| pressure.figures()));
    row.counters("lost_", Lost::NAMES, Some(of.lost.figures()));
}

fn cpu(row: &mut Row, of: &Cpu, place: Option<&Place>) {
    const CROWD: [&str; Cpu::CROWD] = ["crowd_1_", "crowd_2_", "crowd_3_"];
    row.count("cpu", u64::from(of.cpu));
    row.count("llc", place.map(|place| place.llc.into()));
    row.count("numa", place.map(|place| place.numa.into()));
    row.counters("", CpuTotals::NAMES, Some(of.totals.figures()));
    for (n, prefix) in CROWD.into_iter().enumerate() {
        let one = of.crowd.get(n);
        row.prefix(prefix);
        row.count("id", one.map(|one| one.id.0));
        row.nanos("cpu_ns", one.map(|one| one.cpu_ns));
        row.nanos("runq_wait_ns", one.and_then(|one| one.runq_wait_ns));
    }
    row.prefix("");
}

fn services(row: &mut Row, of: Option<&Services>) {
    row.prefix("services_");
    row.count("threads", of.map(|of| of.threads));
    row.count("strayed", of.map(|of| of.strayed));
    row.count("found_none", of.map(|of| of.found_none));
    for (prefix, times) in
        [("services_all_", of.map(|of| of.all)), ("services_kept_waiting_", of.map(|of| of.kept_waiting))]
    {
        row.prefix(prefix);
        row.count("count", times.map(|times| times.count));
        row.nanos("time_ns", times.map(|times| times.time_ns));
        row.count("squares_us2", times.map(|times| times.squares_us2));
    }
    row.prefix("");
}

fn listener(row: &mut Row, of: &Listener, namespace: Option<&NetworkNamespace>) {
    row.count("netns", u64::from(of.netns));
    row.text("address", Arc::<str>::from(of.address.to_string()));
    row.count("cgroup", of.cgroup.map(|cgroup| cgroup.0));
    columns! { row, of; count: sockets backlog backlog_capacity drops; }
    row.counters("", ListenerTotals::NAMES, of.totals.map(|totals| totals.figures()));
    services(row, of.services.as_ref());
    row.count("listen_overflows", namespace.and_then(|namespace| namespace.listen_overflows));
}
