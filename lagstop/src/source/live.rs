//! Intervals of the running kernel.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    panic::{self, AssertUnwindSafe},
    path::PathBuf,
    sync::{Arc, mpsc as blocking},
    thread,
    time::{Duration, Instant, SystemTime},
};

use tokio::sync::mpsc;

use super::{Looks, SourceError, Stop, Stream};
use crate::{
    host::{Bandwidth, Cpus, Hierarchy, Identity, Listeners, Names, Owners, Version, figures},
    kernel::{Facts, KernelError, KernelSnapshot, Measure, Options, Reader, Wishes, attach},
    model::{CgroupId, CgroupLabel, CgroupState, GroupBy, Interval, LoadCredits, Nanos, Place, Session, Snapshot},
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

/// Intervals that may wait for a slow reader. When more do, the next ones get longer; none is lost.
const WAITING: usize = 4;
/// Readings between two looks for cgroups that are gone, and for new names of containers.
const LOOK_EVERY: u64 = 10;
/// Niceness of the thread that reads.
const NICE: i32 = -10;
/// What is left at the end is worth an interval of its own from this part of one on.
const WORTH_AN_INTERVAL: f64 = 0.01;

/// Attaches to the running kernel and starts measuring. This thread and all that it starts later lose the capabilities that
/// only attaching needed.
///
/// # Errors
/// When this kernel or this process cannot.
pub fn live(options: LiveOptions) -> Result<Stream, SourceError> {
    let collector = Collector::start(&options)?;
    let session = collector.session(&options)?;
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
        let run = AssertUnwindSafe(|| collector.run(&options, &stopped, &sender));
        if panic::catch_unwind(run).is_err() {
            // Else its readers would take the end of the stream for the end of the measurement.
            let _ = sender.blocking_send(Err(SourceError::Died));
        }
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
    names: Names,
    labels: HashMap<CgroupId, CgroupLabel>,
    last: Snapshot,
    /// Cgroups in which nothing happened between the last two readings.
    idle: HashSet<CgroupId>,
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
            names: Names::read(),
            labels: HashMap::new(),
            last: Snapshot::default(),
            idle: HashSet::new(),
            readings: 0,
        };
        collector.last = collector.snapshot()?;
        Ok(collector)
    }

    fn session(&self, options: &LiveOptions) -> Result<Session, SourceError> {
        let Identity { hostname, kernel, boot_id } = Identity::read()?;
        let cpus = Cpus::read()?;
        Ok(Session {
            lagstop_version: env!("CARGO_PKG_VERSION").to_owned(),
            started_at: humantime::format_rfc3339_millis(SystemTime::now()).to_string(),
            hostname,
            boot_id,
            kernel,
            cpus_online: cpus.online.len() as u64,
            cpus_possible: cpus.possible.len() as u64,
            interval_ns: nanos(options.interval),
            group_by: options.group_by,
            cgroup_mount: self.hierarchy.mount.to_string_lossy().into_owned(),
            cgroup_version: match self.hierarchy.version {
                Version::V1 => 1,
                Version::V2 => 2,
            },
            topology: self.topology.clone(),
            restricted: None,
            hooks: self.reader.hooks(),
        })
    }

    /// Measures until the time is up, somebody stops it, or nobody listens.
    fn run(
        mut self,
        options: &LiveOptions,
        stopped: &blocking::Receiver<()>,
        intervals: &mpsc::Sender<Result<Interval, SourceError>>,
    ) {
        let mut credits = LoadCredits::new(nanos(options.load_credit_time));
        let origin = self.last.at;
        let started = Instant::now();
        let end = options.duration.map(|duration| started + duration);
        let mut next = started;
        for seq in 0.. {
            // From tick to tick, so that lateness does not add up; ticks that have passed already are left out.
            while next <= Instant::now() {
                next += options.interval;
            }
            let until = end.map_or(next, |end| end.min(next));
            let stopping = match stopped.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Err(blocking::RecvTimeoutError::Timeout) => end.is_some_and(|end| Instant::now() >= end),
                Ok(()) | Err(blocking::RecvTimeoutError::Disconnected) => true,
            };
            let interval = self.snapshot().map(|now| {
                let interval = Interval::between(seq, origin, &self.last, &now, &mut credits);
                self.last = now;
                interval
            });
            let failed = interval.is_err();
            let too_short = stopping
                && interval.as_ref().is_ok_and(|interval| {
                    interval.duration_ns.seconds() < options.interval.as_secs_f64() * WORTH_AN_INTERVAL
                });
            if !too_short && intervals.blocking_send(interval).is_err() || stopping || failed {
                break;
            }
        }
    }

    /// Reads the kernel side and the host's files.
    fn snapshot(&mut self) -> Result<Snapshot, SourceError> {
        let cpus = Cpus::read()?;
        let KernelSnapshot { at, idle, cgroups, cpus: cpu_totals, traffic, lost, probe_ns } =
            self.reader.snapshot(&cpus.online)?;
        let tcp_is_watched = self.reader.measures(Measure::TcpState);
        self.readings += 1;
        if self.readings.is_multiple_of(LOOK_EVERY) {
            self.refresh_names();
        }

        let directories: HashMap<CgroupId, PathBuf> = cgroups
            .iter()
            .filter(|(id, _)| **id != CgroupId::OTHER)
            .filter_map(|(&id, (path, _))| Some((id, self.hierarchy.directory(path)?)))
            .collect();
        let throttling = self.bandwidth.read(&directories);
        self.labels.retain(|id, _| cgroups.contains_key(id));
        let mut states = BTreeMap::new();
        for (id, (path, counters)) in cgroups {
            let names = &self.names;
            let label = self.labels.entry(id).or_insert_with(|| label(names, path)).clone();
            states.insert(id, CgroupState { label, counters, throttling: throttling.get(&id).copied() });
        }
        self.retire_gone(&states)?;

        let (listening, network_namespaces) = self.listeners.read(&traffic);
        let mut host = figures(cpus.online.len() as u64)?;
        host.lost = lost;
        host.self_probe_ns = probe_ns;
        Ok(Snapshot {
            at,
            switch_cost_way: self.reader.way(Measure::SwitchCost).map(Arc::from),
            pick_function_way: self.reader.way(Measure::Pick).map(Arc::from),
            idle,
            cgroups: states,
            cpus: cpu_totals,
            listening,
            network_namespaces,
            traffic: tcp_is_watched.then_some(traffic),
            host,
        })
    }

    /// Gives back the rows of cgroups that do not exist any more. One that has just fallen idle is looked at at once,
    /// the others now and then.
    fn retire_gone(&mut self, states: &BTreeMap<CgroupId, CgroupState>) -> Result<(), SourceError> {
        let look_at_all = self.readings.is_multiple_of(LOOK_EVERY);
        let unchanged = |id: &CgroupId, now: &CgroupState| {
            self.last.cgroups.get(id).is_some_and(|then| Arc::ptr_eq(&then.counters, &now.counters))
        };
        let permanent = [CgroupId::OTHER, CgroupId::ROOT];
        let idle: HashSet<CgroupId> = states
            .iter()
            .filter(|(id, now)| !permanent.contains(id) && unchanged(id, now))
            .map(|(&id, _)| id)
            .collect();
        let suspects = idle.iter().filter(|id| look_at_all || !self.idle.contains(id));
        let gone: Vec<CgroupId> = suspects
            .filter(|id| states.get(id).is_some_and(|state| self.hierarchy.is_gone(**id, &state.label.path)))
            .copied()
            .collect();
        self.idle = idle;
        Ok(self.reader.retire(gone)?)
    }

    fn refresh_names(&mut self) {
        let names = Names::read();
        if names != self.names {
            self.names = names;
            self.labels.clear();
        }
    }
}

fn label(names: &Names, path: Arc<str>) -> CgroupLabel {
    CgroupLabel { name: names.of(&path).into(), workload: names.workload(&path).map(Arc::new), path }
}

fn nanos(duration: Duration) -> Nanos {
    Nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}
