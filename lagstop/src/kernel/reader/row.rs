//! The rows of the kernel's tables, and what they say of those who own them.

use std::sync::Arc;

use bytemuck::Zeroable;
use lagstop_ebpf::{AcceptTotals, BUCKETS, Distributions, RowTotals};

use super::measured::Measured;
use crate::model::{ByCpu, CgroupCounters, Distribution, Nanos, Totals};

/// One row as it is in the maps, its copies added up.
#[derive(Clone, PartialEq)]
pub(super) struct RawRow {
    totals: RowTotals,
    switch_cost: [u32; BUCKETS],
    runq_wait: [u32; BUCKETS],
    pub(super) accepts: AcceptTotals,
    by_cpu: ByCpu,
}

impl RawRow {
    pub(super) fn zeroed() -> Self {
        Self {
            totals: RowTotals::zeroed(),
            switch_cost: [0; BUCKETS],
            runq_wait: [0; BUCKETS],
            accepts: AcceptTotals::zeroed(),
            by_cpu: ByCpu::default(),
        }
    }

    /// Takes in the copies of its totals, one a CPU. `last` is what was read of it before.
    pub(super) fn add_totals(&mut self, copies: &[RowTotals], last: Option<&Row>, measured: Measured) {
        for copy in copies {
            add(&mut self.totals, copy);
        }
        self.by_cpu = match last {
            // Most rows are quiet between two reads: they take no room of their own.
            Some(row) if row.raw.totals == self.totals => row.raw.by_cpu.clone(),
            _ => by_cpu(copies, measured),
        };
    }

    /// Takes in one of the copies of its distributions.
    pub(super) fn add_distributions(&mut self, copy: &Distributions) {
        for (sums, counts) in [(&mut self.switch_cost, &copy.switch_cost), (&mut self.runq_wait, &copy.runq_wait)] {
            for (sum, count) in sums.iter_mut().zip(counts) {
                *sum = sum.wrapping_add(*count);
            }
        }
    }
}

/// What the copies of a row's totals, one a CPU, say of each CPU.
fn by_cpu(copies: &[RowTotals], measured: Measured) -> ByCpu {
    ByCpu::of(copies, |copy| (Nanos(copy.cpu_ns), Nanos(copy.runq_wait_ns)), measured.waits)
}

fn add(sum: &mut RowTotals, copy: &RowTotals) {
    let copy: &[u64] = bytemuck::cast_slice(std::slice::from_ref(copy));
    let sum: &mut [u64] = bytemuck::cast_slice_mut(std::slice::from_mut(sum));
    for (sum, copy) in sum.iter_mut().zip(copy) {
        *sum = sum.wrapping_add(*copy);
    }
}

/// What is kept about a row from read to read.
pub(super) struct Row {
    /// The last read while it had an owner.
    raw: Box<RawRow>,
    /// The read that its owner starts from, where it had another one before.
    base: Option<Box<RawRow>>,
    /// The owner's counters.
    pub(super) counters: Arc<CgroupCounters>,
    /// Whether the last read added anything.
    pub(super) changed: bool,
}

impl Row {
    pub(super) fn new(measured: Measured) -> Self {
        let raw = Box::new(RawRow::zeroed());
        Self { counters: Arc::new(counters(&raw, None, measured)), raw, base: None, changed: false }
    }

    /// Takes in what was read while it had an owner.
    pub(super) fn update(&mut self, raw: &RawRow, measured: Measured) {
        self.changed = *self.raw != *raw;
        if self.changed {
            self.raw.as_mut().clone_from(raw);
            self.counters = Arc::new(counters(raw, self.base.as_deref(), measured));
        }
    }

    /// Has a new owner from now on. It is quiet since the last one went: what it holds now is none of the new one's.
    pub(super) fn pass_on(&mut self, measured: Measured) {
        self.base = Some(self.raw.clone());
        self.counters = Arc::new(counters(&self.raw, self.base.as_deref(), measured));
    }
}

/// What was counted in `raw` on top of `base`, with `None` for what is not measured.
fn counters(raw: &RawRow, base: Option<&RawRow>, measured: Measured) -> CgroupCounters {
    let zero = RawRow::zeroed();
    let base = base.unwrap_or(&zero);
    let Measured { pick, swap, kept, pick_function, waits, migrations, accepts } = measured;

    let of = |figure: fn(&RawRow) -> u64| figure(raw).wrapping_sub(figure(base));
    let ns = |figure: fn(&RawRow) -> u64| Nanos(of(figure));
    let voluntary_switches = of(|row| row.totals.voluntary_switches);
    let involuntary_switches = of(|row| row.totals.involuntary_switches);
    let switches = voluntary_switches + involuntary_switches;
    let totals = Totals {
        switches,
        voluntary_switches,
        involuntary_switches,
        cross_cgroup_switches: Some(of(|row| row.totals.cross_cgroup_switches)),
        cpu_ns: ns(|row| row.totals.cpu_ns),
        threads: of(|row| row.totals.threads),
        schedule_calls: kept.then(|| switches + of(|row| row.totals.kept_calls)),
        pick_ns: pick.then(|| ns(|row| row.totals.pick_ns)),
        kept_ns: kept.then(|| ns(|row| row.totals.kept_ns)),
        swap_ns: swap.then(|| ns(|row| row.totals.swap_ns)),
        pick_function_ns: pick_function.then(|| ns(|row| row.totals.pick_function_ns)),
        runq_waits: waits.then(|| of(|row| row.totals.runq_waits)),
        runq_wait_ns: waits.then(|| ns(|row| row.totals.runq_wait_ns)),
        migrations: migrations.then(|| of(|row| row.totals.migrations)),
        migrations_cross_llc: migrations.then(|| of(|row| row.totals.migrations_cross_llc)),
        migrations_cross_numa: migrations.then(|| of(|row| row.totals.migrations_cross_numa)),
        accepts: accepts.then(|| of(|row| row.accepts.accepts)),
        accept_wait_ns: accepts.then(|| ns(|row| row.accepts.accept_wait_ns)),
    };
    CgroupCounters {
        totals,
        switch_cost: swap.then(|| distribution(&raw.switch_cost, &base.switch_cost)),
        runq_wait: waits.then(|| distribution(&raw.runq_wait, &base.runq_wait)),
        accept_wait: accepts.then(|| distribution(&raw.accepts.accept_wait, &base.accepts.accept_wait)),
        by_cpu: raw.by_cpu.since(&base.by_cpu),
    }
}

fn distribution(counts: &[u32; BUCKETS], base: &[u32; BUCKETS]) -> Distribution {
    Distribution::from_counts(std::array::from_fn(|bucket| counts[bucket].wrapping_sub(base[bucket])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_owner_of_a_row_starts_from_nothing_on_every_cpu() {
        let all = Measured { waits: true, ..Measured::NOTHING };
        let read = |cpus: &[(u64, u64)]| {
            let mut raw = RawRow::zeroed();
            let copies: Vec<RowTotals> = cpus
                .iter()
                .map(|&(cpu_ns, runq_wait_ns)| RowTotals { cpu_ns, runq_wait_ns, ..RowTotals::zeroed() })
                .collect();
            copies.iter().for_each(|copy| add(&mut raw.totals, copy));
            raw.by_cpu = by_cpu(&copies, all);
            raw
        };
        let first = read(&[(5, 1), (0, 0), (7, 0)]);
        let of_first = counters(&first, None, all);
        assert_eq!(of_first.by_cpu, first.by_cpu);
        assert!(Arc::ptr_eq(&of_first.by_cpu.cpu_ns, &first.by_cpu.cpu_ns), "nothing is kept twice");
        assert_eq!(counters(&first, Some(&first), all).by_cpu.end(), 0);
        let of_second = counters(&read(&[(5, 1), (2, 3), (8, 0)]), Some(&first), all);
        let on = |cpu| of_second.by_cpu.on(cpu);
        assert_eq!(
            [on(0), on(1), on(2)],
            [(0, 0), (2, 3), (1, 0)].map(|(time, wait)| (Nanos(time), Some(Nanos(wait))))
        );
        assert_eq!((of_second.totals.cpu_ns, of_second.totals.runq_wait_ns), (Nanos(3), Some(Nanos(3))));
        assert_eq!(by_cpu(&[RowTotals::zeroed()], Measured::NOTHING).runq_wait_ns, None);
    }
}
