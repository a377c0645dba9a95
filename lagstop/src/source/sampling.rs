//! Which intervals are timed, where not all are.

use std::{num::NonZeroU32, process, time::SystemTime};

use crate::random::Random;

/// Chooses one interval in so many, at random: one of each row of them, so that what has a rhythm is not always hit or missed.
#[derive(Debug)]
pub(super) struct Sampling {
    every: u32,
    /// The next one's place in its row,
    next: u32,
    /// and that of the chosen one.
    chosen: u32,
    random: Random,
}

impl Sampling {
    /// One in `every`. The first interval is timed, so that there is something to go by at once.
    pub(super) fn one_in(every: NonZeroU32) -> Self {
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        Self {
            every: every.get(),
            next: 0,
            chosen: 0,
            random: Random::new(now.as_nanos() as u64, process::id().into()),
        }
    }

    /// Are not all intervals timed?
    pub(super) const fn leaves_out(&self) -> bool {
        self.every > 1
    }

    /// For people: what follows how switches are timed, where the kernel can do so and where it cannot.
    pub(super) fn note(&self, can_sample: bool) -> String {
        let every = self.every;
        if can_sample {
            format!(". Timed in one interval of {every}, chosen at random; costs in the others are estimates")
        } else {
            format!(
                ". Timed in every interval, and not in one of {every}: the kernel did not attach the programs a second \
                 time, as none does before Linux 5.13"
            )
        }
    }

    /// Is the next interval timed?
    pub(super) fn times_next(&mut self) -> bool {
        let is_chosen = self.next == self.chosen;
        self.next += 1;
        if self.next == self.every {
            self.next = 0;
            self.chosen = self.random.below(self.every as usize) as u32;
        }
        is_chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_each_row_is_chosen_and_the_first_is() {
        let mut sampling = Sampling::one_in(NonZeroU32::new(7).unwrap());
        let mut places = [0; 7];
        for row in 0..7_000 {
            let timed: Vec<usize> = (0..7).filter(|_| sampling.times_next()).collect();
            assert_eq!(timed.len(), 1, "row {row}");
            assert!(row > 0 || timed[0] == 0);
            places[timed[0]] += 1;
        }
        assert!(places.iter().all(|count| (850..1_150).contains(count)), "{places:?}");
        let mut all = Sampling::one_in(NonZeroU32::MIN);
        assert!((0..9).all(|_| all.times_next()) && !all.leaves_out());
    }
}
