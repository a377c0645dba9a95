//! The rows from read to read. Reading costs what has run since the last time, not what there is.

use std::sync::Arc;

use bytemuck::Zeroable;
use lagstop_ebpf::RowTotals;

use super::{measured::Measured, row::Row, tables::Tables};
use crate::model::{CgroupCounters, Nanos, Totals, WaitBehind};

/// Rows whose copies are added up at once: CPU by CPU, as they lie in memory.
const AT_ONCE: usize = 64;

/// Pairs of figures in a cache line.
const LINE: usize = 4;

/// All rows, as they were read last.
pub(super) struct Counted {
    pub(super) tables: Tables,
    measured: Measured,
    rows: Vec<Row>,
    /// Room for the sums of some rows, and for CPU time and wait on each CPU.
    sums: Vec<RowTotals>,
    on_cpus: Vec<(Nanos, Nanos)>,
}

/// Which rows may have changed since the last read.
pub(super) enum Touched<'a> {
    /// Any of them, as nothing is known.
    Any,
    /// Those that were marked on one of these CPUs, now that this epoch begins.
    Marked(&'a [u32], u64),
}

impl Counted {
    pub(super) fn new(tables: Tables, measured: Measured) -> Self {
        Self { tables, measured, rows: Vec::new(), sums: Vec::new(), on_cpus: Vec::new() }
    }

    /// Reads the rows of `owned`, which ascend. The others keep what was read of them last: a row that a cgroup got a
    /// moment ago, and that is not in `owned` yet, must not lose what it has counted since. `behind` says whom the owner of a
    /// row has waited for.
    pub(super) fn read<'b>(&mut self, owned: &[u32], touched: &Touched<'_>, behind: impl Fn(u32) -> &'b [WaitBehind]) {
        let Self { tables, measured, rows, .. } = self;
        let end = owned.last().map_or(0, |row| row + 1);
        rows.resize_with(rows.len().max(end as usize), || Row::new(*measured));
        let marked = match touched {
            Touched::Any => None,
            Touched::Marked(cpus, epoch) => Some(tables.touched(cpus, end, *epoch)),
        };
        let mut due = Vec::new();
        for &row in owned {
            let is_marked = marked.as_ref().is_none_or(|marked| marked[row as usize]);
            if rows[row as usize].is_due(is_marked) {
                due.push(row);
            }
        }
        for due in due.chunks(AT_ONCE) {
            self.read_some(due, &behind);
        }
    }

    fn read_some<'b>(&mut self, due: &[u32], behind: impl Fn(u32) -> &'b [WaitBehind]) {
        let Self { tables, measured, rows, sums, on_cpus } = self;
        let cpus = tables.possible as usize;
        // One more cache line for each row, or those of a power of two of CPUs would all fall into the same set of the caches.
        let stride = cpus + LINE;
        sums.clear();
        sums.resize(due.len(), RowTotals::zeroed());
        on_cpus.resize(due.len() * stride, (Nanos::ZERO, Nanos::ZERO));
        for &cpu in &tables.cpus {
            tables.add_totals(cpu, due, sums, |n, figures| on_cpus[n * stride + cpu as usize] = figures);
        }
        for ((&number, sum), on) in due.iter().zip(sums).zip(on_cpus.chunks_exact(stride)) {
            sum.touched = 0;
            let row = &mut rows[number as usize];
            if row.update_totals(sum, &on[..cpus], *measured) {
                row.update_details(&tables.details(number, measured.accepts), behind(number), *measured);
            }
        }
    }

    /// Is anything read of this CPU?
    pub(super) fn reads(&self, cpu: u32) -> bool {
        self.tables.cpus.binary_search(&cpu).is_ok()
    }

    /// The CPUs of which anything is read.
    pub(super) fn cpus(&self) -> &[u32] {
        &self.tables.cpus
    }

    /// A row changes hands.
    pub(super) fn pass_on(&mut self, row: u32) {
        if let Some(row) = self.rows.get_mut(row as usize) {
            row.pass_on();
        }
    }

    /// The counters of the owner of a row that was read.
    pub(super) fn counters(&self, row: u32) -> Arc<CgroupCounters> {
        Arc::clone(&self.rows[row as usize].counters)
    }

    /// Behind whom the owner of a row waited: what the last read added.
    pub(super) fn behind(&self, row: u32) -> &[WaitBehind] {
        &self.rows[row as usize].behind
    }

    pub(super) fn totals(&self, row: u32) -> Totals {
        self.rows[row as usize].counters.totals
    }

    /// Did the last read add anything?
    pub(super) fn changed(&self, row: u32) -> bool {
        self.rows[row as usize].changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: u32 = 200;
    const CPUS: u32 = 3;

    struct Host {
        counted: Counted,
        epoch: u64,
    }

    impl Host {
        fn new() -> Self {
            let measured = Measured { waits: true, ..Measured::NOTHING };
            let mut host = Self { counted: Counted::new(Tables::made_up(ROWS, CPUS), measured), epoch: 700 };
            host.read();
            host
        }

        fn count(&self, cpu: u32, row: u32, epoch: u64, wait_ns: u64) {
            self.counted.tables.count(cpu, row, epoch, wait_ns);
        }

        /// Begins an epoch, and reads what was marked. Gives the rows that changed.
        fn read(&mut self) -> Vec<u32> {
            self.epoch += 1;
            self.read_as(&Touched::Marked(&[0, 1, 2], self.epoch))
        }

        fn read_as(&mut self, touched: &Touched<'_>) -> Vec<u32> {
            let owned: Vec<u32> = (0..ROWS).collect();
            self.counted.read(&owned, touched, |_| &[]);
            owned.into_iter().filter(|row| self.counted.changed(*row)).collect()
        }

        fn waits(&self, row: u32) -> (Option<u64>, Option<Nanos>, u64) {
            let counters = self.counted.counters(row);
            let totals = &counters.totals;
            (totals.runq_waits, totals.runq_wait_ns, counters.runq_wait.as_ref().map_or(0, |waits| waits.count()))
        }
    }

    #[test]
    fn what_was_counted_on_all_cpus_is_read_once() {
        let mut host = Host::new();
        for (cpu, row) in [(0, 0), (0, 63), (1, 64), (2, 64), (0, 64), (2, ROWS - 1)] {
            host.count(cpu, row, host.epoch, 5 + u64::from(cpu));
        }
        assert_eq!(host.read(), [0, 63, 64, ROWS - 1]);
        assert_eq!(host.waits(64), (Some(3), Some(Nanos(18)), 3));
        let on: Vec<_> = (0..3).map(|cpu| host.counted.counters(64).by_cpu.on(cpu).1).collect();
        assert_eq!(on, [5, 6, 7].map(|ns| Some(Nanos(ns))));
        assert_eq!(host.read(), [] as [u32; 0]);
        assert_eq!(host.waits(64), (Some(3), Some(Nanos(18)), 3), "it is known all the same");
    }

    #[test]
    fn what_comes_in_after_its_epoch_is_read_with_the_next_one() {
        let mut host = Host::new();
        // Between the beginning of the epoch and the read: it is in this one, or in the next, and never twice.
        host.count(1, 7, host.epoch + 1, 5);
        assert_eq!((host.read(), host.read()), (vec![7], vec![]));
        // The exit of a switch that was marked an epoch ago.
        host.count(1, 7, host.epoch - 1, 5);
        assert_eq!((host.read(), host.waits(7)), (vec![7], (Some(2), Some(Nanos(10)), 2)));
    }

    #[test]
    fn an_old_mark_is_not_looked_behind_unless_all_are() {
        let mut host = Host::new();
        host.count(1, 7, host.epoch - 9, 5);
        assert_eq!(host.read(), [] as [u32; 0]);
        assert_eq!(host.read_as(&Touched::Any), [7], "a CPU that was offline marks by a clock of its own");
    }
}
