//! Intervals made small, to keep many of them.
//!
//! The host, CPUs and listeners are kept as they are. A cgroup's figures are kept with the precision of
//! [`minifloat`](super::minifloat), its distributions with all their bins and exact counts while they are recent.
//!
//! Recordings are packed in another way, which would take too much here, room and time. Ten minutes of 2,500 busy cgroups
//! (`benches/dense`) take 40 MiB as they are packed here. In the columns of recordings, each interval compressed by itself, they
//! take 66 MiB, and 57 MiB where only the quantiles are kept of distributions older than 60 intervals: `lagstop top` is to have
//! 80 MiB at most, and takes 17 of them on a host with one cgroup and no history. Sparklines show one cgroup in 240 intervals: to
//! find it in all columns of one takes 25 ms in a build for tests, in what is kept apart for that 0.7 ms.

use std::{collections::HashMap, io};

use super::{
    columns::{Columns, Reading},
    distributions::{pull_quantiles, pull_shapes, push_quantiles, shapes},
    labels::{Label, Labels},
    minifloat::{NONE, decode, encode},
};
use crate::{
    diagnosis::{Role, RoleKind},
    model::{Cgroup, CgroupId, FileCounters, Interval, Nanos, Tasks, Totals, WaitBehind},
};

/// Loads and CPU time are kept in millionths of a task and of a core.
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
    /// The distributions: half of the data, and seldom looked at. `None` for intervals of long ago, whose figures have the
    /// quantiles.
    shapes: Option<Box<[u8]>>,
    /// What all roles have in common.
    mean_cpu: f64,
    gaining: u32,
}

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
            let computed = cgroup.totals.runnable_load(interval.duration_ns);
            let is_as_computed = computed.is_some_and(|computed| (load - computed.0).abs() <= load * 1e-6);
            // 0 stands for a load that can be computed again, as all measured ones can.
            Some(if is_as_computed { 0 } else { ((load * LOAD_UNIT).round() as u64).max(1) })
        };
        figures.push(&column(&load));
        let files: Vec<[Option<u64>; FileCounters::COUNT]> =
            cgroups.iter().map(|cgroup| cgroup.files.figures()).collect();
        for figure in 0..FileCounters::COUNT {
            figures.push(&files.iter().map(|of| of[figure].map_or(NONE, encode)).collect::<Vec<u16>>());
        }
        figures.push(&column(&|cgroup| cgroup.quota_ns.map(|time| time.0)));
        let role = |cgroup: &Cgroup| roles.get(&cgroup.id);
        figures.push(&column(&|cgroup| role(cgroup).map(|role| u64::from(role.kind == RoleKind::Gains))));
        figures.push(&column(&|cgroup| scaled(role(cgroup).map(|role| role.cpu), LOAD_UNIT)));
        figures.push(&column(&|cgroup| scaled(role(cgroup).map(|role| role.wait_per_cpu), FACTOR_UNIT)));
        figures.push(&column(&|cgroup| role(cgroup).map(|role| role.wait_p99.0)));
        for nth in 0..WaitBehind::NAMED {
            let behind = |cgroup: &Cgroup| cgroup.waits_behind.get(nth).copied();
            let place = |one: WaitBehind| cgroups.binary_search_by_key(&one.id, |cgroup| cgroup.id).ok();
            let place = |cgroup: &Cgroup| place(behind(cgroup)?)?.try_into().ok();
            figures.push(&cgroups.iter().map(|cgroup| place(cgroup).unwrap_or(NONE)).collect::<Vec<u16>>());
            figures.push(&column(&|cgroup| behind(cgroup).map(|one| one.wait_ns.0)));
        }
        push_quantiles(&mut figures, cgroups);

        let any_role = roles.values().next();
        let mut json = Columns::default();
        json.push_bytes(&serde_json::to_vec(&interval.with_cgroups(Vec::<Cgroup>::new()))?);
        let scratch = &mut self.scratch;
        Ok(Packed {
            cgroups: cgroups.len(),
            rest: json.compress(scratch)?,
            trend: trend.compress(scratch)?,
            figures: figures.compress(scratch)?,
            shapes: Some(shapes(cgroups).compress(scratch)?),
            mean_cpu: any_role.map_or(0.0, |role| role.mean_cpu),
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
        let loads = figures.pull(count)?;
        let files: Vec<Vec<u16>> = (0..FileCounters::COUNT).map(|_| figures.pull(count)).collect::<Result<_, _>>()?;
        let quotas = figures.pull(count)?;
        let mut next = || figures.pull(count);
        let (kinds, cores, waits, tails) = (next()?, next()?, next()?, next()?);
        let behind: Vec<[Vec<u16>; 2]> =
            (0..WaitBehind::NAMED).map(|_| Ok([next()?, next()?])).collect::<io::Result<_>>()?;
        let some = |code: u16| (code != NONE).then(|| decode(code));
        let mut distributions = match &packed.shapes {
            Some(shapes) => pull_shapes(&mut Reading::open(shapes)?, count)?,
            None => {
                let of_totals = |n: usize| Totals::from_figures(std::array::from_fn(|figure| some(totals[figure][n])));
                let cgroups: Vec<Cgroup> =
                    (0..count).map(|n| Cgroup { totals: of_totals(n), ..Cgroup::default() }).collect();
                pull_quantiles(&mut figures, &cgroups)?
            }
        };

        let mut roles = HashMap::new();
        interval.cgroups.reserve_exact(count);
        for n in 0..count {
            let Some(Label { id, path, name, workload, levels, cpus }) = self.labels.get(labels[n]).cloned() else {
                continue;
            };
            let load_credit = some(credits[n]).map(|credit| Tasks(credit as f64 / LOAD_UNIT));
            if let Some(kind) = some(kinds[n]) {
                let role = Role {
                    kind: if kind == 1 { RoleKind::Gains } else { RoleKind::Pays },
                    cpu: some(cores[n]).unwrap_or_default() as f64 / LOAD_UNIT,
                    mean_cpu: packed.mean_cpu,
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
                levels,
                cpus,
                totals: Totals::from_figures(std::array::from_fn(|figure| some(totals[figure][n]))),
                waits_behind: behind
                    .iter()
                    .filter_map(|[places, waits]| {
                        let label = labels.get(usize::from(places[n]))?;
                        Some(WaitBehind { id: self.labels.get(*label)?.id, wait_ns: Nanos(some(waits[n])?) })
                    })
                    .collect(),
                runnable_load: None,
                load_credit,
                entitled_cpu: None,
                files: FileCounters::from_figures(std::array::from_fn(|figure| some(files[figure][n]))),
                quota_ns: some(quotas[n]).map(Nanos),
                switch_cost,
                runq_wait,
                accept_wait,
            };
            cgroup.runnable_load = some(loads[n]).and_then(|load| match load {
                0 => cgroup.totals.runnable_load(interval.duration_ns),
                load => Some(Tasks(load as f64 / LOAD_UNIT)),
            });
            interval.cgroups.push(cgroup);
        }
        Ok(Unpacked { interval, roles, has_shapes: packed.shapes.is_some() })
    }

    /// One cgroup's history in `packed`, an interval of `duration`. Empty if it was idle.
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

    /// What was known last of a cgroup.
    pub(super) fn label(&self, id: CgroupId) -> Option<&Label> {
        self.labels.last_of(id)
    }

    /// Forgets what only intervals before the `n`th need.
    pub(super) fn forget(&mut self, n: u64) {
        self.labels.forget(n);
    }
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

impl Packed {
    /// Bytes that it takes.
    pub(super) fn len(&self) -> usize {
        let shapes = self.shapes.as_ref().map_or(0, |shapes| shapes.len());
        size_of::<Self>() + self.rest.len() + self.trend.len() + self.figures.len() + shapes
    }

    /// Keeps only the quantiles of its distributions.
    pub(super) fn forget_shapes(&mut self) {
        self.shapes = None;
    }
}
