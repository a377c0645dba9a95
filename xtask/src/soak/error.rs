//! Why a soak failed.

use std::{io, process::ExitStatus};

use crate::tenants::TenantsError;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{what}: {source}")]
    File { what: String, source: io::Error },
    #[error("{name} ended ({status}), and it was not to. Its last words were:\n{said}")]
    Ended { name: &'static str, status: ExitStatus, said: String },
    #[error("{0} has not begun within half a minute")]
    NotBegun(&'static str),
    #[error("{0} does not end")]
    Hangs(&'static str),
    #[error("the kernel does not tell what {0} takes")]
    NotTold(&'static str),
    #[error("the server's answer is no scrape: {0}")]
    Scrape(String),
    #[error("{} went wrong: see above", .0)]
    Failed(usize),
    #[error("a part of the soak ended by a panic")]
    Panicked,
    #[error(transparent)]
    Tenants(#[from] TenantsError),
    #[error(transparent)]
    Released(#[from] crate::recorder::Error),
}

impl Error {
    pub(super) fn file(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        |source| Self::File { what, source }
    }
}
