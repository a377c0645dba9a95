//! What cgroups got of the CPUs, beside what weights, quotas and CPU sets of the tree entitle them to.

use std::{collections::BTreeMap, sync::Arc};

use super::{Observations, Subject, Thresholds, observations::Observed, rated::is_rated, simulation::Demand};
use crate::{
    model::{Asking, Distribution, Entitled, Entitlement, Measure, Nanos, Totals},
    units,
};

/// If more than this share of the CPU time went to cgroups whose place in the tree is unknown, nothing can be
/// concluded. Chosen: they count as entitled to what they got, which nobody knows.
const MOST_UNKNOWN: f64 = 0.2;
/// A cgroup always wants to run if one of its tasks never slept in this share of the intervals. Chosen: waits are booked when
/// they end, so it does not look so in each.
const NEARLY_ALWAYS: f64 = 0.8;

/// All of them, by their numbers in the trace.
#[derive(Debug)]
pub(super) struct Shares {
    /// Each by the tasks that are directly in it.
    pub own: Vec<Own>,
    /// Each with all that is inside of it.
    pub whole: Vec<Whole>,
    /// Part of the CPU time that went to cgroups whose place in the tree is not known.
    unknown: f64,
}

/// A cgroup by its own tasks, in CPU-seconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Own {
    /// What it was entitled to, if it had asked all the time for what it asked for on average.
    pub entitled: f64,
    /// What it was entitled to at least, however its tasks came and went.
    pub least: f64,
    pub got: f64,
    pub waited: f64,
    /// Time of the intervals in which it ran.
    pub seconds: f64,
    /// Number of these intervals, and of those in which it got clearly less than it was entitled to.
    pub intervals: u64,
    pub short: u64,
    /// The same as `least` and `got`, of the intervals in which it waited as long as it ran.
    least_in_long: f64,
    got_in_long: f64,
}

/// A cgroup with all that is inside of it, in CPU-seconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Whole {
    pub entitled: f64,
    /// What it would be entitled to if each cgroup in its queue had the usual weight.
    pub equal: f64,
    pub got: f64,
    pub waited: f64,
    /// How often its weight counted, times seconds.
    times: f64,
    /// Time of the intervals in which any of it ran.
    pub seconds: f64,
    /// Number of these intervals, and of those in which one of its tasks never slept.
    pub intervals: u64,
    pub always: u64,
}

impl Own {
    fn add(&mut self, demand: &Demand, cpu: f64, duration: f64, thresholds: &Thresholds) {
        // Tasks that never sleep are entitled to it all the time. Tasks that sleep may rarely want to run, and then all
        // at once. A short wait after each sleep is about who goes first, not about shares.
        let patience = thresholds.light_wait_p99.seconds() * f64::from(demand.bursts);
        let awake = (demand.ran + (demand.waited - patience).max(0.0)) / duration;
        let at_once = cpu * (awake / demand.threads).min(1.0);
        let least = at_once.max(cpu.min(f64::from(demand.spinners))) * duration;
        self.entitled += cpu * duration;
        self.least += least;
        self.got += demand.ran;
        self.waited += demand.waited;
        self.seconds += duration;
        self.intervals += 1;
        self.short += u64::from(least >= thresholds.starved_warn * demand.ran);
        if demand.waited >= demand.ran {
            self.least_in_long += least;
            self.got_in_long += demand.ran;
        }
    }

    /// The time that its work takes / the time that it would take with the entitled CPU time.
    pub(super) fn slowdown(&self) -> f64 {
        self.least / self.got
    }

    /// The same for the time in which it waited as long as it ran. NaN if it never did.
    pub(super) fn slowdown_in_long(&self) -> f64 {
        self.least_in_long / self.got_in_long
    }
}

impl Whole {
    fn add(&mut self, entitled: &Entitled, always: bool, duration: f64) {
        self.entitled += entitled.cpu * duration;
        self.equal += entitled.with_equal_weights * duration;
        self.times += entitled.times * duration;
        self.seconds += duration;
        self.intervals += 1;
        self.always += u64::from(always);
    }

    pub(super) fn wait_per_cpu(&self) -> f64 {
        self.waited / self.got
    }

    /// How often its weight counted on average.
    pub(super) fn times(&self) -> f64 {
        self.times / self.seconds
    }

    /// Did one of its tasks want to run all the time, in nearly all of the intervals?
    pub(super) fn always_wants_to_run(&self) -> bool {
        self.always as f64 >= NEARLY_ALWAYS * self.intervals as f64
    }
}

impl Shares {
    /// Of all that asked.
    pub(super) fn of(observations: &Observations, thresholds: &Thresholds) -> Self {
        let asked = &observations.asked;
        let trace = asked.trace();
        let mut own = vec![Own::default(); trace.groups.len()];
        let mut whole = vec![Whole::default(); trace.groups.len()];
        let (mut unknown, mut all) = (0.0, 0.0);
        let most_times = observations.session.cgroup_mode().most_times(trace.cpus);
        for step in trace.steps.iter().filter(|step| step.duration > 0.0) {
            let mut cpus = step.cpus;
            let mut asking = Vec::with_capacity(step.demands.len());
            let mut known = Vec::with_capacity(step.demands.len());
            for (group, demand) in &step.demands {
                all += demand.ran;
                if asked.is_placed(*group) {
                    let throttled = demand.load - demand.asks(step.duration);
                    asking.push(Asking { group: *group, tasks: demand.load, throttled });
                    known.push(demand);
                } else {
                    // It counts as entitled to what it got. The others share the rest.
                    unknown += demand.ran;
                    cpus -= demand.ran / step.duration;
                }
            }
            let shared = Entitlement::of(&trace.groups, &asking, cpus, most_times);
            // Cgroups that wanted to run, and whether one of their tasks never slept.
            let mut ran: BTreeMap<usize, bool> = BTreeMap::new();
            for ((one, demand), cpu) in asking.iter().zip(known).zip(shared.asking) {
                own[one.group].add(demand, cpu, step.duration, thresholds);
                for number in asked.queues(one.group) {
                    *ran.entry(number).or_default() |= demand.spinners > 0;
                    whole[number].got += demand.ran;
                    whole[number].waited += demand.waited;
                }
            }
            for (number, always) in ran {
                whole[number].add(&shared.groups[number], always, step.duration);
            }
        }
        Self { own, whole, unknown: if all > 0.0 { unknown / all } else { 0.0 } }
    }

    /// Why nothing can be concluded from them. `None` if something can.
    pub(super) fn why_not(&self, observations: &Observations, thresholds: &Thresholds) -> Option<String> {
        let waits = observations.host.as_ref().and_then(|host| host.totals.runq_wait_ns);
        let too_short = observations.too_short(thresholds);
        too_short
            .or_else(|| {
                waits
                    .is_none()
                    .then(|| format!("run-queue wait is {}", observations.session.why_not(Measure::RunqWait)))
            })
            .or_else(|| {
                (self.unknown > MOST_UNKNOWN).then(|| {
                    format!(
                        "the weights of cgroups that used {} of the CPU time were not recorded",
                        units::percent(self.unknown)
                    )
                })
            })
    }

    /// How many cgroups were compared.
    pub(super) fn compared(&self) -> u64 {
        self.own.iter().filter(|own| own.intervals > 0).count() as u64
    }

    /// Caveats about entitlements.
    pub(super) fn caveats(&self) -> Vec<String> {
        let mut caveats = vec![
            "Affinities (taskset), nice values and real-time tasks are unknown; a cgroup pinned to a crowded CPU gets \
             less than its share."
                .to_owned(),
        ];
        if self.unknown > 0.0 {
            caveats.push(format!(
                "The weights of cgroups that used {} of the CPU time are unknown; the rest is divided among the \
                 others.",
                units::percent(self.unknown)
            ));
        }
        caveats
    }
}

/// Known waits of a cgroup with all inside of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct KnownWaits {
    pub count: u64,
    pub p99: Option<Nanos>,
    /// The time in which they were.
    during: Nanos,
    /// The largest share of quota periods in which the quota was used up, of one of them or of one above; or the share
    /// of waits for a quota, if that is larger.
    throttled: f64,
}

impl KnownWaits {
    pub(super) fn of(observations: &Observations, number: usize) -> Self {
        let asked = &observations.asked;
        let is_inside = |id| asked.number(id).is_some_and(|one| asked.is_inside(one, number));
        let members: Vec<&Observed> = observations
            .cgroups
            .iter()
            .filter(|&(&id, _)| is_rated(id) && is_inside(id))
            .map(|(_, observed)| observed)
            .collect();
        let tail = Distribution::sum(members.iter().filter_map(|it| it.runq_wait.as_ref())).quantile(0.99);
        let means = || members.iter().filter_map(|it| it.totals.mean_runq_wait()).max();
        let sum = |of: fn(&Totals) -> Option<Nanos>| members.iter().filter_map(|it| of(&it.totals)).sum::<Nanos>();
        let (wait, for_quotas) = (sum(|totals| totals.runq_wait_ns), sum(|totals| totals.wait_throttled_ns));
        let above = asked.queues(number).filter_map(|above| observations.cgroups.get(&asked.id(above)?));
        let periods = members.iter().copied().chain(above).filter_map(|observed| observed.files.throttled());
        Self {
            count: members.iter().filter_map(|it| it.totals.runq_waits).fold(0, u64::saturating_add),
            p99: tail.or_else(means),
            during: observations.span.duration_ns,
            throttled: periods.fold(for_quotas.0 as f64 / wait.0.max(1) as f64, f64::max),
        }
    }

    /// Are there many waits, with some long ones, and hardly any for a quota?
    pub(super) fn matter(&self, thresholds: &Thresholds) -> bool {
        thresholds.are_enough(self.count, self.during)
            && self.p99.is_some_and(|tail| tail >= thresholds.light_wait_p99)
            && self.throttled < thresholds.throttled_warn
    }
}

impl Observations {
    /// The subject of a finding about the cgroup with this number in the trace.
    pub(super) fn subject_of(&self, number: usize) -> Subject {
        let own = self.asked.id(number).and_then(|id| Some((id, self.cgroups.get(&id)?)));
        let path = self.asked.path(number);
        match own {
            Some((id, observed)) => observed.subject(id),
            None => Subject::Cgroup { id: None, path: Arc::clone(path), name: Arc::clone(path) },
        }
    }
}
