//! What an interval says about the host as a whole, small enough to keep for every one of them.

use crate::model::{Host, Nanos};

/// One interval of the host, or several summed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
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

impl From<&Host> for Sample {
    fn from(host: &Host) -> Self {
        let real = |ns: Nanos| ns.0 as f64;
        let kept = host.totals.kept_ns.zip(host.idle.kept_ns).map(|(all, idle)| all.saturating_sub(idle));
        let overhead = host.overhead_ns();
        Self {
            capacity_ns: real(host.busy_ns) + real(host.idle_ns),
            busy_ns: real(host.busy_ns),
            wait_ns: host.totals.runq_wait_ns.map(real),
            switches: host.task_switches(),
            switching_ns: overhead.zip(kept).map(|(overhead, kept)| real(overhead.saturating_sub(kept))),
            kept_ns: kept.zip(overhead).map(|(kept, overhead)| real(kept.min(overhead))),
        }
    }
}

impl Sample {
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
