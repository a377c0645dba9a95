//! How bad it is.

use schemars::JsonSchema;
use serde::Serialize;

/// How bad it is. Ordered from the best to the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// No problem found.
    Ok,
    /// It cannot be said.
    NotEnoughData,
    /// Worth knowing.
    Info,
    /// Worth acting on.
    Warning,
    /// Act on it.
    Critical,
}

impl Severity {
    /// Does an interval of severity `other` support a verdict of `self`? A bad verdict needs the same or worse, a good
    /// one the same or better.
    pub(super) fn is_supported_by(self, other: Self) -> bool {
        if self >= Self::Info { other >= self } else { other <= self }
    }

    /// For people: it says without colour how bad it is.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::NotEnoughData => "NOT ENOUGH DATA",
            Self::Info => "INFO",
            Self::Warning => "WARNING",
            Self::Critical => "CRITICAL",
        }
    }
}
