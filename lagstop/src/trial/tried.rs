//! Outcome of a trial, with notes on its execution.

use schemars::JsonSchema;
use serde::Serialize;

use super::TrialOutcome;

/// Outcome of a trial, with notes on its execution.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Tried {
    /// The measured outcome.
    #[serde(flatten)]
    pub outcome: TrialOutcome,
    /// Settings that other programs changed during the trial, with their current values. They stay, and do not count as
    /// `not_undone`.
    pub changed_by_others: Vec<String>,
    /// The sched_ext scheduler that was loaded after a policy which switches the host's scheduler; empty: none, so the kernel's own is back.
    /// `None` with other policies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loaded_scheduler: Option<String>,
    /// Checks of the host that were turned off, as flags, which `lagstop schedule` needs as well.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ignored: Vec<&'static str>,
    /// Permissions that the trial or its watchdog lacked, and the consequences.
    pub notes: Vec<String>,
}
