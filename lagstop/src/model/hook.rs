//! Where the figures come from on this kernel.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Measure;

/// Something that is measured, and how, or why not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Hook {
    /// What: as `--hooks` calls it.
    pub name: String,
    /// Whether it is measured.
    pub state: HookState,
    /// The way it is measured, as `--hooks` calls it. Costs of different ways cannot be compared.
    #[serde(default)]
    pub way: Option<String>,
    /// How that works and what it does not see, and why no better way is used; or why it is not measured.
    pub detail: String,
    /// The figures that come from it, and are not there without it.
    pub measures: String,
}

impl Hook {
    /// What it is about. `None` in recordings of versions that called it otherwise.
    pub fn measure(&self) -> Option<Measure> {
        self.name.parse().ok()
    }
}

/// Whether something is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HookState {
    /// It is.
    On,
    /// It is not: what comes from it is `n/a`.
    Off,
}
