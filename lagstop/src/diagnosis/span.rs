//! How much of a recording there is.

use schemars::JsonSchema;
use serde::Serialize;

use crate::model::Nanos;

/// How much of a recording there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Span {
    /// Intervals in it.
    pub intervals: u64,
    /// Their time.
    pub duration_ns: Nanos,
    /// Intervals that were merged into these before they were looked at: what is shorter than these does not show.
    pub merged_intervals: u64,
    /// Intervals that are missing in between, by their numbers.
    pub skipped_intervals: u64,
}

impl Span {
    pub(super) const NONE: Self =
        Self { intervals: 0, duration_ns: Nanos::ZERO, merged_intervals: 0, skipped_intervals: 0 };
}
