//! What an interval says about the host as a whole, small enough to keep for every one of them.

use super::rated::is_rated;
use crate::model::{DistributionSum, Host, Interval, Nanos};

/// One interval of the host, or several summed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HostSample {
    /// CPU time there was.
    pub capacity_ns: f64,
    /// Of that, in tasks other than idle.
    pub busy_ns: f64,
    /// Run-queue wait that ended.
    pub wait_ns: Option<f64>,
    /// Switches away from tasks other than idle.
    pub switches: u64,
    /// Cost of these switches.
    pub switching_ns: Option<f64>,
    /// Cost of calls that kept the running task: overhead, but no switch's.
    pub kept_ns: Option<f64>,
}

impl From<&Host> for HostSample {
    fn from(host: &Host) -> Self {
        let real = |ns: Nanos| ns.0 as f64;
        let kept = host.totals.kept_ns.zip(host.idle.kept_ns).map(|(all, idle)| all.saturating_sub(idle));
        let overhead = host.overhead_ns();
        Self {
            capacity_ns: real(host.times.busy_ns) + real(host.times.idle_ns),
            busy_ns: real(host.times.busy_ns),
            wait_ns: host.totals.runq_wait_ns.map(real),
            switches: host.task_switches(),
            switching_ns: overhead.zip(kept).map(|(overhead, kept)| real(overhead.saturating_sub(kept))),
            kept_ns: kept.zip(overhead).map(|(kept, overhead)| real(kept.min(overhead))),
        }
    }
}

impl HostSample {
    /// The sum. What one of them did not measure is not measured in it.
    pub fn sum<'a>(samples: impl IntoIterator<Item = &'a Self>) -> Self {
        let add = |a: Option<f64>, b: Option<f64>| a.zip(b).map(|(a, b)| a + b);
        samples
            .into_iter()
            .copied()
            .reduce(|a, b| Self {
                capacity_ns: a.capacity_ns + b.capacity_ns,
                busy_ns: a.busy_ns + b.busy_ns,
                wait_ns: add(a.wait_ns, b.wait_ns),
                switches: a.switches.saturating_add(b.switches),
                switching_ns: add(a.switching_ns, b.switching_ns),
                kept_ns: add(a.kept_ns, b.kept_ns),
            })
            .unwrap_or_default()
    }

    /// Runnable tasks per CPU on average; running ones alone where waits were not measured.
    pub fn load_per_cpu(&self) -> f64 {
        self.per_capacity(self.busy_ns + self.wait_ns.unwrap_or_default())
    }

    /// Share of the time of all CPUs that was not idle.
    pub fn utilisation(&self) -> f64 {
        self.per_capacity(self.busy_ns)
    }

    /// Share of the time of all CPUs that went into the tasks' own work.
    pub fn effective_utilisation(&self) -> Option<f64> {
        Some((self.utilisation() - self.overhead()?).max(0.0))
    }

    /// Overhead as a share of all CPU time.
    pub fn overhead(&self) -> Option<f64> {
        Some(self.per_capacity(self.switching_ns? + self.kept_ns?))
    }

    /// Of the overhead, what switches cost: exactly rate × mean cost.
    pub fn switching(&self) -> Option<f64> {
        Some(self.per_capacity(self.switching_ns?))
    }

    /// Of the overhead, what calls cost that kept the running task.
    pub fn kept(&self) -> Option<f64> {
        Some(self.per_capacity(self.kept_ns?))
    }

    /// Switches per second and CPU.
    pub fn rate(&self) -> f64 {
        self.per_capacity(self.switches as f64 * 1e9)
    }

    /// Mean cost of a switch in nanoseconds. `None` of none.
    pub fn mean_cost_ns(&self) -> Option<f64> {
        (self.switches > 0).then_some(self.switching_ns? / self.switches as f64)
    }

    fn per_capacity(&self, value: f64) -> f64 {
        if self.capacity_ns > 0.0 { value / self.capacity_ns } else { 0.0 }
    }
}

/// With how many cgroups it ran, in one interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Density {
    pub active: u64,
    /// CPU time that was neither idle nor lost to switching, as a share of all there was.
    pub work: f64,
    /// Overhead, as a share of all CPU time.
    pub overhead: f64,
    /// 99th percentile of all run-queue waits, in nanoseconds. `None` where they were not measured.
    pub wait_p99: Option<f64>,
}

impl Density {
    /// `None` if switch costs were not measured.
    pub(super) fn of(interval: &Interval) -> Option<Self> {
        let host = &interval.host;
        let capacity = host.capacity().0 as f64;
        let overhead = host.overhead()?;
        let mut waits = DistributionSum::default();
        let rated = interval.cgroups.iter().filter(|cgroup| is_rated(cgroup.id) && cgroup.totals.cpu_ns > Nanos::ZERO);
        let active = rated.inspect(|cgroup| cgroup.runq_wait.iter().for_each(|more| waits.add(more))).count() as u64;
        let point = Self {
            active,
            work: host.times.busy_ns.0 as f64 / capacity - overhead,
            overhead,
            wait_p99: waits.total().quantile(0.99).map(|wait| wait.0 as f64),
        };
        (point.work.is_finite() && active > 0).then_some(point)
    }

    /// Share of all CPU time that was not idle.
    pub(super) fn busy(&self) -> f64 {
        self.work + self.overhead
    }

    pub(super) fn mean<'a>(points: impl IntoIterator<Item = &'a Self>) -> Self {
        let points: Vec<&Self> = points.into_iter().collect();
        let mean =
            |of: &dyn Fn(&Self) -> f64| points.iter().map(|point| of(point)).sum::<f64>() / points.len().max(1) as f64;
        let waits: Vec<f64> = points.iter().filter_map(|point| point.wait_p99).collect();
        Self {
            active: mean(&|point| point.active as f64).round() as u64,
            work: mean(&|point| point.work),
            overhead: mean(&|point| point.overhead),
            wait_p99: (!waits.is_empty()).then(|| waits.iter().sum::<f64>() / waits.len() as f64),
        }
    }
}
