//! How often predictions hold, and how far they are off.

use super::result::CalibratedFigure;

/// Of some predicted figures.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Tally {
    /// With a prediction, and a change that was measured.
    pub(super) predicted: usize,
    /// Without a prediction.
    pub(super) unpredicted: usize,
    /// What the trial measured is within the predicted interval.
    pub(super) inside: Part,
    /// What the oracle summed is.
    pub(super) oracle_inside: Part,
    /// An interval as wide around no change would have held it, too: what is above that is the prediction's own.
    pub(super) unchanged_inside: Part,
    /// Of those that the trial tells from no change: predicted with the other sign.
    pub(super) wrong_sign: Part,
    /// Of those that are predicted to be sure to change: measured with the other sign.
    pub(super) sure_and_wrong: Part,
    /// Predicted less measured, without its sign.
    pub(super) error: Option<f64>,
    /// How wide the predicted interval is.
    pub(super) width: Option<f64>,
}

/// So many of so many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) some: usize,
    pub(super) all: usize,
}

impl Part {
    /// Counts those for which the answer is known.
    fn of(said: impl Iterator<Item = Option<bool>>) -> Self {
        said.flatten()
            .fold(Self::default(), |Self { some, all }, is| Self { some: some + usize::from(is), all: all + 1 })
    }
}

impl Tally {
    /// Of these figures. Those that were not measured do not count.
    pub(super) fn of<'a>(figures: impl IntoIterator<Item = &'a CalibratedFigure>) -> Self {
        let (known, unpredicted): (Vec<&CalibratedFigure>, Vec<&CalibratedFigure>) =
            figures.into_iter().filter(|figure| is_known(figure)).partition(|figure| figure.predicted.change.is_some());
        let said = |of: fn(&CalibratedFigure) -> Option<bool>| Part::of(known.iter().map(|figure| of(figure)));
        Self {
            predicted: known.iter().filter(|figure| figure.measured.change.is_some()).count(),
            unpredicted: unpredicted.len(),
            inside: said(|figure| figure.predicted.holds(figure.measured.change)),
            oracle_inside: said(|figure| figure.predicted.holds(figure.oracle.change)),
            unchanged_inside: said(|figure| {
                let (low, high) = figure.predicted.interval()?;
                Some(figure.measured.change?.abs() <= (high - low) / 2.0)
            }),
            wrong_sign: said(|figure| {
                let sign = figure.predicted.change? * figure.measured.change?;
                figure.measured.is_change()?.then_some(sign < 0.0)
            }),
            sure_and_wrong: said(|figure| {
                let sign = figure.predicted.change? * figure.measured.change?;
                figure.predicted.is_change()?.then_some(sign < 0.0)
            }),
            error: median(
                known
                    .iter()
                    .filter_map(|figure| Some((figure.predicted.change? - figure.measured.change?).abs()))
                    .collect(),
            ),
            width: median(
                known.iter().filter_map(|figure| figure.predicted.interval()).map(|(low, high)| high - low).collect(),
            ),
        }
    }
}

/// Whether the trial or the oracle measured it.
const fn is_known(figure: &CalibratedFigure) -> bool {
    figure.measured.change.is_some() || figure.oracle.change.is_some()
}

/// The middle figure, or the mean of the two in the middle.
pub(super) fn median(mut figures: Vec<f64>) -> Option<f64> {
    figures.sort_by(f64::total_cmp);
    let middle = figures.len() / 2;
    let upper = *figures.get(middle)?;
    Some(if figures.len() % 2 == 1 { upper } else { f64::midpoint(figures[middle - 1], upper) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibrate::result::Estimate;

    /// A change, and its interval.
    fn estimate(of: (f64, f64, f64)) -> Estimate {
        Estimate { change: Some(of.0), low: Some(of.1), high: Some(of.2), why_not: None }
    }

    fn figure(predicted: (f64, f64, f64), measured: (f64, f64, f64), oracle: f64) -> CalibratedFigure {
        let oracle = Estimate { change: Some(oracle), ..Estimate::default() };
        CalibratedFigure {
            name: "light_waiting".to_owned(),
            predicted: estimate(predicted),
            measured: estimate(measured),
            oracle,
        }
    }

    #[test]
    fn what_holds_is_told_from_what_does_not() {
        let figures = [
            // Both in it.
            figure((-0.5, -0.6, -0.4), (-0.45, -0.7, -0.2), -0.55),
            // Neither, and the other sign.
            figure((0.3, 0.2, 0.4), (-0.2, -0.3, -0.1), -0.1),
            // No sign is wrong where there is no change.
            figure((0.3, 0.1, 0.4), (-0.1, -0.3, 0.2), 0.2),
        ];
        let tally = Tally::of(&figures);
        assert_eq!((tally.predicted, tally.unpredicted), (3, 0));
        assert_eq!(tally.inside, Part { some: 1, all: 3 });
        assert_eq!(tally.oracle_inside, Part { some: 2, all: 3 });
        // The second one's interval is too narrow for it, and so is the first one's.
        assert_eq!(tally.unchanged_inside, Part { some: 1, all: 3 });
        assert_eq!(tally.wrong_sign, Part { some: 1, all: 2 });
        assert_eq!(tally.sure_and_wrong, Part { some: 2, all: 3 });
        let near = |found: Option<f64>, expected: f64| (found.unwrap() - expected).abs() < 1e-9;
        assert!(near(tally.error, 0.4) && near(tally.width, 0.2), "{tally:?}");
    }

    #[test]
    fn what_is_not_known_does_not_count() {
        let without = |of: fn(&mut CalibratedFigure) -> &mut Estimate| {
            let mut figure = figure((-0.5, -0.6, -0.4), (-0.45, -0.7, -0.2), -0.55);
            *of(&mut figure) = Estimate::default();
            Tally::of(&[figure])
        };
        let tally = without(|figure| &mut figure.predicted);
        assert_eq!((tally.predicted, tally.unpredicted, tally.inside.all, tally.error), (0, 1, 0, None));
        let tally = without(|figure| &mut figure.measured);
        assert_eq!((tally.predicted, tally.inside.all, tally.oracle_inside.some, tally.error), (0, 0, 1, None));
        let tally = without(|figure| &mut figure.oracle);
        assert_eq!((tally.predicted, tally.inside.some, tally.oracle_inside.all), (1, 1, 0));
        assert_eq!(Tally::of(&[]), Tally::default());
    }
}
