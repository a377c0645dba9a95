//! Waits of a command behind its own tasks that others caused: they ran on CPUs allowed to all of its threads, and left the
//! command fewer of them than it wanted.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    host::AllowedCpus,
    model::{Cgroup, CgroupId, Cpu, Interval, Nanos},
};

/// How long a command's tasks waited for each other because others ran: a part of their waits behind itself.
///
/// Of each interval it is `min(behind itself − idle, ran − behind others)`, or 0. Who leaves CPUs idle could have used them. Waits
/// behind others have a figure of their own. It is an estimate, for the order of events inside an interval is not known: too
/// high if the command had too many threads in one part of it and others ran in another, too low if CPUs were idle in one part
/// and the command was crowded out in another.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CrowdedOut {
    /// As far as it is known who ran, and which CPUs its threads were allowed.
    pub time_ns: Nanos,
    /// So much more if all had been others that may have been: in the root cgroup, where kernel threads run too, in cgroups
    /// that are not told apart, or on CPUs that may not be allowed to all threads.
    pub perhaps_ns: Nanos,
    /// Who ran in intervals in which it was crowded out.
    pub ran: BTreeMap<CgroupId, Crowder>,
}

/// A cgroup that ran on CPUs allowed to all threads of the command, while these waited for each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Crowder {
    pub id: CgroupId,
    /// Path from the root of its hierarchy.
    pub path: Arc<str>,
    /// Readable name.
    pub name: Arc<str>,
    /// Its CPU time there. Only on CPUs where it was one of the three cgroups with the most CPU time and run-queue wait.
    pub cpu_ns: Nanos,
}

/// The waits of all the command's cgroups in an interval.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Waited {
    pub(super) behind_itself: Nanos,
    pub(super) behind_others: Nanos,
}

/// Who is who in an interval.
pub(super) struct WhoIsWho<'a> {
    /// The command's cgroups.
    pub(super) own: &'a BTreeSet<CgroupId>,
    /// Do others than kernel threads run in the root cgroup?
    pub(super) has_processes_in_root: bool,
}

impl WhoIsWho<'_> {
    /// Is it known to be somebody else?
    fn is_other(&self, id: CgroupId) -> bool {
        self.may_be_other(id) && id != CgroupId::ROOT && id != CgroupId::OTHER
    }

    /// May it be somebody else?
    fn may_be_other(&self, id: CgroupId) -> bool {
        !self.own.contains(&id) && (id != CgroupId::ROOT || self.has_processes_in_root)
    }
}

impl CrowdedOut {
    /// Adds an interval, with the CPUs that were `allowed` in it. `None` if that is not known.
    pub(super) fn add(
        &mut self,
        interval: &Interval,
        sides: &WhoIsWho<'_>,
        waited: Waited,
        allowed: Option<&AllowedCpus>,
    ) {
        let to_all = |cpu: u32| allowed.is_some_and(|allowed| allowed.to_all.binary_search(&cpu).is_ok());
        let to_any = |cpu: u32| allowed.is_none_or(|allowed| allowed.to_any.binary_search(&cpu).is_ok());
        let unlisted = Unlisted::of(interval, sides);
        let [mut idle, mut least, mut most] = [Nanos::ZERO; 3];
        let [mut rest_of_all, mut rest_of_any, mut other_rest] = [Nanos::ZERO; 3];
        for cpu in &interval.cpus {
            let rest = rest(cpu);
            if to_all(cpu.cpu) {
                idle = idle.saturating_add(cpu.totals.idle_ns);
                least = least.saturating_add(listed(cpu, |id| sides.is_other(id)));
                rest_of_all = rest_of_all.saturating_add(rest);
            } else {
                other_rest = other_rest.saturating_add(rest);
            }
            if to_any(cpu.cpu) {
                most = most.saturating_add(listed(cpu, |id| sides.may_be_other(id)));
                rest_of_any = rest_of_any.saturating_add(rest);
            }
        }
        // What is not listed ran on any of the CPUs that list three.
        least = least.saturating_add(unlisted.others.saturating_sub(other_rest).min(rest_of_all));
        most = most.saturating_add(unlisted.perhaps.min(rest_of_any));
        // Those that are left alone (`--exclude-cpus`) are not measured.
        let is_measured = |cpu: u32| interval.cpus.binary_search_by_key(&cpu, |cpu| cpu.cpu).is_ok();
        let unmeasured = allowed.map_or(0, |allowed| allowed.to_any.iter().filter(|&&cpu| !is_measured(cpu)).count());
        most = most.saturating_add(Nanos(interval.duration_ns.0.saturating_mul(unmeasured as u64)));

        let in_need = waited.behind_itself.saturating_sub(idle);
        let part = |ran: Nanos| in_need.min(ran.saturating_sub(waited.behind_others));
        self.time_ns = self.time_ns.saturating_add(part(least));
        self.perhaps_ns = self.perhaps_ns.saturating_add(part(most).saturating_sub(part(least)));
        if part(least) > Nanos::ZERO {
            for cpu in interval.cpus.iter().filter(|cpu| to_all(cpu.cpu)) {
                self.note(cpu, sides, &interval.cgroups);
            }
        }
    }

    /// Notes which others ran on a CPU.
    fn note(&mut self, cpu: &Cpu, sides: &WhoIsWho<'_>, cgroups: &[Cgroup]) {
        for one in cpu.crowd.iter().filter(|one| sides.is_other(one.id) && one.cpu_ns > Nanos::ZERO) {
            let Some(cgroup) = cgroups.iter().find(|cgroup| cgroup.id == one.id) else { continue };
            let crowder = self.ran.entry(one.id).or_insert_with(|| Crowder {
                id: one.id,
                path: Arc::clone(&cgroup.path),
                name: Arc::clone(&cgroup.name),
                cpu_ns: Nanos::ZERO,
            });
            crowder.cpu_ns = crowder.cpu_ns.saturating_add(one.cpu_ns);
        }
    }

    /// Who crowded it out, most CPU time first.
    pub fn by(&self) -> Vec<Crowder> {
        let mut by: Vec<Crowder> = self.ran.values().cloned().collect();
        by.sort_by_key(|one| (std::cmp::Reverse(one.cpu_ns), one.id));
        by
    }
}

/// How long the listed cgroups ran on a CPU that count.
fn listed(cpu: &Cpu, counts: impl Fn(CgroupId) -> bool) -> Nanos {
    cpu.crowd.iter().filter(|one| counts(one.id)).map(|one| one.cpu_ns).sum()
}

/// How long cgroups that are not listed may have run on a CPU: three are.
fn rest(cpu: &Cpu) -> Nanos {
    let is_full = cpu.crowd.len() >= Cpu::CROWD;
    if is_full { cpu.totals.busy_ns.saturating_sub(listed(cpu, |_| true)) } else { Nanos::ZERO }
}

/// How long cgroups ran on CPUs of which they are not listed. What is in no cgroup's CPU time, such as interrupts and steal, is
/// nobody's.
struct Unlisted {
    /// Known to be others.
    others: Nanos,
    /// That may be others.
    perhaps: Nanos,
}

impl Unlisted {
    fn of(interval: &Interval, sides: &WhoIsWho<'_>) -> Self {
        let mut listed: BTreeMap<CgroupId, Nanos> = BTreeMap::new();
        for one in interval.cpus.iter().flat_map(|cpu| &cpu.crowd) {
            let sum = listed.entry(one.id).or_default();
            *sum = sum.saturating_add(one.cpu_ns);
        }
        let sum = |counts: &dyn Fn(CgroupId) -> bool| -> Nanos {
            let cgroups = interval.cgroups.iter().filter(|cgroup| counts(cgroup.id));
            let left = |cgroup: &Cgroup| {
                cgroup.totals.cpu_ns.saturating_sub(listed.get(&cgroup.id).copied().unwrap_or_default())
            };
            cgroups.map(left).fold(Nanos::ZERO, Nanos::saturating_add)
        };
        Self { others: sum(&|id| sides.is_other(id)), perhaps: sum(&|id| sides.may_be_other(id)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{CpuTotals, Crowding, Totals};

    const OWN: u64 = 7;
    const NEIGHBOUR: u64 = 20;
    const DAEMON: u64 = 21;
    const SECOND: u64 = 1_000;

    fn ms(ms: u64) -> Nanos {
        Nanos(ms * 1_000_000)
    }

    /// A CPU for a second, busy with these cgroups: their numbers and milliseconds. Those behind the third are not listed.
    fn cpu(number: u32, ran: &[(u64, u64)]) -> Cpu {
        let busy: u64 = ran.iter().map(|(_, ms)| ms).sum();
        let listed = ran.iter().take(Cpu::CROWD);
        Cpu {
            cpu: number,
            totals: CpuTotals { busy_ns: ms(busy), idle_ns: ms(SECOND.saturating_sub(busy)), ..CpuTotals::default() },
            crowd: listed
                .map(|&(id, time)| Crowding { id: CgroupId(id), cpu_ns: ms(time), runq_wait_ns: None })
                .collect(),
        }
    }

    fn interval(cpus: Vec<Cpu>) -> Interval {
        let known = [CgroupId::OTHER, CgroupId::ROOT, CgroupId(OWN), CgroupId(NEIGHBOUR), CgroupId(DAEMON)];
        let ids = known.into_iter().chain((100..200).map(CgroupId));
        let cgroup = |id: CgroupId| {
            let ran = cpus.iter().flat_map(|cpu| &cpu.crowd).filter(|one| one.id == id).map(|one| one.cpu_ns).sum();
            let ran = if id.0 >= 100 && cpus.iter().any(|cpu| cpu.crowd.iter().any(|one| one.id.0 >= 100)) {
                ms(10)
            } else {
                ran
            };
            let name: Arc<str> = format!("/{}", id.0).into();
            Cgroup {
                id,
                path: Arc::clone(&name),
                name,
                totals: Totals { cpu_ns: ran, ..Totals::default() },
                ..Cgroup::default()
            }
        };
        Interval { cgroups: ids.map(cgroup).collect(), cpus, duration_ns: ms(SECOND), ..Interval::default() }
    }

    /// What is known and what is not, in milliseconds.
    fn crowded(cpus: Vec<Cpu>, waited: (u64, u64), allowed: Option<&[u32]>, processes: bool) -> [u64; 2] {
        let allowed = allowed.map(|cpus| AllowedCpus { to_all: cpus.to_vec(), to_any: cpus.to_vec() });
        of(cpus, waited, allowed.as_ref(), processes)
    }

    fn of(cpus: Vec<Cpu>, (itself, others): (u64, u64), allowed: Option<&AllowedCpus>, processes: bool) -> [u64; 2] {
        let own = [CgroupId(OWN)].into();
        let sides = WhoIsWho { own: &own, has_processes_in_root: processes };
        let mut sum = CrowdedOut::default();
        let waited = Waited { behind_itself: ms(itself), behind_others: ms(others) };
        sum.add(&interval(cpus), &sides, waited, allowed);
        [sum.time_ns, sum.perhaps_ns].map(|ns| ns.0 / 1_000_000)
    }

    #[test]
    fn two_threads_on_one_cpu_while_a_neighbour_has_the_other_are_crowded_out() {
        let beside = || vec![cpu(0, &[(OWN, 1_000)]), cpu(1, &[(NEIGHBOUR, 1_000)])];
        assert_eq!(crowded(beside(), (1_000, 0), Some(&[0, 1]), false), [1_000, 0]);
        assert_eq!(crowded(beside(), (1_000, 0), Some(&[0]), false), [0, 0], "it may not use the other");
        assert_eq!(crowded(beside(), (0, 0), Some(&[0, 1]), false), [0, 0], "it wants no more");
        assert_eq!(crowded(beside(), (1_000, 0), None, false), [0, 1_000], "where it may run is not known");
    }

    #[test]
    fn waits_behind_others_are_not_counted_twice() {
        let beside = vec![cpu(0, &[(OWN, 1_000)]), cpu(1, &[(NEIGHBOUR, 600), (OWN, 400)])];
        assert_eq!(crowded(beside, (1_000, 600), Some(&[0, 1]), false), [0, 0]);
    }

    #[test]
    fn a_daemon_takes_no_more_than_it_ran() {
        let full = vec![cpu(0, &[(OWN, 1_000)]), cpu(1, &[(OWN, 980), (DAEMON, 20)])];
        assert_eq!(crowded(full, (4_000, 0), Some(&[0, 1]), false), [20, 0]);
    }

    #[test]
    fn who_leaves_a_cpu_idle_is_not_crowded_out() {
        // Two threads that hand work to each other on one CPU.
        let idle = || vec![cpu(0, &[(OWN, 1_000)]), cpu(1, &[(DAEMON, 20)])];
        assert_eq!(crowded(idle(), (300, 0), Some(&[0, 1]), false), [0, 0]);
        let many: Vec<Cpu> =
            (0..64).map(|n| if n < 32 { cpu(n, &[(NEIGHBOUR, 1_000)]) } else { cpu(n, &[(OWN, 500)]) }).collect();
        let all: Vec<u32> = (0..64).collect();
        assert_eq!(crowded(many, (900, 0), Some(&all), false), [0, 0]);
    }

    #[test]
    fn the_root_cgroup_alone_decides_nothing() {
        let beside = || vec![cpu(0, &[(OWN, 1_000)]), cpu(1, &[(CgroupId::ROOT.0, 700), (NEIGHBOUR, 300)])];
        assert_eq!(crowded(beside(), (1_000, 0), Some(&[0, 1]), true), [300, 700], "processes, or the kernel");
        assert_eq!(
            crowded(beside(), (1_000, 0), Some(&[0, 1]), false),
            [300, 0],
            "the kernel works for the command, too"
        );
        let untold = vec![cpu(0, &[(OWN, 1_000)]), cpu(1, &[(CgroupId::OTHER.0, 1_000)])];
        assert_eq!(crowded(untold, (1_000, 0), Some(&[0, 1]), false), [0, 1_000], "they may be its own");
    }

    #[test]
    fn many_small_neighbours_are_seen_though_three_are_listed() {
        // 100 cgroups with 10 ms each.
        let small: Vec<(u64, u64)> = (100..200).map(|id| (id, 10)).collect();
        let dense = || vec![cpu(0, &[(OWN, 990), (1, 10)]), cpu(1, &small)];
        assert_eq!(crowded(dense(), (1_000, 0), Some(&[0, 1]), false), [1_000, 0]);
    }

    #[test]
    fn time_in_no_cgroup_is_nobodys() {
        // 30 ms of interrupts and steal on each CPU.
        let mut cpus = vec![cpu(0, &[(OWN, 970)]), cpu(1, &[(OWN, 970)])];
        cpus.iter_mut().for_each(|cpu| cpu.totals.busy_ns = ms(SECOND));
        cpus.iter_mut().for_each(|cpu| cpu.totals.idle_ns = ms(0));
        assert_eq!(crowded(cpus, (2_000, 0), Some(&[0, 1]), true), [0, 0]);
        let mut cpus = vec![cpu(0, &[(OWN, 950), (DAEMON, 10), (1, 10)]), cpu(1, &[(OWN, 950), (DAEMON, 10), (1, 10)])];
        cpus.iter_mut().for_each(|cpu| (cpu.totals.busy_ns, cpu.totals.idle_ns) = (ms(SECOND), ms(0)));
        assert_eq!(crowded(cpus, (2_000, 0), Some(&[0, 1]), false), [20, 0], "three are listed");
    }

    #[test]
    fn who_is_not_listed_may_have_run_where_the_command_may_not() {
        let small: Vec<(u64, u64)> = (100..200).map(|id| (id, 10)).collect();
        // 97 of them are listed nowhere: all have room on the CPU that it may not use.
        let cpus = vec![cpu(0, &[(OWN, 700), (NEIGHBOUR, 150), (DAEMON, 150)]), cpu(1, &small)];
        assert_eq!(crowded(cpus, (1_000, 0), Some(&[0]), false), [300, 0]);
    }

    #[test]
    fn one_thread_that_is_pinned_leaves_it_open_what_the_others_may_use() {
        let allowed = AllowedCpus { to_all: vec![0], to_any: vec![0, 1] };
        let beside = vec![cpu(0, &[(OWN, 1_000)]), cpu(1, &[(NEIGHBOUR, 1_000)])];
        assert_eq!(of(beside, (1_000, 0), Some(&allowed), false), [0, 1_000]);
    }

    #[test]
    fn nobody_knows_who_ran_on_a_cpu_that_is_left_alone() {
        assert_eq!(crowded(vec![cpu(0, &[(OWN, 1_000)])], (1_000, 0), Some(&[0, 1]), false), [0, 1_000]);
    }

    #[test]
    fn who_ran_longest_is_named_first() {
        let own = [CgroupId(OWN)].into();
        let sides = WhoIsWho { own: &own, has_processes_in_root: false };
        let mut sum = CrowdedOut::default();
        let cpus = vec![
            cpu(0, &[(OWN, 900), (DAEMON, 50), (1, 50)]),
            cpu(1, &[(NEIGHBOUR, 990), (DAEMON, 10)]),
            cpu(2, &[(DAEMON, 1_000)]),
        ];
        let allowed = AllowedCpus { to_all: vec![0, 1], to_any: vec![0, 1] };
        sum.add(&interval(cpus.clone()), &sides, Waited::default(), Some(&allowed));
        assert_eq!(sum.by(), [], "it wanted no more");
        let waited = Waited { behind_itself: ms(1), behind_others: ms(0) };
        sum.add(&interval(cpus), &sides, waited, Some(&allowed));
        let by: Vec<(u64, u64)> = sum.by().iter().map(|one| (one.id.0, one.cpu_ns.0 / 1_000_000)).collect();
        assert_eq!(by, [(NEIGHBOUR, 990), (DAEMON, 60)], "the third CPU is not one that it may use");
    }
}
