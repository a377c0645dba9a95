//! The rows of the kernel's tables, and what they say of those who own them.

use std::sync::Arc;

use bytemuck::Zeroable;
use lagstop_ebpf::{AcceptTotals, BUCKETS, CAUSES, Cause, Distributions, RowTotals};

use super::{causes::Causes, measured::Measured};
use crate::model::{ByCpu, CgroupCounters, Distribution, Nanos, Totals, WaitBehind};

/// What is counted in a row beside its totals; its copies added up.
#[derive(Clone)]
pub(super) struct Details {
    switch_cost: [u32; BUCKETS],
    runq_wait: [u32; BUCKETS],
    causes_ns: [u64; CAUSES],
    pub(super) accepts: AcceptTotals,
}

impl Details {
    pub(super) fn zeroed() -> Self {
        Self {
            switch_cost: [0; BUCKETS],
            runq_wait: [0; BUCKETS],
            causes_ns: [0; CAUSES],
            accepts: AcceptTotals::zeroed(),
        }
    }

    /// Takes in one of the copies of the distributions.
    pub(super) fn add(&mut self, copy: &Distributions) {
        for (sums, counts) in [(&mut self.switch_cost, &copy.switch_cost), (&mut self.runq_wait, &copy.runq_wait)] {
            for (sum, count) in sums.iter_mut().zip(counts) {
                *sum = sum.wrapping_add(*count);
            }
        }
        for (sum, ns) in self.causes_ns.iter_mut().zip(&copy.causes_ns) {
            *sum = sum.wrapping_add(*ns);
        }
    }
}

/// What is kept about a row from read to read.
pub(super) struct Row {
    /// Its totals when they were last read, and what they were on each CPU.
    totals: RowTotals,
    by_cpu: ByCpu,
    /// Whether its details have to be read once more: they are counted at other moments than the totals.
    is_behind: bool,
    causes: Causes,
    /// What its details lacked when they were read once more: that will not come any more.
    lost: u64,
    /// All that has ever been counted in it.
    all: Arc<CgroupCounters>,
    /// What had been counted when its owner got it, where it had another one before.
    base: Option<Arc<CgroupCounters>>,
    /// The owner's counters.
    pub(super) counters: Arc<CgroupCounters>,
    /// Behind whom the owner waited, by ascending ids: what the last read added.
    pub(super) behind: Vec<WaitBehind>,
    /// Whether the last read added anything.
    pub(super) changed: bool,
}

impl Row {
    pub(super) fn new(measured: Measured) -> Self {
        let totals = RowTotals::zeroed();
        let by_cpu = by_cpu(&[], measured);
        let causes = Causes::default();
        let all = Arc::new(counters(&totals, by_cpu.clone(), &Details::zeroed(), &causes, measured));
        let counters = Arc::clone(&all);
        Self {
            totals,
            by_cpu,
            is_behind: false,
            causes,
            lost: 0,
            counters,
            all,
            base: None,
            behind: Vec::new(),
            changed: false,
        }
    }

    /// Begins a read. Gives whether the row has to be read: it may have changed, or its details are behind.
    pub(super) fn is_due(&mut self, may_have_changed: bool) -> bool {
        self.changed = false;
        self.behind.clear();
        may_have_changed || self.is_behind
    }

    /// Takes in the sum of its totals, and CPU time and wait on each CPU. Gives whether its details have to be read too.
    pub(super) fn update_totals(&mut self, totals: &RowTotals, on_cpus: &[(Nanos, Nanos)], measured: Measured) -> bool {
        let grows = *totals != self.totals;
        if grows {
            self.totals = *totals;
            self.by_cpu = by_cpu(on_cpus, measured);
        }
        std::mem::replace(&mut self.is_behind, grows) || grows
    }

    /// Takes in its details, read after its totals, and behind whom its owner has waited since, read before.
    pub(super) fn update_details(&mut self, details: &Details, behind: &[WaitBehind], measured: Measured) {
        if measured.blame {
            self.behind = self.causes.update(&details.causes_ns, self.totals.runq_wait_ns, behind);
        }
        let all = counters(&self.totals, self.by_cpu.clone(), details, &self.causes, measured);
        match missing(&all) {
            missing if self.is_behind => self.is_behind = missing > self.lost,
            missing => self.lost = missing,
        }
        self.changed = *self.all != all;
        if self.changed {
            self.all = Arc::new(all);
            self.counters = match &self.base {
                Some(base) => Arc::new(self.all.since(base)),
                None => Arc::clone(&self.all),
            };
        }
    }

    /// The row gets a new owner. It has been quiet since the last owner went, so nothing in it is the new owner's.
    pub(super) fn pass_on(&mut self) {
        self.causes.pass_on();
        self.behind.clear();
        self.counters = Arc::new(self.all.since(&self.all));
        self.base = Some(Arc::clone(&self.all));
    }
}

fn by_cpu(on_cpus: &[(Nanos, Nanos)], measured: Measured) -> ByCpu {
    ByCpu::of(on_cpus, |figures| *figures, measured.waits)
}

/// Switches and waits that are in the totals and in no distribution.
fn missing(counters: &CgroupCounters) -> u64 {
    let CgroupCounters { totals, switch_cost, runq_wait, .. } = counters;
    let of = |counted: u64, distribution: &Option<Distribution>| {
        distribution.as_ref().map_or(0, |distribution| counted.saturating_sub(distribution.count()))
    };
    of(totals.switches, switch_cost) + of(totals.runq_waits.unwrap_or(0), runq_wait)
}

/// What was counted, with `None` for what is not measured.
fn counters(
    totals: &RowTotals,
    by_cpu: ByCpu,
    details: &Details,
    causes: &Causes,
    measured: Measured,
) -> CgroupCounters {
    let Measured { pick, swap, kept, pick_function, waits, blame, migrations, accepts } = measured;
    let cause = |cause| blame.then(|| causes.of(cause));
    let switches = totals.voluntary_switches + totals.involuntary_switches;
    CgroupCounters {
        totals: Totals {
            switches,
            voluntary_switches: totals.voluntary_switches,
            involuntary_switches: totals.involuntary_switches,
            cross_cgroup_switches: Some(totals.cross_cgroup_switches),
            cpu_ns: Nanos(totals.cpu_ns),
            threads: totals.threads,
            schedule_calls: kept.then_some(switches + totals.kept_calls),
            pick_ns: pick.then_some(Nanos(totals.pick_ns)),
            kept_ns: kept.then_some(Nanos(totals.kept_ns)),
            swap_ns: swap.then_some(Nanos(totals.swap_ns)),
            pick_function_ns: pick_function.then_some(Nanos(totals.pick_function_ns)),
            runq_waits: waits.then_some(totals.runq_waits),
            runq_wait_ns: waits.then_some(Nanos(totals.runq_wait_ns)),
            wait_behind_ns: cause(Cause::Behind),
            wait_self_ns: cause(Cause::Own),
            wait_kernel_ns: cause(Cause::Kernel),
            wait_idle_ns: cause(Cause::Idle),
            wait_throttled_ns: cause(Cause::Throttled),
            wait_elsewhere_ns: cause(Cause::Elsewhere),
            wait_unknown_ns: cause(Cause::Unknown),
            migrations: migrations.then_some(totals.migrations),
            migrations_cross_llc: migrations.then_some(totals.migrations_cross_llc),
            migrations_cross_numa: migrations.then_some(totals.migrations_cross_numa),
            accepts: accepts.then_some(details.accepts.accepts),
            accept_wait_ns: accepts.then_some(Nanos(details.accepts.accept_wait_ns)),
        },
        switch_cost: swap.then(|| Distribution::from_counts(&details.switch_cost)),
        runq_wait: waits.then(|| Distribution::from_counts(&details.runq_wait)),
        accept_wait: accepts.then(|| Distribution::from_counts(&details.accepts.accept_wait)),
        by_cpu,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Measured = Measured { swap: true, waits: true, ..Measured::NOTHING };

    /// Reads CPU time and run-queue wait on each CPU, and one wait for each nanosecond of it.
    fn read(row: &mut Row, cpus: &[(u64, u64)]) -> bool {
        read_with(row, cpus, cpus.iter().map(|cpu| cpu.1 as u32).sum())
    }

    /// The same with `waits` of the waits in the distribution.
    fn read_with(row: &mut Row, cpus: &[(u64, u64)], waits: u32) -> bool {
        let mut sum = RowTotals::zeroed();
        for &(cpu_ns, runq_wait_ns) in cpus {
            sum.cpu_ns += cpu_ns;
            sum.runq_wait_ns += runq_wait_ns;
            sum.runq_waits += runq_wait_ns;
        }
        let on_cpus: Vec<_> = cpus.iter().map(|&(time, wait)| (Nanos(time), Nanos(wait))).collect();
        let mut details = Details::zeroed();
        details.runq_wait[7] = waits;
        let due = row.is_due(true) && row.update_totals(&sum, &on_cpus, ALL);
        if due {
            row.update_details(&details, &[], ALL);
        }
        due
    }

    fn waits(row: &Row) -> u64 {
        row.counters.runq_wait.as_ref().unwrap().count()
    }

    #[test]
    fn a_new_owner_of_a_row_starts_from_nothing_on_every_cpu() {
        let mut row = Row::new(ALL);
        read(&mut row, &[(5, 1), (0, 0), (7, 0)]);
        assert!(Arc::ptr_eq(&row.counters, &row.all), "nothing is kept twice");
        assert_eq!((row.counters.totals.cpu_ns, waits(&row)), (Nanos(12), 1));
        row.pass_on();
        assert_eq!((row.counters.totals.cpu_ns, row.counters.by_cpu.end(), waits(&row)), (Nanos(0), 0, 0));
        assert_eq!(row.counters.totals.runq_wait_ns, Some(Nanos(0)), "it is measured all the same");
        read(&mut row, &[(5, 1), (2, 3), (8, 0)]);
        let on = |cpu| row.counters.by_cpu.on(cpu);
        assert_eq!(
            [on(0), on(1), on(2)],
            [(0, 0), (2, 3), (1, 0)].map(|(time, wait)| (Nanos(time), Some(Nanos(wait))))
        );
        let totals = row.counters.totals;
        assert_eq!((totals.cpu_ns, totals.runq_wait_ns, waits(&row)), (Nanos(3), Some(Nanos(3)), 3));
    }

    #[test]
    fn details_that_are_behind_are_read_once_more() {
        let mut row = Row::new(ALL);
        let mut seen = |waited: u64, waits: u32| (read_with(&mut row, &[(5, waited)], waits), row.changed);
        assert_eq!([seen(1, 1), seen(1, 1)], [(true, true), (false, false)], "whole at once");
        assert_eq!([seen(2, 1), seen(2, 2), seen(2, 2)], [(true, true), (true, true), (false, false)], "it follows");
        assert_eq!([seen(3, 2), seen(3, 2), seen(3, 2)], [(true, true), (true, false), (false, false)], "it was lost,");
        assert_eq!([seen(4, 3), seen(4, 3)], [(true, true), (false, false)], "and is not waited for again");
    }

    #[test]
    fn what_is_not_measured_is_none() {
        let row = Row::new(Measured::NOTHING);
        assert_eq!((row.counters.totals.runq_wait_ns, &row.counters.runq_wait), (None, &None));
        assert_eq!(row.counters.by_cpu.runq_wait_ns, None);
    }
}
