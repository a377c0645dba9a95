//! The verdict on the last seconds, steady enough to be read: it only changes after something else was true for a
//! while.

use std::{collections::VecDeque, sync::Arc};

use super::{Finding, Observations, Rule, Severity, Subject, Thresholds, Verdict};
use crate::model::{Interval, Session};

/// Number of consecutive judgements in which another cause must be the worst to replace the shown one. Chosen: a judgement is of
/// a few seconds, and a sentence that flickers cannot be read.
const PATIENCE: u32 = 2;

/// What is told, with what it rests on.
#[derive(Debug, PartialEq)]
pub(crate) struct Told {
    pub(crate) verdict: Verdict,
    /// The findings that it consists of, the worst first.
    pub(crate) findings: Vec<Finding>,
}

/// Judges a few intervals at a time.
#[derive(Clone, Debug)]
pub(crate) struct Verdicts {
    session: Session,
    thresholds: Thresholds,
    /// Intervals since the last judgement.
    observed: Observations,
    /// The verdicts with the interval from which each was shown, the newest last.
    told: VecDeque<(u64, Arc<Told>)>,
    /// The worst of the last judgements if it differs from the shown one, and in how many consecutive judgements.
    other: Option<(Option<Key>, u32)>,
}

impl Verdicts {
    pub(crate) fn new(session: &Session, thresholds: &Thresholds) -> Self {
        Self {
            session: session.clone(),
            thresholds: thresholds.clone(),
            observed: Observations::new(session.clone()),
            told: VecDeque::new(),
            other: None,
        }
    }

    /// Adds the `n`th interval.
    pub(crate) fn add(&mut self, n: u64, interval: &Interval) {
        self.observed.add(interval);
        if self.observed.span().intervals < self.thresholds.min_intervals.max(1) {
            return;
        }
        let observed = std::mem::replace(&mut self.observed, Observations::new(self.session.clone()));
        let (verdict, findings) = observed.verdict(&self.thresholds);
        let next = Told { verdict, findings };
        if self.told.back().is_some_and(|(_, told)| is_other(told, &next)) {
            let now = key(&next);
            let times = self.other.take().filter(|(other, _)| *other == now).map_or(1, |(_, times)| times + 1);
            if times < PATIENCE {
                self.other = Some((now, times));
                return;
            }
        }
        self.other = None;
        self.told.push_back((n, Arc::new(next)));
    }

    /// The verdict that was shown in the `n`th interval. `None` while there was too little data.
    pub(crate) fn told(&self, n: u64) -> Option<&Arc<Told>> {
        self.told.iter().rev().find(|(from, _)| *from <= n).map(|(_, told)| told)
    }

    /// Forgets verdicts that were no longer shown in the `n`th interval.
    pub(crate) fn forget(&mut self, n: u64) {
        while self.told.get(1).is_some_and(|(from, _)| *from <= n) {
            self.told.pop_front();
        }
    }
}

/// Is something else the worst now? New critical problems are shown at once.
fn is_other(told: &Told, next: &Told) -> bool {
    let is_news = next.verdict.severity == Severity::Critical && told.verdict.severity < Severity::Critical;
    key(told) != key(next) && !is_news
}

/// Rule and subject of a verdict.
type Key = (Rule, Subject);

fn key(told: &Told) -> Option<Key> {
    told.verdict.causes.first().map(|cause| (cause.rule, cause.subject.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fixture;

    /// What is told after each group of five intervals: `o` of an overloaded host, `i` of an idle one.
    fn told(hosts: &str) -> Vec<Option<Rule>> {
        let mut verdicts = Verdicts::new(&fixture::session(), &Thresholds::default());
        let (overloaded, idle) = (fixture::overloaded(20), fixture::idle(20));
        let judged = hosts.chars().enumerate().map(|(place, host)| {
            let intervals = if host == 'o' { &overloaded } else { &idle };
            let n = 5 * place as u64;
            (0..5).for_each(|k| verdicts.add(n + k, &intervals[10 + k as usize]));
            verdicts.told(n + 4).and_then(|told| told.verdict.causes.first()).map(|cause| cause.rule)
        });
        judged.collect()
    }

    #[test]
    fn it_changes_when_something_else_was_true_twice() {
        let bad = told("o")[0];
        assert!(bad.is_some());
        assert_eq!(told("oioioo"), [bad; 6], "one calm moment does not end it");
        assert_eq!(told("oii"), [bad, bad, None]);
        assert_eq!(told("io"), [None, bad], "what is critical is told at once");
    }

    #[test]
    fn what_was_told_is_known_as_long_as_it_is_kept() {
        let mut verdicts = Verdicts::new(&fixture::session(), &Thresholds::default());
        fixture::idle(20).iter().enumerate().for_each(|(n, interval)| verdicts.add(n as u64, interval));
        assert!(verdicts.told(3).is_none() && verdicts.told(4).is_some());
        verdicts.forget(12);
        assert!(verdicts.told(8).is_none() && verdicts.told(9).is_some());
    }
}
