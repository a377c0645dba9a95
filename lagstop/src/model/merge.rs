//! Several intervals as if there had been one reading at their beginning and one at their end.

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc};

use super::{
    Cgroup, CgroupId, Cpu, Crowding, Distribution, DistributionSum, FileCounters, Host, Interval, Level, Listener,
    Nanos, NetworkNamespace, Tasks, Totals, Workload, behind::BehindSum, bounded, file_counters::known,
};

/// Merges intervals as they come. It takes memory for the cgroups, CPUs and listeners in them, however many intervals there
/// are.
///
/// Totals and distributions are exactly those of one long interval, loads are within rounding. What one reading at the end
/// would have told, the last one tells: CPUs online, backlogs, names, the loaded scheduler. Three things only the short intervals know:
///
/// * `threads` is the most that were seen in one of them: over the long one there may have been more.
/// * A CPU's crowd is made of those that were in its crowds.
/// * Costs that were measured by different methods cannot be summed: they are `None`, and so is the method.
#[derive(Clone, Debug)]
pub struct Merger {
    load_credit_time: Nanos,
    /// Number and beginning of the first interval.
    first: Option<(u64, Nanos)>,
    /// Intervals merged beside it.
    merged: u64,
    duration: Nanos,
    ways: [Option<MergedWay>; 2],
    sched_ext: Option<Arc<str>>,
    host: Option<Host>,
    cgroups: BTreeMap<CgroupId, Merging>,
    cpus: BTreeMap<u32, Cpu>,
    listeners: BTreeMap<(u32, SocketAddr), Listener>,
    namespaces: BTreeMap<u32, NetworkNamespace>,
}

/// Merges `intervals` into one. `None` if there are none.
pub fn merge<'a>(load_credit_time: Nanos, intervals: impl IntoIterator<Item = &'a Interval>) -> Option<Interval> {
    let mut merger = Merger::new(load_credit_time);
    intervals.into_iter().for_each(|interval| merger.add(interval));
    merger.finish()
}

impl Merger {
    /// Nothing yet. `load_credit_time` is the time constant of Load Credit.
    pub fn new(load_credit_time: Nanos) -> Self {
        Self {
            load_credit_time,
            first: None,
            merged: 0,
            duration: Nanos::ZERO,
            ways: [const { None }; 2],
            sched_ext: None,
            host: None,
            cgroups: BTreeMap::new(),
            cpus: BTreeMap::new(),
            listeners: BTreeMap::new(),
            namespaces: BTreeMap::new(),
        }
    }

    pub const fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// How many cgroups are in what is merged so far.
    pub fn cgroups(&self) -> usize {
        self.cgroups.len()
    }

    /// Can the merged interval be read again when `next` is added?
    pub(crate) fn has_room_for(&self, next: &Interval) -> bool {
        let next = next.cgroups.iter().map(|cgroup| cgroup.id);
        bounded::have_room(self.cgroups.len(), next, |id| self.cgroups.contains_key(&id))
    }

    pub fn add(&mut self, interval: &Interval) {
        let beside = u64::from(self.first.is_some());
        self.merged = self.merged.saturating_add(beside).saturating_add(interval.merged);
        self.first.get_or_insert((interval.seq, interval.start_ns));
        self.duration = self.duration.saturating_add(interval.duration_ns);
        for (way, of_next) in self.ways.iter_mut().zip([&interval.switch_cost_way, &interval.pick_function_way]) {
            match way {
                Some(way) => way.meet(of_next.as_ref()),
                None => *way = Some(MergedWay { way: of_next.clone(), differ: false }),
            }
        }
        if interval.sched_ext.is_some() {
            self.sched_ext.clone_from(&interval.sched_ext);
        }
        match &mut self.host {
            Some(host) => host.add(&interval.host),
            None => self.host = Some(interval.host.clone()),
        }
        for cgroup in &interval.cgroups {
            let merging = self.cgroups.entry(cgroup.id).or_insert_with(|| Merging::new(cgroup));
            merging.add(cgroup, interval.duration_ns, self.duration, self.load_credit_time);
        }
        for cpu in &interval.cpus {
            self.cpus.entry(cpu.cpu).and_modify(|sum| add_cpu(sum, cpu)).or_insert_with(|| cpu.clone());
        }
        for listener in &interval.listeners {
            let key = (listener.netns, listener.address);
            self.listeners.entry(key).and_modify(|sum| add_listener(sum, listener)).or_insert_with(|| listener.clone());
        }
        for namespace in &interval.network_namespaces {
            let add = |sum: &mut NetworkNamespace| {
                sum.listen_overflows = known(sum.listen_overflows, namespace.listen_overflows);
            };
            self.namespaces.entry(namespace.netns).and_modify(add).or_insert(*namespace);
        }
    }

    /// The one long interval, and nothing yet from here on. `None` where none was added.
    pub fn take(&mut self) -> Option<Interval> {
        std::mem::replace(self, Self::new(self.load_credit_time)).finish()
    }

    /// The one long interval. `None` where none was added.
    pub fn finish(self) -> Option<Interval> {
        let (seq, start_ns) = self.first?;
        let [switch_cost, pick_function] = self.ways.map(Option::unwrap_or_default);
        let host = self.host.unwrap_or_default();
        let cgroups: Vec<Cgroup> =
            self.cgroups.into_values().map(|merging| merging.finish(self.duration, self.load_credit_time)).collect();
        let mut cpus: Vec<Cpu> = self.cpus.into_values().collect();
        for cpu in &mut cpus {
            cpu.crowd.sort_by_key(|one| (std::cmp::Reverse(one.time()), one.id));
            cpu.crowd.truncate(Cpu::CROWD);
        }
        let mut interval = Interval {
            seq,
            start_ns,
            duration_ns: self.duration,
            merged: self.merged,
            switch_cost_way: switch_cost.way,
            pick_function_way: pick_function.way,
            sched_ext: self.sched_ext,
            host,
            cgroups,
            cpus,
            listeners: self.listeners.into_values().collect(),
            network_namespaces: self.namespaces.into_values().collect(),
        };
        if switch_cost.differ {
            interval.forget_switch_costs();
        }
        if pick_function.differ {
            interval.forget_pick_function();
        }
        Some(interval)
    }
}

/// The way in which something was measured, as long as it is the same.
#[derive(Clone, Debug, Default)]
struct MergedWay {
    way: Option<Arc<str>>,
    differ: bool,
}

impl MergedWay {
    fn meet(&mut self, other: Option<&Arc<str>>) {
        if self.way.as_ref() != other {
            *self = Self { way: None, differ: true };
        }
    }
}

/// A cgroup that is being merged.
#[derive(Clone, Debug)]
struct Merging {
    path: Arc<str>,
    name: Arc<str>,
    workload: Option<Arc<Workload>>,
    levels: Option<Arc<[Level]>>,
    cpus: Option<Arc<str>>,
    totals: Option<Totals>,
    /// Integral of the runnable load, in tasks × ns. `None` once it was not known.
    load: Option<f64>,
    /// The part of its Load Credit that is older than the merged intervals, as of the end of the first one that it is
    /// in, and the time from their beginning to that end.
    credit: Option<(f64, Nanos)>,
    id: CgroupId,
    behind: BehindSum,
    files: FileCounters,
    /// As at its end.
    quota: Option<Nanos>,
    distributions: [Option<DistributionSum>; 3],
}

impl Merging {
    fn new(cgroup: &Cgroup) -> Self {
        let sum = |of: &Option<Distribution>| of.as_ref().map(|_| DistributionSum::default());
        Self {
            path: Arc::clone(&cgroup.path),
            name: Arc::clone(&cgroup.name),
            workload: None,
            levels: None,
            cpus: None,
            totals: None,
            load: Some(0.0),
            credit: None,
            id: cgroup.id,
            behind: BehindSum::default(),
            files: FileCounters::default(),
            quota: None,
            distributions: [&cgroup.switch_cost, &cgroup.runq_wait, &cgroup.accept_wait].map(sum),
        }
    }

    /// Adds the next interval that it is in, which took `duration` and ended `end` after the first began.
    fn add(&mut self, cgroup: &Cgroup, duration: Nanos, end: Nanos, load_credit_time: Nanos) {
        // Names are found out late: the last one known is the best.
        (self.path, self.name) = (Arc::clone(&cgroup.path), Arc::clone(&cgroup.name));
        self.workload = cgroup.workload.clone().or_else(|| self.workload.take());
        self.levels = cgroup.levels.clone().or_else(|| self.levels.take());
        self.cpus = cgroup.cpus.clone().or_else(|| self.cpus.take());
        match &mut self.totals {
            Some(totals) => totals.add_next(&cgroup.totals),
            None => {
                self.totals = Some(cgroup.totals);
                self.credit = cgroup
                    .load_credit
                    .zip(cgroup.runnable_load)
                    .map(|(credit, load)| (credit.0 - load.0 * (1.0 - kept(duration, load_credit_time)), end));
            }
        }
        self.load = self.load.zip(cgroup.runnable_load).map(|(sum, load)| sum + load.0 * duration.0 as f64);
        cgroup.waits_behind.iter().for_each(|one| self.behind.add(one.id, one.wait_ns));
        self.files.add_known(&cgroup.files);
        self.quota = cgroup.quota_ns;
        for (sum, of_next) in
            self.distributions.iter_mut().zip([&cgroup.switch_cost, &cgroup.runq_wait, &cgroup.accept_wait])
        {
            match (sum.as_mut(), of_next) {
                (Some(sum), Some(next)) => sum.add(next),
                (_, None) => *sum = None,
                (None, Some(_)) => {}
            }
        }
    }

    fn finish(self, duration: Nanos, load_credit_time: Nanos) -> Cgroup {
        let load = self.load.map(|sum| sum / (duration.0 as f64).max(1.0));
        // The old part fades from the end of the cgroup's first interval on. The mean load takes its place.
        let credit = self.credit.zip(load).map(|((before, end), load)| {
            before * kept(duration.saturating_sub(end), load_credit_time)
                + load * (1.0 - kept(duration, load_credit_time))
        });
        let totals = self.totals.unwrap_or_default();
        let [switch_cost, runq_wait, accept_wait] = self.distributions.map(|sum| sum.map(|sum| sum.total()));
        Cgroup {
            id: self.id,
            path: self.path,
            name: self.name,
            workload: self.workload,
            levels: self.levels,
            cpus: self.cpus,
            totals,
            waits_behind: self.behind.worst(totals.wait_behind_ns.unwrap_or_default()),
            runnable_load: load.map(Tasks),
            load_credit: credit.map(|credit| Tasks(credit.max(0.0))),
            entitled_cpu: None,
            files: self.files,
            quota_ns: self.quota,
            switch_cost,
            runq_wait,
            accept_wait,
        }
    }
}

/// The part of a Load Credit that is left after `time`.
fn kept(time: Nanos, time_constant: Nanos) -> f64 {
    (-time.seconds() / time_constant.seconds()).exp()
}

fn add_cpu(sum: &mut Cpu, next: &Cpu) {
    let time = |a: Option<Nanos>, b: Option<Nanos>| a.zip(b).map(|(a, b)| a.saturating_add(b));
    sum.totals.add(&next.totals);
    for one in &next.crowd {
        match sum.crowd.iter_mut().find(|known| known.id == one.id) {
            Some(Crowding { cpu_ns, runq_wait_ns, .. }) => {
                *cpu_ns = cpu_ns.saturating_add(one.cpu_ns);
                *runq_wait_ns = time(*runq_wait_ns, one.runq_wait_ns);
            }
            None => sum.crowd.push(*one),
        }
    }
}

fn add_listener(sum: &mut Listener, next: &Listener) {
    let totals = match (sum.totals, &next.totals) {
        (Some(mut totals), Some(more)) => {
            totals.add(more);
            Some(totals)
        }
        _ => None,
    };
    let services = sum.services.zip(next.services).map(|(now, next)| now.then(&next));
    let drops = known(sum.drops, next.drops);
    *sum = Listener { totals, services, drops, cgroup: next.cgroup.or(sum.cgroup), ..next.clone() };
}

#[cfg(test)]
mod tests;
