//! Intervals made small, to keep many of them.
//!
//! The host, CPUs and listeners are kept as they are. A cgroup's figures are kept with the precision of
//! [`minifloat`](super::minifloat), its distributions with all their bins and exact counts while they are recent.

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
    /// The distributions. Half of all that there is, and seldom looked at: `None` for what is long ago, of which the
    /// figures have the quantiles.
    shapes: Option<Box<[u8]>>,
    /// The durations that bins of its distributions stand for.
    bins: Arc<[Nanos]>,
    /// What all roles have in common.
    fair_share: f64,
    gaining: u32,
}

/// An interval as it comes back.
#[derive(Debug)]
pub(super) struct Unpacked {
    pub(super) interval: Interval,
    pub(super) roles: HashMap<CgroupId, Role>,
    /// Whether distributions are whole, and not just their quantiles.
    pub(super) has_shapes: bool,
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
    scratch: Vec<u8>,
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
        trend.push_narrow(
            cgroups.iter().map(|cgroup| cgroup.totals.runq_wait_ns.map_or(COARSE_NONE, |it| coarse(it.0))),
        );

        let mut figures = Columns::default();
        let totals: Vec<[Option<u64>; Totals::COUNT]> = cgroups.iter().map(|cgroup| cgroup.totals.figures()).collect();
        for figure in 0..Totals::COUNT {
            figures.push(&totals.iter().map(|of| of[figure].map_or(NONE, encode)).collect::<Vec<u16>>());
        }
        let load = |cgroup: &Cgroup| {
            let load = cgroup.runnable_load?.0;
            let is_as_computed = (load - computed_load(cgroup, interval.duration_ns)).abs() <= load * 1e-6;
            // 0 for what can be computed again, which all are that were measured.
            Some(if is_as_computed { 0 } else { ((load * LOAD_UNIT).round() as u64).max(1) })
        };
        figures.push(&column(&load));
        figures.push(&column(&|cgroup| cgroup.nr_periods));
        figures.push(&column(&|cgroup| cgroup.nr_throttled));
        figures.push(&column(&|cgroup| cgroup.throttled_ns.map(|time| time.0)));
        let role = |cgroup: &Cgroup| roles.get(&cgroup.id);
        figures.push(&column(&|cgroup| role(cgroup).map(|role| u64::from(role.kind == RoleKind::Gains))));
        figures.push(&column(&|cgroup| scaled(role(cgroup).map(|role| role.wait_per_cpu), FACTOR_UNIT)));
        figures.push(&column(&|cgroup| role(cgroup).map(|role| role.wait_p99.0)));
        let bins = self.bins_for(cgroups);
        for kind in 0..KINDS {
            let fits = bins.len() <= MOST_BINS;
            let of = |cgroup: &Cgroup, say: &dyn Fn(&Distribution) -> Option<u64>| {
                kinds(cgroup)[kind].filter(|_| fits).and_then(say)
            };
            // Each column by how it differs from another that is much like it.
            let expected = column(&|cgroup| expected_count(cgroup, kind));
            figures.push(&minus(column(&|cgroup| of(cgroup, &|it| Some(it.count()))), &expected));
            let mut before = vec![0; cgroups.len()];
            for quantile in QUANTILES {
                let bin = |it: &Distribution| bins.binary_search(&it.quantile(quantile)?).ok().map(|bin| bin as u64);
                let places: Vec<u16> =
                    cgroups.iter().map(|cgroup| of(cgroup, &bin).map_or(NONE, |bin| bin as u16)).collect();
                figures.push(&minus(places.clone(), &before));
                before = places;
            }
        }

        let any_role = roles.values().next();
        let mut json = Columns::default();
        json.push_bytes(&serde_json::to_vec(&interval.without_cgroups())?);
        let scratch = &mut self.scratch;
        Ok(Packed {
            cgroups: cgroups.len(),
            rest: json.compress(scratch)?,
            trend: trend.compress(scratch)?,
            figures: figures.compress(scratch)?,
            shapes: Some(shapes(cgroups, &bins).compress(scratch)?),
            bins,
            fair_share: any_role.map_or(0.0, |role| role.fair_share),
            gaining: any_role.map_or(0, |role| role.gaining),
        })
    }

    /// The interval and its roles.
    pub(super) fn unpack(&self, packed: &Packed) -> io::Result<Unpacked> {
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
        let some = |code: u16| (code != NONE).then(|| decode(code));
        let mut distributions = match &packed.shapes {
            Some(shapes) => unpack_shapes(&mut Reading::open(shapes)?, count, &packed.bins)?,
            None => {
                let of_totals = |n: usize| Totals::from_figures(std::array::from_fn(|figure| some(totals[figure][n])));
                let cgroups: Vec<Cgroup> =
                    (0..count).map(|n| Cgroup { totals: of_totals(n), ..Cgroup::default() }).collect();
                unpack_quantiles(&mut figures, &cgroups, &packed.bins)?
            }
        };

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
            let mut cgroup = Cgroup {
                id,
                path,
                name,
                workload,
                totals: Totals::from_figures(std::array::from_fn(|figure| some(totals[figure][n]))),
                runnable_load: None,
                load_credit,
                nr_periods: some(periods[n]),
                nr_throttled: some(throttled[n]),
                throttled_ns: some(throttled_ns[n]).map(Nanos),
                switch_cost,
                runq_wait,
                accept_wait,
            };
            cgroup.runnable_load = some(loads[n]).map(|load| match load {
                0 => Tasks(computed_load(&cgroup, interval.duration_ns)),
                load => Tasks(load as f64 / LOAD_UNIT),
            });
            interval.cgroups.push(cgroup);
        }
        Ok(Unpacked { interval, roles, has_shapes: packed.shapes.is_some() })
    }

    /// What of one cgroup's history is in `packed`, an interval of `duration`; nothing where it was idle.
    pub(super) fn trend(&self, packed: &Packed, of: &[u32], duration: Nanos) -> io::Result<TrendPoint> {
        let mut trend = Reading::open(&packed.trend)?;
        let labels = trend.pull_wide(packed.cgroups)?;
        let Some(position) = labels.iter().position(|label| of.contains(label)) else {
            return Ok(TrendPoint::default());
        };
        let credit = trend.pull(packed.cgroups)?[position];
        let wait = trend.pull_bytes(packed.cgroups)?[position];
        Ok(TrendPoint {
            load_credit: (credit != NONE).then(|| decode(credit) as f64 / LOAD_UNIT),
            waiting: (wait != COARSE_NONE).then(|| Nanos(decode_coarse(wait)).cores(duration).0),
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
/// What is kept of distributions that are not kept whole: what the screen shows of them.
const QUANTILES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];

fn kinds(cgroup: &Cgroup) -> [Option<&Distribution>; KINDS] {
    [cgroup.switch_cost.as_ref(), cgroup.runq_wait.as_ref(), cgroup.accept_wait.as_ref()]
}

/// How many durations a distribution has in it if none was lost.
fn expected_count(cgroup: &Cgroup, kind: usize) -> Option<u64> {
    let totals = &cgroup.totals;
    [Some(totals.switches), totals.runq_waits, totals.accepts][kind]
}

/// How `values` differ from `others`.
fn minus(mut values: Vec<u16>, others: &[u16]) -> Vec<u16> {
    values.iter_mut().zip(others).for_each(|(value, other)| *value = value.wrapping_sub(*other));
    values
}

/// Undoes [`minus`].
fn plus(mut values: Vec<u16>, others: &[u16]) -> Vec<u16> {
    values.iter_mut().zip(others).for_each(|(value, other)| *value = value.wrapping_add(*other));
    values
}

/// What the runnable load is by its definition: docs/measures.md.
fn computed_load(cgroup: &Cgroup, duration: Nanos) -> f64 {
    (cgroup.totals.cpu_ns + cgroup.totals.runq_wait_ns.unwrap_or_default()).cores(duration).0
}

/// A figure in one byte, within an eighth: enough for a line of a sparkline.
const fn coarse(value: u64) -> u8 {
    let code = encode(value) >> 8;
    if code >= COARSE_NONE as u16 { COARSE_NONE - 1 } else { code as u8 }
}

/// Stands for what was not measured.
const COARSE_NONE: u8 = u8::MAX;

/// The middle of what [`coarse`] gives the same code to; 0 for next to nothing.
const fn decode_coarse(code: u8) -> u64 {
    if code == 0 { 0 } else { decode((code as u16) << 8 | 0x80) }
}

/// For each of the kinds: where each distribution's bins begin and how many there are. Then the counts from the first to
/// the last, those in between that are 0 included.
fn shapes(cgroups: &[Cgroup], bins: &[Nanos]) -> Columns {
    let mut columns = Columns::default();
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
    columns
}

/// Distributions that have the quantiles of those that were, and nothing else of them.
fn unpack_quantiles(
    figures: &mut Reading,
    cgroups: &[Cgroup],
    bins: &[Nanos],
) -> io::Result<Vec<[Option<Distribution>; KINDS]>> {
    let mut all = vec![[const { None }; KINDS]; cgroups.len()];
    for kind in 0..KINDS {
        let expected: Vec<u16> =
            cgroups.iter().map(|cgroup| expected_count(cgroup, kind).map_or(NONE, encode)).collect();
        let counts = plus(figures.pull(cgroups.len())?, &expected);
        let mut quantiles: Vec<Vec<u16>> = vec![vec![0; cgroups.len()]];
        for at in 0..QUANTILES.len() {
            let places = plus(figures.pull(cgroups.len())?, &quantiles[at]);
            quantiles.push(places);
        }
        let quantiles = &quantiles[1..];
        for n in (0..cgroups.len()).filter(|&n| counts[n] != NONE) {
            let count = decode(counts[n]);
            let mut below = 0;
            let mut points: Vec<(Nanos, u32)> = Vec::with_capacity(QUANTILES.len());
            for (at, quantile) in QUANTILES.iter().enumerate() {
                let is_last = at + 1 == QUANTILES.len();
                let rank = if is_last { count } else { ((count as f64 * quantile).ceil() as u64).max(1).min(count) };
                let more = u32::try_from(rank.saturating_sub(below)).unwrap_or(u32::MAX);
                below = below.max(rank);
                match (bins.get(usize::from(quantiles[at][n])), points.last_mut()) {
                    (Some(value), Some((last, sum))) if last == value => *sum = sum.saturating_add(more),
                    (Some(value), _) => points.push((*value, more)),
                    (None, _) => {}
                }
            }
            all[n][kind] = Some(Distribution::from_bins(points));
        }
    }
    Ok(all)
}

fn unpack_shapes(
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
        let shapes = self.shapes.as_ref().map_or(0, |shapes| shapes.len());
        size_of::<Self>() + self.rest.len() + self.trend.len() + self.figures.len() + shapes
    }

    /// Keeps of its distributions their quantiles alone.
    pub(super) fn forget_shapes(&mut self) {
        self.shapes = None;
    }
}
