//! How each metric is measured on this kernel.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Measure;

/// A measure, with its measurement method, or the reason why it is not measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Hook {
    /// Name of the measure, as in `--hooks`.
    pub name: String,
    /// State of the measure.
    pub state: HookState,
    /// Measurement method, as in `--hooks`. Costs of different methods cannot be compared.
    #[serde(default)]
    pub way: Option<String>,
    /// How the method works, what it misses, and why no better method is used. If not measured, the reason.
    pub detail: String,
    /// The metrics that need it.
    pub measures: String,
}

impl Hook {
    /// The metrics that need it, one by one.
    pub fn figures(&self) -> impl Iterator<Item = &str> {
        self.measures.split(", ")
    }

    /// The measure. `None` in recordings of versions that used another name.
    pub fn measure(&self) -> Option<Measure> {
        self.name.parse().ok()
    }
}

/// Whether a measure is available.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HookState {
    /// Measured.
    On,
    /// Not measured. Its metrics are `n/a`.
    Off,
}
