//! The CPU time that weights, quotas and CPU sets grant each cgroup.
//!
//! CPU time is shared from the top of the tree down: in each queue its cgroups and its own tasks get CPU time by their
//! weights, none more than it asks for, and what one does not need goes to the others by their weights (max-min fairness).
//! A cgroup asks for its runnable load, and for no more than its quota. This is what the kernel's fair scheduler aims at, on
//! average over CPUs: it knows neither latencies nor priorities.

mod fill;

use std::{collections::HashMap, sync::Arc};

use super::{Cgroup, CgroupId, CgroupMode, Cores, Group, Interval, Nanos};
use fill::Tree;

/// Tasks of a cgroup that want a CPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Asking {
    /// The number of the cgroup.
    pub group: usize,
    /// How many are runnable on average.
    pub tasks: f64,
    /// How many of them a quota stops on average: these do not count for the weight.
    pub throttled: f64,
}

impl Asking {
    /// How many count for the weight.
    fn runnable(&self) -> f64 {
        let tasks = self.tasks - self.throttled;
        if tasks.is_finite() { tasks.max(0.0) } else { 0.0 }
    }
}

/// How CPU time is to be shared.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Entitlement {
    /// In cores, in the order of those that ask.
    pub asking: Vec<f64>,
    /// By the number of the cgroup, with all that is inside of it. Nothing for those that have no queue.
    pub groups: Vec<Entitled>,
}

/// What a cgroup is entitled to, with all that is inside of it, in cores.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Entitled {
    /// What it asks for, up to its quota.
    pub demand: f64,
    /// What it is entitled to.
    pub cpu: f64,
    /// What it would be entitled to if each cgroup in its queue had the usual weight.
    pub with_equal_weights: f64,
    /// How often its weight counts.
    pub times: f64,
}

impl Entitlement {
    /// Shares `cpus` among those that ask. Where there are fewer of `cpus` than are online, each CPU is worth the less.
    /// `most_times`: see [`CgroupMode::most_times`].
    pub fn of(groups: &[Group], asking: &[Asking], cpus: f64, most_times: f64) -> Self {
        Tree::new(groups, asking, most_times).share(cpus)
    }
}

impl Interval {
    /// Computes what each of its cgroups was entitled to.
    pub fn entitle(&mut self, mode: CgroupMode) {
        let entitled = self.entitled_cpu(mode);
        for (cgroup, entitled) in self.cgroups.iter_mut().zip(entitled) {
            cgroup.entitled_cpu = entitled;
        }
    }

    /// In the order of its cgroups.
    pub fn entitled_cpu(&self, mode: CgroupMode) -> Vec<Option<Cores>> {
        let online: Vec<u32> = if self.cpus.is_empty() {
            (0..u32::try_from(self.host.cpus_online).unwrap_or(0).min(1 << 16)).collect()
        } else {
            self.cpus.iter().map(|cpu| cpu.cpu).collect()
        };
        let mut tree = Placed::default();
        let mut asking = Vec::with_capacity(self.cgroups.len());
        let mut cpus = self.cpus_for_tasks();
        let mut asks = Vec::with_capacity(self.cgroups.len());
        for cgroup in &self.cgroups {
            let known = cgroup.runnable_tasks(self.duration_ns).and_then(|tasks| {
                let group = tree.place(cgroup, &online)?;
                let throttled = cgroup.totals.wait_throttled_ns.unwrap_or_default().cores(self.duration_ns).0;
                Some(Asking { group, tasks, throttled })
            });
            // If what it asks for or its place is unknown, it keeps what it got. The others share the rest.
            if known.is_none() {
                cpus -= cgroup.totals.cpu_ns.cores(self.duration_ns).0;
            }
            asks.push(known.is_some());
            asking.extend(known);
        }
        let entitled = Entitlement::of(&tree.groups, &asking, cpus, mode.most_times(online.len()));
        let mut entitled = entitled.asking.into_iter().map(Cores);
        asks.into_iter().map(|asks| if asks { entitled.next() } else { None }).collect()
    }

    /// CPUs that tasks could have: those that are online, without what interrupts and a hypervisor took of them.
    pub fn cpus_for_tasks(&self) -> f64 {
        let nobodys = self.host.times.busy_ns.saturating_sub(self.host.totals.cpu_ns);
        (self.host.cpus_online as f64 - nobodys.cores(self.duration_ns).0).max(0.0)
    }
}

impl Cgroup {
    /// Its runnable load, limited to its number of tasks, because a whole wait is booked where it ends. `None` if waits
    /// were not measured.
    pub fn runnable_tasks(&self, duration: Nanos) -> Option<f64> {
        let load = self.totals.runnable_load(duration)?.0;
        Some(if self.totals.threads == 0 { load } else { load.min(self.totals.threads as f64) })
    }
}

/// The tree of an interval.
#[derive(Debug, Default)]
struct Placed<'a> {
    groups: Vec<Group>,
    numbers: HashMap<&'a str, usize>,
    /// CPU sets by the lists that they were read from.
    cpus: HashMap<&'a Arc<str>, Vec<bool>>,
}

impl<'a> Placed<'a> {
    /// The number of a cgroup. `None` where its place is not known.
    fn place(&mut self, cgroup: &'a Cgroup, online: &[u32]) -> Option<usize> {
        let number = if cgroup.id == CgroupId::ROOT || &*cgroup.path == "/" {
            self.add("/", Group { has_queue: false, ..Group::default() })
        } else {
            let levels = cgroup.levels.as_ref().filter(|levels| !levels.is_empty())?;
            let mut ends = cgroup.path.match_indices('/').map(|(end, _)| end).skip(1).chain([cgroup.path.len()]);
            let mut parent = None;
            for level in levels.iter().take(Group::MOST_LEVELS) {
                let mut group = Group { parent, ..Group::default() };
                group.set(level);
                // Levels and path are of one cgroup. A recording that says otherwise says nothing.
                parent = Some(self.add(&cgroup.path[..ends.next()?], group));
            }
            parent?
        };
        if let Some(cpus) = &cgroup.cpus {
            self.groups[number].cpus = self.cpus.entry(cpus).or_insert_with(|| Group::allowed(cpus, online)).clone();
        }
        Some(number)
    }

    fn add(&mut self, path: &'a str, group: Group) -> usize {
        *self.numbers.entry(path).or_insert_with(|| {
            self.groups.push(group);
            self.groups.len() - 1
        })
    }
}

#[cfg(test)]
mod tests;
