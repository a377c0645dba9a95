//! The cgroups as the scheduler sees them: each competes with its siblings, and for all that is inside of it.

/// The weight of an idle cgroup, beside 1 (`WEIGHT_IDLEPRIO` of 1,024).
const IDLE: f64 = 3.0 / 1_024.0;
/// The least weight there is (`MIN_SHARES`).
const LEAST: f64 = 2.0 / 1_024.0;

/// A cgroup.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// The number of the one that it is inside of. `None`: it is right below the root, or the root itself.
    pub parent: Option<usize>,
    /// The scheduler has a queue for it. Without one its tasks compete in that of the next one above which has: those of the
    /// root itself, those that stand for many, and those whose level has no `cpu` controller.
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
    /// May its tasks run on this CPU?
    pub(super) fn may_run_on(&self, cpu: usize) -> bool {
        self.cpus.is_empty() || self.cpus.get(cpu).copied().unwrap_or(false)
    }

    /// What it weighs where all that is runnable inside of it is in one queue.
    pub const fn whole_weight(&self) -> f64 {
        if self.is_idle { IDLE } else { self.weight }
    }

    /// What it weighs in the queue of a CPU with this part of its load (`calc_group_shares`).
    pub(super) fn share(&self, part: f64) -> f64 {
        let whole = self.whole_weight();
        (whole * part).clamp(LEAST.min(whole), whole)
    }
}
