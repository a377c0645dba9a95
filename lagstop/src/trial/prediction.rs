//! What `diagnose` predicts of a trial, for exactly the cgroups that it is made with.

use std::collections::{HashMap, HashSet};

use super::{Group, Sides};
use crate::{
    diagnosis::{Finding, Subject},
    model::CgroupId,
};

/// Part of a side's wait that may be of cgroups of which nothing is predicted: with more it is not said.
const MISSING: f64 = 0.05;

/// Changes by a figure's name: of lightest Load Credit first, from the time before.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prediction(HashMap<&'static str, Predicted>);

/// What is predicted of a figure, as shares of what it was. `low` ≤ `change` ≤ `high`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Predicted {
    /// By how much it changes.
    pub change: f64,
    /// By no less than that.
    pub low: f64,
    /// By no more than that.
    pub high: f64,
}

impl Predicted {
    /// One that does not say how sure it is. `None` where it is not a number.
    fn exactly(change: f64) -> Option<Self> {
        change.is_finite().then_some(Self { change, low: change, high: change })
    }
}

/// CPU time and run-queue wait of a side, in cores and tasks, and what is left of that wait as predicted.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Side {
    cpu: f64,
    wait: f64,
    left: f64,
}

impl Prediction {
    /// From what the finding on LAGS candidates says of the cgroups in `sides`, and of the host, whose overhead was `overhead`
    /// in the time that the finding is of.
    pub fn of(finding: &Finding, overhead: Option<f64>, sides: &Sides) -> Self {
        let (light, heavy) = (Side::of(finding, &sides.light), Side::of(finding, &sides.heavy));
        let host = |name: &str| Some(finding.measured.iter().find(|figure| figure.name == name)?.value?.as_f64());
        let changes = [
            ("light_waiting", light.map(|side| side.left - 1.0)),
            ("heavy_waiting", heavy.map(|side| side.left - 1.0)),
            // For the same work.
            ("heavy_time", heavy.map(|side| (side.cpu + side.wait * side.left) / (side.cpu + side.wait) - 1.0)),
            ("waiting", host("wait_gain").map(|gain| -gain)),
            ("switches", host("switches_change")),
            // It is said as a difference.
            ("overhead", host("overhead_change").zip(overhead).map(|(change, before)| change / before)),
        ];
        Self(changes.into_iter().filter_map(|(name, change)| Some((name, Predicted::exactly(change?)?))).collect())
    }

    /// Of the figure with this name. `None` where nothing is predicted of it.
    pub fn change(&self, name: &str) -> Option<Predicted> {
        self.0.get(name).copied()
    }
}

impl Side {
    /// `None` where it does not wait, or where too much of its wait is not predicted.
    fn of(finding: &Finding, groups: &[Group]) -> Option<Self> {
        let ids: HashSet<CgroupId> = groups.iter().map(|group| group.id).collect();
        let (mut cpu, mut wait, mut known, mut after) = (0.0, 0.0, 0.0, 0.0);
        for candidate in &finding.cgroups {
            if !matches!(&candidate.cgroup, Subject::Cgroup { id, .. } if ids.contains(id)) {
                continue;
            }
            let used = candidate.cpu.as_f64();
            let waits = candidate.wait_per_cpu.map_or(0.0, |wait| used * wait.as_f64());
            cpu += used;
            wait += waits;
            if let Some(left) = candidate.wait_left {
                known += waits;
                after += waits * left.as_f64();
            }
        }
        (known > 0.0 && known >= wait * (1.0 - MISSING)).then_some(Self { cpu, wait, left: after / known })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::{self, Candidate, CandidateClass, Confidence, Level, Rule, Severity, Unit};

    /// CPU time in cores, wait for each second of it, and what is left of that.
    fn candidate(id: u64, cpu: f64, wait: f64, left: Option<f64>) -> Candidate {
        Candidate {
            cgroup: Subject::Cgroup { id: CgroupId(id), path: "/x".into(), name: "x".into() },
            class: CandidateClass::Light,
            waits_long: true,
            load_credit: 1.0.into(),
            cpu: cpu.into(),
            wait_per_cpu: Some(wait.into()),
            wait_p99_ns: None,
            wait_left: left.map(Into::into),
        }
    }

    fn group(id: u64) -> Group {
        Group { id: CgroupId(id), path: format!("/{id}"), directory: "/".into(), credit: 1.0 }
    }

    fn finding(cgroups: Vec<Candidate>) -> Finding {
        Finding {
            rule: Rule::LagsCandidates,
            severity: Severity::Ok,
            subject: Subject::Host,
            verdict: String::new(),
            measured: vec![
                diagnosis::Figure::new("overhead_change", "", -0.02, Unit::SharePoints),
                diagnosis::Figure::new("wait_gain", "", 0.25, Unit::Share),
            ],
            threshold: Vec::new(),
            confidence: Confidence { level: Level::Low, why: String::new() },
            against: Vec::new(),
            advice: Vec::new(),
            cgroups,
        }
    }

    fn near(found: Option<Predicted>, expected: f64) -> bool {
        let is_near = |end: f64| (end - expected).abs() < 1e-9;
        found.is_some_and(|found| is_near(found.change) && is_near(found.low) && is_near(found.high))
    }

    #[test]
    fn it_is_of_those_that_are_tried_and_of_nobody_else() {
        // 3 would gain as much as 1, but is not tried.
        let all = finding(vec![
            candidate(1, 0.1, 10.0, Some(0.2)),
            candidate(2, 1.0, 2.0, Some(1.5)),
            candidate(3, 0.5, 40.0, Some(0.9)),
        ]);
        let sides = Sides { light: vec![group(1)], heavy: vec![group(2)] };
        let prediction = Prediction::of(&all, Some(0.08), &sides);
        assert!(near(prediction.change("light_waiting"), -0.8), "{prediction:?}");
        assert!(near(prediction.change("heavy_waiting"), 0.5));
        assert!(near(prediction.change("heavy_time"), 4.0 / 3.0 - 1.0), "3 s of waiting and 1 s of work, instead of 2");
        assert!(near(prediction.change("waiting"), -0.25));
        assert!(near(prediction.change("overhead"), -0.25), "a fourth of what it was in the time before");
        assert_eq!((prediction.change("switches"), prediction.change("busy")), (None, None));
        assert_eq!(Prediction::of(&all, None, &sides).change("overhead"), None);
    }

    #[test]
    fn where_most_is_not_simulated_nothing_is_said() {
        let side = |left| {
            Side::of(
                &finding(vec![candidate(1, 1.0, 1.0, Some(0.5)), candidate(2, 1.0, 1.0, left)]),
                &[group(1), group(2)],
            )
        };
        assert_eq!(side(None), None);
        assert_eq!(side(Some(1.0)), Some(Side { cpu: 2.0, wait: 2.0, left: 0.75 }));
        let little = finding(vec![candidate(1, 1.0, 1.0, Some(0.5)), candidate(2, 1.0, 0.01, None)]);
        assert_eq!(Side::of(&little, &[group(1), group(2)]).map(|side| side.left), Some(0.5));
        assert_eq!(Side::of(&little, &[]), None);
    }
}
