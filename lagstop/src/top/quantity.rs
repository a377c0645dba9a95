//! A figure on the screen: three figures of it, whatever its size.

use std::fmt;

use crate::model::{Distribution, Nanos};

/// A figure, with what says how to write it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Quantity {
    /// A part of a whole, 1 being all of it. Written in percent, without the sign.
    Share(f64),
    Time(Nanos),
    /// How often in a second.
    Rate(f64),
    /// CPUs or tasks, on average.
    Amount(f64),
    Count(u64),
}

impl Quantity {
    /// What it is sorted by.
    pub(super) const fn order(self) -> f64 {
        match self {
            Self::Share(value) | Self::Rate(value) | Self::Amount(value) => value,
            Self::Time(Nanos(count)) | Self::Count(count) => count as f64,
        }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Share(share) => f.pad(&three(share * 100.0)),
            Self::Time(time) => f.pad(&time.to_string()),
            Self::Amount(amount) => f.pad(&three(*amount)),
            Self::Count(count) => f.pad(&count.to_string()),
            // Whole events from ten a second on: their decimals are noise.
            Self::Rate(rate) => f.pad(&match *rate {
                0.0 => "0".to_owned(),
                rate if rate < 9.95 => format!("{rate:.1}"),
                rate if rate < 99_999.5 => format!("{rate:.0}"),
                rate if rate < 9_999_500.0 => format!("{:.0}k", rate / 1e3),
                rate => format!("{:.0}M", rate / 1e6),
            }),
        }
    }
}

fn three(value: f64) -> String {
    match value {
        _ if value < 9.995 => format!("{value:.2}"),
        _ if value < 99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// What stands in a place for a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Cell {
    Quantity(Quantity),
    /// Measured, but there was nothing that it could be the mean or the share of. Left blank.
    Nothing,
    /// This kernel does not let us measure it.
    NotMeasured,
}

impl Cell {
    /// A share of counts, if both were measured. Blank if `whole` is 0.
    pub(super) fn share(part: Option<u64>, whole: Option<u64>) -> Self {
        match part.zip(whole) {
            Some((_, 0)) => Self::Nothing,
            Some((part, whole)) => Self::Quantity(Quantity::Share(part as f64 / whole as f64)),
            None => Self::NotMeasured,
        }
    }

    /// The mean of what was counted, if both were measured.
    pub(super) fn mean(total: Option<Nanos>, count: Option<u64>) -> Self {
        match total.zip(count) {
            Some((total, count)) => {
                total.mean(count).map_or(Self::Nothing, |mean| Self::Quantity(Quantity::Time(mean)))
            }
            None => Self::NotMeasured,
        }
    }

    /// The duration that a share of the durations does not exceed, if they were measured.
    pub(super) fn quantile(of: Option<&Distribution>, share: f64) -> Self {
        match of {
            Some(of) => of.quantile(share).map_or(Self::Nothing, |time| Self::Quantity(Quantity::Time(time))),
            None => Self::NotMeasured,
        }
    }

    pub(super) const fn figure(self) -> Option<Quantity> {
        match self {
            Self::Quantity(figure) => Some(figure),
            Self::Nothing | Self::NotMeasured => None,
        }
    }
}

impl From<Option<Quantity>> for Cell {
    fn from(figure: Option<Quantity>) -> Self {
        figure.map_or(Self::NotMeasured, Self::Quantity)
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Quantity(figure) => figure.fmt(f),
            Self::Nothing => f.pad(""),
            Self::NotMeasured => f.pad("n/a"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_stay_short_at_any_size() {
        let rates = [0.0, 0.04, 9.96, 99_999.4, 123_456.0, 12_345_678.0].map(|rate| Quantity::Rate(rate).to_string());
        assert_eq!(rates, ["0", "0.0", "10", "99999", "123k", "12M"]);
        let shares = [0.0, 0.000_51, 0.099_96, 0.474, 1.0].map(|share| Quantity::Share(share).to_string());
        assert_eq!(shares, ["0.00", "0.05", "10.0", "47.4", "100"]);
    }

    #[test]
    fn what_was_not_measured_is_no_zero_and_no_blank() {
        assert_eq!(Cell::mean(None, Some(3)).to_string(), "n/a");
        assert_eq!(Cell::mean(Some(Nanos(0)), Some(0)).to_string(), "");
        assert_eq!(Cell::mean(Some(Nanos(0)), Some(1)).to_string(), "0 ns");
    }
}
