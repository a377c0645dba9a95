//! What came of it.

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::Serialize;

use super::{Policy, Sides};
use crate::{
    comparison::student,
    diagnosis::{self, Finding, Sample, Unit},
    model::{CgroupId, Interval},
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
    /// The change, as a share of what it was without: the mean of the pairs.
    pub change: Option<f64>,
    /// The change is no less than that, with a confidence of 95 %.
    pub low: Option<f64>,
    /// The change is no more than that.
    pub high: Option<f64>,
    /// What `diagnose` had predicted of the change, from the time before, for lightest Load Credit first.
    pub predicted: Option<f64>,
}

/// What happened in a block.
#[derive(Clone, Debug, Default)]
pub(super) struct Block {
    time: f64,
    light: Side,
    heavy: Side,
    host: Sample,
    is_measured: bool,
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
    ("waiting", "host: tasks waiting", Unit::Tasks, |block| Some(block.host.wait_ns? / 1e9 / block.time)),
    ("overhead", "host: overhead", Unit::Share, |block| block.host.overhead()),
    ("switches", "host: switches per CPU", Unit::PerSecond, |block| {
        (block.host.capacity_ns > 0.0).then(|| block.host.rate())
    }),
    ("switch_cost", "host: mean cost of a switch", Unit::Ns, |block| block.host.mean_cost_ns()),
    ("busy", "host: CPUs not idle", Unit::Share, |block| {
        (block.host.capacity_ns > 0.0).then(|| block.host.busy_ns / block.host.capacity_ns)
    }),
];

fn mean_wait(side: Side) -> Option<f64> {
    (side.waits > 0).then(|| side.wait / side.waits as f64)
}

impl Block {
    /// Of its intervals. Waits are those of `sides`.
    pub(super) fn of(intervals: &[Interval], sides: &Sides) -> Self {
        let ids = |groups: &[super::Group]| groups.iter().map(|group| group.id).collect::<HashSet<CgroupId>>();
        let (light, heavy) = (ids(&sides.light), ids(&sides.heavy));
        let mut block = Self {
            host: Sample::sum(&intervals.iter().map(|interval| Sample::from(&interval.host)).collect::<Vec<_>>()),
            is_measured: true,
            ..Self::default()
        };
        for interval in intervals {
            block.time += interval.duration_ns.seconds();
            for cgroup in &interval.cgroups {
                let side = if light.contains(&cgroup.id) {
                    &mut block.light
                } else if heavy.contains(&cgroup.id) {
                    &mut block.heavy
                } else {
                    continue;
                };
                side.cpu += cgroup.totals.cpu_ns.seconds();
                match cgroup.totals.runq_wait_ns.zip(cgroup.totals.runq_waits) {
                    Some((wait, waits)) => {
                        side.wait += wait.seconds();
                        side.waits += waits;
                    }
                    None => block.is_measured = false,
                }
            }
        }
        block
    }

    fn figure(&self, (name, _, _, of): &Kind) -> Option<f64> {
        let is_of_waits = name.contains("wait") || *name == "heavy_time";
        of(self).filter(|value| value.is_finite() && (self.is_measured || !is_of_waits))
    }
}

/// What changed: `blocks` are without, with, without, and so on.
pub(super) fn figures(blocks: &[Block], predicted: Option<&Finding>) -> Vec<Figure> {
    KINDS.iter().map(|kind| figure(kind, blocks, predicted)).collect()
}

fn figure(kind: &Kind, blocks: &[Block], predicted: Option<&Finding>) -> Figure {
    let values: Vec<Option<f64>> = blocks.iter().map(|block| block.figure(kind)).collect();
    let mean = |every_other: usize| {
        let known: Vec<f64> = values.iter().skip(every_other).step_by(2).copied().collect::<Option<_>>()?;
        (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
    };
    let pairs: Option<Vec<f64>> = values
        .windows(3)
        .step_by(2)
        .map(|around| {
            let without = f64::midpoint(around[0]?, around[2]?);
            Some(around[1]? / without - 1.0).filter(|change| change.is_finite())
        })
        .collect();
    let pairs = pairs.unwrap_or_default();
    let change = (!pairs.is_empty()).then(|| pairs.iter().sum::<f64>() / pairs.len() as f64);
    let reach = change.and_then(|mean| reach(&pairs, mean));
    let (name, label, unit, _) = *kind;
    Figure {
        name,
        label,
        unit,
        without: mean(0),
        with: mean(1),
        change,
        low: change.zip(reach).map(|(change, reach)| change - reach),
        high: change.zip(reach).map(|(change, reach)| change + reach),
        predicted: predicted.and_then(|finding| prediction(name, finding, mean(0))),
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

/// What the finding on LAGS candidates says of a figure, as a change.
fn prediction(name: &str, finding: &Finding, before: Option<f64>) -> Option<f64> {
    let value = |name: &str| {
        let figure: &diagnosis::Figure = finding.measured.iter().find(|figure| figure.name == name)?;
        Some(figure.value?.as_f64())
    };
    match name {
        "light_waiting" => Some(-value("light_gain")?),
        "heavy_time" => value("heavy_time"),
        "waiting" => Some(-value("wait_gain")?),
        "switches" => value("switches_change"),
        // It is a difference of shares, and of what is not said there.
        "overhead" => value("overhead_change").zip(before).map(|(change, before)| change / before),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A block of ten seconds in which the light waited so long, in so many waits.
    fn block(wait: f64, waits: u64) -> Block {
        Block { time: 10.0, light: Side { cpu: 1.0, wait, waits }, is_measured: true, ..Block::default() }
    }

    fn of(name: &str, blocks: &[Block]) -> Figure {
        figures(blocks, None).into_iter().find(|figure| figure.name == name).unwrap()
    }

    #[test]
    fn a_block_is_held_against_those_around_it() {
        // It rises all the time, whatever is tried; and halves where it is.
        let blocks = [4.0, 2.5, 6.0, 3.5, 8.0, 4.5, 10.0].map(|wait| block(wait, 100));
        let figure = of("light_waiting", &blocks);
        assert!((figure.without.unwrap() - 0.7).abs() < 1e-9 && (figure.with.unwrap() - 0.35).abs() < 1e-9);
        assert!((figure.change.unwrap() + 0.5).abs() < 1e-9, "{figure:?}");
        assert!(figure.low.unwrap() <= -0.5 && figure.high.unwrap() >= -0.5 && figure.high.unwrap() < -0.49);
    }

    #[test]
    fn what_differs_by_chance_has_an_interval_around_nothing() {
        let blocks = [4.0, 5.0, 4.0, 3.0, 4.0, 4.4, 4.0, 3.7, 4.0].map(|wait| block(wait, 100));
        let figure = of("light_waiting", &blocks);
        assert!(figure.low.unwrap() < 0.0 && figure.high.unwrap() > 0.0, "{figure:?}");
    }

    #[test]
    fn what_is_not_known_is_not_said() {
        let one = of("light_waiting", &[4.0, 2.0, 4.0].map(|wait| block(wait, 100)));
        assert_eq!((one.change, one.low, one.high), (Some(-0.5), None, None), "one pair has no spread");
        assert_eq!(of("light_waiting", &[]).change, None);
        assert_eq!(of("light_wait", &[4.0, 2.0, 4.0].map(|wait| block(wait, 0))).with, None, "no wait has no mean");
        assert_eq!(of("light_waiting", &[0.0, 2.0, 0.0].map(|wait| block(wait, 1))).change, None, "from nothing");
        let unmeasured = [4.0, 2.0, 4.0].map(|wait| Block { is_measured: false, ..block(wait, 9) });
        assert_eq!(of("light_waiting", &unmeasured).with, None);
        assert_eq!(of("light_cpu", &unmeasured).with, Some(0.1));
    }
}
