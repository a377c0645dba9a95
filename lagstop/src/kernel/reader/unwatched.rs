//! Entries and exits of switches that the programs miss while nothing watches for them.

use crate::model::Lost;

/// A CPU that is offline when the others are told that switches are not timed any more does not hear of it. Once it is back, and
/// until it is settled, it counts each of its switches as missed. None of these was to be timed.
#[derive(Default)]
pub(super) struct Unwatched {
    last: [u64; 2],
    sum: [u64; 2],
}

impl Unwatched {
    /// Takes them out of what was lost up to this reading.
    pub(super) fn take_out(&mut self, lost: &mut Lost, switches_timed: bool) {
        let missed = [&mut lost.entries, &mut lost.exits];
        for (missed, (last, sum)) in missed.into_iter().zip(self.last.iter_mut().zip(&mut self.sum)) {
            let since = missed.wrapping_sub(std::mem::replace(last, *missed));
            if !switches_timed {
                *sum = sum.wrapping_add(since);
            }
            *missed = missed.wrapping_sub(*sum);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missed_while_nothing_is_timed_is_not_lost() {
        let mut unwatched = Unwatched::default();
        let mut after = |entries, exits, switches_timed| {
            let mut lost = Lost { entries, exits, switches: 7, ..Lost::default() };
            unwatched.take_out(&mut lost, switches_timed);
            (lost.entries, lost.exits, lost.switches)
        };
        assert_eq!(after(2, 1, true), (2, 1, 7));
        assert_eq!(after(1_135, 1_133, false), (2, 1, 7), "the CPU came back");
        assert_eq!(after(1_135, 1_134, true), (2, 2, 7), "of a switch that was timed");
        assert_eq!(after(1_136, 1_134, false), (2, 2, 7), "and once more");
    }
}
