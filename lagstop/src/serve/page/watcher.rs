//! Makes moments of intervals.

use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use super::{
    kept::Moments,
    moment::{Moment, VerdictNow},
};
use crate::{
    diagnosis::{Thresholds, Verdicts},
    model::{Interval, Session},
};

/// Makes moments of intervals.
#[derive(Debug)]
pub struct Watcher {
    session: Session,
    verdicts: Verdicts,
    n: u64,
    moments: Arc<Moments>,
}

impl Watcher {
    /// For the intervals of `session`, judged by `thresholds`.
    pub fn new(session: &Session, thresholds: &Thresholds) -> Self {
        let verdicts = Verdicts::new(session, thresholds);
        Self { session: session.clone(), verdicts, n: 0, moments: Arc::default() }
    }

    /// Where moments are kept.
    pub fn moments(&self) -> Arc<Moments> {
        Arc::clone(&self.moments)
    }

    /// Nothing is measured at the moment: a sentinel only watches.
    pub fn calm(&self) {
        self.moments.calm();
    }

    /// Takes in the next interval, which has just ended.
    pub fn add(&mut self, interval: &Interval) {
        let n = self.n;
        self.n += 1;
        self.verdicts.add(n, interval);
        self.verdicts.forget(n);
        let told = self.verdicts.told(n).map(|told| VerdictNow::of(told));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let ended_at_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        self.moments.add(Moment::of(n, ended_at_ms, interval, &self.session, told));
    }
}
