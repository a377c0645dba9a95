//! How sure a finding is.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    model::Lost,
    units::{self, MOSTLY},
};

/// How sure a finding is, and why.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Confidence {
    /// How sure.
    pub level: ConfidenceLevel,
    /// Why: sample size, and how stable it was over the intervals.
    pub why: String,
}

/// How sure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ConfidenceLevel {
    /// Could well be chance.
    Low,
    /// Likely.
    Medium,
    /// As sure as this recording can make it.
    High,
}

/// What a finding rests on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Basis {
    pub intervals: u64,
    /// Things counted.
    pub samples: u64,
    /// What the samples are, in the plural.
    pub samples_are: &'static str,
    /// Intervals that alone would support the verdict, of how many.
    pub agreeing: Option<(u64, u64)>,
    /// Things that could not be measured.
    pub lost: u64,
}

/// Intervals that a high confidence takes. Chosen: `lagstop diagnose` measures as many by default.
const MANY_INTERVALS: u64 = 30;
/// Samples that make a mean sure: its standard error is then 1 %, with a standard deviation as large as the mean.
const MANY_SAMPLES: u64 = 10_000;
/// A medium confidence takes a third of these intervals, and a tenth of these samples. Chosen: that error is then 3 %.
const FEWER_INTERVALS: u64 = 3;
const FEWER_SAMPLES: u64 = 10;
/// Share of the parts of a recording that alone have to support a verdict, for a high confidence. Chosen: four of five.
pub(super) const NEARLY_ALL_AGREE: f64 = 0.8;

impl ConfidenceLevel {
    pub const fn word(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }

    const fn lower(self) -> Self {
        match self {
            Self::High => Self::Medium,
            Self::Medium | Self::Low => Self::Low,
        }
    }
}

impl Confidence {
    /// One step less sure, and why.
    #[must_use]
    pub(super) fn lowered(self, why: &str) -> Self {
        Self { level: self.level.lower(), why: format!("{}; {why}", self.why) }
    }
}

impl Basis {
    pub(super) fn confidence(&self) -> Confidence {
        self.confidence_from(MANY_SAMPLES)
    }

    /// Like [`Self::confidence`], with `many` samples as the number that makes a share sure.
    pub(super) fn confidence_from(&self, many: u64) -> Confidence {
        let agreement = self.agreeing.map_or(1.0, |(same, of)| same as f64 / of.max(1) as f64);
        let mut level = if self.intervals >= MANY_INTERVALS && self.samples >= many && agreement >= NEARLY_ALL_AGREE {
            ConfidenceLevel::High
        } else if self.intervals >= MANY_INTERVALS / FEWER_INTERVALS
            && self.samples >= many / FEWER_SAMPLES
            && agreement >= MOSTLY
        {
            ConfidenceLevel::Medium
        } else {
            ConfidenceLevel::Low
        };
        let mut why = format!(
            "{}, {} {}",
            units::plural(self.intervals, "interval"),
            units::count(self.samples),
            self.samples_are
        );
        if let Some((same, of)) = self.agreeing {
            why += &format!("; {same} of {of} intervals agree");
        }
        if self.lost as f64 > Lost::MATTERS * self.samples as f64 {
            level = level.lower();
            why += &format!("; {} lost", units::count(self.lost));
        }
        Confidence { level, why }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn confidence_takes_size_agreement_and_nothing_lost() {
        let sure =
            Basis { intervals: 60, samples: 100_000, samples_are: "switches", agreeing: Some((55, 60)), lost: 0 };
        for (basis, expected) in [
            (sure, ConfidenceLevel::High),
            (Basis { lost: 2_000, ..sure }, ConfidenceLevel::Medium),
            (Basis { agreeing: Some((31, 60)), ..sure }, ConfidenceLevel::Medium),
            (Basis { agreeing: Some((20, 60)), ..sure }, ConfidenceLevel::Low),
            (Basis { intervals: 12, ..sure }, ConfidenceLevel::Medium),
            (Basis { intervals: 5, ..sure }, ConfidenceLevel::Low),
            (Basis { samples: 100, ..sure }, ConfidenceLevel::Low),
        ] {
            assert_eq!(basis.confidence().level, expected, "{basis:?}");
        }
        assert_eq!(sure.confidence().why, "60 intervals, 100 k switches; 55 of 60 intervals agree");
    }
}
