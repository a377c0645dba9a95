//! What is predicted of a figure, and how wrong that may be.

use std::collections::BTreeMap;

use super::{super::asked::Asked, Competitors, Forecaster, sum};
use crate::simulation::{Outcome, Served};

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

/// What an intervention does, by the names of a trial's figures.
#[derive(Clone, Debug, Default)]
pub struct Forecast {
    figures: BTreeMap<&'static str, Result<Predicted, String>>,
    /// How far the simulation of what was measured is off: of the waits of the light, of the heavy, and of all others.
    pub(in crate::diagnosis) errors: Errors,
    /// Waits by side, in tasks waiting: measured, simulated as it is, and simulated with the intervention.
    pub(in crate::diagnosis) waiting: [Waiting; 3],
    /// Waits of each cgroup, by its number in the trace, in tasks waiting: simulated as it is, and with the intervention.
    waits: Vec<(f64, f64)>,
    /// Halves of simulations, and those of them in which the light wait at least so much less.
    gains: Vec<f64>,
}

/// Waits simulated over waits measured, less 1. `None` of those that hardly wait.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(in crate::diagnosis) struct Errors {
    pub(in crate::diagnosis) light: Option<f64>,
    pub(in crate::diagnosis) heavy: Option<f64>,
    pub(in crate::diagnosis) others: Option<f64>,
}

/// Tasks waiting on average.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(in crate::diagnosis) struct Waiting {
    pub(in crate::diagnosis) light: f64,
    pub(in crate::diagnosis) heavy: f64,
    pub(in crate::diagnosis) all: f64,
}

/// A side of which the simulation is off by more, as a share of what was measured, is not predicted.
pub(in crate::diagnosis) const MOST_OFF: f64 = 0.5;
/// Waits, in tasks waiting, below which there is no ratio to speak of.
const HARDLY: f64 = 0.001;
/// An interval holds the true value in four of five predictions, or more: Student's t of twice three simulations at 90 %.
const REACH: f64 = 2.13;
/// No prediction is surer than that, as a share of what is measured: of what is as good as gone the logarithm says nothing.
const LEAST_REACH: f64 = 0.03;
/// The part of the CPU time of those that are to go first that tasks may have which never slept: they may have starved.
const MOST_ENDLESS: f64 = 0.1;
/// The part of a simulation's error that is left in a ratio of two.
const ERROR_LEFT: f64 = 0.5;

impl Predicted {
    /// From the logarithms of ratios, those with as much to do before those with more, and what else they may be off by. Which
    /// of the two it is, or what in between, is not known.
    fn of(logarithms: &[f64], off: f64) -> Option<Self> {
        let (open, closed) = logarithms.split_at(logarithms.len() / 2);
        let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
        let squares = |of: &[f64]| of.iter().map(|it| (it - mean(of)).powi(2)).sum::<f64>();
        let variance = (squares(open) + squares(closed)) / (logarithms.len() - 2) as f64;
        let (middle, apart) = (f64::midpoint(mean(open), mean(closed)), (mean(open) - mean(closed)) / 2.0);
        let reach = (REACH * REACH * variance + off * off + apart * apart).sqrt();
        let change = middle.exp_m1();
        let low = (middle - reach).exp_m1().min(change - LEAST_REACH).max(-1.0);
        let it = Self { change, low, high: (middle + reach).exp_m1().max(change + LEAST_REACH) };
        (it.low.is_finite() && it.high.is_finite()).then_some(it)
    }

    /// Is it sure to rise, or to fall?
    pub const fn is_significant(&self) -> bool {
        self.low > 0.0 || self.high < 0.0
    }
}

impl Errors {
    /// The worst of those that a verdict on light and heavy rests on.
    pub(in crate::diagnosis) fn worst(&self) -> Option<f64> {
        [self.light, self.heavy].into_iter().flatten().max_by(|a, b| a.abs().total_cmp(&b.abs()))
    }
}

/// What a figure is of a simulation, on which side's waits it rests, and what a prediction of it is off by at the least, as a
/// logarithm: what is seen of it in docs/accuracy.md where the simulation itself is right.
struct Kind {
    name: &'static str,
    of: fn(&Outcome, &Sides) -> f64,
    rests_on: Side,
    least_off: f64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Light,
    Heavy,
    All,
}

/// Which cgroups of the trace are on which side.
struct Sides {
    light: Vec<bool>,
    heavy: Vec<bool>,
}

impl Sides {
    fn light(&self, groups: &[Served]) -> Served {
        sum(groups, |number| self.light[number])
    }

    fn heavy(&self, groups: &[Served]) -> Served {
        sum(groups, |number| self.heavy[number])
    }

    fn others(&self, groups: &[Served]) -> Served {
        sum(groups, |number| !self.light[number] && !self.heavy[number])
    }
}

fn time_for_work(served: Served) -> f64 {
    (served.cpu + served.wait) / served.cpu
}

const KINDS: [Kind; 7] = [
    Kind {
        name: "light_waiting",
        of: |outcome, sides| sides.light(&outcome.groups).wait,
        rests_on: Side::Light,
        least_off: 0.2,
    },
    Kind {
        name: "heavy_waiting",
        of: |outcome, sides| sides.heavy(&outcome.groups).wait,
        rests_on: Side::Heavy,
        least_off: 0.08,
    },
    Kind {
        name: "heavy_time",
        of: |outcome, sides| time_for_work(sides.heavy(&outcome.groups)),
        rests_on: Side::Heavy,
        least_off: 0.07,
    },
    Kind {
        name: "others_time",
        of: |outcome, sides| time_for_work(sides.others(&outcome.groups)),
        rests_on: Side::All,
        least_off: 0.1,
    },
    Kind { name: "waiting", of: |outcome, _| outcome.wait(), rests_on: Side::All, least_off: 0.07 },
    Kind { name: "switches", of: |outcome, _| outcome.switches, rests_on: Side::All, least_off: 0.15 },
    Kind { name: "overhead", of: |outcome, _| outcome.switching, rests_on: Side::All, least_off: 0.3 },
];

impl Forecast {
    pub(super) fn of(from: &Forecaster<'_>, competitors: &Competitors, then: &[Outcome]) -> Self {
        let sides = Sides {
            light: from.all_inside(competitors.light.iter().map(|path| &**path)),
            heavy: from.all_inside(competitors.heavy.iter().map(|path| &**path)),
        };
        let seconds = from.trace().duration();
        let waits_now = |is: &dyn Fn(usize) -> bool| {
            from.now.iter().map(|outcome| sum(&outcome.groups, is).wait).sum::<f64>() / from.now.len() as f64
        };
        let error = |is: &dyn Fn(usize) -> bool| {
            let measured = from.measured(is);
            (measured / seconds >= HARDLY).then(|| waits_now(is) / measured - 1.0)
        };
        let (light, heavy) = (|number: usize| sides.light[number], |number: usize| sides.heavy[number]);
        let errors = Errors {
            light: error(&light),
            heavy: error(&heavy),
            others: error(&|number| !light(number) && !heavy(number)),
        };
        let all = error(&|_| true);
        let is_endless = from.never_sleeps(&sides.light) > MOST_ENDLESS;
        let figure = |kind: &Kind| {
            if is_endless {
                return Err(
                    "those that are to go first never slept: how much more they would do is not known".to_owned()
                );
            }
            let (error, whose) = match kind.rests_on {
                Side::Light => (errors.light, "those that are to go first"),
                Side::Heavy => (errors.heavy, "the heavy ones"),
                Side::All => (all, "all"),
            };
            let Some(error) = error else { return Err(format!("{whose} hardly wait")) };
            if kind.name == "overhead" && !from.has_costs {
                return Err("switch costs were not measured in enough intervals".to_owned());
            }
            if error.is_nan() || error.abs() > MOST_OFF {
                let percent = 100.0 * (1.0 + error);
                return Err(format!(
                    "simulated as they are, the waits of {whose} come out {percent:.0} % of the measured: too far off"
                ));
            }
            let ratio = |(now, then): (&Outcome, &Outcome)| ((kind.of)(then, &sides) / (kind.of)(now, &sides)).ln();
            let ratios: Vec<f64> = from.now.iter().zip(then).map(ratio).collect();
            let off = (ERROR_LEFT * error.ln_1p()).hypot(kind.least_off);
            Predicted::of(&ratios, off).ok_or_else(|| "there is no ratio: it is 0 in a simulation".to_owned())
        };
        let waiting = |outcomes: &[Outcome]| {
            let mean =
                |of: &dyn Fn(&Outcome) -> f64| outcomes.iter().map(of).sum::<f64>() / outcomes.len() as f64 / seconds;
            Waiting {
                light: mean(&|outcome| sides.light(&outcome.groups).wait),
                heavy: mean(&|outcome| sides.heavy(&outcome.groups).wait),
                all: mean(&Outcome::wait),
            }
        };
        let measured = Waiting {
            light: from.measured(light) / seconds,
            heavy: from.measured(heavy) / seconds,
            all: from.measured(|_| true) / seconds,
        };
        let waits = |number: usize| {
            let wait = |outcomes: &[Outcome]| outcomes.iter().map(|outcome| outcome.groups[number].wait).sum::<f64>();
            let mean = seconds * from.now.len() as f64;
            (wait(&from.now) / mean, wait(then) / mean)
        };
        let gain = |(now, then): (&Outcome, &Outcome)| {
            let half = |outcome: &Outcome| sides.light(&outcome.half).wait;
            let whole = |outcome: &Outcome| sides.light(&outcome.groups).wait;
            let (first, second) = (half(then) / half(now), (whole(then) - half(then)) / (whole(now) - half(now)));
            [1.0 - first, 1.0 - second]
        };
        Self {
            figures: KINDS.iter().map(|kind| (kind.name, figure(kind))).collect(),
            errors,
            waiting: [measured, waiting(&from.now), waiting(then)],
            waits: (0..from.trace().groups.len()).map(waits).collect(),
            gains: from.now.iter().zip(then).flat_map(gain).collect(),
        }
    }

    /// Of the figure with this name. `None` where nothing is predicted of it.
    pub fn change(&self, name: &str) -> Option<Predicted> {
        self.figures.get(name)?.as_ref().ok().copied()
    }

    /// Why nothing is predicted of the figure with this name. `None` where something is, or it is no such figure.
    pub fn why_not(&self, name: &str) -> Option<&str> {
        self.figures.get(name)?.as_ref().err().map(String::as_str)
    }

    /// What is left of the wait of a cgroup and all inside of it: 1 is no change. `None` where it hardly waits, or where the
    /// simulation is too far off.
    pub(in crate::diagnosis) fn left(&self, asked: &Asked, number: usize) -> Option<f64> {
        self.is_near().then_some(())?;
        let inside = self.waits.iter().enumerate().filter(|&(inner, _)| asked.is_inside(inner, number));
        let (now, then) = inside.fold((0.0, 0.0), |sum, (_, waits)| (sum.0 + waits.0, sum.1 + waits.1));
        (now > HARDLY).then(|| then / now)
    }

    /// Does the simulation reproduce what was measured of both sides? Who hardly waits cannot be off.
    pub(in crate::diagnosis) fn is_near(&self) -> bool {
        self.errors.worst().is_none_or(|error| error.abs() <= MOST_OFF)
    }

    /// Of the halves of all simulations: in how many the light are spared this part of their wait, of how many.
    pub(in crate::diagnosis) fn agreeing(&self, gain: f64) -> (u64, u64) {
        let agree = self.gains.iter().filter(|&&it| it >= gain).count();
        (agree as u64, self.gains.len() as u64)
    }
}
