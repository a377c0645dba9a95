//! By how much a figure changes, and how wrong that may be.

use thiserror::Error;

use super::fit::{Misfit, kinds};
use crate::{
    diagnosis::simulation::SimulationOutcome,
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
    #[error("the prioritised cgroups had too few waits to tell their 99th percentile")]
    FewWaits,
    #[error("there is no ratio: it is 0 in a simulation")]
    NoRatio,
    #[error("the predicted range is too wide ({:+.0} % to {:+.0} %)", 100.0 * .0.low, 100.0 * .0.high)]
    TooWide(Predicted),
}

/// The share of simulations that may be outside of their own spread. Chosen: the interval should contain the result of four of
/// five trials, which vary more than simulations. docs/accuracy.md says how many it contained.
const OUTSIDE: f64 = 0.1;
/// The smallest half-width of an interval, as a share of the measured value. Chosen: it matters for figures that nearly vanish,
/// for which logarithms say nothing.
const LEAST_REACH: f64 = 0.03;
/// The largest share that tasks which never slept may have in the CPU time of those that go first. Chosen: they may have
/// starved, and how much more they would use is unknown.
pub(super) const MOST_ENDLESS: f64 = 0.1;
/// A wider interval, as a share of the measured value, is no prediction. Chosen: hardly anything could refute it.
const WIDEST: f64 = 1.0;
/// The share of a simulation's error that is left in a ratio of two. Chosen: both are off in the same direction.
pub(super) const ERROR_LEFT: f64 = 0.5;

impl Predicted {
    /// From the logarithms of ratios, for each kind of arrivals, and from a further error. It is unknown which of the
    /// kinds is true, or whether it is something between them.
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

    /// Why it is no prediction: the interval is too wide. `None` if it is not.
    pub fn why_too_wide(&self) -> Option<Unpredicted> {
        (self.high - self.low > WIDEST).then_some(Unpredicted::TooWide(*self))
    }

    /// The range, as in "-71.5 % to -49.3 %".
    pub(in crate::diagnosis) fn range(&self) -> String {
        let signed = |change: f64| format!("{}{}", if change > 0.0 { "+" } else { "" }, Unit::Share.show(change));
        format!("{} to {}", signed(self.low), signed(self.high))
    }

    /// The range without signs, for a sentence that says the direction: "49.3 to 71.5 %".
    pub(in crate::diagnosis) fn magnitudes(&self) -> String {
        let (low, high) = (self.low.abs().min(self.high.abs()), self.low.abs().max(self.high.abs()));
        // An interval around 0 has no magnitude range.
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

/// Pairs of simulations without and with the intervention, for each of these kinds of arrivals.
pub(super) fn pairs<'o>(
    now: &'o [SimulationOutcome],
    then: &'o [SimulationOutcome],
    wanted: &[usize],
) -> impl Iterator<Item = (&'o [SimulationOutcome], &'o [SimulationOutcome])> {
    let all = kinds(now).zip(kinds(then)).enumerate();
    all.filter(|(kind, _)| wanted.contains(kind)).map(|(_, pair)| pair)
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
        // Depending on the kind of arrivals, a quarter or all of it is left, whatever the seed.
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
}
