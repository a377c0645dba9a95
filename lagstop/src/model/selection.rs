//! Intervals in which only selected cgroups are tracked separately.

use std::{collections::HashMap, sync::Arc};

use super::{Cgroup, CgroupId, Cpu, Crowding, Distribution, DistributionSum, Interval, Totals, behind::BehindSum};

/// Tracks some cgroups separately and sums the others into the row `(other)`. The sums do not change.
#[derive(Debug)]
pub struct Selection<F> {
    is_wanted: F,
    known: HashMap<CgroupId, Known>,
    found: bool,
}

/// What was found out about a cgroup. Valid while its names stay the same.
#[derive(Debug)]
struct Known {
    path: Arc<str>,
    name: Arc<str>,
    is_wanted: bool,
}

impl<F: Fn(&Cgroup) -> bool> Selection<F> {
    /// Of the cgroups that `is_wanted` by path and name.
    pub fn new(is_wanted: F) -> Self {
        Self { is_wanted, known: HashMap::new(), found: false }
    }

    /// Was any of the wanted cgroups seen yet?
    pub const fn has_found(&self) -> bool {
        self.found
    }

    /// The next interval, in which only the selected cgroups are separate. Listeners follow their cgroup from when it
    /// was first seen.
    #[must_use]
    pub fn apply(&mut self, mut interval: Interval) -> Interval {
        let (mut cgroups, others): (Vec<Cgroup>, Vec<Cgroup>) =
            interval.cgroups.into_iter().partition(|cgroup| self.wants(cgroup));
        for cgroup in &mut cgroups {
            self.narrow_waits(cgroup);
        }
        if let Some(mut other) = sum(&others) {
            other.runnable_load = other.totals.runnable_load(interval.duration_ns);
            cgroups.insert(0, other);
        }
        interval.cgroups = cgroups;
        for cpu in &mut interval.cpus {
            self.narrow(cpu);
        }
        interval.listeners.retain(|listener| listener.cgroup.is_some_and(|id| self.keeps(id)));
        let listeners = &interval.listeners;
        interval
            .network_namespaces
            .retain(|namespace| listeners.iter().any(|listener| listener.netns == namespace.netns));
        interval
    }

    fn wants(&mut self, cgroup: &Cgroup) -> bool {
        if cgroup.id == CgroupId::OTHER {
            return false;
        }
        let known = self.known.get(&cgroup.id).filter(|known| known.path == cgroup.path && known.name == cgroup.name);
        if let Some(known) = known {
            return known.is_wanted;
        }
        let is_wanted = (self.is_wanted)(cgroup);
        self.found |= is_wanted;
        let known = Known { path: Arc::clone(&cgroup.path), name: Arc::clone(&cgroup.name), is_wanted };
        self.known.insert(cgroup.id, known);
        is_wanted
    }

    fn keeps(&self, id: CgroupId) -> bool {
        self.known.get(&id).is_some_and(|known| known.is_wanted)
    }

    /// Sums the waits behind cgroups that are not selected.
    fn narrow_waits(&self, cgroup: &mut Cgroup) {
        let mut sum = BehindSum::default();
        for one in &cgroup.waits_behind {
            sum.add(if self.keeps(one.id) { one.id } else { CgroupId::OTHER }, one.wait_ns);
        }
        cgroup.waits_behind = sum.worst(cgroup.totals.wait_behind_ns.unwrap_or_default());
    }

    /// Sums the others in the crowd of a CPU.
    fn narrow(&self, cpu: &mut Cpu) {
        let (mut crowd, others): (Vec<Crowding>, Vec<Crowding>) = cpu.crowd.iter().partition(|one| self.keeps(one.id));
        let other = others.into_iter().reduce(|sum, next| Crowding {
            cpu_ns: sum.cpu_ns.saturating_add(next.cpu_ns),
            runq_wait_ns: sum.runq_wait_ns.zip(next.runq_wait_ns).map(|(sum, next)| sum.saturating_add(next)),
            ..sum
        });
        crowd.extend(other.map(|other| Crowding { id: CgroupId::OTHER, ..other }));
        crowd.sort_by_key(|one| (std::cmp::Reverse(one.time()), one.id));
        cpu.crowd = crowd;
    }
}

/// Sums `others` into one row. A figure that was not measured for one of them is not measured in the sum. The row has
/// no quota and no Load Credit, because these belong to single cgroups.
fn sum(others: &[Cgroup]) -> Option<Cgroup> {
    let totals = others.iter().map(|cgroup| cgroup.totals).reduce(|mut sum: Totals, totals| {
        sum.add(&totals);
        sum
    })?;
    let distribution = |of: fn(&Cgroup) -> Option<&Distribution>| {
        let mut sum = DistributionSum::default();
        others.iter().try_for_each(|cgroup| of(cgroup).map(|distribution| sum.add(distribution)))?;
        Some(sum.total())
    };
    Some(Cgroup {
        id: CgroupId::OTHER,
        path: "(other)".into(),
        name: "(other)".into(),
        totals,
        switch_cost: distribution(|cgroup| cgroup.switch_cost.as_ref()),
        runq_wait: distribution(|cgroup| cgroup.runq_wait.as_ref()),
        accept_wait: distribution(|cgroup| cgroup.accept_wait.as_ref()),
        ..Cgroup::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Listener, Nanos, NetworkNamespace, fixture};

    fn crowding(id: u64, ns: u64) -> Crowding {
        Crowding { id: CgroupId(id), cpu_ns: Nanos(ns), runq_wait_ns: None }
    }

    #[test]
    fn the_host_is_still_the_sum_of_cgroups_and_idle() {
        let before = fixture::overloaded(40).pop().unwrap();
        let mut selection = Selection::new(|cgroup: &Cgroup| &*cgroup.name == "web");
        let after = selection.apply(before.clone());
        assert_eq!(after.cgroups.iter().map(|cgroup| &*cgroup.name).collect::<Vec<_>>(), ["(other)", "web"]);
        let sums = [&before, &after].map(|interval| {
            interval.cgroups.iter().map(|cgroup| cgroup.totals).reduce(|mut sum, totals| {
                sum.add(&totals);
                sum
            })
        });
        assert_eq!(sums[0], sums[1]);
        assert_eq!(after.host, before.host);
        assert_eq!(selection.apply(after.clone()), after, "the others stay what they are");
    }

    #[test]
    fn crowds_and_listeners_name_no_others() {
        let mut interval = fixture::overloaded(40).pop().unwrap();
        let ids: Vec<u64> = interval.cgroups.iter().map(|cgroup| cgroup.id.0).collect();
        let wanted = interval.cgroups[1].id;
        let crowd = vec![crowding(ids[0], 9), crowding(ids[1], 8), crowding(ids[2], 7)];
        interval.cpus = vec![Cpu { crowd, ..Cpu::default() }];
        let listener = |netns, cgroup| Listener { cgroup, ..Listener::new(netns, "[::]:80".parse().unwrap()) };
        interval.listeners = vec![listener(1, Some(wanted)), listener(2, Some(CgroupId(ids[0]))), listener(3, None)];
        interval.network_namespaces =
            [1, 2, 3].map(|netns| NetworkNamespace { netns, listen_overflows: Some(0) }).to_vec();
        let after = Selection::new(|cgroup: &Cgroup| cgroup.id == wanted).apply(interval);
        assert_eq!(after.cpus[0].crowd, [crowding(0, 16), crowding(ids[1], 8)]);
        assert_eq!(after.listeners.len(), 1);
        assert_eq!(after.network_namespaces.iter().map(|namespace| namespace.netns).collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn a_cgroup_that_is_called_otherwise_is_looked_at_again() {
        let mut selection = Selection::new(|cgroup: &Cgroup| &*cgroup.name == "pod");
        let named = |name: &str| Interval {
            cgroups: vec![Cgroup { id: CgroupId(5), name: name.into(), ..Cgroup::default() }],
            ..Interval::default()
        };
        assert_eq!(selection.apply(named("/path")).cgroups[0].id, CgroupId::OTHER);
        assert!(!selection.has_found());
        assert_eq!(selection.apply(named("pod")).cgroups[0].id, CgroupId(5));
        assert!(selection.has_found());
    }
}
