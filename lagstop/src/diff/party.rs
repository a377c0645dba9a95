//! One of the recordings, with its draws, and what it says of a figure.

use super::{
    DiffSettings, DiffSide,
    estimate::Drawn,
    figure::{ComparedFigure, ComparedSubject, Made},
    series::{Amount, Series},
};
use crate::{
    random::Random,
    stats::{Autocorrelation, Resamples, difference},
};

/// One of the recordings, with its draws.
pub(super) struct Party<'a> {
    pub side: &'a DiffSide,
    /// Pieces that are drawn as one.
    pub block: usize,
    /// Is it worth enough pieces for at least half of the host's figures? Where it is not, figures that seem to be are those
    /// that happened to look steady.
    pub is_enough: bool,
    resamples: Resamples,
    host: [f64; Amount::OF_HOST],
    host_draws: Vec<[f64; Amount::OF_HOST]>,
}

/// A subject in one of the recordings.
pub(super) struct View<'a, const N: usize> {
    pub party: &'a Party<'a>,
    series: &'a Series<N>,
    sums: [f64; N],
    draws: Vec<[f64; N]>,
}

impl<'a> Party<'a> {
    pub(super) fn new(side: &'a DiffSide, settings: &DiffSettings, random: Random) -> Self {
        let of_host = ComparedFigure::OF_HOST.iter().filter_map(|figure| {
            let residuals = residuals(&figure.made(ComparedSubject::Host), side, &side.host)?;
            let found = Autocorrelation::of(&residuals.values);
            Some((found.time, found.effective(residuals.known)))
        });
        let of_host: Vec<(f64, f64)> = of_host.collect();
        let enough = of_host.iter().filter(|(_, effective)| *effective >= Drawn::LEAST).count();
        let (pieces, block) = (side.pieces().len(), block(side, of_host.iter().map(|(time, _)| *time)));
        let resamples = Resamples::draw(pieces, block, settings.resamples, random);
        Self {
            side,
            block,
            is_enough: 2 * enough >= of_host.len(),
            host: side.host.sums(),
            host_draws: side.host.drawn(&resamples),
            resamples,
        }
    }
}

/// Length of a block: the longest memory of the host's figures, but short enough that there are enough blocks.
fn block(side: &DiffSide, times: impl Iterator<Item = f64>) -> usize {
    let longest = times.fold(1.0, f64::max).ceil() as usize;
    longest.min(side.pieces().len() / Drawn::LEAST as usize).max(1)
}

impl<'a, const N: usize> View<'a, N> {
    pub(super) fn new(party: &'a Party<'a>, series: &'a Series<N>) -> Self {
        Self { party, series, sums: series.sums(), draws: series.drawn(&party.resamples) }
    }

    pub(super) fn figure(&self, made: &Made) -> Option<f64> {
        ratio(made, &self.sums, &self.party.host)
    }

    pub(super) fn drawn(&self, made: &Made) -> Vec<Option<f64>> {
        self.draws.iter().zip(&self.party.host_draws).map(|(own, host)| ratio(made, own, host)).collect()
    }

    /// Variance of the figure and its effective sample size.
    pub(super) fn precision(&self, made: &Made) -> (f64, f64) {
        let Some(residuals) = residuals(made, self.party.side, self.series) else { return (0.0, 0.0) };
        let found = Autocorrelation::of(&residuals.values);
        (found.of_mean(), found.effective(residuals.known))
    }

    pub(super) fn is_measured(&self, made: &Made) -> bool {
        self.series.is_measured(made.part) && self.series.is_measured(made.whole)
    }
}

/// The ratio that `made` describes, from the sums of a subject and of the host. `None` if it would divide by 0.
fn ratio(made: &Made, own: &[f64], host: &[f64]) -> Option<f64> {
    let sum = |amount: Amount| own.get(amount.place()).or_else(|| host.get(amount.place())).copied();
    let whole = sum(made.whole).filter(|whole| *whole > 0.0)?;
    Some(made.factor * (sum(made.part)? / whole)).filter(|figure| figure.is_finite())
}

/// Difference between what each piece adds to a figure and what it would add if it were like all others.
struct Residuals {
    /// Their mean varies as the figure does (linearised: Cochran: Sampling techniques, 1977, 6.4).
    values: Vec<f64>,
    /// Pieces in which there is something to divide by.
    known: usize,
}

fn residuals<const N: usize>(made: &Made, side: &DiffSide, series: &Series<N>) -> Option<Residuals> {
    let pieces = side.pieces().len();
    let values = |amount| series.values(amount, pieces).or_else(|| side.host.values(amount, pieces));
    let (parts, wholes) = (values(made.part)?, values(made.whole)?);
    let mean = |values: &[f64]| values.iter().sum::<f64>() / pieces as f64;
    let (part, whole) = (mean(&parts), mean(&wholes));
    if whole.is_nan() || whole <= 0.0 {
        return None;
    }
    let known = wholes.iter().filter(|whole| **whole > 0.0).count();
    let residual = |(value, of): (&f64, &f64)| made.factor * difference(*value, part / whole * of) / whole;
    Some(Residuals { values: parts.iter().zip(&wholes).map(residual).collect(), known })
}
