//! The cgroups as the scheduler sees them: each competes with its siblings, and for all that is inside of it.

use super::Level;

/// The weight of an idle cgroup, beside 1 (`WEIGHT_IDLEPRIO` of 1,024).
const IDLE: f64 = 3.0 / 1_024.0;
/// The smallest weight (`MIN_SHARES`).
const LEAST: f64 = 2.0 / 1_024.0;
/// The shortest quotas and quota periods, in seconds (`min_cfs_quota_period`).
const LEAST_QUOTA: f64 = 0.001;

/// A cgroup.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// The number of the one that it is inside of. `None`: it is right below the root, or the root itself.
    pub parent: Option<usize>,
    /// Whether the scheduler has a queue for it. If not, its tasks compete in the queue of the nearest ancestor that
    /// has one. This holds for the root, for rows that sum many cgroups, and for levels without a `cpu` controller.
    pub has_queue: bool,
    /// Its weight beside its siblings': 1 is the usual one.
    pub weight: f64,
    /// It runs when no sibling wants to (`cpu.idle`).
    pub is_idle: bool,
    /// CPU time that all inside of it may use in each period, and the period, in seconds.
    pub quota: Option<(f64, f64)>,
    /// CPUs that its tasks may run on, by number. Empty: all.
    pub cpus: Vec<bool>,
}

impl Default for Group {
    fn default() -> Self {
        Self { parent: None, has_queue: true, weight: 1.0, is_idle: false, quota: None, cpus: Vec::new() }
    }
}

impl Group {
    /// The most levels of the tree that are used. The kernel's own limit is far above practical depths.
    pub const MOST_LEVELS: usize = 64;

    /// Applies the settings of its own level.
    pub fn set(&mut self, level: &Level) {
        let usual = Level::DEFAULT_WEIGHT;
        self.has_queue = level.weight.is_some();
        self.weight = level.weight.filter(|weight| weight.is_finite() && *weight > 0.0).unwrap_or(usual) / usual;
        self.is_idle = level.is_idle;
        let quota = level.quota_ns.zip(level.period_ns).map(|(quota, period)| (quota.seconds(), period.seconds()));
        self.quota = quota.filter(|&(quota, period)| quota >= LEAST_QUOTA && period >= LEAST_QUOTA);
    }

    /// May its tasks run on this CPU?
    pub fn may_run_on(&self, cpu: usize) -> bool {
        self.cpus.is_empty() || self.cpus.get(cpu).copied().unwrap_or(false)
    }

    /// Its weight if all that is runnable inside of it is in one queue.
    pub const fn whole_weight(&self) -> f64 {
        if self.is_idle { IDLE } else { self.weight }
    }

    /// Its weight in the queue of a CPU that has this part of its load, where it counts so many times (`calc_group_shares`).
    pub fn share(&self, part: f64, times: f64) -> f64 {
        let whole = self.whole_weight() * times;
        (whole * part).clamp(LEAST.min(whole), whole)
    }

    pub fn quota_cpus(&self) -> Option<f64> {
        self.quota.map(|(quota, period)| quota / period)
    }

    /// Which of the `online` CPUs are in a list of the kernel such as `0-3,7`. Empty if all of them are, or none.
    pub fn allowed(list: &str, online: &[u32]) -> Vec<bool> {
        let range = |part: &str| {
            let (from, to) = part.split_once('-').unwrap_or((part, part));
            Some(from.trim().parse::<u32>().ok()?..=to.trim().parse::<u32>().ok()?)
        };
        let ranges: Vec<_> = list.split(',').filter_map(range).collect();
        let has: Vec<bool> = online.iter().map(|cpu| ranges.iter().any(|range| range.contains(cpu))).collect();
        if has.iter().all(|&has| has) || !has.contains(&true) { Vec::new() } else { has }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_are_read_as_the_kernel_writes_them() {
        assert_eq!(Group::allowed("0-1,7", &[0, 1, 2, 7]), [true, true, false, true]);
        assert_eq!(Group::allowed("0-4294967295", &[0, 1]), [] as [bool; 0], "all of them");
        assert_eq!(Group::allowed("9", &[0, 1]), [] as [bool; 0], "none is no restriction that could be simulated");
        assert_eq!(Group::allowed("x-,-3,,5-1", &[0, 1]), [] as [bool; 0]);
    }
}
