//! Why the recorder's cost could not be measured.

use std::{io, process::ExitStatus};

use lagstop::recording::ReadError;

use crate::{command::CommandError, tenants::TenantsError};

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("making cgroups and loading eBPF programs take root: run it with `sudo -E`")]
    NotRoot,
    #[error("{what}: {source}")]
    File { what: String, source: io::Error },
    #[error("{0} says nothing of lagstop")]
    Proc(String),
    #[error("lagstop ended with an error ({0}): see above")]
    Failed(ExitStatus),
    #[error("the server did not start: {0}")]
    Server(String),
    #[error("what the server answers is no scrape: {0}")]
    Scrape(String),
    #[error("a budget is overrun: see above")]
    OverBudget,
    #[error(transparent)]
    Tenants(#[from] TenantsError),
    #[error(transparent)]
    Recording(#[from] ReadError),
    #[error(transparent)]
    Command(#[from] CommandError),
}

impl Error {
    pub(crate) fn file(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        |source| Self::File { what, source }
    }
}
