//! Outcome of a trial.

use lagstop_ebpf::bucket_low;
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    Policy, Prediction,
    block::{Block, SideTimes, Slice},
    effect::{CONFIDENCE, Effect},
};
use crate::{
    diagnosis::{ForecastFigure, tail_of_waits},
    diff::discoveries,
    units::Unit,
};

impl TrialOutcome {
    /// The version of this form.
    pub const SCHEMA: &'static str = "lagstop.trial/1";
}

/// Outcome of a trial.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TrialOutcome {
    /// Version of this format.
    pub schema: &'static str,
    /// The policy that was tried. `None`: no policy, to measure variation by chance.
    pub policy: Option<Policy>,
    /// Name of the host.
    pub hostname: String,
    /// Kernel of the host.
    pub kernel: String,
    /// The light cgroups, which the policy prioritises.
    pub light: Vec<String>,
    /// The heavy cgroups, which the policy deprioritises.
    pub heavy: Vec<String>,
    /// Number of blocks with the policy, each between two without.
    pub pairs: usize,
    /// Length of a block, in seconds.
    pub block_seconds: f64,
    /// The time of each block that counts, in order.
    pub blocks: Vec<TimeOfBlock>,
    /// Time between samples of waiting threads, in seconds. `None`: waits count when they end.
    pub looked_every_seconds: Option<f64>,
    /// All metrics, with their changes.
    pub figures: Vec<TriedFigure>,
    /// Why the trial ended early. `None` if it did not.
    pub ended: Option<String>,
    /// Number of changes that were undone.
    pub undone: usize,
    /// Changes that could not be undone, with the reasons.
    pub not_undone: Vec<String>,
}

/// The time of a block that counts. All metrics cover exactly this time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct TimeOfBlock {
    /// Whether it is a block with the policy.
    pub is_with: bool,
    /// Start, on the clock `CLOCK_MONOTONIC`, in nanoseconds.
    pub from_ns: u64,
    /// End, on the same clock.
    pub to_ns: u64,
    /// Whether the light cgroups' waiting was steady at the start of the counted time, neither rising nor falling.
    /// `None`: the block has too few intervals to tell.
    pub is_steady: Option<bool>,
    /// Correction of the light cgroups' waits, in seconds: waits spent in this time and accounted by the kernel after
    /// it, minus waits spent before it and accounted in it. The metrics include this correction. `None`: unknown, and
    /// not included.
    pub light_moved_seconds: Option<f64>,
    /// The same correction for the heavy cgroups.
    pub heavy_moved_seconds: Option<f64>,
}

impl TimeOfBlock {
    /// How long it counted.
    pub fn seconds(&self) -> f64 {
        self.to_ns.saturating_sub(self.from_ns) as f64 / 1e9
    }
}

/// Result for one metric.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct TriedFigure {
    /// Name of the metric, for programs.
    pub name: &'static str,
    /// Readable name of the metric.
    pub label: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// Mean without the policy. `None` if not measured, here and below.
    pub without: Option<f64>,
    /// Mean with the policy.
    pub with: Option<f64>,
    /// Relative change: the geometric mean of the pairs' ratios, minus 1. If the metric was 0 in a block, or nearly: the mean of
    /// the pairs' differences, as a share of the mean of the blocks beside those with the policy.
    pub change: Option<f64>,
    /// Lower end of the 95 % interval of the change.
    pub low: Option<f64>,
    /// Upper end of the 95 % interval of the change.
    pub high: Option<f64>,
    /// p-value: the probability of a change at least this large by chance alone.
    pub p: Option<f64>,
    /// Whether the change is significant. On average, at most 5 % of the significant changes are by chance.
    pub changed: Option<bool>,
    /// Predicted change for this policy and these cgroups, simulated from data before the trial.
    pub predicted: Option<f64>,
    /// Lower end of the predicted interval.
    pub predicted_low: Option<f64>,
    /// Upper end of the predicted interval.
    pub predicted_high: Option<f64>,
    /// Why there is no prediction, if this metric would otherwise have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predicted_why_not: Option<String>,
    /// Whether `change` is between `predicted_low` and `predicted_high`. This ignores the interval of `change`.
    pub inside: Option<bool>,
    /// Why the change or its interval is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why_not: Option<String>,
}

impl TriedFigure {
    /// Is the measured change inside of the predicted interval?
    pub const fn is_inside(&self) -> Option<bool> {
        self.inside
    }
}

/// How many times as long the waits of a bucket are as those of the one before, at most: of the first two of a power of two.
const BUCKET: f64 = bucket_low(5) as f64 / bucket_low(4) as f64;

/// A metric that is predicted as well, or that is only tried, by its name and label.
#[derive(Clone, Copy)]
enum What {
    Predicted(ForecastFigure),
    Only(&'static str, &'static str),
}

use What::{Only, Predicted};

impl What {
    const fn name(self) -> &'static str {
        match self {
            Predicted(figure) => figure.name(),
            Only(name, _) => name,
        }
    }

    const fn label(self) -> &'static str {
        match self {
            Predicted(figure) => figure.label(),
            Only(_, label) => label,
        }
    }

    const fn predicted(self) -> Option<ForecastFigure> {
        match self {
            Predicted(figure) => Some(figure),
            Only(..) => None,
        }
    }
}

/// A metric of a block: what it is, its unit, and how to get it.
struct Kind {
    what: What,
    unit: Unit,
    /// It is unknown where waits are not measured.
    is_of_waits: bool,
    /// It is a quantile of single waits.
    is_quantile: bool,
    of: fn(&Slice) -> Option<f64>,
}

const KINDS: [Kind; 13] = [
    of_waits(Predicted(ForecastFigure::LightWaiting), Unit::Tasks, |slice| Some(slice.waiting(slice.light))),
    of_waits(Only("light_behind_heavy", "light: tasks waiting behind heavy"), Unit::Tasks, |slice| {
        Some(slice.behind_heavy? / slice.duration)
    }),
    Kind {
        is_quantile: true,
        ..of_waits(Predicted(ForecastFigure::LightP99), Unit::Ns, |slice| {
            Some(tail_of_waits(&slice.light_waits)?.0 as f64)
        })
    },
    of_others(Only("light_cpu", "light: CPU time"), Unit::Cores, |slice| Some(slice.light.cpu / slice.duration)),
    of_waits(Predicted(ForecastFigure::HeavyTime), Unit::Factor, |slice| slice.heavy.time_for_work()),
    of_waits(Predicted(ForecastFigure::HeavyWaiting), Unit::Tasks, |slice| Some(slice.waiting(slice.heavy))),
    of_others(Only("heavy_cpu", "heavy: CPU time"), Unit::Cores, |slice| Some(slice.heavy.cpu / slice.duration)),
    of_waits(Predicted(ForecastFigure::OthersTime), Unit::Factor, |slice| slice.others.time_for_work()),
    of_waits(Predicted(ForecastFigure::Waiting), Unit::Tasks, |slice| {
        Some((slice.host.wait_ns? / 1e9 / slice.duration).max(0.0))
    }),
    of_others(Predicted(ForecastFigure::Overhead), Unit::Share, |slice| slice.host.overhead()),
    of_others(Predicted(ForecastFigure::Switches), Unit::PerSecond, |slice| {
        (slice.host.capacity_ns > 0.0).then(|| slice.host.rate())
    }),
    of_others(Only("switch_cost", "host: mean cost of a switch"), Unit::Ns, |slice| slice.host.mean_cost_ns()),
    of_others(Only("busy", "host: CPUs not idle"), Unit::Share, |slice| {
        (slice.host.capacity_ns > 0.0).then(|| slice.host.utilisation())
    }),
];

const fn of_waits(what: What, unit: Unit, of: fn(&Slice) -> Option<f64>) -> Kind {
    Kind { what, unit, is_of_waits: true, is_quantile: false, of }
}

const fn of_others(what: What, unit: Unit, of: fn(&Slice) -> Option<f64>) -> Kind {
    Kind { what, unit, is_of_waits: false, is_quantile: false, of }
}

impl SideTimes {
    /// Time from wanting to run until having run, as a multiple of the CPU time.
    fn time_for_work(self) -> Option<f64> {
        (self.cpu > 0.0).then(|| (self.cpu + self.wait.max(0.0)) / self.cpu)
    }
}

impl Slice {
    /// Average number of tasks that waited. At least 0: the correction of waits is an estimate, and may exceed them.
    fn waiting(&self, side: SideTimes) -> f64 {
        (side.wait / self.duration).max(0.0)
    }
}

/// What changed: `blocks` are without, with, without, and so on.
pub(super) fn figures(blocks: &[Block], predicted: &Prediction) -> Vec<TriedFigure> {
    let mut figures: Vec<TriedFigure> = KINDS.iter().map(|kind| figure(kind, blocks, predicted)).collect();
    let ps: Vec<f64> = figures.iter().filter_map(|figure| figure.p).collect();
    let of = ps.len();
    let largest = discoveries::largest(ps, of, CONFIDENCE);
    for figure in &mut figures {
        figure.changed = figure.p.map(|p| largest.is_some_and(|largest| p <= largest));
    }
    figures
}

fn figure(kind: &Kind, blocks: &[Block], predicted: &Prediction) -> TriedFigure {
    let value = |block: &Block| {
        let is_known = |slice: &Slice| !(kind.is_of_waits && slice.is_unmeasured);
        block.value(|slice| is_known(slice).then(|| (kind.of)(slice)).flatten())
    };
    let values: Vec<Option<f64>> = blocks.iter().map(value).collect();
    let mean = |every_other: usize| {
        let known: Vec<f64> = values.iter().skip(every_other).step_by(2).copied().collect::<Option<_>>()?;
        (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
    };
    let effect = Effect::of(&values).map(|effect| effect.off_by(if kind.is_quantile { BUCKET.ln() } else { 0.0 }));
    let known = effect.ok();
    // A quantile of all blocks is known where there are too few waits in each.
    let pooled = |every_other: usize| {
        let sum = kind.is_quantile.then(|| Block::sum(blocks.iter().skip(every_other).step_by(2)))?;
        value(&sum)
    };
    let of_all = if known.is_none() { pooled(0).zip(pooled(1)) } else { None };
    let change = known.map(|effect| effect.change()).or(of_all.map(|(without, with)| with / without - 1.0));
    let interval = known.and_then(|effect| effect.interval());
    let why_not = match effect {
        Err(_) if change.is_some() => Some("the blocks have too few waits each: the change is of all of them together"),
        Err(why) => Some(why),
        Ok(effect) => effect.why_no_interval(),
    };
    let of = kind.what.predicted();
    let predicted_why_not = of.and_then(|of| predicted.why_not(of)).map(|why| why.to_string());
    let predicted = of.and_then(|of| predicted.change(of));
    TriedFigure {
        name: kind.what.name(),
        label: kind.what.label(),
        unit: kind.unit,
        without: of_all.map(|(without, _)| without).or_else(|| mean(0)),
        with: of_all.map(|(_, with)| with).or_else(|| mean(1)),
        change,
        low: interval.map(|(low, _)| low),
        high: interval.map(|(_, high)| high),
        p: known.and_then(|effect| effect.p()),
        changed: None,
        predicted: predicted.map(|it| it.change),
        predicted_low: predicted.map(|it| it.low),
        predicted_high: predicted.map(|it| it.high),
        predicted_why_not,
        inside: change.zip(predicted).map(|(change, it)| (it.low..=it.high).contains(&change)),
        why_not: why_not.map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use std::{ops::Range, time::Instant};

    use super::*;
    use crate::{
        diagnosis::HostSample,
        model::{Distribution, Nanos},
        random::Random,
        trial::block::tests::second,
    };

    /// A second in which the light waited so long.
    fn block(wait: f64) -> Block {
        Block { sum: Some(second(Instant::now(), 0, wait)), is_steady: Some(true) }
    }

    fn of(name: &str, blocks: &[Block]) -> TriedFigure {
        figures(blocks, &Prediction::default()).into_iter().find(|figure| figure.name == name).unwrap()
    }

    #[test]
    fn a_figure_says_what_there_was_and_what_changed() {
        let figure = of("light_waiting", &[4.0, 4.0, 16.0, 17.0, 64.0, 65.0, 256.0].map(block));
        assert!((figure.without.unwrap() - 85.0).abs() < 1e-9 && (figure.with.unwrap() - 86.0 / 3.0).abs() < 1e-9);
        assert!((figure.change.unwrap() + 0.48).abs() < 0.01 && figure.low.unwrap() < -0.48, "{figure:?}");
        assert_eq!((figure.changed, figure.why_not), (Some(true), None));
    }

    #[test]
    fn a_quantile_of_too_few_waits_in_each_block_is_of_all_together() {
        let waits = |count: u32, ms: u64| {
            let light_waits = Distribution::of([(Nanos(ms * 1_000_000), count)]);
            Block { sum: Some(Slice { light_waits, ..second(Instant::now(), 0, 1.0) }), is_steady: Some(true) }
        };
        let p99 = |count| of("light_p99", &[40, 10, 40, 10, 40].map(|ms| waits(count, ms)));
        let (many, few, fewest) = (p99(400), p99(150), p99(60));
        let near = |figure: &TriedFigure| (figure.change.unwrap() + 0.75).abs() < 0.05;
        assert!(near(&many) && many.low.is_some() && many.why_not.is_none(), "{many:?}");
        assert!(near(&few) && few.low.is_none() && few.why_not.as_ref().unwrap().contains("all of them together"));
        assert!((few.without.unwrap() / 40e6 - 1.0).abs() < 0.15, "{few:?}");
        assert!(fewest.change.is_none() && fewest.why_not.is_some(), "{fewest:?}");
    }

    #[test]
    fn what_is_not_known_is_not_said() {
        let one = of("light_waiting", &[4.0, 2.0, 4.0].map(block));
        assert!((one.change.unwrap() + 0.5).abs() < 1e-9 && one.low.is_none() && one.changed.is_none());
        assert!(one.why_not.unwrap().contains("no spread"));
        let none = of("light_waiting", &[0.0; 3].map(block));
        assert!(none.change.is_none() && none.with == Some(0.0) && none.why_not.unwrap().contains("it was 0"));
        let unmeasured = [4.0, 2.0, 4.0].map(|wait| {
            let slice = Slice { is_unmeasured: true, ..second(Instant::now(), 0, wait) };
            Block { sum: Some(slice), is_steady: Some(true) }
        });
        let figure = of("light_waiting", &unmeasured);
        assert!(figure.with.is_none() && figure.why_not.unwrap().contains("not measured"));
        assert_eq!(of("light_cpu", &unmeasured).with, Some(0.1));
        assert_eq!(of("busy", &unmeasured).with, None, "there was no CPU");
        assert_eq!(of("light_cpu", &[(); 3].map(|()| Block::default())).with, None, "no interval was whole in it");
        let nobody = of("light_waiting", &[-0.01, 1.0, 1.0].map(block));
        assert_eq!(nobody.without, Some(0.5), "what is moved is an estimate: nothing is below 0");
    }

    /// What wanders on its own: normal, with such a spread and such a correlation of one with the next.
    struct Wandering {
        random: Random,
        spread: f64,
        correlation: f64,
        value: f64,
    }

    impl Wandering {
        fn next(&mut self) -> f64 {
            // Box and Muller, A note on the generation of random normal deviates, 1958.
            let (one, other) = (self.random.unit(), self.random.unit());
            let normal = (-2.0 * one.ln()).sqrt() * (std::f64::consts::TAU * other).cos();
            self.value = self.correlation.mul_add(self.value, (1.0 - self.correlation.powi(2)).sqrt() * normal);
            (self.spread * self.value).exp()
        }
    }

    /// Of a trial, by default.
    const BLOCKS: usize = 13;

    /// Trials of nothing: of all metrics, the part that is called changed, the part whose interval excludes no change, and the
    /// mean change.
    fn placebo(spread: f64, correlation: f64, seeds: Range<u64>) -> (f64, f64, f64) {
        let trials = (seeds.end - seeds.start) as f64;
        let (mut changed, mut excluded, mut sum, mut count) = (0.0, 0.0, 0.0, 0.0);
        for seed in seeds {
            // Each wanders on its own.
            let mut wander: Vec<Wandering> = (0..6)
                .map(|stream| Wandering { random: Random::new(seed, stream), spread, correlation, value: 0.0 })
                .collect();
            // From where it may be at any time.
            wander.iter_mut().for_each(|one| (0..50).for_each(|_| _ = one.next()));
            let blocks: Vec<Block> = (0..BLOCKS)
                .map(|_| {
                    let mut next = wander.iter_mut().map(Wandering::next);
                    let mut next = || next.next().unwrap();
                    let slice = Slice {
                        light: SideTimes { cpu: next(), wait: next() },
                        heavy: SideTimes { cpu: next(), wait: next() },
                        host: HostSample {
                            capacity_ns: 1e9,
                            busy_ns: next() * 1e8,
                            wait_ns: Some(next() * 1e9),
                            ..HostSample::default()
                        },
                        ..second(Instant::now(), 0, 0.0)
                    };
                    Block { sum: Some(slice), is_steady: Some(true) }
                })
                .collect();
            for figure in figures(&blocks, &Prediction::default()) {
                let (Some(change), Some(is_changed)) = (figure.change, figure.changed) else { continue };
                changed += f64::from(u8::from(is_changed));
                excluded += f64::from(u8::from(figure.low.unwrap() > 0.0 || figure.high.unwrap() < 0.0));
                sum += change.ln_1p();
                count += 1.0;
            }
        }
        assert!(count >= 6.0 * trials, "{count}");
        (changed / count, excluded / count, (sum / count).exp_m1())
    }

    /// A policy that changes nothing is said to change nothing: 200 trials for each kind of load, as long as they are by default.
    #[test]
    fn what_changes_nothing_is_not_said_to_change_anything() {
        let mut changes = Vec::new();
        for spread in [0.5, 0.7, 1.0] {
            for correlation in [0.0, 0.3, 0.6, 0.9] {
                let first = changes.len() as u64 * 200;
                let (changed, excluded, change) = placebo(spread, correlation, first..first + 200);
                assert!(changed <= 0.07, "{spread}, {correlation}: {changed} of all figures changed");
                assert!(excluded <= 0.07, "{spread}, {correlation}: {excluded} of all intervals exclude no change");
                changes.push(change);
            }
        }
        let mean = changes.iter().sum::<f64>() / changes.len() as f64;
        assert!(mean.abs() < 0.01, "on average, nothing changed by {:.2} %: {changes:?}", mean * 100.0);
    }

    /// Where there is an effect it is found.
    #[test]
    fn what_halves_is_said_to_halve() {
        let mut wandering = Wandering { random: Random::new(5, 5), spread: 0.15, correlation: 0.3, value: 0.0 };
        let found = (0..100).filter(|_| {
            let blocks: Vec<Block> =
                (0..BLOCKS).map(|n| block(wandering.next() * if n % 2 == 1 { 0.5 } else { 1.0 })).collect();
            let figure = of("light_waiting", &blocks);
            figure.changed == Some(true) && figure.high.unwrap() < 0.0
        });
        let found = found.count();
        assert!(found >= 95, "{found} of 100");
    }
}
