//! What the kernel itself counts for a cgroup, and writes into the cgroup's files.

use super::{
    Nanos,
    counters::{Counter, counters},
};

const BANDWIDTH: Counter = Counter::from("`cpu.stat` of the cgroup").of_quota();
const VCPUS: Counter = Counter::from(
    "a vCPU's own cgroup: as `runq_wait_ns`; else `/proc/TID/schedstat` of the threads that the hypervisor named as vCPUs",
);
const PRESSURE: Counter = Counter::from("`cpu.pressure` of the cgroup, cgroup v2 only").not_adding_up().compared();

counters! {
    /// Counters from the cgroup's files. In a snapshot, they count since the cgroup was created. In an interval, they
    /// cover that interval. `None` without an earlier reading, or if the file does not exist.
    pub struct FileCounters, read by FileCountersRead;
    always {}
    if_measured {
        /// Enforcement periods of its CPU quota that elapsed.
        nr_periods: u64 => BANDWIDTH.metric("lagstop_cgroup_periods_total");
        /// Periods of its CPU quota in which the quota was used up.
        nr_throttled: u64 => BANDWIDTH.metric("lagstop_cgroup_throttled_periods_total");
        /// Time that its run queues were throttled, summed over CPUs.
        throttled_ns: Nanos => BANDWIDTH.metric("lagstop_cgroup_throttled_seconds_total");
        /// Time in which at least one task of the cgroup or its descendants waited for a CPU (PSI some).
        pressure_some_ns: Nanos => PRESSURE.metric("lagstop_cgroup_cpu_pressure_some_seconds_total").column("pressure-some",
            "some %", 6, "PSI some",
            "pressure: time in which at least one of its tasks, or its descendants' tasks, waited for a CPU, in %");
        /// Time in which tasks of the cgroup or its descendants waited for a CPU and none of them ran (PSI full).
        pressure_full_ns: Nanos => PRESSURE.metric("lagstop_cgroup_cpu_pressure_full_seconds_total").column("pressure-full",
            "full %", 6, "PSI full",
            "pressure: time in which its tasks, or its descendants' tasks, waited for a CPU and none ran, in %");
        /// Run-queue wait of the guest's virtual CPUs, summed over them. `None` where no guest runs.
        vcpu_wait_ns: Nanos => VCPUS.metric("lagstop_cgroup_vcpu_wait_seconds_total");
        /// Time over which that wait was counted, summed over the virtual CPUs. CPU ready is `vcpu_wait_ns / vcpu_ns`.
        vcpu_ns: Nanos => VCPUS.metric("lagstop_cgroup_vcpu_seconds_total");
    }
}

impl FileCounters {
    /// How many of them `lagstop diff` compares.
    pub const COMPARED: usize = {
        let (mut n, mut compared) = (0, 0);
        while n < Self::COUNT {
            compared += Self::COUNTERS[n].is_compared as usize;
            n += 1;
        }
        compared
    };

    /// The counters that `lagstop diff` compares.
    pub fn compared() -> impl Iterator<Item = &'static Counter> {
        const { &Self::COUNTERS }.iter().filter(|counter| counter.is_compared)
    }

    /// The values of the counters that `lagstop diff` compares.
    pub fn compared_figures(&self) -> impl Iterator<Item = Option<u64>> {
        let all = const { &Self::COUNTERS }.iter().zip(self.figures());
        all.filter(|(counter, _)| counter.is_compared).map(|(_, figure)| figure)
    }

    /// Without the counters that only concern a quota.
    #[must_use]
    pub fn without_quota(&self) -> Self {
        let figures = self.figures();
        Self::from_figures(std::array::from_fn(|n| figures[n].filter(|_| !Self::COUNTERS[n].is_of_quota)))
    }

    /// Share of the periods of its quota in which the quota was used up. `None` without a quota, and where no period ended.
    pub fn throttled(&self) -> Option<f64> {
        let (throttled, periods) = self.nr_throttled.zip(self.nr_periods)?;
        (periods > 0).then(|| throttled as f64 / periods as f64)
    }

    /// Combines two figures of each counter.
    fn combine(&self, other: &Self, with: impl Fn(usize, Option<u64>, Option<u64>) -> Option<u64>) -> Self {
        let (mine, theirs) = (self.figures(), other.figures());
        Self::from_figures(std::array::from_fn(|n| with(n, mine[n], theirs[n])))
    }

    /// What was added since `earlier`, for counters that were read both times. The kernel has counted since long before
    /// the first reading.
    #[must_use]
    pub fn since_known(&self, earlier: &Self) -> Self {
        self.combine(earlier, |_, now, then| Some(now?.saturating_sub(then?)))
    }

    /// Adds what happened next, as far as it is known.
    pub fn add_known(&mut self, next: &Self) {
        *self = self.combine(next, |_, sum, more| known(sum, more));
    }

    /// Adds the counters of another cgroup for the same time, if they are known and the sum is meaningful.
    pub fn add_beside(&mut self, other: &Self) {
        *self = self.combine(other, |n, sum, more| known(sum, more).filter(|_| Self::COUNTERS[n].adds_up));
    }
}

/// The sum of what is known.
pub(super) fn known(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.saturating_add(b)),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_once_is_not_known() {
        let now = FileCounters { nr_periods: Some(9), pressure_some_ns: Some(Nanos(7)), ..FileCounters::default() };
        let then = FileCounters { nr_periods: Some(4), ..FileCounters::default() };
        assert_eq!(now.since_known(&then), FileCounters { nr_periods: Some(5), ..FileCounters::default() });
    }

    #[test]
    fn pressure_of_several_cgroups_is_no_sum() {
        let mut one = FileCounters { nr_periods: Some(9), pressure_some_ns: Some(Nanos(7)), ..FileCounters::default() };
        let mut over_time = one;
        over_time.add_known(&one);
        assert_eq!((over_time.nr_periods, over_time.pressure_some_ns), (Some(18), Some(Nanos(14))));
        one.add_beside(&FileCounters { pressure_full_ns: Some(Nanos(7)), ..one });
        assert_eq!(one, FileCounters { nr_periods: Some(18), ..FileCounters::default() });
    }
}
