//! What the intervals of a run say of the command: the sums over its cgroup and those inside of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use schemars::JsonSchema;
use serde::Serialize;

use super::crowded::{CrowdedOut, Waited, WhoIsWho};
use crate::{
    host::{AllowedCpus, Frequency},
    model::{Cgroup, CgroupId, DistributionSum, Interval, Lost, Nanos, Totals},
};

/// Sums up one run.
#[derive(Clone, Debug)]
pub struct Account {
    id: CgroupId,
    /// Where its cgroup is, as intervals have it.
    path: Arc<str>,
    totals: Option<Totals>,
    waits: DistributionSum,
    own: BTreeSet<CgroupId>,
    behind: BTreeMap<CgroupId, WaitedBehind>,
    /// Waits of its cgroups behind one of which it is not known whether it is theirs: an interval names only the worst.
    unnamed: Nanos,
    has_processes_in_root: bool,
    crowded_out: CrowdedOut,
    lost: u64,
}

/// What the command's tasks did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Work {
    pub cpu_ns: Nanos,
    /// `None` where they were not measured with their causes.
    pub waits: Option<CommandWaits>,
    /// The cgroups that it waited behind, the longest first.
    pub behind: Vec<WaitedBehind>,
    /// How long it waited behind itself because others ran.
    pub crowded_out: CrowdedOut,
    /// Of the CPUs on which it ran.
    pub frequency: Option<Frequency>,
    pub migrations: Option<u64>,
    pub migrations_cross_llc: Option<u64>,
    pub migrations_cross_numa: Option<u64>,
    /// Part of its waits of unknown cause: behind cgroups that may be its own.
    pub unnamed_ns: Nanos,
    /// Events of the host that could not be measured meanwhile, and without which waits may be missing.
    pub lost: u64,
}

/// The waits of the command's tasks for a CPU. The seven causes add up to `total_ns`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CommandWaits {
    /// Their number.
    pub count: u64,
    /// Their total time.
    pub total_ns: Nanos,
    /// Of 100 waits, 99 were no longer, whatever they were for. `None` without waits.
    pub p99_ns: Option<Nanos>,
    /// Tasks of other cgroups ran.
    pub behind_others_ns: Nanos,
    /// Other tasks of the command ran.
    pub behind_itself_ns: Nanos,
    /// Kernel threads ran.
    pub behind_kernel_ns: Nanos,
    /// The CPU was idle, and about to run the task.
    pub idle_ns: Nanos,
    /// A quota was used up.
    pub throttled_ns: Nanos,
    /// Waits on another CPU, before the task moved.
    pub elsewhere_ns: Nanos,
    /// Waits of unknown cause. Also waits behind a cgroup that is not named, if the command has several cgroups: it may be one of
    /// them.
    pub unknown_ns: Nanos,
}

/// A cgroup that the command waited behind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WaitedBehind {
    pub id: CgroupId,
    /// Path from the root of its hierarchy.
    pub path: Arc<str>,
    /// Readable name.
    pub name: Arc<str>,
    /// For how long.
    pub wait_ns: Nanos,
    /// Names of threads that ran in it when lagstop looked, which is now and then. Empty if it did not look, or if none
    /// did.
    pub threads: Vec<String>,
}

impl Account {
    /// Of a command in the cgroup `id` at `path`. If only kernel threads run in the root cgroup, that is no other.
    pub fn new(id: CgroupId, path: &str, has_processes_in_root: bool) -> Self {
        Self {
            id,
            path: path.into(),
            totals: None,
            waits: DistributionSum::default(),
            own: [id].into(),
            behind: BTreeMap::new(),
            unnamed: Nanos::ZERO,
            has_processes_in_root,
            crowded_out: CrowdedOut::default(),
            lost: 0,
        }
    }

    /// Adds an interval in which it may have run, with the CPUs that its threads were `allowed` in it; `None` if that is not known.
    pub fn add(&mut self, interval: &Interval, allowed: Option<&AllowedCpus>) {
        let Lost { task_states, wakeups, .. } = interval.host.lost;
        self.lost = self.lost.saturating_add(task_states).saturating_add(wakeups);
        // As the kernel calls it, which from inside of a container is not what its files call it.
        if let Some(own) = interval.cgroups.iter().find(|cgroup| cgroup.id == self.id) {
            self.path = Arc::clone(&own.path);
        }
        let own: Vec<&Cgroup> = interval.cgroups.iter().filter(|cgroup| self.is_own(cgroup)).collect();
        for cgroup in &own {
            self.add_own(cgroup, interval);
            if own.len() > 1 {
                let named: Nanos = cgroup.waits_behind.iter().map(|one| one.wait_ns).sum();
                let unnamed = cgroup.totals.wait_behind_ns.unwrap_or_default().saturating_sub(named);
                self.unnamed = self.unnamed.saturating_add(unnamed);
            }
        }
        let sides = WhoIsWho { own: &self.own, has_processes_in_root: self.has_processes_in_root };
        self.crowded_out.add(interval, &sides, self.waited(&own), allowed);
    }

    /// The waits of these cgroups of its own, in an interval. Those behind who is not named are taken to be behind others.
    fn waited(&self, own: &[&Cgroup]) -> Waited {
        let among = own.iter().flat_map(|cgroup| &cgroup.waits_behind).filter(|one| self.own.contains(&one.id));
        let among: Nanos = among.map(|one| one.wait_ns).sum();
        let sum = |of: fn(&Totals) -> Option<Nanos>| own.iter().filter_map(|cgroup| of(&cgroup.totals)).sum::<Nanos>();
        Waited {
            behind_itself: sum(|totals| totals.wait_self_ns).saturating_add(among),
            behind_others: sum(|totals| totals.wait_behind_ns).saturating_sub(among),
        }
    }

    fn add_own(&mut self, cgroup: &Cgroup, interval: &Interval) {
        self.own.insert(cgroup.id);
        match &mut self.totals {
            Some(totals) => totals.add_next(&cgroup.totals),
            None => self.totals = Some(cgroup.totals),
        }
        if let Some(waits) = &cgroup.runq_wait {
            self.waits.add(waits);
        }
        for one in &cgroup.waits_behind {
            let Some(whom) = interval.cgroups.iter().find(|whom| whom.id == one.id) else { continue };
            let behind = self.behind.entry(one.id).or_insert_with(|| WaitedBehind {
                id: one.id,
                path: Arc::clone(&whom.path),
                name: Arc::clone(&whom.name),
                wait_ns: Nanos::ZERO,
                threads: Vec::new(),
            });
            behind.wait_ns = behind.wait_ns.saturating_add(one.wait_ns);
        }
    }

    fn is_own(&self, cgroup: &Cgroup) -> bool {
        cgroup.id == self.id || cgroup.path.strip_prefix(&*self.path).is_some_and(|inside| inside.starts_with('/'))
    }

    /// The cgroup that it has waited behind longest so far.
    pub fn worst(&self) -> Option<&WaitedBehind> {
        self.behind.values().filter(|one| !self.own.contains(&one.id)).max_by_key(|one| one.wait_ns)
    }

    /// What came of it. `None` where nothing was seen of its cgroup.
    pub fn finish(self) -> Option<Work> {
        let totals = self.totals?;
        let (own, others): (Vec<WaitedBehind>, Vec<WaitedBehind>) =
            self.behind.into_values().partition(|one| self.own.contains(&one.id));
        let mut behind = others;
        behind.sort_by_key(|one| (std::cmp::Reverse(one.wait_ns), one.id));
        let p99_ns = self.waits.total().quantile(0.99);
        Some(Work {
            cpu_ns: totals.cpu_ns,
            waits: waits(&totals, own.iter().map(|one| one.wait_ns).sum(), self.unnamed, p99_ns),
            behind,
            crowded_out: self.crowded_out,
            frequency: None,
            migrations: totals.migrations,
            migrations_cross_llc: totals.migrations_cross_llc,
            migrations_cross_numa: totals.migrations_cross_numa,
            unnamed_ns: self.unnamed,
            lost: self.lost,
        })
    }
}

/// The waits, of which `among` were between cgroups of the command's own, and `unnamed` may have been.
fn waits(totals: &Totals, among: Nanos, unnamed: Nanos, p99_ns: Option<Nanos>) -> Option<CommandWaits> {
    Some(CommandWaits {
        count: totals.runq_waits?,
        total_ns: totals.runq_wait_ns?,
        p99_ns,
        behind_others_ns: totals.wait_behind_ns?.saturating_sub(among).saturating_sub(unnamed),
        behind_itself_ns: totals.wait_self_ns?.saturating_add(among),
        behind_kernel_ns: totals.wait_kernel_ns?,
        idle_ns: totals.wait_idle_ns?,
        throttled_ns: totals.wait_throttled_ns?,
        elsewhere_ns: totals.wait_elsewhere_ns?,
        unknown_ns: totals.wait_unknown_ns?.saturating_add(unnamed),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Cpu, CpuTotals, Crowding, WaitBehind};

    const MS: u64 = 1_000_000;

    fn cgroup(id: u64, path: &str, cpu: u64, behind: u64, whom: &[(u64, u64)]) -> Cgroup {
        let known = Some(Nanos(0));
        Cgroup {
            id: CgroupId(id),
            path: path.into(),
            name: path.trim_start_matches('/').into(),
            totals: Totals {
                cpu_ns: Nanos(cpu * MS),
                runq_waits: Some(3),
                runq_wait_ns: Some(Nanos(behind * MS)),
                wait_behind_ns: Some(Nanos(behind * MS)),
                wait_self_ns: known,
                wait_kernel_ns: known,
                wait_idle_ns: known,
                wait_throttled_ns: known,
                wait_elsewhere_ns: known,
                wait_unknown_ns: known,
                ..Totals::default()
            },
            waits_behind: whom
                .iter()
                .map(|&(id, ms)| WaitBehind { id: CgroupId(id), wait_ns: Nanos(ms * MS) })
                .collect(),
            ..Cgroup::default()
        }
    }

    fn interval(cgroups: Vec<Cgroup>) -> Interval {
        Interval { cgroups, ..Interval::default() }
    }

    #[test]
    fn what_its_cgroups_wait_for_each_other_is_its_own() {
        let mut account = Account::new(CgroupId(7), "/lagstop-command-1", false);
        account.add(
            &interval(vec![
                cgroup(2, "/user.slice", 90, 5, &[(7, 5)]),
                // As the kernel calls it: the mount shows a part of the tree.
                cgroup(7, "/docker/abc/lagstop-command-1", 10, 4, &[(2, 3), (8, 1)]),
                cgroup(8, "/docker/abc/lagstop-command-1/inner", 5, 2, &[(7, 2)]),
                cgroup(9, "/docker/abc/lagstop-command-12", 50, 2, &[(7, 2)]),
            ]),
            None,
        );
        account.add(
            &interval(vec![
                cgroup(3, "/system.slice/cron.service", 1, 0, &[]),
                cgroup(7, "/docker/abc/lagstop-command-1", 10, 7, &[(3, 7)]),
            ]),
            None,
        );
        assert_eq!(account.worst().map(|one| &*one.name), Some("system.slice/cron.service"));
        let work = account.finish().unwrap();
        assert_eq!(work.cpu_ns, Nanos(25 * MS));
        let waits = work.waits.unwrap();
        assert_eq!((waits.count, waits.total_ns), (9, Nanos(13 * MS)));
        assert_eq!((waits.behind_others_ns, waits.behind_itself_ns), (Nanos(10 * MS), Nanos(3 * MS)));
        let behind: Vec<_> = work.behind.iter().map(|one| (&*one.path, one.wait_ns.0 / MS)).collect();
        assert_eq!(behind, [("/system.slice/cron.service", 7), ("/user.slice", 3)]);
    }

    #[test]
    fn who_is_not_named_may_be_one_of_its_own() {
        let mut account = Account::new(CgroupId(7), "/lagstop-command-1", false);
        // Of 10 ms, 8 are named.
        let named = [(20, 2), (21, 2), (22, 2), (23, 2)];
        let crowded = |id| cgroup(id, &format!("/lagstop-command-1/{id}"), 10, 10, &named);
        account.add(
            &interval([vec![cgroup(7, "/lagstop-command-1", 1, 0, &[])], (20..28).map(crowded).collect()].concat()),
            None,
        );
        let waits = account.finish().unwrap().waits.unwrap();
        let ms = [waits.total_ns, waits.behind_others_ns, waits.behind_itself_ns, waits.unknown_ns].map(|ns| ns.0 / MS);
        assert_eq!(ms, [80, 0, 64, 16]);
        // Who has one cgroup waits behind none of its own.
        let mut account = Account::new(CgroupId(7), "/lagstop-command-1", false);
        account.add(&interval(vec![cgroup(7, "/lagstop-command-1", 1, 9, &[])]), None);
        assert_eq!(account.finish().unwrap().waits.unwrap().behind_others_ns, Nanos(9 * MS));
    }

    #[test]
    fn threads_that_wait_for_each_other_beside_a_neighbour_are_crowded_out() {
        let cpu = |number, id, ran: u64| Cpu {
            cpu: number,
            totals: CpuTotals { busy_ns: Nanos(ran * MS), ..CpuTotals::default() },
            crowd: vec![Crowding { id: CgroupId(id), cpu_ns: Nanos(ran * MS), runq_wait_ns: None }],
        };
        let of_two = |allowed: Option<&[u32]>| {
            let allowed = allowed.map(|cpus| AllowedCpus { to_all: cpus.to_vec(), to_any: cpus.to_vec() });
            let mut account = Account::new(CgroupId(7), "/a", false);
            let mut own = cgroup(7, "/a", 60, 20, &[(2, 10), (8, 10)]);
            own.totals.wait_self_ns = Some(Nanos(50 * MS));
            let cgroups = vec![cgroup(2, "/user.slice", 100, 0, &[]), own, cgroup(8, "/a/inner", 40, 0, &[])];
            let cpus_now = vec![cpu(0, 7, 60), cpu(1, 2, 100), cpu(2, 8, 40)];
            account.add(&Interval { cgroups, cpus: cpus_now, ..Interval::default() }, allowed.as_ref());
            let crowded_out = account.finish().unwrap().crowded_out;
            let by: Vec<u64> = crowded_out.by().iter().map(|one| one.id.0).collect();
            (crowded_out.time_ns.0 / MS, crowded_out.perhaps_ns.0 / MS, by)
        };
        // 60 ms behind itself, its inner cgroup included; the neighbour ran for 100 ms, and it waited 10 ms behind that.
        assert_eq!(of_two(Some(&[0, 1, 2])), (60, 0, vec![2]));
        assert_eq!(of_two(Some(&[0, 2])), (0, 0, vec![]));
        assert_eq!(of_two(None), (0, 60, vec![]));
    }

    #[test]
    fn what_was_not_seen_or_not_measured_is_not_known() {
        let mut account = Account::new(CgroupId(7), "/a", false);
        account.add(&interval(vec![cgroup(2, "/user.slice", 90, 5, &[])]), None);
        assert_eq!(account.clone().finish(), None);
        let mut without = cgroup(7, "/a", 1, 1, &[]);
        without.totals.wait_self_ns = None;
        account.add(&interval(vec![without]), None);
        assert_eq!(account.finish().unwrap().waits, None);
    }
}
