//! Who makes whom wait, and what else waits are caused by.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashSet},
};

use super::filter::Filter;
pub(super) use crate::diagnosis::{Blamed, Wait};
use crate::model::{Cgroup, CgroupId, HookState, Interval, Measure, Nanos, Session};

/// From this share of a wait on, a cause that is no cgroup has a row in the list of all waits.
const NOTABLE: f64 = 0.05;

/// The cgroup behind which others waited most.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct WorstCulprit {
    pub(super) id: CgroupId,
    /// Share of all that the others waited.
    pub(super) share: f64,
}

/// The waits of all cgroups of `interval`, the longest first: each pair of cgroups, and other causes where they are notable.
/// With `filter` those in which the victim or the culprit matches.
pub(super) fn all(interval: &Interval, filter: Option<&Filter>) -> Vec<Wait> {
    let matching: Option<HashSet<CgroupId>> = filter.map(|filter| {
        interval.cgroups.iter().filter(|cgroup| filter.matches(cgroup)).map(|cgroup| cgroup.id).collect()
    });
    let is_shown = |wait: &Wait| {
        let matches = |id| matching.as_ref().is_none_or(|matching| matching.contains(&id));
        match wait.blamed {
            Blamed::Cgroup(culprit) => matches(wait.victim) || matches(culprit),
            Blamed::Cause(_) => wait.share >= NOTABLE && matches(wait.victim),
        }
    };
    let mut waits: Vec<Wait> = interval.cgroups.iter().filter_map(Wait::parts).flatten().filter(is_shown).collect();
    Wait::sort(&mut waits);
    waits
}

/// Whom `culprit` made wait, the worst first. Known only where it is among the worst culprits of the victim.
pub(super) fn caused_by(culprit: CgroupId, interval: &Interval) -> Vec<Wait> {
    let by_it = |wait: &Wait| wait.blamed == Blamed::Cgroup(culprit);
    let mut waits: Vec<Wait> = interval.cgroups.iter().filter_map(Wait::parts).flatten().filter(by_it).collect();
    Wait::sort(&mut waits);
    waits
}

/// The cgroup behind which `victims` together waited most.
pub(super) fn culprit<'a>(victims: impl Iterator<Item = &'a Cgroup>) -> Option<WorstCulprit> {
    let mut waited = Nanos::ZERO;
    let mut behind: BTreeMap<CgroupId, Nanos> = BTreeMap::new();
    for victim in victims {
        waited = waited.saturating_add(victim.totals.runq_wait_ns.unwrap_or_default());
        for one in &victim.waits_behind {
            let sum = behind.entry(one.id).or_default();
            *sum = sum.saturating_add(one.wait_ns);
        }
    }
    let (id, time) = behind.into_iter().max_by_key(|(id, time)| (*time, Reverse(*id)))?;
    Some(WorstCulprit { id, share: time.cores(waited).0 })
}

/// Were causes of waits measured of anything in `interval`?
pub(super) fn are_known(interval: &Interval) -> bool {
    interval.cgroups.iter().any(|cgroup| cgroup.totals.wait_behind_ns.is_some())
}

/// Does `session` measure causes of waits?
pub(super) fn are_measured(session: &Session) -> bool {
    session.hooks.iter().any(|hook| hook.measure() == Some(Measure::Blame) && hook.state == HookState::On)
}

/// Why the causes of waits are not known.
pub(super) fn why_not(session: &Session) -> String {
    if session.restricted.is_some() {
        return "causes of waits need eBPF; only /proc and cgroup files are read here".to_owned();
    }
    match session.hooks.iter().any(|hook| hook.measure() == Some(Measure::Blame)) {
        true => session.why_not(Measure::Blame),
        false => "the version of lagstop that made this recording did not measure causes of waits".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Totals, WaitBehind, WaitCause};

    fn cgroup(id: u64, behind: &[(u64, u64)], others: u64) -> Cgroup {
        let behind: Vec<WaitBehind> =
            behind.iter().map(|&(id, time)| WaitBehind { id: CgroupId(id), wait_ns: Nanos(time) }).collect();
        let named: Nanos = behind.iter().map(|one| one.wait_ns).sum();
        Cgroup {
            id: CgroupId(id),
            name: format!("name-{id}").into(),
            totals: Totals {
                runq_wait_ns: Some(Nanos(named.0 + others + 100)),
                wait_behind_ns: Some(Nanos(named.0 + others)),
                wait_self_ns: Some(Nanos(90)),
                wait_throttled_ns: Some(Nanos(10)),
                ..Totals::default()
            },
            waits_behind: behind,
            ..Cgroup::default()
        }
    }

    fn told(waits: &[Wait]) -> Vec<(u64, Blamed, u64)> {
        waits.iter().map(|wait| (wait.victim.0, wait.blamed, wait.time.0)).collect()
    }

    const fn behind(id: u64) -> Blamed {
        Blamed::Cgroup(CgroupId(id))
    }

    #[test]
    fn the_parts_of_a_wait_add_up_to_it() {
        let parts = Wait::parts(&cgroup(1, &[(2, 600), (3, 200)], 100)).unwrap();
        let expected = [
            (1, behind(2), 600),
            (1, behind(3), 200),
            (1, Blamed::Cause(WaitCause::OtherCgroups), 100),
            (1, Blamed::Cause(WaitCause::OwnThreads), 90),
            (1, Blamed::Cause(WaitCause::Throttled), 10),
        ];
        assert_eq!(told(&parts), expected);
        assert!((parts.iter().map(|part| part.share).sum::<f64>() - 1.0).abs() < 1e-9);
        assert_eq!(parts[0].share, 0.6);
    }

    #[test]
    fn what_was_not_measured_has_no_parts() {
        assert_eq!(Wait::parts(&Cgroup::default()), None);
        assert!(!are_known(&Interval { cgroups: vec![Cgroup::default()], ..Interval::default() }));
        assert_eq!(culprit([&Cgroup::default()].into_iter()), None);
        let session = Session::default();
        assert!(!are_measured(&session) && why_not(&session).contains("did not measure"));
    }

    #[test]
    fn all_waits_are_one_list_of_pairs_and_of_other_causes_that_are_notable() {
        let cgroups = vec![cgroup(1, &[(2, 600), (3, 200)], 100), cgroup(2, &[(3, 900)], 0), cgroup(3, &[], 0)];
        let interval = Interval { cgroups, ..Interval::default() };
        let expected = [
            (2, behind(3), 900),
            (1, behind(2), 600),
            (1, behind(3), 200),
            (1, Blamed::Cause(WaitCause::OtherCgroups), 100),
            (1, Blamed::Cause(WaitCause::OwnThreads), 90),
            (2, Blamed::Cause(WaitCause::OwnThreads), 90),
            (3, Blamed::Cause(WaitCause::OwnThreads), 90),
            (3, Blamed::Cause(WaitCause::Throttled), 10),
        ];
        assert_eq!(told(&all(&interval, None)), expected);
        assert_eq!(told(&caused_by(CgroupId(3), &interval)), [(2, behind(3), 900), (1, behind(3), 200)]);
    }

    #[test]
    fn a_filter_shows_both_directions() {
        let cgroups = vec![cgroup(1, &[(2, 600), (3, 200)], 0), cgroup(2, &[(3, 900)], 0), cgroup(3, &[], 0)];
        let interval = Interval { cgroups, ..Interval::default() };
        let filter = Filter::parse("name-2").unwrap();
        let expected = [(2, behind(3), 900), (1, behind(2), 600), (2, Blamed::Cause(WaitCause::OwnThreads), 90)];
        assert_eq!(told(&all(&interval, filter.as_ref())), expected);
    }

    #[test]
    fn several_victims_have_one_worst_culprit() {
        let (one, other) = (cgroup(1, &[(2, 600), (3, 500)], 0), cgroup(2, &[(3, 700)], 0));
        assert_eq!(culprit([&one].into_iter()), Some(WorstCulprit { id: CgroupId(2), share: 0.5 }));
        assert_eq!(culprit([&one, &other].into_iter()), Some(WorstCulprit { id: CgroupId(3), share: 0.6 }));
    }
}
