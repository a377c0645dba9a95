//! A host that is not there: what it costs to read one of any size.

use super::{
    counted::{Counted, Touched},
    measured::Measured,
    tables::Tables,
};

/// Tables into which nobody counts but their owner.
pub struct MadeUpHost {
    counted: Counted,
    owned: Vec<u32>,
    cpus: Vec<u32>,
    epoch: u64,
}

impl MadeUpHost {
    /// One with so many cgroups and CPUs.
    pub fn new(cgroups: u32, cpus: u32) -> Self {
        let measured = Measured {
            pick: true,
            swap: true,
            kept: true,
            waits: true,
            blame: true,
            migrations: true,
            ..Measured::NOTHING
        };
        let counted = Counted::new(Tables::made_up(cgroups, cpus), measured);
        Self { counted, owned: (0..cgroups).collect(), cpus: (0..cpus).collect(), epoch: 1 }
    }

    /// Lets one in `every` cgroups wait once on each CPU.
    pub fn run(&self, every: u32) {
        for &cpu in &self.cpus {
            for &row in self.owned.iter().step_by(every as usize) {
                self.counted.tables.count(cpu, row, self.epoch, 1_000);
            }
        }
    }

    /// Reads what has changed; gives in how many cgroups it has.
    pub fn read(&mut self) -> usize {
        self.epoch += 1;
        self.counted.read(&self.owned, &Touched::Marked(&self.cpus, self.epoch), |_| &[]);
        self.owned.iter().filter(|row| self.counted.changed(**row)).count()
    }
}
