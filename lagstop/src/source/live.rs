//! Intervals of the running kernel.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, thread, time::Duration};

use tokio::sync::mpsc;

use super::{
    Looks, SourceError, Stop, Stream,
    beat::{Beat, Readings, WAITING},
    labels::Labels,
    session::session,
};
use crate::{
    host::{Bandwidth, Cpus, Hierarchy, Listeners, Owners, figures},
    kernel::{Facts, KernelError, KernelSnapshot, Measure, Options, Reader, Wishes, attach},
    model::{CgroupCounters, CgroupId, CgroupState, GroupBy, Place, Snapshot},
};

/// How to measure.
#[derive(Clone, Debug)]
pub struct LiveOptions {
    /// Length of an interval.
    pub interval: Duration,
    /// How long to go on; for ever where `None`.
    pub duration: Option<Duration>,
    /// What groups tasks.
    pub group_by: GroupBy,
    /// Cgroups that can be told apart at once.
    pub max_cgroups: u32,
    /// Time constant of Load Credit.
    pub load_credit_time: Duration,
    /// What to measure and how, where not as it is best.
    pub wishes: Wishes,
    /// Where the kernel's types are, where the kernel's own are not to be used.
    pub btf: Option<PathBuf>,
    /// See [`Options::clock_only`].
    pub clock_only: bool,
}

impl LiveOptions {
    /// Cgroups that can be told apart at once, unless asked otherwise.
    pub const DEFAULT_MAX_CGROUPS: u32 = Options::DEFAULT_MAX_CGROUPS;
}

/// Readings between two looks for new names of containers.
pub(super) const LOOK_EVERY: u64 = 10;
/// Readings between two questions whether an idle cgroup is still there, while there are rows enough.
const ASK_EVERY: u64 = 60;
/// Most cgroups that are asked in a reading: each takes ten microseconds.
const MOST_ASKED: u64 = 100;
/// Niceness of the thread that reads.
const NICE: i32 = -10;

/// Attaches to the running kernel and starts measuring. This thread and all that it starts later lose the capabilities that
/// only attaching needed.
///
/// # Errors
/// When this kernel or this process cannot.
pub fn live(options: LiveOptions) -> Result<Stream, SourceError> {
    let collector = Collector::start(&options)?;
    let Collector { hierarchy, topology, reader, .. } = &collector;
    let session = session(
        options.interval,
        options.load_credit_time,
        options.group_by,
        hierarchy,
        topology.clone(),
        reader.hooks(),
    )?;
    let (sender, intervals) = mpsc::channel(WAITING);
    let (stop, stopped) = Stop::new();
    let needed = collector.reader.needs()?;
    let hierarchy = collector.hierarchy.clone();
    let give_up = move || needed.keep_only().map_err(|source| KernelError::Capabilities { source });
    thread::spawn(move || {
        // A host is watched because it is crowded: without a head start its readings would come late. Not permitted, they
        // may; each says how long it took.
        let _ = rustix::process::setpriority_process(None, NICE);
        if let Err(error) = give_up() {
            let _ = sender.blocking_send(Err(error.into()));
            return;
        }
        let LiveOptions { interval, duration, load_credit_time, .. } = options;
        Beat { interval, duration, load_credit_time }.run(collector, &stopped, &sender);
    });
    give_up()?;
    Ok(Stream { session, intervals, stop, looks: Some(Looks::start(hierarchy)) })
}

struct Collector {
    reader: Reader,
    /// Where the possible CPUs sit: that does not change.
    topology: Vec<Place>,
    hierarchy: Hierarchy,
    bandwidth: Bandwidth,
    listeners: Listeners,
    labels: Labels,
    last: Snapshot,
    readings: u64,
}

impl Collector {
    fn start(options: &LiveOptions) -> Result<Self, SourceError> {
        let mut facts = Facts::probe(options.btf.as_deref());
        let hierarchy = Hierarchy::find(options.group_by)?;
        let topology = Cpus::read()?.places();
        let reader = attach(
            &mut facts,
            &options.wishes,
            &Options {
                group_by: options.group_by,
                max_cgroups: options.max_cgroups,
                clock_only: options.clock_only,
                places: topology.clone(),
            },
        )?;
        // What entering other network namespaces takes is kept only where TCP is watched.
        let is_everywhere = reader.measures(Measure::TcpState);
        let mut collector = Self {
            reader,
            topology,
            bandwidth: Bandwidth::new(hierarchy.version),
            listeners: Listeners::new(is_everywhere, Owners::new(hierarchy.clone())),
            hierarchy,
            labels: Labels::read(),
            last: Snapshot::default(),
            readings: 0,
        };
        collector.last = collector.snapshot()?;
        Ok(collector)
    }

    /// Reads the kernel side and the host's files.
    fn snapshot(&mut self) -> Result<Snapshot, SourceError> {
        let cpus = Cpus::read()?;
        let KernelSnapshot { at, idle, cgroups, cpus: cpu_totals, traffic, lost, probe_ns } =
            self.reader.snapshot(&cpus.online)?;
        let tcp_is_watched = self.reader.measures(Measure::TcpState);
        self.readings += 1;
        if self.readings.is_multiple_of(LOOK_EVERY) {
            self.look_around();
        }

        let cgroups = self.states(cgroups);
        self.retire_gone(&cgroups)?;
        let (listening, network_namespaces) = self.listeners.read(&traffic);
        let mut host = figures(cpus.online.len() as u64)?;
        host.lost = lost;
        host.self_probe_ns = probe_ns;
        Ok(Snapshot {
            at,
            switch_cost_way: self.reader.way(Measure::SwitchCost).map(Arc::from),
            pick_function_way: self.reader.way(Measure::Pick).map(Arc::from),
            idle,
            cgroups,
            cpus: cpu_totals,
            listening,
            network_namespaces,
            traffic: tcp_is_watched.then_some(traffic),
            host,
        })
    }

    /// What is known of the cgroups beside what was counted.
    fn states(
        &mut self,
        counted: BTreeMap<CgroupId, (Arc<str>, Arc<CgroupCounters>)>,
    ) -> BTreeMap<CgroupId, CgroupState> {
        let Self { bandwidth, hierarchy, labels, last, .. } = self;
        bandwidth.begin();
        let state = |(id, (path, counters)): (CgroupId, (Arc<str>, _))| {
            let before = last.cgroups.get(&id);
            let throttling = match id {
                CgroupId::OTHER => None,
                _ => bandwidth.of(id, before, &counters, || hierarchy.directory(&path)),
            };
            (id, CgroupState { label: labels.of(before, path), counters, throttling })
        };
        counted.into_iter().map(state).collect()
    }

    /// Gives back the rows of cgroups that do not exist any more. Only idle ones can be gone; they are asked in turn.
    fn retire_gone(&mut self, cgroups: &BTreeMap<CgroupId, CgroupState>) -> Result<(), SourceError> {
        let at_least = (cgroups.len() as u64).div_ceil(MOST_ASKED);
        let every = if self.reader.is_crowded() { at_least } else { at_least.max(ASK_EVERY) };
        let permanent = [CgroupId::OTHER, CgroupId::ROOT];
        let is_gone = |id: &CgroupId, now: &CgroupState| {
            id.turn(every) == self.readings % every
                && !permanent.contains(id)
                && self.last.cgroups.get(id).is_some_and(|then| then.stands_at(&now.counters))
                && self.hierarchy.is_gone(*id, &now.label.path)
        };
        let gone: Vec<CgroupId> = cgroups.iter().filter(|(id, now)| is_gone(id, now)).map(|(&id, _)| id).collect();
        Ok(self.reader.retire(gone)?)
    }

    /// Does what is worth it only now and then.
    fn look_around(&mut self) {
        self.bandwidth.keep(|id| self.last.cgroups.contains_key(&id));
        self.labels.refresh(&mut self.last);
    }
}

impl Readings for Collector {
    fn read(&mut self) -> Result<Snapshot, SourceError> {
        self.snapshot()
    }

    fn last(&mut self) -> &mut Snapshot {
        &mut self.last
    }
}
