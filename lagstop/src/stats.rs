//! Statistics of series in which neighbours resemble each other. Pure, and of no rule or report in particular.

pub(crate) mod autocorrelation;
pub(crate) mod bootstrap;
#[cfg(test)]
pub(crate) mod fixture;
pub(crate) mod student;

pub(crate) use autocorrelation::Autocorrelation;
pub(crate) use bootstrap::Resamples;

/// `value` − `other`, or 0 where they differ by no more than rounding errors.
pub(crate) fn difference(value: f64, other: f64) -> f64 {
    const ROUNDING: f64 = 1e-12;
    let difference = value - other;
    if difference.abs() <= ROUNDING * value.abs().max(other.abs()) { 0.0 } else { difference }
}
