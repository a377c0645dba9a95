//! Entries and exits of switches that the programs miss while nothing watches for them.

use std::collections::BTreeMap;

use crate::model::Lost;

/// A CPU that is offline when the others are told that switches are not timed any more does not hear of it. Once it is back, and
/// until it is settled, it counts each of its switches as missed. None of these was to be timed.
#[derive(Default)]
pub(super) struct Unwatched {
    cpus: BTreeMap<u32, [Missed; 2]>,
}

/// What a CPU counted up to the reading before, and how much of it while nothing watched.
#[derive(Clone, Copy, Default)]
struct Missed {
    counted: u64,
    unwatched: u64,
}

impl Unwatched {
    /// Takes them out of what `cpu` lost up to this reading. `is_watched`: switches were timed since the reading before, or the CPU
    /// had heard that they were not.
    pub(super) fn take_out(&mut self, cpu: u32, mut lost: Lost, is_watched: bool) -> Lost {
        let of_cpu = self.cpus.entry(cpu).or_default();
        for (missed, counted) in of_cpu.iter_mut().zip([&mut lost.entries, &mut lost.exits]) {
            let since = counted.wrapping_sub(std::mem::replace(&mut missed.counted, *counted));
            if !is_watched {
                missed.unwatched = missed.unwatched.wrapping_add(since);
            }
            *counted = counted.wrapping_sub(missed.unwatched);
        }
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missed_while_nothing_watches_is_not_lost() {
        let mut unwatched = Unwatched::default();
        let mut after = |cpu, entries, exits, is_watched| {
            let lost = Lost { entries, exits, switches: 7, ..Lost::default() };
            let lost = unwatched.take_out(cpu, lost, is_watched);
            (lost.entries, lost.exits, lost.switches)
        };
        assert_eq!(after(1, 2, 1, true), (2, 1, 7));
        assert_eq!(after(1, 1_135, 1_133, false), (2, 1, 7), "the CPU came back");
        assert_eq!(after(0, 5, 6, true), (5, 6, 7), "another one's are lost");
        assert_eq!(after(1, 1_135, 1_134, true), (2, 2, 7), "of a switch that was timed");
        assert_eq!(after(1, 1_136, 1_134, false), (2, 2, 7), "and once more");
    }
}
