//! Figures that noise does not decide: paired differences, their median, and how sure it is.

use std::fmt;

use lagstop::random::Random;
use serde::Serialize;

/// The middle of some figures, and between what it lies with 95 % (bootstrap).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Median {
    pub(super) middle: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

/// Is a figure within its budget?
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verdict {
    /// All of the interval is.
    Met,
    /// None of it is.
    Missed,
    /// The budget is in it.
    CannotTell,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Met => "met",
            Self::Missed => "MISSED",
            Self::CannotTell => "CANNOT TELL",
        })
    }
}

impl Median {
    const DRAWS: usize = 4_000;

    /// The median of these figures. `None` where there are fewer than three.
    pub(super) fn of(figures: &[f64]) -> Option<Self> {
        if figures.len() < 3 || figures.iter().any(|figure| !figure.is_finite()) {
            return None;
        }
        Some(Self::drawn(figures.len(), |rounds| median_of(rounds, figures)))
    }

    /// The ratio of the medians of figures that were measured in the same rounds. `None` where there are fewer than
    /// three.
    pub(super) fn of_ratio(figures: &[f64], to: &[f64]) -> Option<Self> {
        let count = figures.len().min(to.len());
        Self::of(figures).and(Self::of(to))?;
        Some(Self::drawn(count, |rounds| median_of(rounds, figures) / median_of(rounds, to)))
    }

    /// A statistic of `count` rounds as they are, with its interval over rounds drawn with replacement.
    fn drawn(count: usize, statistic: impl Fn(&[usize]) -> f64) -> Self {
        let mut random = Random::new(21, 0);
        let mut draw = || statistic(&(0..count).map(|_| random.below(count)).collect::<Vec<_>>());
        let mut all: Vec<f64> = (0..Self::DRAWS).map(|_| draw()).collect();
        all.sort_by(f64::total_cmp);
        let at = |share: f64| all[(share * (Self::DRAWS - 1) as f64).round() as usize];
        Self { middle: statistic(&(0..count).collect::<Vec<_>>()), low: at(0.025), high: at(0.975) }
    }

    pub(super) fn held_to(self, budget: f64) -> Verdict {
        if self.high <= budget {
            Verdict::Met
        } else if self.low > budget {
            Verdict::Missed
        } else {
            Verdict::CannotTell
        }
    }
}

fn median_of(rounds: &[usize], figures: &[f64]) -> f64 {
    let mut figures: Vec<f64> = rounds.iter().map(|&round| figures[round]).collect();
    figures.sort_by(f64::total_cmp);
    let middle = figures.len() / 2;
    if figures.len() % 2 == 1 { figures[middle] } else { f64::midpoint(figures[middle - 1], figures[middle]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_is_far_off_does_not_move_the_middle() {
        let it = Median::of(&[10.0, 11.0, 9.0, 10.5, 500.0]).unwrap();
        assert_eq!(it.middle, 10.5);
        assert!(it.low < 10.5 && it.high > 10.5, "{it:?}");
        assert_eq!(Median::of(&[1.0, 2.0]), None, "too few");
        assert_eq!(Median::of(&[1.0, f64::NAN, 2.0, 3.0]), None);
    }

    #[test]
    fn a_budget_inside_of_the_interval_is_neither_met_nor_missed() {
        let it = Median { middle: 1.5, low: 1.4, high: 1.7 };
        assert_eq!(
            [1.8, 1.6, 1.3].map(|budget| it.held_to(budget)),
            [Verdict::Met, Verdict::CannotTell, Verdict::Missed]
        );
    }

    #[test]
    fn the_interval_holds_the_truth_about_as_often_as_it_says() {
        let mut random = Random::new(7, 7);
        let mut held = 0;
        for _ in 0..200 {
            // Right-skewed, as what other work adds: the median of 1 + exponential is 1 + ln 2.
            let figures: Vec<f64> = (0..15).map(|_| 1.0 + random.exponential()).collect();
            let it = Median::of(&figures).unwrap();
            held += u32::from((it.low..=it.high).contains(&(1.0 + std::f64::consts::LN_2)));
        }
        assert!((180..=199).contains(&held), "{held} of 200");
    }
}
