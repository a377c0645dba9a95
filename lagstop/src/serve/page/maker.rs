//! Makes moments of intervals.

use super::moment::{Moment, VerdictNow};
use crate::{
    diagnosis::{Thresholds, Verdicts},
    model::{Interval, Session},
};

#[derive(Debug)]
pub(super) struct Maker {
    session: Session,
    verdicts: Verdicts,
}

impl Maker {
    /// For the intervals of `session`, judged by `thresholds`.
    pub(super) fn new(session: Session, thresholds: &Thresholds) -> Self {
        Self { verdicts: Verdicts::new(&session, thresholds), session }
    }

    /// Makes one of the next interval, which ended so many milliseconds after 1970.
    pub(super) fn moment(&mut self, interval: &Interval, ended_at_ms: u64) -> Moment {
        let n = interval.seq;
        self.verdicts.add(n, interval);
        self.verdicts.forget(n);
        let told = self.verdicts.told(n).map(|told| VerdictNow::of(told));
        Moment::of(n, ended_at_ms, interval, &self.session, told)
    }
}
