//! Makes moments of intervals.

use super::moment::{PageMoment, VerdictNow};
use crate::{
    diagnosis::{Thresholds, Verdicts},
    model::{Interval, Session},
};

#[derive(Debug)]
pub(super) struct Maker {
    session: Session,
    verdicts: Verdicts,
    /// Number of the next moment.
    n: u64,
}

impl Maker {
    /// For the intervals of `session`, judged by `thresholds`. The first moment will have the number `n`.
    pub(super) fn new(session: Session, thresholds: &Thresholds, n: u64) -> Self {
        Self { verdicts: Verdicts::new(&session, thresholds), session, n }
    }

    /// Makes one of the next interval, which ended so many milliseconds after 1970.
    pub(super) fn moment(&mut self, mut interval: Interval, ended_at_ms: u64) -> PageMoment {
        // Pieces of an interval are moments, too.
        let n = self.n;
        self.n += 1;
        interval.seq = n;
        self.verdicts.add(n, &interval);
        self.verdicts.forget(n);
        let told = self.verdicts.told(n).map(|told| VerdictNow::of(told));
        PageMoment::of(n, ended_at_ms, &interval, &self.session, told)
    }
}
