//! Why lagstop's predictions could not be held against what comes of them.

use std::{io, path::PathBuf};

use crate::{command::CommandError, recorder, tenants::TenantsError};

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("making cgroups and changing how they are scheduled take root: run it with `sudo -E`")]
    NotRoot,
    #[error("there is no load `{name}`; there are {known}")]
    NoSuchLoad { name: String, known: String },
    #[error("{what}: {source}")]
    File { what: String, source: io::Error },
    #[error("{}: {source}", path.display())]
    Json { path: PathBuf, source: serde_json::Error },
    #[error("{} was measured otherwise (another lagstop, kernel, seed or times): leave out --resume, or name another --output", .0.display())]
    Otherwise(PathBuf),
    #[error("docs/accuracy.md has not all of the lines between which the answer and the tables go, in this order: {}", .0.join(", "))]
    NoPlace([&'static str; 4]),
    #[error("{0} failed: see above")]
    Failed(String),
    #[error("interrupted; {} has what was measured until then, and --resume goes on", .0.display())]
    Interrupted(PathBuf),
    #[error(transparent)]
    Lagstop(#[from] recorder::Error),
    #[error(transparent)]
    Tenants(#[from] TenantsError),
    #[error(transparent)]
    Command(#[from] CommandError),
}

impl Error {
    pub(super) fn file(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        |source| Self::File { what, source }
    }
}
