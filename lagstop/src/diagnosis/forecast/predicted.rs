//! What is predicted of an intervention: of each figure of a trial, and of single cgroups.

use std::collections::BTreeMap;

use super::{
    Competitors, ForecastFigure, Forecaster, Predicted, Unpredicted,
    change::{ERROR_LEFT, MOST_ENDLESS, pairs},
    fit::{Fit, HARDLY, Misfit, SimulatedSide, SimulatedSides},
    member::{Measured, Member, Tail, WAIT_OFF},
};
use crate::diagnosis::simulation::{Group, Served, SimulationOutcome};

/// What an intervention does.
#[derive(Clone, Debug, Default)]
pub struct Forecast {
    figures: BTreeMap<ForecastFigure, Result<Predicted, Unpredicted>>,
    /// Errors of the simulated waits of the light, of the heavy and of all other cgroups against what was measured.
    pub(in crate::diagnosis) errors: Errors,
    /// Waits by side, in tasks waiting: measured, simulated as it is, and simulated with the intervention.
    pub(in crate::diagnosis) waiting: [Waiting; 3],
    /// Does the simulation reproduce what was measured of the light and of the heavy cgroups?
    is_near: bool,
    /// Waits of each cgroup and all inside of it, by its number in the trace, in tasks waiting: simulated as it is, and with
    /// the intervention.
    inside: Vec<(f64, f64)>,
    /// For each half of each simulation, the share of their wait that the light cgroups are spared.
    gains: Vec<f64>,
    /// Single cgroups of the light side, by their number.
    members: BTreeMap<usize, Member>,
    /// Of the waits of all of them together.
    light_tail: Option<Tail>,
}

/// Simulated waits / measured waits - 1. `None` for those that hardly wait.
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

impl Errors {
    /// The worst error that matters for a verdict on light and heavy cgroups.
    pub(in crate::diagnosis) fn worst(&self) -> Option<f64> {
        [self.light, self.heavy].into_iter().flatten().max_by(|a, b| a.abs().total_cmp(&b.abs()))
    }
}

/// What a figure is of a simulation, on which side's waits it rests, and what a prediction of it is off by at the least, as a
/// logarithm: what was seen in an earlier calibration where the simulation itself is right (docs/accuracy.md).
struct Kind {
    figure: ForecastFigure,
    of: fn(&SimulationOutcome, &SimulatedSides) -> f64,
    rests_on: SimulatedSide,
    least_off: f64,
}

fn time_for_work(served: Served) -> f64 {
    (served.cpu + served.wait) / served.cpu
}

const KINDS: [Kind; 7] = [
    kind(ForecastFigure::LightWaiting, SimulatedSide::Light, WAIT_OFF, |outcome, sides| {
        sides.of(SimulatedSide::Light, &outcome.groups).wait
    }),
    kind(ForecastFigure::HeavyWaiting, SimulatedSide::Heavy, 0.08, |outcome, sides| {
        sides.of(SimulatedSide::Heavy, &outcome.groups).wait
    }),
    kind(ForecastFigure::HeavyTime, SimulatedSide::Heavy, 0.07, |outcome, sides| {
        time_for_work(sides.of(SimulatedSide::Heavy, &outcome.groups))
    }),
    kind(ForecastFigure::OthersTime, SimulatedSide::Others, 0.1, |outcome, sides| {
        time_for_work(sides.of(SimulatedSide::Others, &outcome.groups))
    }),
    kind(ForecastFigure::Waiting, SimulatedSide::All, 0.07, |outcome, _| outcome.wait()),
    kind(ForecastFigure::Switches, SimulatedSide::All, 0.15, |outcome, _| outcome.switches),
    kind(ForecastFigure::Overhead, SimulatedSide::All, 0.3, |outcome, _| outcome.switching),
];

const fn kind(
    figure: ForecastFigure,
    rests_on: SimulatedSide,
    least_off: f64,
    of: fn(&SimulationOutcome, &SimulatedSides) -> f64,
) -> Kind {
    Kind { figure, of, rests_on, least_off }
}

impl Forecast {
    /// The forecast if there is too much to simulate.
    pub(super) fn none() -> Self {
        let figures = ForecastFigure::ALL.map(|figure| (figure, Err(Unpredicted::TooMuch))).into();
        Self { figures, is_near: false, ..Self::default() }
    }

    pub(super) fn of(from: &Forecaster<'_>, competitors: &Competitors, then: &[SimulationOutcome]) -> Self {
        let sides = SimulatedSides {
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
            if kind.figure == ForecastFigure::Overhead && !from.has_costs {
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
        // What is predicted of the light cgroups comes from the simulations that reproduce them.
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
        // Only cgroups of which something was measured.
        let measured = Measured::of(from);
        let first: Vec<usize> =
            (0..sides.light.len()).filter(|&number| sides.light[number] && measured.has(number)).collect();
        let member = |numbers: &[usize]| Member::of(from, &measured, then, numbers);
        let light_tail = match first[..] {
            [] => Err(Misfit::HardlyWaits(SimulatedSide::Light).into()),
            _ => member(&first).tail,
        };
        let tail = (ForecastFigure::LightP99, light_tail.map(|tail| tail.change));
        Self {
            members: first.iter().map(|&number| (number, member(&[number]))).collect(),
            light_tail: light_tail.ok(),
            figures: KINDS.iter().map(|kind| (kind.figure, figure(kind))).chain([tail]).collect(),
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
    pub(crate) fn with(figures: impl IntoIterator<Item = (ForecastFigure, Result<Predicted, Unpredicted>)>) -> Self {
        Self { figures: figures.into_iter().collect(), ..Self::default() }
    }

    #[cfg(test)]
    pub(in crate::diagnosis) fn with_member(mut self, number: usize, member: Member) -> Self {
        self.members.insert(number, member);
        self
    }

    /// All of them: what is predicted, or why nothing is.
    pub fn figures(&self) -> impl Iterator<Item = (ForecastFigure, Result<Predicted, Unpredicted>)> {
        self.figures.iter().map(|(figure, predicted)| (*figure, *predicted))
    }

    /// Of this figure. `None` where nothing is predicted of it.
    pub fn change(&self, figure: ForecastFigure) -> Option<Predicted> {
        self.figures.get(&figure)?.as_ref().ok().copied()
    }

    /// Why nothing is predicted of this figure. `None` where something is.
    pub fn why_not(&self, figure: ForecastFigure) -> Option<Unpredicted> {
        self.figures.get(&figure)?.err()
    }

    /// What is left of the wait of a cgroup and all inside of it: 1 is no change. `None` where it hardly waits, or where the
    /// simulation is too far off.
    pub(in crate::diagnosis) fn left(&self, number: usize) -> Option<f64> {
        self.is_near.then_some(())?;
        let &(now, then) = self.inside.get(number)?;
        (now > HARDLY).then(|| then / now)
    }

    /// The prediction for a single cgroup of the light side, by its number. `None` if it has no tasks of its own, or is
    /// on another side.
    pub(in crate::diagnosis) fn member(&self, number: usize) -> Option<&Member> {
        self.members.get(&number)
    }

    /// The tail of the waits of all light cgroups together. `None` if it is not predicted.
    pub(in crate::diagnosis) const fn light_tail(&self) -> Option<Tail> {
        self.light_tail
    }

    /// Does the simulation reproduce what was measured of both sides? A side that hardly waits cannot be off.
    pub(in crate::diagnosis) const fn is_near(&self) -> bool {
        self.is_near
    }

    /// In how many halves of all simulations the light cgroups are spared at least this share of their wait, and of how
    /// many.
    pub(in crate::diagnosis) fn agreeing(&self, gain: f64) -> (u64, u64) {
        let agree = self.gains.iter().filter(|&&it| it >= gain).count();
        (agree as u64, self.gains.len() as u64)
    }
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

    #[test]
    fn what_is_too_much_to_simulate_is_said_of_every_figure() {
        let none = Forecast::none();
        assert!(!none.is_near() && none.left(0).is_none() && none.agreeing(0.1) == (0, 0));
        assert_eq!(none.figures().count(), ForecastFigure::ALL.len());
        assert!(none.figures().all(|(_, figure)| figure == Err(Unpredicted::TooMuch)));
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
