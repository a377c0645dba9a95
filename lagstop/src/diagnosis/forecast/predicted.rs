//! What is predicted of a figure, and how wrong that may be.

use std::collections::BTreeMap;

use thiserror::Error;

use super::{
    Competitors, Forecaster,
    fit::{Fit, HARDLY, Misfit, Sides, SimulatedSide, kinds},
    member::{Measured, Member, Tail},
};
use crate::{
    diagnosis::simulation::{Group, Served, SimulationOutcome},
    stats::student,
    units::{self, Unit},
};

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

/// Why nothing is predicted of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
pub enum Unpredicted {
    #[error("there is too much to simulate")]
    TooMuch,
    #[error(
        "threads that never slept used more than a tenth of the prioritised CPU time, so how much more they would use \
         is unknown"
    )]
    NeverSleeps,
    #[error("switch costs were measured in too few intervals")]
    NoCosts,
    #[error(transparent)]
    Misfit(#[from] Misfit),
    #[error("there is no ratio: it is 0 in a simulation")]
    NoRatio,
    #[error("the predicted range is too wide ({:+.0} % to {:+.0} %)", 100.0 * .0.low, 100.0 * .0.high)]
    TooWide(Predicted),
}

/// What an intervention does, by the names of a trial's figures.
#[derive(Clone, Debug, Default)]
pub struct Forecast {
    figures: BTreeMap<&'static str, Result<Predicted, Unpredicted>>,
    /// How far the simulation of what was measured is off: of the waits of the light, of the heavy, and of all others.
    pub(in crate::diagnosis) errors: Errors,
    /// Waits by side, in tasks waiting: measured, simulated as it is, and simulated with the intervention.
    pub(in crate::diagnosis) waiting: [Waiting; 3],
    /// Does the simulation reproduce what was measured of the light and of the heavy?
    is_near: bool,
    /// Waits of each cgroup and all inside of it, by its number in the trace, in tasks waiting: simulated as it is, and with
    /// the intervention.
    inside: Vec<(f64, f64)>,
    /// Halves of simulations, and those of them in which the light wait at least so much less.
    gains: Vec<f64>,
    /// Single cgroups of the light side, by their number, and all of them together.
    members: BTreeMap<usize, Member>,
    light: Option<Member>,
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

/// The part of simulations that may be outside of their own spread: the interval is meant to hold what is measured in four of
/// five trials, which differ by more than that.
const OUTSIDE: f64 = 0.1;
/// No prediction is surer than that, as a share of what is measured: of what is as good as gone the logarithm says nothing.
const LEAST_REACH: f64 = 0.03;
/// The part of the CPU time of those that are to go first that tasks may have which never slept: they may have starved.
pub(super) const MOST_ENDLESS: f64 = 0.1;
/// An interval that is wider, as a share of what was measured, is no prediction: hardly anything could refute it.
const WIDEST: f64 = 1.0;
/// The part of a simulation's error that is left in a ratio of two.
pub(super) const ERROR_LEFT: f64 = 0.5;

impl Predicted {
    /// From the logarithms of ratios, for each kind of arrivals, and what else they may be off by. Which of the kinds it is, or
    /// what in between, is not known.
    pub(super) fn of(logarithms: &[Vec<f64>], off: f64) -> Option<Self> {
        let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
        let means: Vec<f64> = logarithms.iter().map(|of| mean(of)).collect();
        let (least, most) = means.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), &it| (a.min(it), b.max(it)));
        let squares: f64 = logarithms.iter().map(|of| of.iter().map(|it| (it - mean(of)).powi(2)).sum::<f64>()).sum();
        let freedom = logarithms.iter().map(|of| of.len() as f64 - 1.0).sum::<f64>();
        let chance = student::quantile(OUTSIDE, freedom) * (squares / freedom).sqrt();
        let (middle, reach) = (f64::midpoint(least, most), (most - least) / 2.0 + chance.hypot(off));
        let change = middle.exp_m1();
        let low = (middle - reach).exp_m1().min(change - LEAST_REACH).max(-1.0);
        let high = (middle + reach).exp_m1().max(change + LEAST_REACH);
        (middle.is_finite() && reach.is_finite() && high.is_finite()).then_some(Self { change, low, high })
    }

    /// Why it is no prediction. `None`: it is one.
    pub fn why_too_wide(&self) -> Option<Unpredicted> {
        (self.high - self.low > WIDEST).then_some(Unpredicted::TooWide(*self))
    }

    /// From where to where: "-71.5 % to -49.3 %".
    pub(in crate::diagnosis) fn range(&self) -> String {
        let signed = |change: f64| format!("{}{}", if change > 0.0 { "+" } else { "" }, Unit::Share.show(change));
        format!("{} to {}", signed(self.low), signed(self.high))
    }

    /// The same of a change that a sentence gives the direction of: "49.3 to 71.5 %".
    pub(in crate::diagnosis) fn magnitudes(&self) -> String {
        let (low, high) = (self.low.abs().min(self.high.abs()), self.low.abs().max(self.high.abs()));
        // One that may be none is not between two sizes.
        if self.low * self.high <= 0.0 {
            self.range()
        } else {
            format!("{} to {}", units::percent(low), units::percent(high))
        }
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
/// logarithm: what was seen in an earlier calibration where the simulation itself is right.
struct Kind {
    name: &'static str,
    of: fn(&SimulationOutcome, &Sides) -> f64,
    rests_on: SimulatedSide,
    least_off: f64,
}

fn time_for_work(served: Served) -> f64 {
    (served.cpu + served.wait) / served.cpu
}

const KINDS: [Kind; 7] = [
    kind("light_waiting", SimulatedSide::Light, 0.2, |outcome, sides| {
        sides.of(SimulatedSide::Light, &outcome.groups).wait
    }),
    kind("heavy_waiting", SimulatedSide::Heavy, 0.08, |outcome, sides| {
        sides.of(SimulatedSide::Heavy, &outcome.groups).wait
    }),
    kind("heavy_time", SimulatedSide::Heavy, 0.07, |outcome, sides| {
        time_for_work(sides.of(SimulatedSide::Heavy, &outcome.groups))
    }),
    kind("others_time", SimulatedSide::Others, 0.1, |outcome, sides| {
        time_for_work(sides.of(SimulatedSide::Others, &outcome.groups))
    }),
    kind("waiting", SimulatedSide::All, 0.07, |outcome, _| outcome.wait()),
    kind("switches", SimulatedSide::All, 0.15, |outcome, _| outcome.switches),
    kind("overhead", SimulatedSide::All, 0.3, |outcome, _| outcome.switching),
];

const fn kind(
    name: &'static str,
    rests_on: SimulatedSide,
    least_off: f64,
    of: fn(&SimulationOutcome, &Sides) -> f64,
) -> Kind {
    Kind { name, of, rests_on, least_off }
}

impl Forecast {
    /// Where more happens than can be simulated.
    pub(super) fn none() -> Self {
        let figures = KINDS.iter().map(|kind| (kind.name, Err(Unpredicted::TooMuch))).collect();
        Self { figures, is_near: false, ..Self::default() }
    }

    pub(super) fn of(from: &Forecaster<'_>, competitors: &Competitors, then: &[SimulationOutcome]) -> Self {
        let sides = Sides {
            light: from.all_inside(competitors.light.iter().map(|path| &**path)),
            heavy: from.all_inside(competitors.heavy.iter().map(|path| &**path)),
        };
        let fit = |side| Fit::of(from, &sides, side);
        let (light, heavy, others, all) =
            (fit(SimulatedSide::Light), fit(SimulatedSide::Heavy), fit(SimulatedSide::Others), fit(SimulatedSide::All));
        let is_endless = from.never_sleeps(&sides.light) > MOST_ENDLESS;
        let figure = |kind: &Kind| {
            if is_endless {
                return Err(Unpredicted::NeverSleeps);
            }
            if kind.name == "overhead" && !from.has_costs {
                return Err(Unpredicted::NoCosts);
            }
            let fit = match kind.rests_on {
                SimulatedSide::Light => &light,
                SimulatedSide::Heavy => &heavy,
                SimulatedSide::Others => &others,
                SimulatedSide::All => &all,
            };
            let fit = fit.as_ref().map_err(|misfit| *misfit)?;
            let ratio = |(now, then): (&SimulationOutcome, &SimulationOutcome)| {
                ((kind.of)(then, &sides) / (kind.of)(now, &sides)).ln()
            };
            let ratios: Vec<Vec<f64>> = pairs(&from.now, then, &fit.kinds)
                .map(|(now, then)| now.iter().zip(then).map(ratio).collect())
                .collect();
            let off = (ERROR_LEFT * fit.error.ln_1p()).hypot(kind.least_off);
            let it = Predicted::of(&ratios, off).ok_or(Unpredicted::NoRatio)?;
            it.why_too_wide().map_or(Ok(it), Err)
        };
        // What is said of the light ones is of the simulations that reproduce them.
        let kinds = light.as_ref().map_or_else(|_| vec![0, 1], |fit| fit.kinds.clone());
        let runs = || pairs(&from.now, then, &kinds).flat_map(|(now, then)| now.iter().zip(then));
        let count = runs().count().max(1) as f64;
        let seconds = from.trace().duration();
        let waiting = |of: &dyn Fn(SimulatedSide) -> f64| Waiting {
            light: of(SimulatedSide::Light) / seconds,
            heavy: of(SimulatedSide::Heavy) / seconds,
            all: of(SimulatedSide::All) / seconds,
        };
        let wait = |outcome: &SimulationOutcome, side| sides.of(side, &outcome.groups).wait;
        let gain = |(now, then): (&SimulationOutcome, &SimulationOutcome)| {
            let half = |outcome: &SimulationOutcome| sides.of(SimulatedSide::Light, &outcome.half).wait;
            let whole = |outcome: &SimulationOutcome| wait(outcome, SimulatedSide::Light);
            let (first, second) = (half(then) / half(now), (whole(then) - half(then)) / (whole(now) - half(now)));
            [1.0 - first, 1.0 - second]
        };
        // Those of which something was measured.
        let measured = Measured::of(from);
        let first: Vec<usize> =
            (0..sides.light.len()).filter(|&number| sides.light[number] && measured.has(number)).collect();
        let member = |numbers: &[usize]| Member::of(from, &measured, then, numbers);
        Self {
            members: first.iter().map(|&number| (number, member(&[number]))).collect(),
            light: (!first.is_empty()).then(|| member(&first)),
            figures: KINDS.iter().map(|kind| (kind.name, figure(kind))).collect(),
            errors: Errors { light: Fit::error(&light), heavy: Fit::error(&heavy), others: Fit::error(&others) },
            is_near: Fit::is_near(&light) && Fit::is_near(&heavy),
            waiting: [
                waiting(&|side| from.measured(|number| sides.has(side, number)).wait),
                waiting(&|side| runs().map(|(now, _)| wait(now, side)).sum::<f64>() / count),
                waiting(&|side| runs().map(|(_, then)| wait(then, side)).sum::<f64>() / count),
            ],
            inside: inside(&from.trace().groups, runs(), seconds * count),
            gains: runs().flat_map(gain).collect(),
        }
    }

    #[cfg(test)]
    pub(crate) fn with(figures: impl IntoIterator<Item = (&'static str, Result<Predicted, Unpredicted>)>) -> Self {
        Self { figures: figures.into_iter().collect(), ..Self::default() }
    }

    #[cfg(test)]
    pub(in crate::diagnosis) fn with_member(mut self, number: usize, member: Member) -> Self {
        self.members.insert(number, member);
        self
    }

    /// All of them: what is predicted, or why nothing is.
    pub fn figures(&self) -> impl Iterator<Item = (&'static str, Result<Predicted, Unpredicted>)> {
        self.figures.iter().map(|(name, figure)| (*name, *figure))
    }

    /// Of the figure with this name. `None` where nothing is predicted of it.
    pub fn change(&self, name: &str) -> Option<Predicted> {
        self.figures.get(name)?.as_ref().ok().copied()
    }

    /// Why nothing is predicted of the figure with this name. `None` where something is, or it is no such figure.
    pub fn why_not(&self, name: &str) -> Option<Unpredicted> {
        self.figures.get(name)?.err()
    }

    /// What is left of the wait of a cgroup and all inside of it: 1 is no change. `None` where it hardly waits, or where the
    /// simulation is too far off.
    pub(in crate::diagnosis) fn left(&self, number: usize) -> Option<f64> {
        self.is_near.then_some(())?;
        let &(now, then) = self.inside.get(number)?;
        (now > HARDLY).then(|| then / now)
    }

    /// Of a single cgroup of the light side, by its number. `None` where it has no tasks of its own, or is on another side.
    pub(in crate::diagnosis) fn member(&self, number: usize) -> Option<&Member> {
        self.members.get(&number)
    }

    /// Of the tails of the waits of all light ones together. `None` where nothing is predicted of it.
    pub(in crate::diagnosis) fn light_tail(&self) -> Option<Tail> {
        self.light.as_ref()?.tail
    }

    /// Does the simulation reproduce what was measured of both sides? Who hardly waits cannot be off.
    pub(in crate::diagnosis) const fn is_near(&self) -> bool {
        self.is_near
    }

    /// Of the halves of all simulations: in how many the light are spared this part of their wait, of how many.
    pub(in crate::diagnosis) fn agreeing(&self, gain: f64) -> (u64, u64) {
        let agree = self.gains.iter().filter(|&&it| it >= gain).count();
        (agree as u64, self.gains.len() as u64)
    }
}

/// Simulations as it is and with the intervention, for each of these kinds of arrivals.
pub(super) fn pairs<'o>(
    now: &'o [SimulationOutcome],
    then: &'o [SimulationOutcome],
    wanted: &[usize],
) -> impl Iterator<Item = (&'o [SimulationOutcome], &'o [SimulationOutcome])> {
    let all = kinds(now).zip(kinds(then)).enumerate();
    all.filter(|(kind, _)| wanted.contains(kind)).map(|(_, pair)| pair)
}

/// Waits of each cgroup and all inside of it, as it is and with the intervention, over all `runs`, by `time`.
fn inside<'o>(
    groups: &[Group],
    runs: impl Iterator<Item = (&'o SimulationOutcome, &'o SimulationOutcome)>,
    time: f64,
) -> Vec<(f64, f64)> {
    let mut sums = vec![(0.0, 0.0); groups.len()];
    for (now, then) in runs {
        for (number, (now, then)) in now.groups.iter().zip(&then.groups).enumerate() {
            for above in std::iter::successors(Some(number), |&number| groups[number].parent) {
                sums[above].0 += now.wait / time;
                sums[above].1 += then.wait / time;
            }
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, expected: f64) -> bool {
        (found - expected).abs() < 1e-6
    }

    #[test]
    fn the_prediction_is_in_the_middle_and_reaches_beyond_both_ends() {
        let half = (0.5_f64).ln();
        // Nothing is left, or half of it, whatever the seed.
        let it = Predicted::of(&[vec![2.0 * half; 5], vec![0.0; 5]], 0.1).unwrap();
        assert!(near(it.change, -0.5), "{it:?}");
        assert!(near(it.low, 0.25 * (-0.1_f64).exp() - 1.0) && near(it.high, (0.1_f64).exp() - 1.0), "{it:?}");
        let one = Predicted::of(&[vec![half; 5]], 0.1).unwrap();
        assert!(one.is_significant() && near(one.high, 0.5 * (0.1_f64).exp() - 1.0), "{one:?}");
    }

    #[test]
    fn what_hardly_anything_could_refute_is_no_prediction() {
        let between = |low, high| Predicted { change: 0.0, low, high };
        assert_eq!(between(-0.5, 0.5).why_too_wide(), None);
        assert_eq!(
            between(-0.16, 1.65).why_too_wide().unwrap().to_string(),
            "the predicted range is too wide (-16 % to +165 %)"
        );
    }

    #[test]
    fn what_is_too_much_to_simulate_is_said_of_every_figure() {
        let none = Forecast::none();
        assert!(!none.is_near() && none.left(0).is_none() && none.agreeing(0.1) == (0, 0));
        assert_eq!(none.figures().count(), KINDS.len());
        assert!(none.figures().all(|(_, figure)| figure == Err(Unpredicted::TooMuch)));
    }

    #[test]
    fn seeds_that_differ_make_it_wider() {
        let spread = [-0.2, -0.1, 0.0, 0.1, 0.2];
        let it = Predicted::of(&[spread.to_vec()], 0.0).unwrap();
        // Student's t of four degrees of freedom at 90 %, times the standard deviation.
        let reach = 2.131_847 * (0.1_f64 / 4.0).sqrt();
        assert!(near(it.high, reach.exp_m1()) && !it.is_significant(), "{it:?}");
        let never = Predicted::of(&[vec![0.0; 5]], 0.0).unwrap();
        assert_eq!((never.low, never.high), (-LEAST_REACH, LEAST_REACH), "nothing is surer than that");
        assert_eq!(Predicted::of(&[vec![f64::NEG_INFINITY; 5]], 0.1), None);
        assert_eq!(Predicted::of(&[vec![f64::NAN; 5]], 0.1), None);
    }

    #[test]
    fn what_is_inside_counts_for_all_above() {
        let group = |parent| Group { parent, ..Group::default() };
        let wait = |waits: [f64; 3]| SimulationOutcome {
            groups: waits.map(|wait| Served { wait, ..Served::default() }).into(),
            ..SimulationOutcome::default()
        };
        let (now, then) = (wait([1.0, 2.0, 4.0]), wait([1.0, 1.0, 1.0]));
        let found = inside(&[group(None), group(Some(0)), group(Some(1))], [(&now, &then)].into_iter(), 2.0);
        assert_eq!(found, [(3.5, 1.5), (3.0, 1.0), (2.0, 0.5)]);
    }
}
