//! Why a tool has no answer, as sentences that an assistant can act on.

use thiserror::Error;

use super::names::quoted;
use crate::recording::{ReadError, WriteError};

/// Why measuring failed, or broke off: whatever measures says it.
pub(super) type Source = Box<dyn std::error::Error + Send + Sync>;

/// Why a tool has no answer. What clients and users have named is marked already.
#[derive(Debug, Error)]
pub(super) enum Trouble {
    #[error("the arguments are wrong: {0}. The input schema of the tool lists them")]
    Arguments(String),
    #[error("`{name}` must be from {least} to {most}")]
    Range { name: &'static str, least: u64, most: u64 },
    #[error("no recording is called {0}. The tool `recordings` lists them")]
    NoRecording(String),
    #[error("there are several recordings. Pass one as `recording`: {0}")]
    Which(String),
    #[error(
        "there are no recordings in the files and directories that lagstop was started with. `lagstop record` makes some"
    )]
    Empty,
    #[error("a recording is read as it is. Leave `seconds` out")]
    AsItIs,
    #[error(
        "no cgroup in this recording is called {0}. The tool `overview` lists some; use a path, a name or an id from it"
    )]
    NoCgroup(String),
    #[error("no finding of this recording is {0}. The tool `diagnose` lists the findings")]
    NoFinding(String),
    /// Whoever made the recording may have put words into it.
    #[error("cannot read the recording: {}", quoted(&.0.to_string()))]
    Read(#[from] ReadError),
    #[error("cannot measure: {0}")]
    Measure(#[source] Source),
    #[error("cannot keep the measurement: {0}")]
    Keep(#[from] WriteError),
    #[error("measuring gave no interval. Try more `seconds`")]
    NoInterval,
    #[error("a figure cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
    #[error("answering ended because of a bug in lagstop. Please report it with the message on standard error")]
    Died,
}
