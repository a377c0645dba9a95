//! How full the CPUs are, and because of whom.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    diagnosis::{
        Observations, Thresholds,
        during::During,
        observations::Observed,
        rated::is_rated,
        simulation::{Demand, Step},
    },
    model::{CgroupId, Nanos},
    units::MOSTLY,
};

/// Tasks above the number of CPUs before any cgroup counts as filling them. Chosen: averages hide this much.
const ROOM: f64 = 0.1;
/// A cgroup also fills the CPUs if it asks for this share of what the smallest filler asks for. Chosen: else chance decides between
/// similar cgroups.
const ALIKE: f64 = 0.5;

/// How full the CPUs are, and which cgroups cause it. Covers the time in which they are full, if that is a notable
/// part, otherwise the whole time.
#[derive(Debug)]
pub(in crate::diagnosis) struct Load {
    /// The part of the time that this covers. `None` if it is all of it.
    pub(super) part: Option<During>,
    /// Are the CPUs full in that time?
    pub(super) is_full: bool,
    /// Tasks that want to run, on average. `None` where waits were not measured.
    pub(super) asked: Option<f64>,
    /// How many times as long work takes as it would without waits.
    pub(super) slowdown: Option<f64>,
    /// Number of tasks that want to run for each cgroup that takes part, the highest first.
    pub(super) by_cgroup: Vec<(CgroupId, f64)>,
    /// The same for tasks outside of these cgroups: in the root cgroup, or in cgroups without a row of their own.
    pub(super) outside: f64,
    /// The cgroups that fill the CPUs.
    pub(super) fillers: BTreeSet<CgroupId>,
    /// Cgroups that wait long in that part of the time, whatever they do in the rest of it.
    pub(super) waiting_then: BTreeSet<CgroupId>,
}

impl Load {
    pub(in crate::diagnosis) fn of(observations: &Observations, thresholds: &Thresholds) -> Self {
        // Unknown if intervals were left out.
        if observations.asked.is_whole() {
            let (mut full, mut during, mut start) = (Vec::new(), During::default(), Nanos::ZERO);
            for step in &observations.asked.trace().steps {
                let duration = Nanos((step.duration * Nanos::SECOND.0 as f64) as u64);
                if is_full(observations, step, thresholds) {
                    full.push(step);
                    during.add(start, duration);
                }
                start = start.saturating_add(duration);
            }
            if during.is_part(observations.span.duration_ns) {
                let load = Self::of_part(observations, &full, during, thresholds);
                if !load.fillers.is_empty() {
                    return load;
                }
            }
        }
        Self::throughout(observations, thresholds)
    }

    fn throughout(observations: &Observations, thresholds: &Thresholds) -> Self {
        let duration = observations.span.duration_ns;
        let load = |observed: &Observed| observed.asked_ns().map(|ns| ns.cores(duration).0);
        let asked = observations.cgroups.values().map(load).sum::<Option<f64>>();
        let ran: Nanos = observations.cgroups.values().map(|observed| observed.totals.cpu_ns).sum();
        let rated = observations.cgroups.iter().filter(|(id, _)| is_rated(**id));
        let by_cgroup = rated.filter_map(|(&id, observed)| Some((id, load(observed)?))).collect();
        let is_full = observations.whole().utilisation() >= thresholds.full_cpus;
        let load = Self {
            part: None,
            is_full,
            asked,
            slowdown: asked.map(|asked| asked / ran.cores(duration).0.max(1e-9)),
            by_cgroup,
            outside: 0.0,
            fillers: BTreeSet::new(),
            waiting_then: BTreeSet::new(),
        };
        let steps: Vec<&Step> = observations.asked.trace().steps.iter().collect();
        if is_full { load.filled(observations, &steps) } else { load.sorted() }
    }

    /// Covers only these steps, which are this part of the time.
    fn of_part(observations: &Observations, steps: &[&Step], during: During, thresholds: &Thresholds) -> Self {
        let (mut by_cgroup, mut all, mut ran) = (BTreeMap::<CgroupId, f64>::new(), 0.0, 0.0);
        let mut waits: BTreeMap<CgroupId, (f64, f64)> = BTreeMap::new();
        let time = seconds(steps.iter().copied());
        for step in steps {
            for (number, demand) in &step.demands {
                let Some(id) = observations.asked.id(*number) else { continue };
                let asks = demand.asks(step.duration) * step.duration / time;
                all += asks;
                ran += demand.ran / time;
                if is_rated(id) {
                    *by_cgroup.entry(id).or_default() += asks;
                    let (waited, ran) = waits.entry(id).or_default();
                    *waited += demand.waited - demand.throttled;
                    *ran += demand.ran;
                }
            }
        }
        // How many waits these were is only known for the whole time.
        let are_enough = |id: &CgroupId| {
            let waits = observations.cgroups.get(id).and_then(|observed| observed.totals.runq_waits);
            thresholds.are_enough(waits.unwrap_or_default(), during.time)
        };
        let long = waits.iter().filter(|(id, (waited, ran))| {
            *waited > 0.0 && *waited >= thresholds.wait_per_cpu_warn * ran && are_enough(id)
        });
        let waiting_then = long.map(|(&id, _)| id).collect();
        Self {
            part: Some(during),
            is_full: true,
            asked: Some(all),
            slowdown: Some(all / ran.max(1e-9)),
            by_cgroup: by_cgroup.into_iter().collect(),
            outside: 0.0,
            fillers: BTreeSet::new(),
            waiting_then,
        }
        .filled(observations, steps)
    }

    /// Do tasks outside of single cgroups ask for most of this many CPUs?
    pub(super) fn is_outside(&self, cpus: u64) -> bool {
        self.is_full && self.fillers.is_empty() && self.outside >= MOSTLY * cpus as f64
    }

    fn sorted(mut self) -> Self {
        self.by_cgroup.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        let inside: f64 = self.by_cgroup.iter().map(|(_, load)| load).sum();
        self.outside = self.asked.map_or(0.0, |asked| (asked - inside).max(0.0));
        self
    }

    fn filled(self, observations: &Observations, steps: &[&Step]) -> Self {
        let mut load = self.sorted();
        load.fillers = fillers(observations, steps, &load);
        load
    }

    pub(in crate::diagnosis) fn fills_the_cpus(&self, id: CgroupId) -> bool {
        self.fillers.contains(&id)
    }
}

fn seconds<'s>(steps: impl IntoIterator<Item = &'s Step>) -> f64 {
    steps.into_iter().map(|step| step.duration).sum()
}

/// Did tasks use all CPUs, and ask for more?
fn is_full(observations: &Observations, step: &Step, thresholds: &Thresholds) -> bool {
    let cpus = observations.cpus() as f64;
    let sum = |of: &dyn Fn(&Demand) -> f64| step.demands.iter().map(|(_, demand)| of(demand)).sum::<f64>();
    step.duration > 0.0
        && sum(&|demand| demand.ran) >= thresholds.full_cpus * cpus * step.duration
        && sum(&|demand| demand.asks(step.duration)) > cpus + ROOM
}

/// The fewest cgroups without which the others have room, and all that ask for about as much as the least of these.
fn fillers(observations: &Observations, steps: &[&Step], load: &Load) -> BTreeSet<CgroupId> {
    let (by_cgroup, asked) = (&load.by_cgroup, load.by_cgroup.iter().map(|(_, load)| load).sum::<f64>());
    let room = observations.cpus() as f64 + ROOM;
    let at_least = at_least(observations, steps);
    let (mut left, mut least) = (at_least.values().sum::<f64>(), f64::INFINITY);
    if left > room {
        for (id, load) in by_cgroup {
            if left <= room {
                break;
            }
            left -= at_least.get(id).unwrap_or(&0.0);
            least = *load;
        }
    } else {
        // Their tasks sleep. They would run more often if they ran sooner, but it is unknown how much.
        least = without_waits_behind(observations, load, asked - room);
    }
    by_cgroup.iter().filter(|(_, load)| *load >= ALIKE * least).map(|&(id, _)| id).collect()
}

/// The CPUs that each cgroup asks for, however few others there are: one for each task that never sleeps, and the CPU
/// time that they got for those that sleep.
fn at_least(observations: &Observations, steps: &[&Step]) -> BTreeMap<CgroupId, f64> {
    let asked = &observations.asked;
    let mut sums: BTreeMap<CgroupId, f64> = BTreeMap::new();
    for (group, demand) in steps.iter().flat_map(|step| &step.demands) {
        let never_sleep = f64::from(demand.spinners) / demand.threads.max(1.0);
        if let Some(id) = asked.id(*group) {
            *sums.entry(id).or_default() += demand.ran + (demand.waited - demand.throttled) * never_sleep.min(1.0);
        }
    }
    let time = seconds(steps.iter().copied());
    sums.values_mut().for_each(|sum| *sum /= time);
    sums
}

/// What the last of those asks for that must go, with all waits behind them, for the load to be less by `too_much`.
fn without_waits_behind(observations: &Observations, load: &Load, too_much: f64) -> f64 {
    // Long waits happen while the CPUs are full, so all of them are counted into that time.
    let time = load.part.map_or(observations.span.duration_ns, |part| part.time).seconds();
    let mut behind: BTreeMap<CgroupId, Vec<(CgroupId, f64)>> = BTreeMap::new();
    for (&victim, observed) in &observations.cgroups {
        for (culprit, wait) in observed.behind.culprits() {
            behind.entry(culprit).or_default().push((victim, wait.wait_ns.seconds() / time));
        }
    }
    let (mut left, mut gone, mut least) = (too_much, BTreeSet::new(), f64::INFINITY);
    for &(id, load) in &load.by_cgroup {
        if left <= 0.0 {
            break;
        }
        // Without it, nobody would wait behind it, and it would not wait itself.
        let spared: f64 =
            behind.get(&id).into_iter().flatten().filter(|(it, _)| !gone.contains(it)).map(|it| it.1).sum();
        left -= load + spared;
        gone.insert(id);
        least = load;
    }
    least
}
