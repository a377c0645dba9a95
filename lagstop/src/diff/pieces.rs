//! What is added up as one.

/// Consecutive intervals in pieces of about the same length: in a short recording each by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pieces {
    intervals: usize,
    pieces: usize,
}

impl Pieces {
    /// The most pieces. Each cgroup keeps its sums for each piece, so more would only take memory.
    pub(super) const MOST: usize = 128;

    /// Of a recording with so many intervals.
    pub(super) fn of(intervals: usize) -> Self {
        Self { intervals, pieces: intervals.min(Self::MOST) }
    }

    pub(super) const fn len(self) -> usize {
        self.pieces
    }

    /// Intervals in `pieces` of them, on average.
    pub(super) fn intervals(self, pieces: usize) -> f64 {
        (pieces * self.intervals) as f64 / self.pieces.max(1) as f64
    }

    /// The piece of interval `n`, counted from 0.
    pub(super) fn piece_of(self, n: usize) -> usize {
        if self.intervals == 0 {
            return 0;
        }
        let piece = n as u128 * self.pieces as u128 / self.intervals as u128;
        (piece as usize).min(self.pieces.saturating_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn pieces_get_longer_once_there_are_enough() {
        let pieces = [0, 1, 30, 128, 600, 86_400].map(|intervals| Pieces::of(intervals).len());
        assert_eq!(pieces, [0, 1, 30, 128, 128, 128]);
        assert_eq!([0, 30, 640].map(|intervals| Pieces::of(intervals).intervals(2)), [0.0, 2.0, 10.0]);
    }

    proptest! {
        #[test]
        fn every_piece_has_its_share(intervals in 1usize..20_000) {
            let pieces = Pieces::of(intervals);
            let mut lengths = vec![0; pieces.len()];
            (0..intervals).for_each(|n| lengths[pieces.piece_of(n)] += 1);
            let (least, most) = (lengths.iter().min().unwrap(), lengths.iter().max().unwrap());
            prop_assert!(*least > 0 && most - least <= 1, "{lengths:?}");
            prop_assert!(pieces.piece_of(usize::MAX) == pieces.len() - 1);
        }
    }
}
