//! Intervals from the kernel's files alone, where no programs can be attached.

use std::{sync::Arc, thread, time::Duration};

use rustix::time::{ClockId, clock_gettime};
use tokio::sync::mpsc;

use super::{
    Looks, SourceError, Stop, Stream,
    beat::{Beat, Course, Readings, WAITING, guarded},
    labels::Labels,
    live::LOOK_EVERY,
    session::session,
};
use crate::{
    host::{Busy, CgroupFiles, CpuTime, Cpus, Hierarchy, Listeners, Owners, ThreadWork, busy, figures},
    model::{CgroupCounters, CgroupState, CpuReading, GroupBy, Hook, Measure, Nanos, Snapshot, Totals},
};

#[derive(Clone, Debug)]
pub struct FilesOptions {
    /// Length of an interval. Where reading takes more than a fifth of it in CPU time, intervals get longer.
    pub interval: Duration,
    /// How long to go on; for ever where `None`.
    pub duration: Option<Duration>,
    pub group_by: GroupBy,
    /// Time constant of Load Credit.
    pub load_credit_time: Duration,
}

/// The way of all that is measured, by its name.
const WAY: &str = "files";
/// An interval is at least this many times the CPU time that a reading takes.
const RESTRAINT: u32 = 5;

/// Starts to read. `why` says why nothing is measured in the kernel, and what to do.
///
/// # Errors
/// When no cgroup hierarchy is there, or /proc is not.
pub fn files(options: FilesOptions, why: String) -> Result<Stream, SourceError> {
    let FilesOptions { interval, duration, group_by, load_credit_time } = options;
    let collector = Collector::start(group_by)?;
    let hierarchy = collector.hierarchy.clone();
    let mut session = session(
        interval,
        load_credit_time,
        group_by,
        &hierarchy,
        Cpus::read()?.places(),
        &[],
        collector.hooks(interval),
    )?;
    session.restricted = Some(why);
    let (sender, intervals) = mpsc::channel(WAITING);
    let (stop, orders) = Stop::new();
    let beat = Beat { interval, duration, load_credit_time };
    thread::spawn(move || guarded(&sender, || beat.run(collector, &mut Course::default(), &orders, &sender)));
    let looks = Some(Looks::start(hierarchy));
    Ok(Stream { session, intervals, stop, looks, watched: None, link: None })
}

struct Collector {
    hierarchy: Hierarchy,
    cpu_time: CpuTime,
    threads: ThreadWork,
    files: CgroupFiles,
    listeners: Listeners,
    labels: Labels,
    last: Snapshot,
    readings: u64,
    /// CPU time that the last reading took.
    took: Duration,
}

impl Collector {
    fn start(group_by: GroupBy) -> Result<Self, SourceError> {
        let hierarchy = Hierarchy::find(group_by)?;
        let mut collector = Self {
            cpu_time: CpuTime::new(&hierarchy),
            threads: ThreadWork::new(hierarchy.version),
            files: CgroupFiles::new(&hierarchy),
            // To enter other network namespaces takes privileges.
            listeners: Listeners::new(false, Owners::new(hierarchy.clone())),
            hierarchy,
            labels: Labels::read(),
            last: Snapshot::default(),
            readings: 0,
            took: Duration::ZERO,
        };
        collector.last = collector.read()?;
        Ok(collector)
    }

    /// What is read and what is not.
    fn hooks(&self, interval: Duration) -> Vec<Hook> {
        Measure::ALL
            .map(|measure| {
                let detail = match measure {
                    Measure::Switches => Ok(self.about_switches(interval)),
                    Measure::RunqWait if self.threads.counts_waits() => {
                        Ok(format!("from /proc/<tid>/schedstat of each thread, {WITHOUT_THE_ENDED}"))
                    }
                    Measure::RunqWait => Err("this kernel is built without CONFIG_SCHED_INFO"),
                    _ => Err("needs eBPF, and only /proc and cgroup files are read"),
                };
                Hook::new(measure, detail.is_ok().then_some(WAY), detail.unwrap_or_else(str::to_owned))
            })
            .into()
    }

    fn about_switches(&self, interval: Duration) -> String {
        let cpu_time = match self.cpu_time.file() {
            Some(file) => format!("CPU time from each cgroup's {file}; for the root in version 2, from its threads"),
            None => "CPU time from /proc/<tid>/schedstat of each thread".to_owned(),
        };
        let hidden = match self.threads.hidden() {
            0 => String::new(),
            hidden => format!(
                ". {hidden} threads are not readable and not counted: /proc is mounted with hidepid, or they are outside this \
                 PID namespace"
            ),
        };
        let took = self.took;
        let lengthened = if self.shortest() > interval {
            format!(
                ". The first reading needed {took:.0?} of CPU time: each interval lasts at least {RESTRAINT} times the CPU time \
                     of the last reading"
            )
        } else {
            String::new()
        };
        format!("{cpu_time}; switches from /proc/<tid>/status, {WITHOUT_THE_ENDED}{hidden}{lengthened}")
    }

    /// The totals of a group, from its totals before and what its threads did.
    fn counters(&self, before: Option<&Arc<CgroupState>>, did: Totals, cpu_time: Option<Nanos>) -> Arc<CgroupCounters> {
        let mut totals = before.map_or_else(|| self.threads.nothing(), |before| before.counters.totals);
        let cpu_time = cpu_time.unwrap_or(totals.cpu_ns.saturating_add(did.cpu_ns));
        totals.add(&did);
        totals.cpu_ns = cpu_time;
        match before {
            // Shared: it was idle.
            Some(before) if before.counters.totals == totals => Arc::clone(&before.counters),
            _ => Arc::new(CgroupCounters { totals, ..CgroupCounters::default() }),
        }
    }
}

const WITHOUT_THE_ENDED: &str = "without threads that ended between two readings";

impl Readings for Collector {
    fn read(&mut self) -> Result<Snapshot, SourceError> {
        let began = clock(ClockId::ThreadCPUTime);
        self.readings += 1;
        if self.readings.is_multiple_of(LOOK_EVERY) {
            self.files.keep(|id| self.last.cgroups.contains_key(&id));
            self.labels.refresh(&mut self.last);
        }
        self.threads.begin();
        let at = Nanos(clock(ClockId::Monotonic).as_nanos() as u64);
        let cpus = cpu_totals(&busy()?, &self.last.cpus);
        let groups = self.hierarchy.groups()?;
        let cpu_times = self.cpu_time.read(&groups);
        let counted: Vec<Arc<CgroupCounters>> = groups
            .iter()
            .zip(cpu_times)
            .map(|(group, cpu_time)| {
                let did = self.threads.of(group);
                self.counters(self.last.cgroups.get(&group.id), did, cpu_time)
            })
            .collect();
        let Self { files, labels, last, .. } = self;
        let waited = |id, counters: &CgroupCounters| counters.waited_since(last.cgroups.get(&id));
        files.begin(groups.iter().zip(&counted).map(|(group, counters)| waited(group.id, counters)));
        let mut cgroups = Vec::with_capacity(groups.len());
        for (group, counters) in groups.iter().zip(counted) {
            let label = labels.of(last.cgroups.get(&group.id), &*group.path);
            let waited = counters.totals.runq_wait_ns.map(|_| waited(group.id, &counters));
            let files = files.of(group.id, &label, waited, || Some(group.directory.clone()));
            let before = last.cgroups.get(&group.id);
            cgroups.push((group.id, CgroupState { label, counters, behind: Vec::new(), files }.shared(before)));
        }
        let cgroups = cgroups.into_iter().collect();
        let host = figures(Cpus::read()?.online.len() as u64, &[])?;
        let idle = self.threads.nothing();
        let (listening, network_namespaces) = self.listeners.read(&[]);
        let snapshot = Snapshot { at, idle, cgroups, cpus, listening, network_namespaces, host, ..Snapshot::default() };
        self.took = clock(ClockId::ThreadCPUTime).saturating_sub(began);
        Ok(snapshot)
    }

    fn last(&mut self) -> &mut Snapshot {
        &mut self.last
    }

    fn shortest(&self) -> Duration {
        self.took * RESTRAINT
    }
}

/// The CPUs by number. What is known of one does not go back, nor away when it goes offline.
fn cpu_totals(busy: &[Busy], last: &[CpuReading]) -> Vec<CpuReading> {
    let mut all: Vec<CpuReading> = last.iter().map(|cpu| CpuReading { is_online: false, ..*cpu }).collect();
    for &Busy { cpu, busy_ns, idle_ns } in busy {
        let cpu = cpu as usize;
        if all.len() <= cpu {
            all.resize(cpu + 1, CpuReading::default());
        }
        let known = &mut all[cpu];
        known.is_online = true;
        let totals = &mut known.totals;
        totals.busy_ns = totals.busy_ns.max(busy_ns);
        totals.idle_ns = totals.idle_ns.max(idle_ns);
    }
    all
}

fn clock(id: ClockId) -> Duration {
    let now = clock_gettime(id);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::CgroupId;

    #[test]
    fn cpus_keep_their_place_and_never_go_back() {
        let busy = |cpu, busy, idle| Busy { cpu, busy_ns: Nanos(busy), idle_ns: Nanos(idle) };
        let before = cpu_totals(&[busy(0, 5, 5), busy(2, 7, 7)], &[]);
        let after = cpu_totals(&[busy(0, 6, 4)], &before);
        let seen: Vec<_> =
            after.iter().map(|cpu| (cpu.is_online, cpu.totals.busy_ns.0, cpu.totals.idle_ns.0)).collect();
        assert_eq!(seen, [(true, 6, 5), (false, 0, 0), (false, 7, 7)], "the last one went offline");
    }

    #[test]
    fn this_host_is_read() {
        let Ok(mut collector) = Collector::start(GroupBy::Scheduler) else {
            eprintln!("no cgroup hierarchy is mounted here: nothing was read");
            return;
        };
        let first = collector.last.clone();
        let second = collector.read().unwrap();
        assert!(second.at > first.at && collector.shortest() > Duration::ZERO);
        assert!(second.cgroups.contains_key(&CgroupId::ROOT) || !collector.hierarchy.is_whole());
        for (id, state) in &second.cgroups {
            let then = first.cgroups.get(id).map(|then| then.counters.totals).unwrap_or_default();
            assert!(state.counters.totals.cpu_ns >= then.cpu_ns && state.counters.totals.switches >= then.switches);
        }
        let hooks = collector.hooks(Duration::ZERO);
        assert_eq!(hooks.len(), Measure::ALL.len());
        assert!(
            hooks[0].state == crate::model::HookState::On
                && hooks[0].detail.contains("each interval lasts at least 5 times"),
            "{hooks:?}"
        );
    }
}
