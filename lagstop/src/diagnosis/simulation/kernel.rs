//! Settings of the simulated scheduler.

/// Its settings, times in seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct SimulatedKernel {
    /// The timer interrupts a CPU that often (`CONFIG_HZ`).
    pub tick: f64,
    /// CPU time that a task asks for at a time (`base_slice_ns`).
    pub slice: f64,
    /// How long a real-time task runs before another of its priority does (`sched_rr_timeslice_ms`).
    pub real_time_slice: f64,
    /// How often the weight of a cgroup counts at most ([`crate::model::CgroupMode`]).
    pub most_times: f64,
}

impl SimulatedKernel {
    /// The usual one on a host with so many CPUs: 250 ticks a second, and a slice of 0.7 ms that grows with the CPUs up to eight
    /// (`get_update_sysctl_factor`).
    pub fn usual(cpus: usize) -> Self {
        let factor = 1 + cpus.clamp(1, 8).ilog2();
        Self { tick: 0.004, slice: 0.0007 * f64::from(factor), real_time_slice: 0.1, most_times: 1.0 }
    }
}
