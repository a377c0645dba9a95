//! What only several intervals together say: who would gain, since when there is an alert, what the rules find.

use std::{collections::HashMap, sync::Arc};

use super::frame::ActiveAlert;
use crate::{
    diagnosis::{
        Alert, AlertKind, AlertSubject, Finding, Observations, Priorities, Role, Span, Thresholds, Told, Verdicts,
        alerts,
    },
    model::{CgroupId, Interval, Nanos, Session},
};

/// Findings rest on this many intervals at least, once there are so many, and on twice as many at most.
const OBSERVED: u64 = 300;

/// Follows a stream from interval to interval.
#[derive(Clone, Debug)]
pub(super) struct Watch {
    thresholds: Thresholds,
    priorities: Priorities,
    log: AlertLog,
    /// Two windows that overlap, to limit memory: the younger one takes the place of the older one.
    observed: [Observations; 2],
    verdicts: Verdicts,
    session: Session,
    /// The first interval that was taken in.
    began: u64,
}

impl Watch {
    /// To follow it from the interval `began` on.
    pub(super) fn new(session: &Session, thresholds: &Thresholds, began: u64) -> Self {
        Self {
            thresholds: thresholds.clone(),
            priorities: Priorities::default(),
            log: AlertLog::default(),
            observed: std::array::from_fn(|_| Observations::new(session.clone())),
            verdicts: Verdicts::new(session, thresholds),
            session: session.clone(),
            began,
        }
    }

    /// Takes in the next interval, the `n`th. Gives who has a role in it.
    pub(super) fn advance(&mut self, n: u64, interval: &Interval) -> HashMap<CgroupId, Role> {
        self.log.note(n, interval, &self.thresholds);
        self.verdicts.add(n, interval);
        let [older, younger] = &mut self.observed;
        older.add(interval);
        if older.span().intervals > OBSERVED {
            younger.add(interval);
        }
        if younger.span().intervals >= OBSERVED {
            let younger = std::mem::replace(younger, Observations::new(self.session.clone()));
            *older = younger;
        }
        self.priorities.advance(interval, &self.thresholds).into_iter().collect()
    }

    /// The alerts of an interval that was taken in; `start_of` gives when an interval began.
    pub(super) fn alerts(
        &self,
        n: u64,
        interval: &Interval,
        start_of: impl Fn(u64) -> Option<Nanos>,
    ) -> Vec<ActiveAlert> {
        let since = |alert: Alert| {
            let stretch = self.log.since(n, alert.subject, alert.kind);
            // In the first interval after a restart of the timeline, an alert may have lasted for long already.
            let is_longer = stretch.is_some_and(|stretch| stretch.first == self.began && stretch.first > 0);
            let since = stretch.and_then(|stretch| stretch.time.or_else(|| start_of(stretch.first)));
            ActiveAlert { alert, since: since.unwrap_or(interval.start_ns), is_longer }
        };
        let mut active: Vec<ActiveAlert> = alerts(interval, &self.thresholds).into_iter().map(since).collect();
        active.sort_by_key(|active| (std::cmp::Reverse(active.alert.severity), active.since));
        active
    }

    /// What the rules find about one cgroup, and over how much.
    pub(super) fn findings(&self, id: CgroupId) -> (Vec<Finding>, Span) {
        let observed = &self.observed[0];
        (observed.about(id, &self.thresholds), observed.span())
    }

    /// What is told of the host in the `n`th interval.
    pub(super) fn told(&self, n: u64) -> Option<&Arc<Told>> {
        self.verdicts.told(n)
    }

    /// Forgets alerts and verdicts that ended before the `n`th interval.
    pub(super) fn forget(&mut self, n: u64) {
        self.log.forget(n);
        self.verdicts.forget(n);
    }
}

/// When there were alerts, so that any moment can be looked back at.
#[derive(Clone, Debug, Default)]
struct AlertLog(HashMap<(AlertSubject, AlertKind), Stretches>);

/// The intervals in which there was an alert.
#[derive(Clone, Debug, Default)]
struct Stretches {
    /// The first and the last of each stretch without a break, as numbers of intervals.
    stretches: Vec<(u32, u32)>,
    /// When the last stretch began.
    last_since: Nanos,
}

/// A stretch of intervals with an alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stretch {
    first: u64,
    /// When that began, if it is the last stretch.
    time: Option<Nanos>,
}

impl AlertLog {
    fn note(&mut self, n: u64, interval: &Interval, thresholds: &Thresholds) {
        let n = short(n);
        for alert in alerts(interval, thresholds) {
            let Stretches { stretches, last_since } = self.0.entry((alert.subject, alert.kind)).or_default();
            match stretches.last_mut() {
                Some((_, last)) if *last + 1 == n => *last = n,
                _ => {
                    stretches.push((n, n));
                    *last_since = interval.start_ns;
                }
            }
        }
    }

    fn since(&self, n: u64, subject: AlertSubject, kind: AlertKind) -> Option<Stretch> {
        let Stretches { stretches, last_since } = self.0.get(&(subject, kind))?;
        let at = stretches.iter().rposition(|(first, last)| (*first..=*last).contains(&short(n)))?;
        let is_last = at + 1 == stretches.len();
        Some(Stretch { first: stretches[at].0.into(), time: is_last.then_some(*last_since) })
    }

    fn forget(&mut self, n: u64) {
        self.0.retain(|_, Stretches { stretches, .. }| {
            stretches.retain(|(_, last)| *last >= short(n));
            !stretches.is_empty()
        });
    }
}

/// There are many stretches where figures waver about a threshold. At an interval a second this is enough for a century.
fn short(n: u64) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX - 1)
}
