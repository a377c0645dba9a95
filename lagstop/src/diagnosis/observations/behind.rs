//! Which cgroups a cgroup waited behind, over a recording.

use std::collections::BTreeMap;

use super::NOTABLE;
use crate::{
    diagnosis::{Thresholds, during::During},
    model::{Cgroup, CgroupId, Cores, Distribution, Nanos},
};

/// The waits of a cgroup by culprit, in intervals in which their causes were measured.
#[derive(Clone, Debug, Default)]
pub(in crate::diagnosis) struct Behind {
    culprits: BTreeMap<CgroupId, CulpritWaits>,
    /// Intervals in which it waited.
    pub(in crate::diagnosis) intervals: u64,
}

/// A cgroup that others wait behind.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::diagnosis) struct CulpritWaits {
    pub(in crate::diagnosis) wait_ns: Nanos,
    /// Intervals in which it was the worst culprit.
    pub(in crate::diagnosis) worst_in: u64,
    /// The intervals in which the victim waited long, and a large part of that behind it. `None` where there were none.
    pub(in crate::diagnosis) long: Option<Box<Long>>,
}

/// The intervals in which a cgroup waited as long as it ran, and a large part of that behind one culprit.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::diagnosis) struct Long {
    pub(in crate::diagnosis) during: During,
    /// What it waited then, and behind the culprit; how often; and its CPU time.
    pub(in crate::diagnosis) wait_ns: Nanos,
    pub(in crate::diagnosis) behind_ns: Nanos,
    pub(in crate::diagnosis) waits: u64,
    pub(in crate::diagnosis) cpu_ns: Nanos,
    runq_wait: Distribution,
    /// CPU time of the culprit.
    culprit_cpu_ns: Nanos,
    /// The same, what the culprit was entitled to, and the time, where that is known.
    known_cpu_ns: f64,
    entitled_ns: f64,
    known_during_ns: f64,
}

/// A wait is long if it is at least this many times the CPU time, and [`NOTABLE`].
const LONG: f64 = Thresholds::DEFAULT.wait_per_cpu_warn;
/// From this share of the wait on, it is a large part. What is collected cannot know what thresholds it will be held against.
const LARGE: f64 = Thresholds::DEFAULT.neighbour_wait;

/// The most culprits that are kept. Those with short waits come and go.
const KEPT: usize = 32;

impl Behind {
    /// Adds the next interval.
    pub(super) fn add(&mut self, cgroup: &Cgroup) {
        if cgroup.totals.wait_behind_ns.is_none() || cgroup.totals.runq_wait_ns.unwrap_or_default() == Nanos::ZERO {
            return;
        }
        self.intervals += 1;
        for (place, one) in cgroup.waits_behind.iter().enumerate() {
            let culprit = self.culprits.entry(one.id).or_default();
            culprit.wait_ns = culprit.wait_ns.saturating_add(one.wait_ns);
            culprit.worst_in += u64::from(place == 0);
        }
        if self.culprits.len() > 2 * KEPT {
            let mut waits: Vec<Nanos> = self.culprits.values().map(|culprit| culprit.wait_ns).collect();
            waits.sort_unstable_by(|a, b| b.cmp(a));
            self.culprits.retain(|_, culprit| culprit.wait_ns > waits[KEPT]);
        }
    }

    pub(in crate::diagnosis) fn culprits(&self) -> impl Iterator<Item = (CgroupId, &CulpritWaits)> {
        self.culprits.iter().map(|(&id, culprit)| (id, culprit))
    }

    /// Adds an interval in which `victim` waited long, and behind `culprit`. The culprit's row is given with its
    /// entitled CPU time.
    pub(super) fn add_long(
        &mut self,
        victim: &Cgroup,
        culprit: (CgroupId, Option<(&Cgroup, Option<Cores>)>),
        (start, duration): (Nanos, Nanos),
    ) {
        let (id, row) = culprit;
        let Some(known) = self.culprits.get_mut(&id) else { return };
        let long = known.long.get_or_insert_default();
        let behind = victim.waits_behind.iter().filter(|one| one.id == id).map(|one| one.wait_ns).sum();
        long.during.add(start, duration);
        long.wait_ns = long.wait_ns.saturating_add(victim.totals.runq_wait_ns.unwrap_or_default());
        long.behind_ns = long.behind_ns.saturating_add(behind);
        long.waits = long.waits.saturating_add(victim.totals.runq_waits.unwrap_or_default());
        long.cpu_ns = long.cpu_ns.saturating_add(victim.totals.cpu_ns);
        victim.runq_wait.iter().for_each(|waits| long.runq_wait.merge(waits));
        let Some((row, entitled)) = row else { return };
        long.culprit_cpu_ns = long.culprit_cpu_ns.saturating_add(row.totals.cpu_ns);
        if let Some(Cores(entitled)) = entitled {
            long.known_cpu_ns += row.totals.cpu_ns.0 as f64;
            long.entitled_ns += entitled * duration.0 as f64;
            long.known_during_ns += duration.0 as f64;
        }
    }
}

/// The culprits of a large part of its wait, if the cgroup waited long in an interval of this length.
pub(super) fn causes_of_long(cgroup: &Cgroup, duration: Nanos) -> impl Iterator<Item = CgroupId> {
    let wait = cgroup.totals.runq_wait_ns.unwrap_or_default().0 as f64;
    let is_long = cgroup.totals.wait_behind_ns.is_some()
        && wait >= LONG * cgroup.totals.cpu_ns.0 as f64
        && wait >= NOTABLE * duration.0 as f64
        && wait > 0.0;
    let large = cgroup.waits_behind.iter().filter(move |one| is_long && one.wait_ns.0 as f64 >= LARGE * wait);
    large.map(|one| one.id)
}

impl Long {
    /// The part of its wait that was behind the culprit.
    pub(in crate::diagnosis) fn part(&self) -> f64 {
        (self.behind_ns.0 as f64 / self.wait_ns.0.max(1) as f64).min(1.0)
    }

    pub(in crate::diagnosis) fn wait_p99(&self) -> Option<Nanos> {
        self.runq_wait.quantile(0.99)
    }

    /// CPU time of the culprit, in cores.
    pub(in crate::diagnosis) fn culprit_cores(&self) -> f64 {
        self.culprit_cpu_ns.cores(self.during.time).0
    }

    /// What the culprit was entitled to, in cores. `None` where weights were not recorded.
    pub(in crate::diagnosis) fn entitled_cores(&self) -> Option<f64> {
        Some(self.entitled_ns / self.known_during_ns).filter(|cores| cores.is_finite())
    }

    /// CPU time that the culprit got / what it was entitled to. `None` where weights were not recorded.
    pub(in crate::diagnosis) fn got_of_entitled(&self) -> Option<f64> {
        Some(self.known_cpu_ns / self.entitled_ns).filter(|factor| factor.is_finite())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Totals, WaitBehind};

    fn waits(behind: &[(u64, u64)]) -> Cgroup {
        let ms = |ms: u64| Nanos(ms * 1_000_000);
        let all = Some(ms(behind.iter().map(|(_, ms)| ms).sum()));
        Cgroup {
            totals: Totals { runq_wait_ns: all, wait_behind_ns: all, ..Totals::default() },
            waits_behind: behind.iter().map(|&(id, time)| WaitBehind { id: CgroupId(id), wait_ns: ms(time) }).collect(),
            ..Cgroup::default()
        }
    }

    #[test]
    fn waits_are_added_up_by_culprit() {
        let mut behind = Behind::default();
        for cgroup in [waits(&[(7, 5), (8, 4)]), waits(&[(7, 5), (8, 4)]), waits(&[(8, 9), (7, 1)]), waits(&[])] {
            behind.add(&cgroup);
        }
        behind.add(&Cgroup { totals: Totals { wait_behind_ns: None, ..waits(&[(9, 9)]).totals }, ..waits(&[(9, 9)]) });
        let culprit = |ms: u64, worst_in| CulpritWaits { wait_ns: Nanos(ms * 1_000_000), worst_in, long: None };
        let expected = [(CgroupId(7), &culprit(11, 2)), (CgroupId(8), &culprit(17, 1))];
        assert_eq!((behind.culprits().collect::<Vec<_>>(), behind.intervals), (expected.to_vec(), 3));
    }

    #[test]
    fn long_waits_are_added_up_by_whom_a_large_part_is_behind() {
        let ms = |ms: u64| Nanos(ms * 1_000_000);
        let with_cpu = |cpu: u64, behind: &[(u64, u64)]| {
            let mut victim = waits(behind);
            victim.totals.cpu_ns = ms(cpu);
            victim
        };
        let causes = |cpu: u64, behind: &[(u64, u64)]| -> Vec<u64> {
            causes_of_long(&with_cpu(cpu, behind), Nanos::SECOND).map(|id| id.0).collect()
        };
        assert_eq!(causes(100, &[(7, 60), (8, 40), (9, 10)]), [7, 8]);
        assert_eq!(causes(200, &[(7, 60), (8, 40)]), [0; 0], "it runs longer than it waits");
        assert_eq!(causes(1, &[(7, 5)]), [0; 0], "hardly any wait");

        let mut behind = Behind::default();
        let bully = with_cpu(900, &[]);
        for second in [0, 1, 5] {
            let victim = with_cpu(100, &[(7, 300), (8, 100)]);
            behind.add(&victim);
            behind.add_long(
                &victim,
                (CgroupId(7), Some((&bully, Some(Cores(0.5))))),
                (ms(1_000 * second), Nanos::SECOND),
            );
        }
        let (_, culprit) = behind.culprits().find(|(id, _)| *id == CgroupId(7)).unwrap();
        let long = culprit.long.as_ref().unwrap();
        assert_eq!((long.wait_ns, long.behind_ns, long.cpu_ns), (ms(1_200), ms(900), ms(300)));
        assert_eq!((long.part(), long.during.intervals, long.culprit_cores()), (0.75, 3, 0.9));
        assert_eq!((long.entitled_cores(), long.got_of_entitled()), (Some(0.5), Some(1.8)));
    }

    #[test]
    fn of_many_that_come_and_go_the_worst_stay() {
        let mut behind = Behind::default();
        behind.add(&waits(&[(7, 1_000)]));
        (100..1_000).for_each(|id| behind.add(&waits(&[(id, id)])));
        assert!(behind.culprits().count() <= 2 * KEPT);
        assert!(behind.culprits().any(|(id, _)| id == CgroupId(7)));
    }
}
