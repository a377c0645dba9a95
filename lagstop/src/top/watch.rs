//! What only several intervals together say: who would gain, since when there is an alert, what the rules find.

use std::collections::HashMap;

use super::frame::ActiveAlert;
use crate::{
    diagnosis::{AlertKind, AlertSubject, Finding, Observations, Priorities, Role, Span, Subject, Thresholds, alerts},
    model::{CgroupId, Interval, Nanos, Session},
};

/// Intervals that findings rest on, at least and once there are so many; at most twice as many.
const OBSERVED: u64 = 300;

/// Follows a stream from interval to interval.
#[derive(Clone, Debug)]
pub(super) struct Watch {
    thresholds: Thresholds,
    priorities: Priorities,
    log: AlertLog,
    /// The older of two overlapping windows, and the younger that takes its place: memory has an end.
    observed: [Observations; 2],
    session: Session,
}

impl Watch {
    pub(super) fn new(session: &Session, thresholds: &Thresholds) -> Self {
        Self {
            thresholds: thresholds.clone(),
            priorities: Priorities::default(),
            log: AlertLog::default(),
            observed: std::array::from_fn(|_| Observations::new(session.clone())),
            session: session.clone(),
        }
    }

    /// Takes in the next interval, the `n`th. Gives who has a role in it.
    pub(super) fn advance(&mut self, n: u64, interval: &Interval) -> HashMap<CgroupId, Role> {
        self.log.note(n, interval, &self.thresholds);
        let [older, younger] = &mut self.observed;
        older.add(interval);
        if older.span().intervals > OBSERVED {
            younger.add(interval);
        }
        if younger.span().intervals >= OBSERVED {
            self.observed = [younger.clone(), Observations::new(self.session.clone())];
        }
        self.priorities.advance(interval, &self.thresholds).into_iter().collect()
    }

    /// The alerts of an interval that was taken in.
    pub(super) fn alerts(&self, n: u64, interval: &Interval) -> Vec<ActiveAlert> {
        let since = |alert| ActiveAlert { alert, since: interval.start_ns };
        let mut active: Vec<ActiveAlert> = alerts(interval, &self.thresholds).into_iter().map(since).collect();
        for active in &mut active {
            active.since = self.log.since(n, active.alert.subject, active.alert.kind).unwrap_or(active.since);
        }
        active.sort_by_key(|active| (std::cmp::Reverse(active.alert.severity), active.since));
        active
    }

    /// What the rules find about one cgroup, and over how much.
    pub(super) fn findings(&self, id: CgroupId) -> (Vec<Finding>, Span) {
        let report = self.observed[0].diagnose(&self.thresholds);
        let about = |finding: &Finding| matches!(finding.subject, Subject::Cgroup { id: found, .. } if found == id);
        (report.findings.into_iter().filter(about).collect(), report.span)
    }

    /// Forgets alerts that ended before the `n`th interval.
    pub(super) fn forget(&mut self, n: u64) {
        self.log.forget(n);
    }
}

/// When there were alerts: spells of intervals, so that any moment can be looked back at.
#[derive(Clone, Debug, Default)]
struct AlertLog(HashMap<(AlertSubject, AlertKind), Vec<Spell>>);

#[derive(Clone, Copy, Debug)]
struct Spell {
    first: u64,
    last: u64,
    since: Nanos,
}

impl AlertLog {
    fn note(&mut self, n: u64, interval: &Interval, thresholds: &Thresholds) {
        for alert in alerts(interval, thresholds) {
            let spells = self.0.entry((alert.subject, alert.kind)).or_default();
            match spells.last_mut() {
                Some(spell) if spell.last + 1 == n => spell.last = n,
                _ => spells.push(Spell { first: n, last: n, since: interval.start_ns }),
            }
        }
    }

    fn since(&self, n: u64, subject: AlertSubject, kind: AlertKind) -> Option<Nanos> {
        let spells = self.0.get(&(subject, kind))?;
        spells.iter().rev().find(|spell| (spell.first..=spell.last).contains(&n)).map(|spell| spell.since)
    }

    fn forget(&mut self, n: u64) {
        self.0.retain(|_, spells| {
            spells.retain(|spell| spell.last >= n);
            !spells.is_empty()
        });
    }
}
