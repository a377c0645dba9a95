//! Who crowds each CPU.

use std::cmp::Reverse;

use super::{ByCpu, CgroupId, Cpu, CpuReading, Crowding, Nanos};

/// Collects the cgroups that crowd each CPU most, from one cgroup after the other.
#[derive(Debug, Default)]
pub(super) struct Crowds {
    /// By the number of the CPU, the one that crowds it most first.
    by_cpu: Vec<Vec<Crowding>>,
}

impl Crowds {
    /// Adds what cgroup `id` did on each CPU between the readings `before` and `now`.
    pub(super) fn add(&mut self, id: CgroupId, before: Option<&ByCpu>, now: &ByCpu) {
        if self.by_cpu.len() < now.end() {
            self.by_cpu.resize_with(now.end(), || Vec::with_capacity(Cpu::CROWD + 1));
        }
        for (cpu, crowd) in self.by_cpu.iter_mut().enumerate().take(now.end()) {
            let (cpu_ns, runq_wait_ns) = now.since_on(cpu, before);
            let one = Crowding { id, cpu_ns, runq_wait_ns };
            if one.time() == Nanos::ZERO {
                continue;
            }
            let place = crowd.partition_point(|other| rank(other) < rank(&one));
            if place < Cpu::CROWD {
                crowd.truncate(Cpu::CROWD - 1);
                crowd.insert(place, one);
            }
        }
    }

    /// What each CPU did between two readings, and who crowded it. Only CPUs that were online at the end, or for a part
    /// of the time.
    pub(super) fn cpus(mut self, before: &[CpuReading], after: &[CpuReading]) -> Vec<Cpu> {
        let did = |(cpu, now): (usize, &CpuReading)| {
            let totals = now.totals.since(&before.get(cpu).copied().unwrap_or_default().totals);
            let crowd = self.by_cpu.get_mut(cpu).map(std::mem::take).unwrap_or_default();
            (now.is_online || !totals.is_zero() || !crowd.is_empty()).then(|| Cpu {
                cpu: u32::try_from(cpu).unwrap_or(u32::MAX),
                totals,
                crowd,
            })
        };
        after.iter().enumerate().filter_map(did).collect()
    }
}

/// Sort key: the smallest comes first.
fn rank(one: &Crowding) -> (Reverse<Nanos>, CgroupId) {
    (Reverse(one.time()), one.id)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::CpuTotals;

    fn did(cpus: &[(u64, u64)]) -> ByCpu {
        ByCpu::of(cpus, |&(time, wait)| (Nanos(time), Nanos(wait)), true)
    }

    fn ids(cpu: &Cpu) -> Vec<u64> {
        cpu.crowd.iter().map(|one| one.id.0).collect()
    }

    fn online(switches: u64) -> CpuReading {
        CpuReading { is_online: true, totals: CpuTotals { switches: Some(switches), ..CpuTotals::default() } }
    }

    #[test]
    fn those_with_the_most_time_come_first_and_those_with_none_not_at_all() {
        let mut crowds = Crowds::default();
        crowds.add(CgroupId::OTHER, None, &did(&[(1, 1)]));
        crowds.add(CgroupId(9), None, &did(&[(0, 0), (0, 5)]));
        crowds.add(CgroupId(8), None, &did(&[(4, 0), (5, 0)]));
        crowds.add(CgroupId(7), None, &did(&[(0, 3)]));
        crowds.add(CgroupId(6), None, &did(&[(1, 0)]));
        let cpus = crowds.cpus(&[], &[online(0); 3]);
        assert_eq!(cpus.iter().map(ids).collect::<Vec<_>>(), [vec![8, 7, 0], vec![8, 9], vec![]]);
        assert_eq!(cpus[1].crowd[1], Crowding { id: CgroupId(9), cpu_ns: Nanos(0), runq_wait_ns: Some(Nanos(5)) });
    }

    #[test]
    fn cpus_that_were_online_are_there() {
        let gone = CpuReading { is_online: false, ..online(5) };
        let before = [online(1), online(2), gone, gone];
        let after = [online(1), CpuReading { is_online: false, ..online(9) }, gone, online(5), online(3)];
        let cpus = Crowds::default().cpus(&before, &after);
        // 0 did nothing, 1 went offline meanwhile, 2 was offline all the time, 3 came back just now, 4 is new.
        assert_eq!(
            cpus.iter().map(|cpu| (cpu.cpu, cpu.totals.switches)).collect::<Vec<_>>(),
            [(0, 0), (1, 7), (3, 0), (4, 3)].map(|(cpu, switches)| (cpu, Some(switches)))
        );
    }

    #[test]
    fn what_was_not_measured_stays_so() {
        let after = CpuReading { totals: CpuTotals { pick_ns: Some(Nanos(7)), ..online(1).totals }, ..online(1) };
        let cpus = Crowds::default().cpus(&[online(0)], &[after]);
        assert_eq!(
            (cpus[0].totals.pick_ns, cpus[0].totals.swap_ns, cpus[0].totals.runq_waits),
            (Some(Nanos(7)), None, None)
        );
        assert_eq!(cpus[0].switch_cost(), None);
    }

    proptest! {
        #[test]
        fn the_crowd_is_what_sorting_all_would_give(
            groups in prop::collection::vec(prop::collection::vec((0u64..4, 0u64..4), 0..5), 0..12),
        ) {
            let mut crowds = Crowds::default();
            for (id, group) in (0..).zip(&groups) {
                crowds.add(CgroupId(id), None, &did(group));
            }
            for cpu in crowds.cpus(&[], &[online(0); 5]) {
                let on = |group: &Vec<(u64, u64)>| group.get(cpu.cpu as usize).map_or(0, |(time, wait)| time + wait);
                let mut all: Vec<(u64, u64)> = (0..).zip(groups.iter().map(on)).filter(|(_, time)| *time > 0).collect();
                all.sort_by_key(|&(id, time)| (Reverse(time), id));
                all.truncate(Cpu::CROWD);
                let crowd: Vec<(u64, u64)> = cpu.crowd.iter().map(|one| (one.id.0, one.time().0)).collect();
                prop_assert_eq!(crowd, all);
            }
        }
    }
}
