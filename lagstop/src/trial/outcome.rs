//! What came of it.

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::Serialize;

use super::{Group, Policy, Prediction, Sides};
use crate::{
    diagnosis::{Sample, Unit},
    model::{CgroupId, Interval},
    stats::student,
};

impl Outcome {
    /// The version of this form.
    pub const SCHEMA: &'static str = "lagstop.trial/1";
}

/// How sure an interval is to hold the true change.
const CONFIDENCE: f64 = 0.95;

/// What came of a trial.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Outcome {
    /// Version of this form.
    pub schema: &'static str,
    /// What was tried.
    pub policy: Policy,
    /// Where.
    pub hostname: String,
    /// On which kernel.
    pub kernel: String,
    /// Who was to go first.
    pub light: Vec<String>,
    /// Who paid.
    pub heavy: Vec<String>,
    /// Blocks with it, each between two without.
    pub pairs: usize,
    /// How long a block is, in seconds.
    pub block_seconds: f64,
    /// What changed.
    pub figures: Vec<Figure>,
    /// Why it ended before its time. `None`: it did not.
    pub ended: Option<String>,
    /// Changes that were undone.
    pub undone: usize,
    /// What could not be undone, and why.
    pub not_undone: Vec<String>,
}

/// What became of one figure.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Figure {
    /// Its name, for programs.
    pub name: &'static str,
    /// Its name, for people.
    pub label: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// Without the policy, on average. `None` is not measured, here and below.
    pub without: Option<f64>,
    /// With it, on average.
    pub with: Option<f64>,
    /// The change, as a share of what it was without: the geometric mean of the pairs' ratios, less 1.
    pub change: Option<f64>,
    /// The change is no less than that, with a confidence of 95 %.
    pub low: Option<f64>,
    /// The change is no more than that.
    pub high: Option<f64>,
    /// What `diagnose` had predicted of the change, from the time before, for lightest Load Credit first, of the same cgroups.
    pub predicted: Option<f64>,
    /// Why there is no change, or no interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why_not: Option<String>,
}

impl Figure {
    /// By how much the prediction is off, as a difference of changes: above 0 where more was predicted than came.
    pub fn off(&self) -> Option<f64> {
        Some(self.predicted? - self.change?)
    }
}

/// What happened in a block.
#[derive(Clone, Debug, Default)]
pub(super) struct Block {
    time: f64,
    light: Side,
    heavy: Side,
    host: Option<Sample>,
    /// Waits were not measured in all of it.
    is_unmeasured: bool,
}

/// Whose a cgroup is.
#[derive(Clone, Debug)]
pub(super) struct Ids {
    light: HashSet<CgroupId>,
    heavy: HashSet<CgroupId>,
}

impl From<&Sides> for Ids {
    fn from(sides: &Sides) -> Self {
        let ids = |groups: &[Group]| groups.iter().map(|group| group.id).collect();
        Self { light: ids(&sides.light), heavy: ids(&sides.heavy) }
    }
}

/// CPU time and run-queue waits, in seconds, and how many waits there were.
#[derive(Clone, Copy, Debug, Default)]
struct Side {
    cpu: f64,
    wait: f64,
    waits: u64,
}

/// A figure of a block: name, label, unit, and how it is had.
type Kind = (&'static str, &'static str, Unit, fn(&Block) -> Option<f64>);

const KINDS: [Kind; 11] = [
    ("light_wait", "light: mean wait", Unit::Seconds, |block| mean_wait(block.light)),
    ("light_waiting", "light: tasks waiting", Unit::Tasks, |block| Some(block.light.wait / block.time)),
    ("light_cpu", "light: CPU time", Unit::Cores, |block| Some(block.light.cpu / block.time)),
    ("heavy_time", "heavy: time for a second of work", Unit::Factor, |block| {
        (block.heavy.cpu > 0.0).then(|| (block.heavy.cpu + block.heavy.wait) / block.heavy.cpu)
    }),
    ("heavy_waiting", "heavy: tasks waiting", Unit::Tasks, |block| Some(block.heavy.wait / block.time)),
    ("heavy_cpu", "heavy: CPU time", Unit::Cores, |block| Some(block.heavy.cpu / block.time)),
    ("waiting", "host: tasks waiting", Unit::Tasks, |block| Some(block.host?.wait_ns? / 1e9 / block.time)),
    ("overhead", "host: overhead", Unit::Share, |block| block.host?.overhead()),
    ("switches", "host: switches per CPU", Unit::PerSecond, |block| {
        Some(block.host.filter(|host| host.capacity_ns > 0.0)?.rate())
    }),
    ("switch_cost", "host: mean cost of a switch", Unit::Ns, |block| block.host?.mean_cost_ns()),
    ("busy", "host: CPUs not idle", Unit::Share, |block| Some(block.host?.busy_ns / block.host?.capacity_ns)),
];

fn mean_wait(side: Side) -> Option<f64> {
    (side.waits > 0).then(|| side.wait / side.waits as f64)
}

impl Block {
    /// Adds an interval that is whole in it.
    pub(super) fn add(&mut self, interval: &Interval, ids: &Ids) {
        let host = Sample::from(&interval.host);
        self.host = Some(self.host.map_or(host, |before| Sample::sum(&[before, host])));
        self.time += interval.duration_ns.seconds();
        for cgroup in &interval.cgroups {
            let side = if ids.light.contains(&cgroup.id) {
                &mut self.light
            } else if ids.heavy.contains(&cgroup.id) {
                &mut self.heavy
            } else {
                continue;
            };
            side.cpu += cgroup.totals.cpu_ns.seconds();
            match cgroup.totals.runq_wait_ns.zip(cgroup.totals.runq_waits) {
                Some((wait, waits)) => {
                    side.wait += wait.seconds();
                    side.waits += waits;
                }
                None => self.is_unmeasured = true,
            }
        }
    }

    fn figure(&self, (name, _, _, of): &Kind) -> Option<f64> {
        let is_of_waits = name.contains("wait") || *name == "heavy_time";
        of(self).filter(|value| value.is_finite() && !(self.is_unmeasured && is_of_waits))
    }
}

/// What changed: `blocks` are without, with, without, and so on.
pub(super) fn figures(blocks: &[Block], predicted: &Prediction) -> Vec<Figure> {
    KINDS.iter().map(|kind| figure(kind, blocks, predicted)).collect()
}

fn figure(kind: &Kind, blocks: &[Block], predicted: &Prediction) -> Figure {
    let values: Vec<Option<f64>> = blocks.iter().map(|block| block.figure(kind)).collect();
    let mean = |every_other: usize| {
        let known: Vec<f64> = values.iter().skip(every_other).step_by(2).copied().collect::<Option<_>>()?;
        (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
    };
    // The logarithm of what a block is of those beside it: what halves and what doubles are as far from no change.
    let pairs = values.windows(3).step_by(2).map(|around| match *around {
        [Some(before), Some(with), Some(after)] => {
            let ratio = with / f64::midpoint(before, after);
            if ratio > 0.0 && ratio.is_finite() {
                Ok(ratio.ln())
            } else {
                Err("it was 0 in a block: there is no ratio")
            }
        }
        _ => Err("it was not measured in every block"),
    });
    let pairs: Result<Vec<f64>, &str> = pairs.collect();
    let (change, reach, why_not) = match pairs.as_deref() {
        Err(why) => (None, None, Some(*why)),
        Ok([]) => (None, None, Some("no block with the policy was whole")),
        Ok(pairs) => {
            let change = pairs.iter().sum::<f64>() / pairs.len() as f64;
            let reach = reach(pairs, change);
            (Some(change), reach, reach.is_none().then_some("one block has no spread to tell chance by"))
        }
    };
    let end = |sign: f64| change.zip(reach).map(|(change, reach)| sign.mul_add(reach, change).exp_m1());
    let (name, label, unit, _) = *kind;
    Figure {
        name,
        label,
        unit,
        without: mean(0),
        with: mean(1),
        change: change.map(f64::exp_m1),
        low: end(-1.0),
        high: end(1.0),
        predicted: predicted.change(name),
        why_not: why_not.map(str::to_owned),
    }
}

/// How far the true mean may be from that of the pairs. `None` of one pair.
fn reach(pairs: &[f64], mean: f64) -> Option<f64> {
    let freedom = pairs.len().checked_sub(1).filter(|&freedom| freedom > 0)? as f64;
    let variance = pairs.iter().map(|pair| (pair - mean).powi(2)).sum::<f64>() / freedom;
    // Pairs beside each other share what they are held against: their mean varies more than that of as many apart.
    let half = 0.5 / pairs.len() as f64;
    let shared = ((2.0 - half) / (1.5 - half)).sqrt();
    Some(student::quantile(1.0 - CONFIDENCE, freedom) * shared * (variance / pairs.len() as f64).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Cgroup, Nanos, Totals};

    /// A block of ten seconds in which the light waited so long, in so many waits.
    fn block(wait: f64, waits: u64) -> Block {
        Block { time: 10.0, light: Side { cpu: 1.0, wait, waits }, ..Block::default() }
    }

    fn of(name: &str, blocks: &[Block]) -> Figure {
        figures(blocks, &Prediction::default()).into_iter().find(|figure| figure.name == name).unwrap()
    }

    #[test]
    fn a_block_is_held_against_those_around_it() {
        // It rises all the time, whatever is tried; and halves where it is.
        let blocks = [4.0, 2.5, 6.0, 3.5, 8.0, 4.5, 10.0].map(|wait| block(wait, 100));
        let figure = of("light_waiting", &blocks);
        assert!((figure.without.unwrap() - 0.7).abs() < 1e-9 && (figure.with.unwrap() - 0.35).abs() < 1e-9);
        assert!((figure.change.unwrap() + 0.5).abs() < 1e-9, "{figure:?}");
        assert!(figure.low.unwrap() <= -0.5 && figure.high.unwrap() >= -0.5 && figure.high.unwrap() < -0.49);
        assert_eq!(figure.why_not, None);
    }

    #[test]
    fn what_differs_by_chance_has_an_interval_around_nothing() {
        let blocks = [4.0, 5.0, 4.0, 3.0, 4.0, 4.4, 4.0, 3.7, 4.0].map(|wait| block(wait, 100));
        let figure = of("light_waiting", &blocks);
        assert!(figure.low.unwrap() < 0.0 && figure.high.unwrap() > 0.0, "{figure:?}");
    }

    #[test]
    fn nothing_falls_by_more_than_all_of_it() {
        // Two blocks that differ by far: two degrees of freedom go far.
        let blocks = [4.0, 0.04, 4.0, 2.0, 4.0, 0.4, 4.0].map(|wait| block(wait, 100));
        let figure = of("light_waiting", &blocks);
        let mean = ((0.01f64.ln() + 0.5f64.ln() + 0.1f64.ln()) / 3.0).exp() - 1.0;
        assert!((figure.change.unwrap() - mean).abs() < 1e-9, "{figure:?}");
        assert!(figure.low.unwrap() > -1.0 && figure.low.unwrap() < mean && figure.high.unwrap() > 0.0, "{figure:?}");
        // What doubles is as sure as what halves.
        let ends = |waits: [f64; 5]| {
            let figure = of("light_waiting", &waits.map(|wait| block(wait, 100)));
            (figure.low.unwrap().ln_1p(), figure.high.unwrap().ln_1p())
        };
        let (fell, rose) = (ends([4.0, 2.0, 4.0, 1.0, 4.0]), ends([4.0, 8.0, 4.0, 16.0, 4.0]));
        assert!((fell.0 + rose.1).abs() < 1e-9 && (fell.1 + rose.0).abs() < 1e-9, "{fell:?} {rose:?}");
    }

    #[test]
    fn what_is_not_known_is_not_said() {
        let one = of("light_waiting", &[4.0, 2.0, 4.0].map(|wait| block(wait, 100)));
        assert!((one.change.unwrap() + 0.5).abs() < 1e-9 && one.low.is_none() && one.high.is_none());
        assert!(one.why_not.unwrap().contains("no spread"));
        assert!(of("light_waiting", &[]).why_not.unwrap().contains("no block"));
        assert_eq!(of("light_wait", &[4.0, 2.0, 4.0].map(|wait| block(wait, 0))).with, None, "no wait has no mean");
        for waits in [[0.0, 2.0, 0.0], [2.0, 0.0, 2.0], [0.0; 3]] {
            let figure = of("light_waiting", &waits.map(|wait| block(wait, 1)));
            assert!(figure.change.is_none() && figure.why_not.unwrap().contains("it was 0"), "{waits:?}");
            assert!(figure.with.is_some(), "that it was 0 is known");
        }
        let unmeasured = [4.0, 2.0, 4.0].map(|wait| Block { is_unmeasured: true, ..block(wait, 9) });
        let figure = of("light_waiting", &unmeasured);
        assert!(figure.with.is_none() && figure.why_not.unwrap().contains("not measured"));
        assert_eq!(of("light_cpu", &unmeasured).with, Some(0.1));
        assert_eq!(of("busy", &unmeasured).with, None, "no interval was whole in it");
    }

    #[test]
    fn an_interval_is_booked_to_its_sides() {
        let ids = Ids { light: HashSet::from([CgroupId(1)]), heavy: HashSet::from([CgroupId(2)]) };
        let cgroup = |id: u64, cpu: u64, wait: Option<u64>| Cgroup {
            id: CgroupId(id),
            totals: Totals {
                cpu_ns: Nanos(cpu * 1_000_000_000),
                runq_wait_ns: wait.map(|wait| Nanos(wait * 1_000_000_000)),
                runq_waits: wait,
                ..Totals::default()
            },
            ..Cgroup::default()
        };
        let interval = |cgroups: Vec<Cgroup>| Interval { duration_ns: Nanos::SECOND, cgroups, ..Interval::default() };
        let mut block = Block::default();
        block.add(&interval(vec![cgroup(1, 1, Some(2)), cgroup(2, 3, Some(4)), cgroup(3, 9, Some(9))]), &ids);
        block.add(&interval(vec![cgroup(1, 1, Some(2))]), &ids);
        assert_eq!((block.time, block.light.cpu, block.light.wait, block.light.waits), (2.0, 2.0, 4.0, 4));
        assert_eq!((block.heavy.cpu, block.heavy.wait, block.is_unmeasured), (3.0, 4.0, false));
        block.add(&interval(vec![cgroup(2, 1, None)]), &ids);
        assert!(block.is_unmeasured);
    }
}
