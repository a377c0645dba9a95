//! Waits on full CPUs while others are idle.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::model::{CgroupId, Cpu, Interval, Nanos};

/// Those of one cgroup.
#[derive(Clone, Debug, Default)]
pub(in crate::diagnosis) struct Crowded {
    pub(in crate::diagnosis) wait_ns: Nanos,
    /// Intervals in which it waited so.
    pub(in crate::diagnosis) intervals: u64,
    cpus: BTreeSet<u32>,
    /// Idle time of all CPUs in these intervals, and how long they were.
    idle_ns: f64,
    during_ns: f64,
}

/// A CPU that was busy for this part of an interval is full.
const FULL: f64 = 0.95;
/// CPUs that must be idle meanwhile for a wait to be needless: one, or half of one where there are but two.
const IDLE: f64 = 1.0;
/// And this part of them, where there are many.
const IDLE_PART: f64 = 0.05;

impl Crowded {
    /// Full CPUs that are remembered.
    pub(in crate::diagnosis) const MOST_CPUS: usize = 64;

    /// The full CPUs on which it waited.
    pub(in crate::diagnosis) fn cpus(&self) -> impl ExactSizeIterator<Item = u32> {
        self.cpus.iter().copied()
    }

    /// CPUs that were idle meanwhile.
    pub(in crate::diagnosis) fn idle_cores(&self) -> f64 {
        if self.during_ns > 0.0 { self.idle_ns / self.during_ns } else { 0.0 }
    }

    pub(super) fn add(&mut self, needless: &Needless) {
        self.intervals += 1;
        self.wait_ns = self.wait_ns.saturating_add(needless.waits.iter().map(|(_, wait)| *wait).sum());
        let more = Self::MOST_CPUS.saturating_sub(self.cpus.len());
        self.cpus.extend(needless.waits.iter().take(more).map(|(cpu, _)| *cpu));
        self.idle_ns += needless.idle_ns;
        self.during_ns += needless.during_ns;
    }
}

/// What a cgroup waited on full CPUs in an interval in which others were idle.
#[derive(Debug)]
pub(super) struct Needless {
    waits: Vec<(u32, Nanos)>,
    idle_ns: f64,
    during_ns: f64,
}

/// The same of each cgroup that is named among those that crowd a CPU.
pub(super) fn needless(interval: &Interval) -> BTreeMap<CgroupId, Needless> {
    // What is left of a full CPU is no room for anybody.
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
                let of_one = || Needless { waits: Vec::new(), idle_ns, during_ns };
                needless.entry(one.id).or_insert_with(of_one).waits.push((cpu.cpu, wait));
            }
        }
    }
    // Where all CPUs that it may use are full, it waited nowhere else.
    let mut is_kept: HashMap<&str, bool> = HashMap::new();
    for cgroup in &interval.cgroups {
        let (Some(allowed), Some(wait)) = (cgroup.cpus.as_deref(), cgroup.totals.runq_wait_ns) else { continue };
        let is_kept = *is_kept.entry(allowed).or_insert_with(|| {
            let of_set = || interval.cpus.iter().filter(|cpu| is_in(allowed, cpu.cpu));
            of_set().count() > 0 && of_set().count() < count && of_set().all(is_full)
        });
        if is_kept && wait > Nanos::ZERO {
            let cpus = interval.cpus.iter().filter(|cpu| is_in(allowed, cpu.cpu)).map(|cpu| (cpu.cpu, Nanos::ZERO));
            let waits = [(first_of(allowed), wait)].into_iter().chain(cpus).collect();
            needless.insert(cgroup.id, Needless { waits, idle_ns, during_ns });
        }
    }
    needless
}

/// Is the CPU in a list of CPUs, as in `0-3,8`?
fn is_in(list: &str, cpu: u32) -> bool {
    ranges(list).any(|(first, last)| (first..=last).contains(&cpu))
}

fn first_of(list: &str) -> u32 {
    ranges(list).next().map_or(0, |(first, _)| first)
}

fn ranges(list: &str) -> impl Iterator<Item = (u32, u32)> {
    list.split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        first.trim().parse().ok().zip(last.trim().parse().ok())
    })
}

fn idle(cpu: &Cpu) -> f64 {
    cpu.totals.idle_ns.0 as f64
}

fn is_full(cpu: &Cpu) -> bool {
    let busy = cpu.totals.busy_ns.0 as f64;
    busy > 0.0 && busy >= FULL * (busy + idle(cpu))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{CpuTotals, Crowding};

    fn cpu(cpu: u32, busy_ms: u64, waits: &[(u64, u64)]) -> Cpu {
        let ms = |ms: u64| Nanos(ms * 1_000_000);
        let one = |&(id, wait): &(u64, u64)| Crowding { id: CgroupId(id), cpu_ns: ms(1), runq_wait_ns: Some(ms(wait)) };
        let totals = CpuTotals { busy_ns: ms(busy_ms), idle_ns: ms(1_000 - busy_ms), ..CpuTotals::default() };
        Cpu { cpu, totals, crowd: waits.iter().map(one).collect() }
    }

    fn waited(cpus: Vec<Cpu>) -> Vec<(u64, Nanos)> {
        let interval = Interval { duration_ns: Nanos::SECOND, cpus, ..Interval::default() };
        let sum = |one: Needless| one.waits.into_iter().map(|(_, wait)| wait).sum();
        needless(&interval).into_iter().map(|(id, one)| (id.0, sum(one))).collect()
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
