//! Figures as people write them in flags and configuration files.

use std::num::{ParseFloatError, ParseIntError, TryFromIntError};

use thiserror::Error;

use crate::model::Nanos;

/// A value that people can set.
pub(super) trait Setting: Sized {
    fn parse(text: &str) -> Result<Self, ThresholdSettingError>;
    /// Writes it so that [`Self::parse`] can read it.
    fn write(&self) -> String;
}

/// What is no such figure.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ThresholdSettingError {
    #[error("{text:?} is neither a number such as 0.05 nor a percentage such as 5%")]
    Share {
        text: String,
        /// `None` of a number that is below 0 or has no end.
        source: Option<ParseFloatError>,
    },
    #[error("{text:?} is no time: {source}; write it as 10us, 5ms or 2s")]
    Time { text: String, source: humantime::DurationError },
    #[error("{text:?} is longer than can be counted")]
    TooLong { text: String, source: TryFromIntError },
    #[error("{text:?} is no whole number")]
    Whole { text: String, source: ParseIntError },
}

impl Setting for f64 {
    fn parse(text: &str) -> Result<Self, ThresholdSettingError> {
        let wrong = |source| ThresholdSettingError::Share { text: text.to_owned(), source };
        let (number, whole) = match text.trim().strip_suffix('%') {
            Some(percent) => (percent, 100.0),
            None => (text, 1.0),
        };
        let value: Self = number.trim().parse().map_err(|error| wrong(Some(error)))?;
        if value.is_finite() && value >= 0.0 { Ok(value / whole) } else { Err(wrong(None)) }
    }

    fn write(&self) -> String {
        self.to_string()
    }
}

impl Setting for Nanos {
    fn parse(text: &str) -> Result<Self, ThresholdSettingError> {
        let time = humantime::parse_duration(text.trim())
            .map_err(|source| ThresholdSettingError::Time { text: text.to_owned(), source })?;
        let ns = u64::try_from(time.as_nanos());
        ns.map(Self).map_err(|source| ThresholdSettingError::TooLong { text: text.to_owned(), source })
    }

    fn write(&self) -> String {
        humantime::format_duration(std::time::Duration::from_nanos(self.0)).to_string().replace(' ', "")
    }
}

impl Setting for u64 {
    fn parse(text: &str) -> Result<Self, ThresholdSettingError> {
        text.trim().parse().map_err(|source| ThresholdSettingError::Whole { text: text.to_owned(), source })
    }

    fn write(&self) -> String {
        self.to_string()
    }
}

impl Setting for usize {
    fn parse(text: &str) -> Result<Self, ThresholdSettingError> {
        text.trim().parse().map_err(|source| ThresholdSettingError::Whole { text: text.to_owned(), source })
    }

    fn write(&self) -> String {
        self.to_string()
    }
}
