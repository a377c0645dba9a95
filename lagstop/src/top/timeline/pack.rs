//! Intervals made small, to keep many of them.
//!
//! The host, CPUs and listeners are kept as they are. A cgroup's figures are kept with the precision of
//! [`minifloat`](super::minifloat), its distributions with all their bins and exact counts.

use std::{collections::HashMap, io, sync::Arc};

use super::{
    columns::{Columns, Reading},
    labels::{Label, Labels},
    minifloat::{NONE, decode, encode},
};
use crate::{
    diagnosis::{Role, RoleKind},
    model::{Cgroup, CgroupId, Distribution, Interval, Nanos, Tasks, Totals},
};

/// Loads are kept in millionths of a task.
const LOAD_UNIT: f64 = 1e6;
/// Factors are kept in thousandths.
const FACTOR_UNIT: f64 = 1e3;

/// An interval, made small.
#[derive(Debug)]
pub(super) struct Packed {
    cgroups: usize,
    /// Everything but the cgroups, as JSON.
    rest: Box<[u8]>,
    /// What the history of one cgroup is made of, apart from the rest so that it can be read for many intervals at once.
    trend: Box<[u8]>,
    figures: Box<[u8]>,
    /// The durations that bins of its distributions stand for.
    bins: Arc<[Nanos]>,
    /// What all roles have in common.
    fair_share: f64,
    gaining: u32,
}

/// One cgroup in one interval, as its history shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(in crate::top) struct TrendPoint {
    pub(in crate::top) load_credit: Option<f64>,
    /// Tasks waiting on average.
    pub(in crate::top) waiting: Option<f64>,
}

/// Packs and unpacks, with what packed intervals share.
#[derive(Debug, Default)]
pub(super) struct Packer {
    labels: Labels,
    bins: Option<Arc<[Nanos]>>,
}

impl Packer {
    /// Packs the `n`th interval.
    pub(super) fn pack(&mut self, n: u64, interval: &Interval, roles: &HashMap<CgroupId, Role>) -> io::Result<Packed> {
        let cgroups = &interval.cgroups;
        let column = |figure: &dyn Fn(&Cgroup) -> Option<u64>| -> Vec<u16> {
            cgroups.iter().map(|cgroup| figure(cgroup).map_or(NONE, encode)).collect()
        };
        let scaled = |value: Option<f64>, unit: f64| value.map(|value| (value * unit).round() as u64);

        let mut trend = Columns::default();
        trend.push_wide(&cgroups.iter().map(|cgroup| self.labels.number(cgroup, n)).collect::<Vec<u32>>());
        trend.push(&column(&|cgroup| scaled(cgroup.load_credit.map(|credit| credit.0), LOAD_UNIT)));
        trend.push(&column(&|cgroup| cgroup.totals.runq_wait_ns.map(|wait| wait.0)));

        let mut figures = Columns::default();
        let totals: Vec<[Option<u64>; Totals::COUNT]> = cgroups.iter().map(|cgroup| cgroup.totals.figures()).collect();
        for figure in 0..Totals::COUNT {
            figures.push(&totals.iter().map(|of| of[figure].map_or(NONE, encode)).collect::<Vec<u16>>());
        }
        figures.push(&column(&|cgroup| scaled(cgroup.runnable_load.map(|load| load.0), LOAD_UNIT)));
        figures.push(&column(&|cgroup| cgroup.nr_periods));
        figures.push(&column(&|cgroup| cgroup.nr_throttled));
        figures.push(&column(&|cgroup| cgroup.throttled_ns.map(|time| time.0)));
        let role = |cgroup: &Cgroup| roles.get(&cgroup.id);
        figures.push(&column(&|cgroup| role(cgroup).map(|role| u64::from(role.kind == RoleKind::Gains))));
        figures.push(&column(&|cgroup| scaled(role(cgroup).map(|role| role.wait_per_cpu), FACTOR_UNIT)));
        figures.push(&column(&|cgroup| role(cgroup).map(|role| role.wait_p99.0)));
        let bins = self.pack_distributions(cgroups, &mut figures);

        let any_role = roles.values().next();
        let mut json = Columns::default();
        json.push_bytes(&serde_json::to_vec(&interval.without_cgroups())?);
        Ok(Packed {
            cgroups: cgroups.len(),
            rest: json.compress()?,
            trend: trend.compress()?,
            figures: figures.compress()?,
            bins,
            fair_share: any_role.map_or(0.0, |role| role.fair_share),
            gaining: any_role.map_or(0, |role| role.gaining),
        })
    }

    /// The interval and its roles.
    pub(super) fn unpack(&self, packed: &Packed) -> io::Result<(Interval, HashMap<CgroupId, Role>)> {
        let count = packed.cgroups;
        let mut interval: Interval = serde_json::from_slice(Reading::open(&packed.rest)?.rest())?;
        let mut trend = Reading::open(&packed.trend)?;
        let labels = trend.pull_wide(count)?;
        let credits = trend.pull(count)?;
        let mut figures = Reading::open(&packed.figures)?;
        let totals: Vec<Vec<u16>> = (0..Totals::COUNT).map(|_| figures.pull(count)).collect::<Result<_, _>>()?;
        let mut next = || figures.pull(count);
        let (loads, periods, throttled, throttled_ns) = (next()?, next()?, next()?, next()?);
        let (kinds, waits, tails) = (next()?, next()?, next()?);
        let mut distributions = unpack_distributions(&mut figures, count, &packed.bins)?;

        let some = |code: u16| (code != NONE).then(|| decode(code));
        let mut roles = HashMap::new();
        interval.cgroups.reserve_exact(count);
        for n in 0..count {
            let Some(Label { id, path, name, workload }) = self.labels.get(labels[n]).cloned() else { continue };
            let load_credit = some(credits[n]).map(|credit| Tasks(credit as f64 / LOAD_UNIT));
            if let Some(kind) = some(kinds[n]) {
                let role = Role {
                    kind: if kind == 1 { RoleKind::Gains } else { RoleKind::Pays },
                    credit: load_credit.unwrap_or_default().0,
                    fair_share: packed.fair_share,
                    wait_per_cpu: some(waits[n]).unwrap_or_default() as f64 / FACTOR_UNIT,
                    wait_p99: Nanos(some(tails[n]).unwrap_or_default()),
                    gaining: packed.gaining,
                };
                roles.insert(id, role);
            }
            let [switch_cost, runq_wait, accept_wait] = std::mem::take(&mut distributions[n]);
            interval.cgroups.push(Cgroup {
                id,
                path,
                name,
                workload,
                totals: Totals::from_figures(std::array::from_fn(|figure| some(totals[figure][n]))),
                runnable_load: some(loads[n]).map(|load| Tasks(load as f64 / LOAD_UNIT)),
                load_credit,
                nr_periods: some(periods[n]),
                nr_throttled: some(throttled[n]),
                throttled_ns: some(throttled_ns[n]).map(Nanos),
                switch_cost,
                runq_wait,
                accept_wait,
            });
        }
        Ok((interval, roles))
    }

    /// What of one cgroup's history is in `packed`, an interval of `duration`; nothing where it was idle.
    pub(super) fn trend(&self, packed: &Packed, of: &[u32], duration: Nanos) -> io::Result<TrendPoint> {
        let mut trend = Reading::open(&packed.trend)?;
        let labels = trend.pull_wide(packed.cgroups)?;
        let Some(position) = labels.iter().position(|label| of.contains(label)) else {
            return Ok(TrendPoint::default());
        };
        let [credit, wait] = [trend.pull(packed.cgroups)?[position], trend.pull(packed.cgroups)?[position]]
            .map(|code| (code != NONE).then(|| decode(code)));
        Ok(TrendPoint {
            load_credit: credit.map(|credit| credit as f64 / LOAD_UNIT),
            waiting: wait.map(|wait| Nanos(wait).cores(duration).0),
        })
    }

    /// The numbers of a cgroup's labels, for [`Self::trend`].
    pub(super) fn labels_of(&self, id: CgroupId) -> Vec<u32> {
        self.labels.of(id)
    }

    /// Forgets what only intervals before the `n`th need.
    pub(super) fn forget(&mut self, n: u64) {
        self.labels.forget(n);
    }

    /// Writes, for each of the three kinds, where each distribution's bins begin and how many there are, and then the
    /// counts from the first to the last, those in between that are 0 included.
    fn pack_distributions(&mut self, cgroups: &[Cgroup], columns: &mut Columns) -> Arc<[Nanos]> {
        let bins = self.bins_for(cgroups);
        let mut counts = Vec::new();
        for kind in 0..KINDS {
            let (mut firsts, mut lengths) = (Vec::with_capacity(cgroups.len()), Vec::with_capacity(cgroups.len()));
            for cgroup in cgroups {
                let Some(distribution) = kinds(cgroup)[kind].filter(|_| bins.len() <= MOST_BINS) else {
                    firsts.push(NONE);
                    lengths.push(0);
                    continue;
                };
                let mut first = None;
                let mut next = 0;
                for (value, count) in distribution.bins() {
                    let at = bins.partition_point(|bin| *bin < value);
                    let gap = if first.is_some() { at - next } else { 0 };
                    first.get_or_insert(at);
                    counts.resize(counts.len() + gap, 0);
                    push_varint(&mut counts, count);
                    next = at + 1;
                }
                let first = first.unwrap_or(0);
                firsts.push(first as u16);
                lengths.push((next.max(first) - first) as u16);
            }
            columns.push(&firsts);
            columns.push(&lengths);
        }
        columns.push_bytes(&counts);
        bins
    }

    /// A table of all durations that bins of `cgroups` stand for: the one before, unless it lacks some.
    fn bins_for(&mut self, cgroups: &[Cgroup]) -> Arc<[Nanos]> {
        let known = self.bins.clone().unwrap_or_default();
        let known = if known.len() < MOST_BINS / 2 { known } else { Arc::default() };
        let is_new = |value: &Nanos| known.binary_search(value).is_err();
        let all = cgroups.iter().flat_map(kinds).flatten().flat_map(Distribution::bins).map(|(value, _)| value);
        let mut new: Vec<Nanos> = all.filter(is_new).collect();
        let bins = if new.is_empty() {
            known
        } else {
            new.extend_from_slice(&known);
            new.sort_unstable();
            new.dedup();
            new.into()
        };
        self.bins = Some(Arc::clone(&bins));
        bins
    }
}

/// Bins that can be told apart. Measured here there are some hundred; only a recording made by hand can have more than
/// this in one interval, whose distributions are left out then.
const MOST_BINS: usize = NONE as usize;
/// Distributions of a cgroup.
const KINDS: usize = 3;

fn kinds(cgroup: &Cgroup) -> [Option<&Distribution>; KINDS] {
    [cgroup.switch_cost.as_ref(), cgroup.runq_wait.as_ref(), cgroup.accept_wait.as_ref()]
}

fn unpack_distributions(
    columns: &mut Reading,
    count: usize,
    bins: &[Nanos],
) -> io::Result<Vec<[Option<Distribution>; KINDS]>> {
    let mut places = Vec::with_capacity(KINDS);
    for _ in 0..KINDS {
        places.push((columns.pull(count)?, columns.pull(count)?));
    }
    let mut all = vec![[const { None }; KINDS]; count];
    let mut counts = columns.rest();
    for (kind, (firsts, lengths)) in places.into_iter().enumerate() {
        for (n, (first, length)) in firsts.into_iter().zip(lengths).enumerate() {
            if first == NONE {
                continue;
            }
            let mut found = Vec::with_capacity(length.into());
            for bin in first..first + length {
                let count = pull_varint(&mut counts).ok_or(io::ErrorKind::UnexpectedEof)?;
                if let (1.., Some(value)) = (count, bins.get(usize::from(bin))) {
                    found.push((*value, count));
                }
            }
            all[n][kind] = Some(Distribution::from_bins(found));
        }
    }
    Ok(all)
}

/// Seven bits a byte, the lowest first; the highest bit says that there are more.
fn push_varint(bytes: &mut Vec<u8>, mut value: u32) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

fn pull_varint(bytes: &mut &[u8]) -> Option<u32> {
    let mut value = 0;
    for shift in (0..32).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u32::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

impl Packed {
    /// Bytes that it takes.
    pub(super) fn len(&self) -> usize {
        size_of::<Self>() + self.rest.len() + self.trend.len() + self.figures.len()
    }
}
