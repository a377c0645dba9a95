//! Waits on full CPUs while others are idle.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::model::{CgroupId, Cpu, Group, Interval, Nanos};

/// The waits of one cgroup on full CPUs.
#[derive(Clone, Debug, Default)]
pub(in crate::diagnosis) struct Crowded {
    pub(in crate::diagnosis) wait_ns: Nanos,
    /// Intervals in which it waited so, and those of them in which its CPU set was full.
    pub(in crate::diagnosis) intervals: u64,
    pub(in crate::diagnosis) in_full_set: u64,
    cpus: BTreeSet<u32>,
    /// Idle time of all CPUs in these intervals, and the length of the intervals.
    idle_ns: f64,
    during_ns: f64,
}

/// A CPU is full that was busy for this share of an interval. Chosen: one may be idle for moments before it takes a task from
/// another.
const FULL: f64 = 0.95;
/// Cores that must be idle meanwhile for a wait to be needless: one, as a task takes; half of one if there are only two CPUs,
/// as one of them is full.
const IDLE: f64 = 1.0;
/// This share of the CPUs must be idle as well, which matters if there are more than twenty. Chosen: one in twenty.
const IDLE_PART: f64 = 0.05;

impl Crowded {
    /// The most full CPUs that are remembered.
    pub(in crate::diagnosis) const MOST_CPUS: usize = 64;

    /// The full CPUs on which it waited.
    pub(in crate::diagnosis) fn cpus(&self) -> impl ExactSizeIterator<Item = u32> {
        self.cpus.iter().copied()
    }

    /// Idle CPUs during these waits.
    pub(in crate::diagnosis) fn idle_cores(&self) -> f64 {
        if self.during_ns > 0.0 { self.idle_ns / self.during_ns } else { 0.0 }
    }

    pub(super) fn add(&mut self, needless: &Needless) {
        self.intervals += 1;
        self.in_full_set += u64::from(needless.is_full_set);
        self.wait_ns = self.wait_ns.saturating_add(needless.wait);
        let more = Self::MOST_CPUS.saturating_sub(self.cpus.len());
        self.cpus.extend(needless.cpus.iter().take(more));
        self.idle_ns += needless.idle_ns;
        self.during_ns += needless.during_ns;
    }
}

/// Waits of a cgroup on full CPUs in an interval in which others were idle.
#[derive(Debug)]
pub(super) struct Needless {
    cpus: Vec<u32>,
    wait: Nanos,
    /// Its CPU set was full.
    is_full_set: bool,
    idle_ns: f64,
    during_ns: f64,
}

/// These waits of each cgroup that is named among those that crowd a full CPU, or whose CPU set is full.
pub(super) fn needless(interval: &Interval) -> BTreeMap<CgroupId, Needless> {
    // The idle rest of a full CPU does not count as room.
    let idle_ns = interval.cpus.iter().filter(|cpu| !is_full(cpu)).map(idle).sum::<f64>();
    let (during_ns, count) = (interval.duration_ns.0 as f64, interval.cpus.len());
    let enough = if count > 2 { IDLE.max(IDLE_PART * count as f64) } else { IDLE / 2.0 };
    let mut needless: BTreeMap<CgroupId, Needless> = BTreeMap::new();
    if idle_ns < enough * during_ns {
        return needless;
    }
    for cpu in interval.cpus.iter().filter(|cpu| is_full(cpu)) {
        for one in &cpu.crowd {
            if let Some(wait) = one.runq_wait_ns.filter(|wait| *wait > Nanos::ZERO) {
                let of_one =
                    || Needless { cpus: Vec::new(), wait: Nanos::ZERO, is_full_set: false, idle_ns, during_ns };
                let needless = needless.entry(one.id).or_insert_with(of_one);
                needless.cpus.push(cpu.cpu);
                needless.wait = needless.wait.saturating_add(wait);
            }
        }
    }
    // If all CPUs that it may use are full, it cannot have waited anywhere else.
    let online: Vec<u32> = interval.cpus.iter().map(|cpu| cpu.cpu).collect();
    let mut full_sets: HashMap<&str, Option<Vec<u32>>> = HashMap::new();
    for cgroup in &interval.cgroups {
        let (Some(allowed), Some(wait)) = (cgroup.cpus.as_deref(), cgroup.totals.runq_wait_ns) else { continue };
        let cpus = full_sets.entry(allowed).or_insert_with(|| {
            let allowed = Group::allowed(allowed, &online);
            let of_set =
                || interval.cpus.iter().zip(&allowed).filter(|(_, is_allowed)| **is_allowed).map(|(cpu, _)| cpu);
            (!allowed.is_empty() && are_full(of_set())).then(|| of_set().map(|cpu| cpu.cpu).collect())
        });
        if let Some(cpus) = cpus.as_ref().filter(|_| wait > Nanos::ZERO) {
            needless.insert(cgroup.id, Needless { cpus: cpus.clone(), wait, is_full_set: true, idle_ns, during_ns });
        }
    }
    needless
}

fn idle(cpu: &Cpu) -> f64 {
    cpu.totals.idle_ns.0 as f64
}

fn is_full(cpu: &Cpu) -> bool {
    are_full(std::iter::once(cpu))
}

/// Are the CPUs full together? One of them may be idle for a moment before it takes a task from another.
fn are_full<'c>(cpus: impl Iterator<Item = &'c Cpu>) -> bool {
    let time = cpus.fold((0.0, 0.0), |(busy, all), cpu| {
        let of_one = cpu.totals.busy_ns.0 as f64;
        (busy + of_one, all + of_one + idle(cpu))
    });
    time.0 > 0.0 && time.0 >= FULL * time.1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Cgroup, CpuTotals, Crowding, Totals};

    fn cpu(cpu: u32, busy_ms: u64, waits: &[(u64, u64)]) -> Cpu {
        let ms = |ms: u64| Nanos(ms * 1_000_000);
        let one = |&(id, wait): &(u64, u64)| Crowding { id: CgroupId(id), cpu_ns: ms(1), runq_wait_ns: Some(ms(wait)) };
        let totals = CpuTotals { busy_ns: ms(busy_ms), idle_ns: ms(1_000 - busy_ms), ..CpuTotals::default() };
        Cpu { cpu, totals, crowd: waits.iter().map(one).collect() }
    }

    fn waited(cpus: Vec<Cpu>) -> Vec<(u64, Nanos)> {
        let interval = Interval { duration_ns: Nanos::SECOND, cpus, ..Interval::default() };
        needless(&interval).into_iter().map(|(id, one)| (id.0, one.wait)).collect()
    }

    #[test]
    fn waits_on_full_cpus_are_needless_while_others_are_idle() {
        let ms = |ms: u64| Nanos(ms * 1_000_000);
        assert_eq!(waited(vec![cpu(0, 990, &[(7, 800), (8, 0)]), cpu(1, 100, &[(9, 5)])]), [(7, ms(800))]);
        assert_eq!(waited(vec![cpu(0, 990, &[(7, 800)]), cpu(1, 600, &[])]), [], "the other is used, too");
        let four =
            |last| vec![cpu(0, 1_000, &[(7, 9)]), cpu(1, 960, &[(7, 8), (8, 3)]), cpu(2, 500, &[]), cpu(3, last, &[])];
        assert_eq!(waited(four(499)), [(7, ms(17)), (8, ms(3))]);
        assert_eq!(waited(four(600)), [], "half of two CPUs is not one");
        assert_eq!(waited(Vec::new()), []);
    }

    /// A busy partition has more cgroups than a CPU names.
    #[test]
    fn where_a_cpu_set_is_full_all_waits_of_its_cgroups_are_needless() {
        let waiting = |(id, cpus): (u64, &str)| Cgroup {
            id: CgroupId(id),
            cpus: Some(cpus.into()),
            totals: Totals { runq_wait_ns: Some(Nanos(id)), ..Totals::default() },
            ..Cgroup::default()
        };
        let cpus = vec![cpu(0, 1_000, &[]), cpu(1, 990, &[]), cpu(2, 100, &[]), cpu(3, 100, &[])];
        let cgroups = [(7, "0-1"), (8, "1-2"), (9, "0-3"), (10, "1")].map(waiting).into();
        let interval = Interval { duration_ns: Nanos::SECOND, cpus, cgroups, ..Interval::default() };
        let found: Vec<(u64, Vec<u32>, Nanos)> =
            needless(&interval).into_iter().map(|(id, one)| (id.0, one.cpus, one.wait)).collect();
        assert_eq!(found, [(7, vec![0, 1], Nanos(7)), (10, vec![1], Nanos(10))]);
        assert!(needless(&interval).values().all(|one| one.is_full_set));
    }

    #[test]
    fn intervals_are_added_up() {
        let interval = Interval {
            duration_ns: Nanos::SECOND,
            cpus: vec![cpu(0, 990, &[(7, 800)]), cpu(1, 190, &[])],
            ..Interval::default()
        };
        let mut crowded = Crowded::default();
        for needless in [needless(&interval), needless(&interval)] {
            crowded.add(&needless[&CgroupId(7)]);
        }
        assert_eq!((crowded.wait_ns, crowded.intervals), (Nanos(1_600_000_000), 2));
        assert_eq!((crowded.cpus().collect::<Vec<_>>(), crowded.idle_cores()), (vec![0], 0.81));
    }
}
