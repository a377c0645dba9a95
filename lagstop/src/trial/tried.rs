//! What came of a trial, and what is to be known of how it went.

use schemars::JsonSchema;
use serde::Serialize;

use super::TrialOutcome;

/// What came of a trial.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Tried {
    /// The measured.
    #[serde(flatten)]
    pub outcome: TrialOutcome,
    /// What somebody else has changed during the trial, and what it is now: that stays, and is no failure to undo.
    pub changed_by_others: Vec<String>,
    /// What was refused to the trial or its watchdog, and what follows from that.
    pub notes: Vec<String>,
}
