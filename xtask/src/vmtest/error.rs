//! Why kernels could not be tried, or what one of them showed.

use std::{
    io,
    path::{Path, PathBuf},
};

use crate::command::CommandError;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("there is no kernel `{id}` in the list. `cargo xtask vmtest --list` shows all: {known}")]
    UnknownKernel { id: String, known: String },
    #[error("no VM was started, because this is missing:\n{}\n{INSTALL}", .0.join("\n"))]
    Tools(Vec<String>),
    #[error(
        "only Debian's packages can be installed by this command, and this is {0}. Install QEMU 8 or later by hand: \
         qemu-system-x86_64, and qemu-system-aarch64 for arm64"
    )]
    NotDebian(String),
    #[error("{path} cannot be {what}: {source}")]
    File { what: &'static str, path: PathBuf, source: io::Error },
    #[error("cargo built no {0}: was it renamed? See xtask/src/vmtest/guest_binaries.rs")]
    NotBuilt(&'static str),
    #[error("{0} is not to be had: {1}")]
    Package(String, String),
    #[error("{path} has the SHA-256 {found}, and {pinned} is pinned")]
    Checksum { path: PathBuf, found: String, pinned: String },
    #[error("{package} holds no file `{pattern}`")]
    NotInPackage { package: PathBuf, pattern: String },
    #[error("{path} cannot be taken along: {why}")]
    NotCarried { path: PathBuf, why: &'static str },
    #[error("QEMU cannot be watched: {0}")]
    Watch(io::Error),
    #[error("results cannot be stored or read: {0}")]
    Json(#[from] serde_json::Error),
    #[error("{missing} of {all} VMs did not pass: see above")]
    NotPassed { missing: usize, all: usize },
    #[error(transparent)]
    Command(#[from] CommandError),
}

const INSTALL: &str = "Or let `cargo xtask vmtest --install` do it.";

impl Error {
    /// Says of a failed file operation `what` could not be done to `path`.
    pub(super) fn file(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { what, path: path.to_owned(), source }
    }
}
