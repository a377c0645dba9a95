//! Which intervals are drawn together.

/// Consecutive intervals in blocks of about the same length: neighbours resemble each other, and drawn one by one they would
/// make chance look smaller than it is (Künsch: The jackknife and the bootstrap for general stationary observations, Annals of
/// Statistics 17, 1989).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Blocks {
    intervals: usize,
    blocks: usize,
}

impl Blocks {
    /// Fewer do not tell how much a figure varies.
    pub(super) const LEAST: usize = 5;
    /// More would only take memory: each cgroup keeps its sums for each of them.
    pub(super) const MOST: usize = 128;
    /// Blocks grow with the recording only as long as that leaves so many.
    const ENOUGH: usize = 8;

    /// Of a recording with so many intervals: there are as many blocks as there are intervals in each.
    pub(super) fn of(intervals: usize) -> Self {
        let length = intervals.isqrt().min(intervals / Self::ENOUGH).max(1);
        Self { intervals, blocks: (intervals / length).min(Self::MOST) }
    }

    /// How many there are.
    pub(super) const fn len(self) -> usize {
        self.blocks
    }

    /// The block of interval `n`, counted from 0.
    pub(super) fn block_of(self, n: usize) -> usize {
        if self.intervals == 0 {
            return 0;
        }
        let block = n as u128 * self.blocks as u128 / self.intervals as u128;
        (block as usize).min(self.blocks.saturating_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn blocks_get_longer_with_the_recording() {
        let blocks = [0, 1, 5, 8, 15, 30, 60, 600, 3_600, 86_400].map(|intervals| Blocks::of(intervals).len());
        assert_eq!(blocks, [0, 1, 5, 8, 15, 10, 8, 25, 60, 128]);
    }

    proptest! {
        #[test]
        fn every_block_has_its_share(intervals in 1usize..20_000) {
            let blocks = Blocks::of(intervals);
            let mut lengths = vec![0; blocks.len()];
            (0..intervals).for_each(|n| lengths[blocks.block_of(n)] += 1);
            let (least, most) = (lengths.iter().min().unwrap(), lengths.iter().max().unwrap());
            prop_assert!(*least > 0 && most - least <= 1, "{lengths:?}");
            prop_assert!(blocks.len() <= Blocks::MOST);
            prop_assert!(blocks.block_of(usize::MAX) == blocks.len() - 1);
        }
    }
}
