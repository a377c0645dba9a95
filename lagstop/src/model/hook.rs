//! Where the figures come from on this kernel.

use serde::{Deserialize, Serialize};

/// One source of figures, and whether it is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hook {
    /// The tracepoint or function, by the kernel's name.
    pub name: String,
    /// Whether it is used.
    pub state: HookState,
    /// How it is attached, or why it is not.
    pub detail: String,
    /// The measures that come from it, and are not there without it.
    pub measures: String,
}

/// Whether a hook is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookState {
    /// Attached.
    On,
    /// Not attached: what comes from it is not measured.
    Off,
}
