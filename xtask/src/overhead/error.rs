//! Why the overhead could not be measured.

use std::{io, path::PathBuf};

use crate::{command::CommandError, tenants::TenantsError};

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("loading eBPF programs takes root: run `sudo -E cargo xtask overhead`")]
    NotRoot,
    #[error("missing: {}. On Debian: `apt-get install {}`", .0.join(", "), .1.join(" "))]
    Tools(Vec<&'static str>, Vec<&'static str>),
    #[error("the pairs did not switch: is there a second CPU, and may they run on CPU 0?")]
    NoSwitches,
    #[error("interrupted")]
    Interrupted,
    #[error("{path} cannot be read or written: {source}")]
    File { path: PathBuf, source: io::Error },
    #[error("{load} was not attached within {seconds} seconds; it printed:\n{output}")]
    NotAttached { load: &'static str, seconds: u64, output: String },
    #[error("{load} ended during the measurement ({status}); it printed:\n{output}")]
    Ended { load: &'static str, status: std::process::ExitStatus, output: String },
    #[error("{load} cannot be watched or stopped: {source}")]
    Process { load: &'static str, source: io::Error },
    #[error("{path} is no eBPF object: {source}; run `cargo xtask ebpf`")]
    Parse { path: PathBuf, source: aya_obj::ParseError },
    #[error("a budget is overrun, or cannot be told to hold: see above")]
    NotMet,
    #[error("the result cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
    #[error(transparent)]
    Command(#[from] CommandError),
    #[error(transparent)]
    Tenants(#[from] TenantsError),
}
