//! What the programs count by row, as it lies in memory.

use std::sync::atomic::{AtomicU64, Ordering};

use lagstop_ebpf::{AcceptTotals, Distributions, MAX_SHARDS, Marks, ROWS_A_LINE, RowTotals, bucket_of};

use super::{super::table::Table, row::Details};
use crate::model::Nanos;

/// Whatever was touched in the epoch that begins or in one of the two before it may have changed: at the exit of a switch there are
/// additions to a row that was marked before the epoch ended.
const EPOCHS: u8 = 2;

/// How many copies there are of each distribution.
#[derive(Clone, Copy)]
pub(in super::super) struct Shards {
    /// Copies that are read.
    pub(in super::super) read: u32,
    /// All copies, with that of the CPUs that are not read.
    pub(in super::super) all: u32,
}

/// The tables of so many rows and possible CPUs.
pub(in super::super) struct Tables {
    pub(in super::super) totals: Table<RowTotals>,
    pub(in super::super) marks: Table<Marks>,
    pub(in super::super) distributions: Table<Distributions>,
    pub(in super::super) accepts: Table<AcceptTotals>,
    pub(in super::super) rows: u32,
    /// The CPUs that are read, ascending.
    pub(in super::super) cpus: Vec<u32>,
    pub(in super::super) possible: u32,
    pub(in super::super) shards: Shards,
}

/// Elements of [`Tables::marks`] for a CPU.
pub(in super::super) const fn lines(rows: u32) -> u32 {
    rows.div_ceil(ROWS_A_LINE)
}

impl Tables {
    /// Without a kernel: nothing is counted in them.
    pub(super) fn made_up(rows: u32, cpus: u32) -> Self {
        let shards = MAX_SHARDS.min(cpus);
        Self {
            totals: Table::made_up((rows * cpus) as usize),
            marks: Table::made_up((lines(rows) * cpus) as usize),
            distributions: Table::made_up((rows * shards) as usize),
            accepts: Table::made_up(rows as usize),
            rows,
            cpus: (0..cpus).collect(),
            possible: cpus,
            shards: Shards { read: shards, all: shards },
        }
    }

    /// Counts a wait of so many nanoseconds in made up ones, as the programs do on `cpu` in `epoch`.
    pub(super) fn count(&self, cpu: u32, row: u32, epoch: u64, wait_ns: u64) {
        let at = (cpu * self.rows + row) as usize;
        let mut totals = self.totals.get(at);
        totals.runq_waits += 1;
        totals.runq_wait_ns += wait_ns;
        self.totals.set(at, totals);
        let line = (cpu * lines(self.rows) + row / ROWS_A_LINE) as usize;
        let mut marks = self.marks.get(line);
        marks.rows[(row % ROWS_A_LINE) as usize] = epoch as u8;
        self.marks.set(line, marks);
        let copy = (row * self.shards.all + cpu * self.shards.read / self.possible) as usize;
        let mut distributions = self.distributions.get(copy);
        distributions.runq_wait[bucket_of(wait_ns)] += 1;
        self.distributions.set(copy, distributions);
    }

    /// Which of the first `rows` were touched on one of `cpus`, now that `epoch` begins.
    pub(super) fn touched(&self, cpus: &[u32], rows: u32, epoch: u64) -> Vec<bool> {
        let mut touched = vec![false; lines(rows) as usize * ROWS_A_LINE as usize];
        let marks: &[[AtomicU64; ROWS_A_LINE as usize / 8]] = self.marks.values();
        for cpu in cpus {
            let marks = marks.iter().skip(*cpu as usize * lines(self.rows) as usize);
            for (touched, marks) in touched.as_chunks_mut::<{ ROWS_A_LINE as usize }>().0.iter_mut().zip(marks) {
                for (touched, marks) in touched.as_chunks_mut::<8>().0.iter_mut().zip(marks) {
                    for (touched, mark) in touched.iter_mut().zip(marks.load(Ordering::Relaxed).to_ne_bytes()) {
                        *touched |= (epoch as u8).wrapping_sub(mark) <= EPOCHS;
                    }
                }
            }
        }
        touched
    }

    /// Adds the totals of some rows on `cpu` to their sums; tells CPU time and wait there of each.
    #[inline]
    pub(super) fn add_totals(
        &self,
        cpu: u32,
        rows: &[u32],
        sums: &mut [RowTotals],
        mut tell: impl FnMut(usize, (Nanos, Nanos)),
    ) {
        const WORDS: usize = size_of::<RowTotals>() / 8;
        let first = cpu as usize * self.rows as usize;
        let copies = self.totals.values::<WORDS>().get(first..).unwrap_or_default();
        for (n, (row, sum)) in rows.iter().zip(sums).enumerate() {
            let Some(copy) = copies.get(*row as usize) else { continue };
            let before = (sum.cpu_ns, sum.runq_wait_ns);
            let words: &mut [u64; WORDS] = bytemuck::cast_mut(sum);
            for word in 0..WORDS {
                words[word] = words[word].wrapping_add(copy[word].load(Ordering::Relaxed));
            }
            let on_cpu = (sum.cpu_ns.wrapping_sub(before.0), sum.runq_wait_ns.wrapping_sub(before.1));
            tell(n, (Nanos(on_cpu.0), Nanos(on_cpu.1)));
        }
    }

    /// What is counted in `row` beside its totals.
    pub(super) fn details(&self, row: u32, accepts: bool) -> Details {
        let mut details = Details::zeroed();
        let first = row * self.shards.all;
        for copy in first..first + self.shards.read {
            details.add(&self.distributions.get(copy as usize));
        }
        if accepts {
            details.accepts = self.accepts.get(row as usize);
        }
        details
    }
}
