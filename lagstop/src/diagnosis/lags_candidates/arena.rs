//! Which cgroups compete with each other for the CPU, and which of them are light and heavy.
//!
//! The kernel shares CPU time among siblings (`cpu.weight` and `cpu.idle` are theirs alone), so cgroups are compared, and can
//! be favoured, only there: a container's sibling may be another of its pod, a pod's another pod.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    diagnosis::{Observations, Subject, Thresholds, asked::Asked, observations::Observed, rated::is_rated},
    model::{CgroupId, Distribution, Nanos},
    units::MOSTLY,
};

/// A cgroup with all that is inside of it.
#[derive(Clone, Debug)]
pub(super) struct Sibling<'a> {
    /// Its number in the trace.
    pub(super) number: usize,
    pub(super) path: Arc<str>,
    name: Arc<str>,
    pub(super) id: Option<CgroupId>,
    members: Vec<&'a Observed>,
    /// Load Credit of all inside of it, in tasks.
    pub(super) credit: f64,
    /// CPU time, in nanoseconds.
    pub(super) cpu: f64,
    /// Run-queue wait, in nanoseconds, and how many there were.
    pub(super) wait: f64,
    pub(super) waits: u64,
    /// Its weight: 1 is the usual one.
    pub(super) weight: f64,
    pub(super) p99: Option<Nanos>,
    is_light: bool,
}

/// Siblings.
#[derive(Clone, Debug)]
pub(super) struct Arena<'a> {
    /// The cgroup that contains them. `None` is the root.
    pub(super) parent: Option<Arc<str>>,
    /// Those that waited most first.
    pub(super) siblings: Vec<Sibling<'a>>,
    /// Mean CPU time of a heavy cgroup, by weight.
    heavy_cpu: f64,
    /// Time over which they are compared.
    during: Nanos,
}

impl<'a> Sibling<'a> {
    fn new(asked: &Asked, number: usize, members: &[&'a Observed], own: Option<&Observed>) -> Option<Self> {
        let group = &asked.trace().groups[number];
        let waits = members.iter().filter_map(|it| it.runq_wait.as_ref());
        let tail = Distribution::sum(waits).quantile(0.99);
        let totals = |of: &dyn Fn(&Observed) -> Option<f64>| members.iter().map(|it| of(it)).sum::<Option<f64>>();
        let longest = members.iter().map(|it| it.rated_ns).fold(0.0, f64::max);
        let path = asked.path(number);
        let (id, name) = match (own, asked.id(number)) {
            (Some(own), Some(id)) => (Some(id), Arc::clone(&own.name)),
            _ => (None, Arc::clone(path)),
        };
        let means = || {
            let waits = members.iter().filter_map(|it| it.totals.mean_runq_wait());
            waits.max()
        };
        Some(Self {
            number,
            path: Arc::clone(path),
            name,
            id,
            members: members.to_vec(),
            credit: members.iter().map(|it| it.credit_ns).sum::<f64>() / longest,
            cpu: totals(&|it| Some(it.totals.cpu_ns.0 as f64))?,
            wait: totals(&|it| Some(it.totals.runq_wait_ns?.0 as f64))?,
            waits: members.iter().filter_map(|it| it.totals.runq_waits).fold(0, u64::saturating_add),
            weight: group.whole_weight(),
            p99: tail.or_else(means),
            is_light: false,
        })
    }

    pub(super) const fn is_light(&self) -> bool {
        self.is_light
    }

    pub(super) fn wait_per_cpu(&self) -> f64 {
        self.wait / self.cpu
    }

    /// CPU time divided by its weight.
    fn cpu_by_weight(&self) -> f64 {
        self.cpu / self.weight
    }

    /// Was at least half of its wait behind its own tasks? `false` if causes were not measured.
    fn is_self_inflicted(&self) -> bool {
        let behind: f64 = self.members.iter().filter_map(|it| it.totals.wait_self_ns).map(|wait| wait.0 as f64).sum();
        self.wait > 0.0 && behind >= MOSTLY * self.wait
    }

    /// The largest share of its periods in which the quota of one inside of it was used up. `None` without a quota.
    pub(super) fn throttled_share(&self) -> Option<f64> {
        self.members.iter().filter_map(|it| it.files.throttled()).reduce(f64::max)
    }

    /// The subject of a finding about it.
    pub(super) fn subject(&self) -> Subject {
        Subject::Cgroup { id: self.id, path: Arc::clone(&self.path), name: Arc::clone(&self.name) }
    }
}

impl<'a> Arena<'a> {
    pub(super) fn all(observations: &'a Observations) -> Vec<Self> {
        let asked = &observations.asked;
        let groups = &asked.trace().groups;
        let mut members: BTreeMap<usize, Vec<&'a Observed>> = BTreeMap::new();
        let rated = observations.cgroups.iter().filter(|(id, it)| is_rated(**id) && it.rated_ns > 0.0);
        for (&id, observed) in rated {
            let number = asked.number(id);
            let up = std::iter::successors(number, |&number| groups[number].parent);
            for number in up.filter(|&number| groups[number].has_queue) {
                members.entry(number).or_default().push(observed);
            }
        }
        let mut arenas: BTreeMap<Option<usize>, Vec<Sibling<'a>>> = BTreeMap::new();
        for (number, members) in members {
            let own = asked.id(number).and_then(|id| observations.cgroups.get(&id));
            let above = |&number: &usize| groups[number].parent;
            let parent = std::iter::successors(Some(number), above).skip(1).find(|&number| groups[number].has_queue);
            arenas.entry(parent).or_default().extend(Sibling::new(asked, number, &members, own));
        }
        let during = observations.span.duration_ns;
        let arena = |(parent, siblings): (Option<usize>, Vec<Sibling<'a>>)| {
            Self { parent: parent.map(|number| Arc::clone(asked.path(number))), siblings, heavy_cpu: 0.0, during }
                .classed()
        };
        arenas.into_iter().map(arena).collect()
    }

    /// The arena with the most avoidable wait: of light cgroups that wait long, otherwise of all.
    pub(super) fn worst(observations: &'a Observations, thresholds: &Thresholds) -> Option<Self> {
        let spared = |arena: &Self| arena.waiting(thresholds).map(|it| it.wait).sum::<f64>();
        let all =
            |arena: &Self| if arena.siblings.len() > 1 { arena.siblings.iter().map(|it| it.wait).sum() } else { 0.0 };
        let order = |a: &Self, b: &Self| spared(a).total_cmp(&spared(b)).then(all(a).total_cmp(&all(b)));
        // The first of equals, which is the uppermost.
        Self::all(observations).into_iter().rev().max_by(order)
    }

    /// Light are those that used less CPU time than their weights' part of what all used. Load Credit is not used,
    /// because it counts waits as load: a starved cgroup would look heavy.
    fn classed(mut self) -> Self {
        let sum = |of: fn(&Sibling<'_>) -> f64| self.siblings.iter().map(of).sum::<f64>();
        let fair = sum(|it| it.cpu) / sum(|it| it.weight);
        self.siblings.iter_mut().for_each(|it| it.is_light = it.cpu_by_weight() < fair);
        let heavy: Vec<f64> = self.siblings.iter().filter(|it| !it.is_light).map(Sibling::cpu_by_weight).collect();
        self.heavy_cpu = heavy.iter().sum::<f64>() / heavy.len() as f64;
        self.siblings.sort_by(|a, b| b.wait.total_cmp(&a.wait).then(a.number.cmp(&b.number)));
        self
    }

    /// Those that are light and wait long.
    pub(super) fn waiting(&self, thresholds: &Thresholds) -> impl Iterator<Item = &Sibling<'a>> {
        self.siblings.iter().filter(move |it| self.waits_long(it, thresholds))
    }

    /// Is it much lighter than the heavy ones, and does it wait long relative to its CPU time, long enough for
    /// users to notice, and mostly behind others, not behind itself or for its quota?
    pub(super) fn waits_long(&self, unit: &Sibling<'_>, thresholds: &Thresholds) -> bool {
        unit.is_light()
            && unit.cpu_by_weight() <= thresholds.light_credit * self.heavy_cpu
            && thresholds.are_enough(unit.waits, self.during)
            && unit.wait >= thresholds.light_wait_per_cpu * unit.cpu
            && unit.p99.is_some_and(|tail| tail >= thresholds.light_wait_p99)
            && !unit.is_self_inflicted()
            && unit.throttled_share().is_none_or(|share| share < thresholds.throttled_warn)
    }
}

/// A class added up.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Class {
    pub(super) size: u64,
    /// CPU time and run-queue wait, in nanoseconds.
    pub(super) cpu: f64,
    pub(super) wait: f64,
    pub(super) waits: u64,
}

impl Class {
    pub(super) fn of<'u, 'a: 'u>(members: impl Iterator<Item = &'u Sibling<'a>>) -> Self {
        members.fold(Self::default(), |sum, member| Self {
            size: sum.size + 1,
            cpu: sum.cpu + member.cpu,
            wait: sum.wait + member.wait,
            waits: sum.waits.saturating_add(member.waits),
        })
    }
}
