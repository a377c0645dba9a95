//! Intervals of the running kernel.

use std::{
    io,
    num::NonZeroU32,
    path::PathBuf,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use tokio::sync::mpsc;

use super::{
    Looks, SourceError, Stop, Stream,
    beat::{Beat, Course, Readings, WAITING, guarded},
    departed::Departed,
    labels::Labels,
    sampling::Sampling,
    session::session,
};
use crate::{
    host::{CgroupFiles, Cpus, ExcludedCpus, Hierarchy, Listeners, Owners, figures},
    kernel::{
        AttachOptions, Capabilities, Facts, KernelCgroup, KernelError, KernelReader, KernelSnapshot, Wishes, attach,
        measured_scheduler,
    },
    model::{ById, CgroupState, GroupBy, Hook, HookState, Measure, Nanos, Place, Session, Snapshot},
    units::KernelTime,
};

#[derive(Clone, Debug)]
pub struct LiveOptions {
    pub interval: Duration,
    /// How long to go on; for ever where `None`.
    pub duration: Option<Duration>,
    pub group_by: GroupBy,
    /// Cgroups that can be told apart at once.
    pub max_cgroups: u32,
    /// Time constant of Load Credit.
    pub load_credit_time: Duration,
    /// What to measure and how, where not as it is best.
    pub wishes: Wishes,
    /// Where the kernel's types are, where the kernel's own are not to be used.
    pub btf: Option<PathBuf>,
    /// See [`AttachOptions::clock_only`].
    pub clock_only: bool,
    /// CPUs that are left alone.
    pub exclude_cpus: ExcludedCpus,
    /// Switches are timed in one interval of so many, chosen at random.
    pub cost_sampling: NonZeroU32,
}

impl LiveOptions {
    /// Cgroups that can be told apart at once, unless asked otherwise.
    pub const DEFAULT_MAX_CGROUPS: u32 = AttachOptions::DEFAULT_MAX_CGROUPS;
}

/// Readings between two looks for new names of containers.
pub(super) const LOOK_EVERY: u64 = 10;
/// Niceness of the thread that reads.
pub(super) const NICE: i32 = -10;

/// How a thread leaves behind what it does not need any more.
pub(super) type Leave = fn(Capabilities) -> io::Result<()>;

/// Attaches to the running kernel and starts measuring. This thread and all that it starts later lose the capabilities that
/// only attaching needed, and those that only reading needs.
///
/// # Errors
/// When this kernel or this process cannot.
pub fn live(options: LiveOptions) -> Result<Stream, SourceError> {
    start(options, Capabilities::keep_only).map(|(stream, _)| stream)
}

/// The same for who holds intervals against what else happens here: with the time that they count from.
///
/// # Errors
/// When this kernel or this process cannot.
pub(crate) fn live_since(options: LiveOptions) -> Result<(Stream, Instant), SourceError> {
    start(options, Capabilities::keep_only)
}

/// The same for who talks to strangers: these threads are nobody's then, where root started them.
///
/// # Errors
/// When this kernel or this process cannot.
pub fn live_as_nobody(options: LiveOptions) -> Result<Stream, SourceError> {
    start(options, Capabilities::keep_as_nobody).map(|(stream, _)| stream)
}

fn start(options: LiveOptions, leave: Leave) -> Result<(Stream, Instant), SourceError> {
    let collector = Collector::start(&mut Facts::probe(options.btf.as_deref()), &options)?;
    // No process began after that.
    let began = KernelTime(collector.last.at).instant().unwrap_or_else(Instant::now);
    let session = collector.session(&options)?;
    let (sender, intervals) = mpsc::channel(WAITING);
    let (stop, orders) = Stop::new();
    let needed = collector.needed;
    let hierarchy = collector.hierarchy.clone();
    let keep = move |needed| leave(needed).map_err(|source| KernelError::Capabilities { source });
    thread::spawn(move || {
        // A host is watched because it is crowded: without a head start its readings would come late. Where that is not
        // permitted they may: each says how long it took.
        let _ = rustix::process::setpriority_process(None, NICE);
        if let Err(error) = keep(needed) {
            let _ = sender.blocking_send(Err(error.into()));
            return;
        }
        let LiveOptions { interval, duration, load_credit_time, .. } = options;
        let beat = Beat { interval, duration, load_credit_time };
        guarded(&sender, || beat.run(collector, &mut Course::default(), &orders, &sender));
    });
    keep(needed.beside_reading())?;
    let looks = Some(Looks::start(hierarchy));
    Ok((Stream { session, intervals, stop, looks, watched: None, link: None }, began))
}

/// Reads the kernel side and files. Dropping it detaches.
pub(super) struct Collector {
    reader: KernelReader,
    /// What reading needs.
    needed: Capabilities,
    /// Where the possible CPUs sit: that does not change.
    topology: Vec<Place>,
    /// CPUs that are left alone.
    excluded: Vec<u32>,
    hierarchy: Hierarchy,
    files: CgroupFiles,
    listeners: Listeners,
    labels: Labels,
    sampling: Sampling,
    last: Snapshot,
    departed: Departed,
    readings: u64,
}

impl Collector {
    /// Attaches. What the kernel refuses is added to `facts`.
    pub(super) fn start(facts: &mut Facts, options: &LiveOptions) -> Result<Self, SourceError> {
        let hierarchy = Hierarchy::find(options.group_by)?;
        let topology = Cpus::read()?.places();
        let excluded = options.exclude_cpus.find()?;
        let sampling = Sampling::one_in(options.cost_sampling);
        let mut reader = attach(
            facts,
            &options.wishes,
            &AttachOptions {
                group_by: options.group_by,
                max_cgroups: options.max_cgroups,
                clock_only: options.clock_only,
                places: topology.clone(),
                excluded: excluded.clone(),
                samples_cost: sampling.leaves_out(),
                max_tasks: AttachOptions::default_max_tasks(),
            },
        )?;
        // What entering other network namespaces takes is kept only where TCP is watched.
        let is_everywhere = reader.measures(Measure::TcpState);
        // Before anything is counted: trying it takes what times switches off its hooks for a moment.
        let needed = reader.needs()?;
        let mut collector = Self {
            reader,
            needed,
            topology,
            excluded,
            files: CgroupFiles::new(&hierarchy),
            listeners: Listeners::new(is_everywhere, Owners::new(hierarchy.clone())),
            hierarchy,
            labels: Labels::read(),
            sampling,
            last: Snapshot::default(),
            departed: Departed::default(),
            readings: 0,
        };
        // Twice: the first reads for the first time what later ones know, and takes so long that its files tell of a later moment than
        // its clock does.
        collector.last = collector.snapshot(true)?;
        collector.last = collector.read()?;
        Ok(collector)
    }

    /// What holds for all intervals.
    pub(super) fn session(&self, options: &LiveOptions) -> Result<Session, SourceError> {
        let Self { hierarchy, topology, excluded, .. } = self;
        session(
            options.interval,
            options.load_credit_time,
            options.group_by,
            hierarchy,
            topology.clone(),
            excluded,
            self.hooks(),
        )
    }

    /// What is attached, and what is not and why.
    fn hooks(&self) -> Vec<Hook> {
        let mut hooks = self.reader.hooks();
        let is_sampled = |hook: &&mut Hook| {
            let of_costs = matches!(hook.measure(), Some(Measure::SwitchCost | Measure::Pick));
            self.sampling.leaves_out() && of_costs && hook.state == HookState::On
        };
        let note = self.sampling.note(self.reader.samples_cost());
        hooks.iter_mut().filter(is_sampled).for_each(|hook| hook.detail.push_str(&note));
        hooks
    }

    /// Reads the kernel side and the host's files. Switches are timed from then on, or not.
    fn snapshot(&mut self, times: bool) -> Result<Snapshot, SourceError> {
        let cpus = Cpus::read()?.without(&self.excluded);
        self.reader.time_next(times);
        let KernelSnapshot { at, idle, cgroups, cpus: cpu_totals, traffic, lost, probe_ns, switches_timed } =
            self.reader.snapshot(&cpus.online)?;
        let tcp_is_watched = self.reader.measures(Measure::TcpState);
        self.readings += 1;
        if self.readings.is_multiple_of(LOOK_EVERY) {
            self.refresh();
        }

        let cgroups = self.states(cgroups);
        self.retire_gone(&cgroups)?;
        let (listening, network_namespaces) = self.listeners.read(&traffic);
        let mut host = figures(cpus.online.len() as u64, &self.excluded)?;
        host.lost = lost;
        host.own_cost.self_probe_ns = probe_ns;
        Ok(Snapshot {
            at,
            switch_cost_way: self.reader.way(Measure::SwitchCost).map(Arc::from),
            pick_function_way: self.reader.way(Measure::Pick).map(Arc::from),
            sched_ext: measured_scheduler().map(Arc::from),
            untimed: !switches_timed,
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
    fn states(&mut self, counted: ById<KernelCgroup>) -> ById<Arc<CgroupState>> {
        let Self { files, hierarchy, labels, last, .. } = self;
        let mut earlier = last.cgroups.beside();
        let waits: Vec<Nanos> =
            counted.iter().map(|(&id, counted)| counted.counters.waited_since(earlier.get(id))).collect();
        files.begin(waits.iter().copied());
        let mut earlier = last.cgroups.beside();
        counted
            .into_iter()
            .zip(waits)
            .map(|((id, KernelCgroup { path, counters, behind }), waited)| {
                let before = earlier.get(id);
                let label = labels.of(before, path);
                let waited = counters.totals.runq_wait_ns.map(|_| waited);
                let files = files.of(id, &label, waited, || hierarchy.directory(&label.path));
                (id, CgroupState { label, counters, behind, files }.shared(before))
            })
            .collect()
    }

    /// Gives back the rows of cgroups that do not exist any more.
    fn retire_gone(&mut self, cgroups: &ById<Arc<CgroupState>>) -> Result<(), SourceError> {
        let Self { departed, last, reader, hierarchy, .. } = self;
        let is_gone = |id, state: &CgroupState| hierarchy.is_gone(id, &state.label.path);
        let gone = departed.find(&last.cgroups, cgroups, reader.is_crowded(), is_gone);
        Ok(reader.retire(gone)?)
    }

    /// Does what is needed only now and then.
    fn refresh(&mut self) {
        self.files.keep(|id| self.last.cgroups.contains_key(&id));
        self.labels.refresh(&mut self.last);
    }
}

impl Readings for Collector {
    fn read(&mut self) -> Result<Snapshot, SourceError> {
        let times = self.sampling.times_next();
        self.snapshot(times)
    }

    fn last(&mut self) -> &mut Snapshot {
        &mut self.last
    }
}
