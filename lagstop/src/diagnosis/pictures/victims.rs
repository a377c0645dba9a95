//! Where the time goes in which those want to run that wait long.

use std::cmp::Reverse;

use crate::{
    diagnosis::{Observations, Subject, Thresholds, Verdict, observations::Observed, rated::is_rated},
    model::{CgroupId, Nanos},
};

/// Victims that are shown, and culprits that are named for each.
const VICTIMS: usize = 6;
const CULPRITS: usize = 3;
/// Parts below this are among the rest.
const SMALLEST: f64 = 0.02;

/// A cgroup that waits long.
#[derive(Clone, Debug, PartialEq)]
pub struct VictimTime {
    pub subject: Subject,
    /// What its runnable time consists of, as shares of it, in the order of [`Part`]; together they are 1.
    pub parts: Vec<(Part, f64)>,
}

/// A part of the time in which a cgroup wants to run.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    Running,
    /// Waiting behind this cgroup.
    Behind(Subject),
    BehindOthers,
    BehindOwnThreads,
    Throttled,
    /// Behind kernel threads, before a migration, while the CPU was idle, of unknown cause.
    Else,
}

/// Those of the verdict first, then those that wait most for each second that they run.
pub(super) fn victims(observations: &Observations, verdict: &Verdict, thresholds: &Thresholds) -> Vec<VictimTime> {
    let place = |id: CgroupId| verdict.causes.iter().position(|cause| cause.subject.id() == Some(id));
    let rated = observations.cgroups.iter().filter(|(id, _)| is_rated(**id));
    let is_culprit =
        |id: CgroupId| verdict.causes.iter().flat_map(|cause| &cause.culprits).any(|one| one.id() == Some(id));
    let mut all: Vec<(CgroupId, &Observed)> = rated
        .map(|(&id, observed)| (id, observed))
        .filter(|(id, observed)| place(*id).is_some() || observed.waits_long(observations.span.duration_ns, thresholds))
        .collect();
    let wait_per_cpu = |observed: &Observed| {
        let totals = &observed.totals;
        // Those that never ran are in the order of their waits.
        totals.wait_per_cpu().unwrap_or_default().min(totals.runq_wait_ns.unwrap_or_default().0 as f64)
    };
    all.sort_by(|(a, one), (b, other)| {
        let by_verdict = place(*a).unwrap_or(usize::MAX).cmp(&place(*b).unwrap_or(usize::MAX));
        // Who causes the waits of others comes after them.
        let by_verdict = by_verdict.then(is_culprit(*a).cmp(&is_culprit(*b)));
        by_verdict.then(wait_per_cpu(other).total_cmp(&wait_per_cpu(one))).then(a.cmp(b))
    });
    all.into_iter().filter_map(|(id, observed)| of(observations, id, observed)).take(VICTIMS).collect()
}

/// `None` where causes were not measured, or it never wanted to run.
fn of(observations: &Observations, id: CgroupId, observed: &Observed) -> Option<VictimTime> {
    let totals = &observed.totals;
    let wanted = totals.cpu_ns.saturating_add(totals.runq_wait_ns?).0 as f64;
    let share = |time: Nanos| time.0 as f64 / wanted;
    let (behind, itself, throttled) = (totals.wait_behind_ns?, totals.wait_self_ns?, totals.wait_throttled_ns?);
    let mut culprits: Vec<(CgroupId, Nanos)> =
        observed.behind.culprits().map(|(id, culprit)| (id, culprit.wait_ns)).filter(|(id, _)| is_rated(*id)).collect();
    culprits.sort_by_key(|&(id, wait)| (Reverse(wait), id));
    let named: Vec<(Part, f64)> = culprits
        .into_iter()
        .take(CULPRITS)
        .filter_map(|(id, wait)| Some((Part::Behind(observations.cgroups.get(&id)?.subject(id)), share(wait))))
        .filter(|(_, share)| *share >= SMALLEST)
        .collect();
    let of_named: f64 = named.iter().map(|(_, share)| share).sum();
    let mut parts = vec![(Part::Running, share(totals.cpu_ns))];
    parts.extend(named);
    parts.extend([
        (Part::BehindOthers, (share(behind) - of_named).max(0.0)),
        (Part::BehindOwnThreads, share(itself)),
        (Part::Throttled, share(throttled)),
    ]);
    let rest = 1.0 - parts.iter().map(|(_, share)| share).sum::<f64>();
    parts.push((Part::Else, rest.max(0.0)));
    (wanted > 0.0).then(|| VictimTime { subject: observed.subject(id), parts })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        diagnosis::fixture::bullied,
        model::fixture::{idle, session},
    };

    fn shown(intervals: &[crate::model::Interval]) -> Vec<VictimTime> {
        let mut observations = Observations::new(session());
        intervals.iter().for_each(|interval| observations.add(interval));
        let thresholds = Thresholds::default();
        victims(&observations, &observations.verdict(&thresholds).0, &thresholds)
    }

    #[test]
    fn the_victim_of_the_verdict_comes_first_and_all_of_its_time_is_there() {
        let all = shown(&bullied(60));
        let names: Vec<String> = all.iter().map(|one| one.subject.to_string()).collect();
        assert_eq!(names, ["checkout", "etl/batch"], "the culprit waits, too, and comes after its victim");
        let part = |wanted: &dyn Fn(&Part) -> bool| all[0].parts.iter().find(|(part, _)| wanted(part)).unwrap().1;
        // It runs a fifth of the time, and waits behind the bully 61 % of the rest.
        assert!((part(&|part| *part == Part::Running) - 0.2).abs() < 1e-6);
        assert!((part(&|part| matches!(part, Part::Behind(_))) - 0.8 * 0.61).abs() < 1e-6);
        for victim in &all {
            assert!((victim.parts.iter().map(|(_, share)| share).sum::<f64>() - 1.0).abs() < 1e-6);
        }
    }

    #[test]
    fn where_nobody_waits_long_there_is_nobody_to_show() {
        assert_eq!(shown(&idle(60)), []);
    }
}
