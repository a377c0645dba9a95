//! Intervals, added up.

use std::{collections::HashMap, fmt, sync::Arc};

use super::{
    CgroupSeries, HostSeries, Labels, MetricsSnapshot, caused::Pairs, labels::Name, listeners::Listeners,
    members::Members, sampled_costs::SampledCosts,
};
use crate::{
    diagnosis::credits,
    model::{Cgroup, CgroupId, HookState, Interval, Nanos, Session, Workload},
    source::SentinelState,
};

/// Name of the sum of all cgroups without series of their own. No cgroup has this name, because paths begin with `/`.
const OTHER: &str = "other";

/// Which cgroups have series of their own, and for how long.
pub struct MetricsSettings {
    /// Is this one wanted? The others are summed.
    pub is_wanted: Box<dyn Fn(&Cgroup) -> bool + Send>,
    /// At most this many of them: those that cost most.
    pub top: usize,
    /// For how long one is still told that does not run any more.
    pub expiry: Nanos,
}

impl fmt::Debug for MetricsSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { is_wanted: _, top, expiry } = self;
        f.debug_struct("MetricsSettings").field("top", top).field("expiry", expiry).finish_non_exhaustive()
    }
}

/// Sums intervals into totals that only grow.
///
/// A series is identified by a path, not by an id. A restarted unit continues its series. A cgroup counts in its own
/// series while it has them, and otherwise in `other`. Counts never move between series. So both only grow, and their
/// rates always add up to the host's. A cgroup that gets series again restarts at 0, which Prometheus treats as a
/// counter reset.
#[derive(Debug)]
pub struct Accumulator {
    settings: MetricsSettings,
    credit_time: Nanos,
    now: Nanos,
    members: Members<Arc<str>>,
    own: HashMap<Arc<str>, Own>,
    other: Option<CgroupSeries>,
    pairs: Pairs,
    costs: SampledCosts,
    sentinel: Option<SentinelState>,
    host: HostSeries,
    listeners: Listeners,
    intervals: u64,
    /// Number of the last interval.
    last_seq: Option<u64>,
    in_other: u64,
    build: Arc<Labels>,
    hooks: Arc<Vec<Labels>>,
}

/// Series of a cgroup, and its names when they got their labels.
#[derive(Debug)]
struct Own {
    series: Arc<CgroupSeries>,
    workload: Option<Arc<Workload>>,
}

impl Accumulator {
    /// Nothing yet of what `session` measures.
    pub fn new(session: &Session, settings: MetricsSettings) -> Self {
        Self {
            members: Members::new(settings.top),
            settings,
            credit_time: session.load_credit_time_ns,
            now: Nanos::ZERO,
            own: HashMap::new(),
            other: None,
            pairs: Pairs::new(),
            costs: SampledCosts::default(),
            sentinel: None,
            host: HostSeries::default(),
            listeners: Listeners::default(),
            intervals: 0,
            last_seq: None,
            in_other: 0,
            build: Labels::new([("version", session.lagstop_version.as_str().into())]).into(),
            hooks: Arc::new(session.hooks.iter().map(hook).collect()),
        }
    }

    /// Takes in what a sentinel has seen.
    pub fn watched(&mut self, now: SentinelState) {
        if !now.is_attached {
            self.forget_gauges();
        }
        self.sentinel = Some(now);
    }

    /// Forgets the values of gauges, because nothing is measured now.
    fn forget_gauges(&mut self) {
        let Self { own, other, host, listeners, .. } = self;
        own.values_mut().for_each(|own| Arc::make_mut(&mut own.series).forget_gauges());
        if let Some(other) = other {
            other.forget_gauges();
        }
        (host.active, host.runnable_per_cpu) = (None, None);
        listeners.forget_gauges();
    }

    /// Learns switch costs from `interval`, or estimates them if switches were not timed in it. Must be called before
    /// [`Self::add`].
    pub fn complete(&mut self, interval: Interval) -> Interval {
        self.costs.complete(interval)
    }

    pub fn add(&mut self, interval: &Interval) {
        // Pieces of an interval have its number.
        self.intervals += u64::from(self.last_seq.replace(interval.seq) != Some(interval.seq));
        self.now = self.now.saturating_add(interval.duration_ns);
        self.host.add(interval);
        self.listeners.add(interval, self.now, self.settings.expiry);
        self.change_members(interval);
        let keep = (-interval.duration_ns.seconds() / self.credit_time.seconds()).exp();
        self.own.values_mut().for_each(|own| Arc::make_mut(&mut own.series).rest(keep));
        if let Some(other) = &mut self.other {
            // Idle members of this sum are not tracked: the credit would only be that of those that ran.
            (other.load_credit, other.threads) = (None, Some(0));
        }
        let (rated, fair_share) = credits(interval);
        let rated: HashMap<CgroupId, f64> = rated.into_iter().collect();
        self.in_other = 0;
        for cgroup in &interval.cgroups {
            let is_light = rated.get(&cgroup.id).map(|credit| *credit < fair_share);
            match self.own.get_mut(&cgroup.path).filter(|_| cgroup.id != CgroupId::OTHER) {
                Some(own) => own.add(cgroup, is_light),
                None => self.add_to_other(cgroup),
            }
        }
        self.add_pairs(interval);
    }

    /// By now names are known, so both cgroups of a pair are named as in their own series.
    fn add_pairs(&mut self, interval: &Interval) {
        let Self { own, pairs, settings, .. } = self;
        let name = |cgroup: &Cgroup| {
            let (path, own) = own.get_key_value(&cgroup.path).filter(|_| cgroup.id != CgroupId::OTHER)?;
            Some(Name { path: Arc::clone(path), workload: own.workload.clone() })
        };
        let other = Name { path: OTHER.into(), workload: None };
        pairs.add(interval, self.now, settings.expiry, name, &other);
    }

    /// Decides who has series of its own in this interval.
    fn change_members(&mut self, interval: &Interval) {
        let Self { settings, members, own, pairs, .. } = self;
        let is_wanted = |cgroup: &&Cgroup| cgroup.id != CgroupId::OTHER && (settings.is_wanted)(cgroup);
        let wanted = interval.cgroups.iter().filter(is_wanted).map(|cgroup| (&cgroup.path, cost(cgroup)));
        let changes = members.advance(self.now, interval.duration_ns, settings.expiry, wanted);
        pairs.forget(&changes.gone);
        for path in changes.gone {
            own.remove(&path);
        }
        for path in changes.come {
            let labels = Labels::of_cgroup(&path, None).into();
            own.insert(path, Own { series: CgroupSeries::new(labels).into(), workload: None });
        }
    }

    fn add_to_other(&mut self, cgroup: &Cgroup) {
        let new = || CgroupSeries::new(Labels::of_cgroup(&OTHER.into(), None).into());
        let other = self.other.get_or_insert_with(new);
        other.add(cgroup);
        other.files.add_beside(&other.served_files(cgroup));
        if let Some(credit) = cgroup.load_credit {
            other.load_credit = Some(other.load_credit.unwrap_or(0.0) + credit.0);
        }
        self.in_other += u64::from(cgroup.id != CgroupId::OTHER);
    }

    /// All current series, without the time of day.
    pub fn snapshot(&self) -> MetricsSnapshot {
        let mut own: Vec<(&Arc<str>, &Own)> = self.own.iter().collect();
        own.sort_unstable_by_key(|(path, _)| *path);
        let own = own.into_iter().map(|(_, own)| Arc::clone(&own.series));
        MetricsSnapshot {
            build: Arc::clone(&self.build),
            hooks: Arc::clone(&self.hooks),
            host: self.host.clone(),
            cgroups: self.other.clone().map(Arc::new).into_iter().chain(own).collect(),
            caused: self.pairs.series(),
            listeners: self.listeners.series(),
            overflows: self.listeners.overflows(),
            intervals: self.intervals,
            sentinel: self.sentinel.clone(),
            timed_intervals: self.costs.timed(),
            switch_cost_error: self.costs.relative_standard_error(),
            taken_in: Nanos::ZERO,
            exported: self.own.len() as u64,
            in_other: self.in_other,
            listeners_left_out: self.listeners.left_out(),
        }
    }
}

impl Own {
    fn add(&mut self, cgroup: &Cgroup, is_light: Option<bool>) {
        let series = Arc::make_mut(&mut self.series);
        // Names may become known late, and then stay.
        if cgroup.workload.is_some() && cgroup.workload != self.workload {
            self.workload.clone_from(&cgroup.workload);
            series.labels = Labels::of_cgroup(&cgroup.path, self.workload.as_deref()).into();
        }
        series.add(cgroup);
        series.files.add_known(&series.served_files(cgroup));
        series.load_credit = cgroup.load_credit.map(|credit| credit.0).or(series.load_credit);
        series.is_light = is_light.or(series.is_light);
        series.quota = cgroup.quota_ns;
    }
}

/// The cost by which cgroups are ranked for series of their own: use, waits and switch cost.
fn cost(cgroup: &Cgroup) -> f64 {
    let totals = &cgroup.totals;
    let time = totals.cpu_ns.saturating_add(totals.runq_wait_ns.unwrap_or_default());
    time.saturating_add(totals.switch_cost().unwrap_or_default()).0 as f64
}

fn hook(hook: &crate::model::Hook) -> Labels {
    let state = match hook.state {
        HookState::On => "on",
        HookState::Off => "off",
    };
    Labels::new([
        ("hook", hook.name.as_str().into()),
        ("state", state.into()),
        ("way", hook.way.as_deref().unwrap_or_default().into()),
        ("measures", hook.measures.join(", ").into()),
        ("detail", hook.detail.as_str().into()),
    ])
}
