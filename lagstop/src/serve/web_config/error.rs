//! What is wrong with the file that says who may scrape, or with those that it names.

use std::{
    io,
    path::{Path, PathBuf},
};

use thiserror::Error;
use tokio_rustls::rustls::{self, pki_types::pem, server::VerifierBuilderError};

use super::MOST_COST;
use crate::{display::plain, serve::passwords::NoRandomNumbers};

/// What is wrong with a file.
#[derive(Debug, Error)]
pub enum WebConfigError {
    /// A file cannot be read.
    #[error("{}: {}", .path.display(), plain(.source))]
    Read {
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is not as it should be.
    #[error("{}: {source}", .path.display())]
    Wrong { path: PathBuf, source: Mistake },
}

impl WebConfigError {
    pub(in crate::serve) fn wrong(path: &Path, source: impl Into<Mistake>) -> Self {
        Self::Wrong { path: path.to_owned(), source: source.into() }
    }
}

/// What is wrong with what is in a file.
#[derive(Debug, Error)]
pub enum Mistake {
    #[error("it is empty. To serve without TLS and passwords, leave --web-config out")]
    Empty,
    #[error(transparent)]
    Yaml(Box<serde_saphyr::Error>),
    #[error("lagstop does not support {key}: {instead}")]
    Unsupported { key: &'static str, instead: &'static str },
    #[error("{0} is empty: fill it, or leave it out")]
    NoValue(&'static str),
    #[error("it has neither TLS nor passwords. If that is meant, leave --web-config out")]
    Open,
    #[error("tls_server_config needs {0}")]
    Needs(&'static str),
    #[error(
        "client_ca_file means nothing with client_auth_type NoClientCert: set RequireAndVerifyClientCert, or leave it out"
    )]
    UnusedAuthorities,
    #[error("client_auth_type {0} lets everybody in, because it verifies nothing: set RequireAndVerifyClientCert")]
    UnsafeClientAuth(String),
    #[error(
        "there is no client_auth_type {0}: set NoClientCert, VerifyClientCertIfGiven or RequireAndVerifyClientCert"
    )]
    NoClientAuth(String),
    #[error("{key} {version} is not safe any more (RFC 8996), and lagstop does not speak it: set TLS12 or TLS13")]
    OldVersion { key: &'static str, version: String },
    #[error("there is no {key} {version}: set TLS12 or TLS13")]
    NoVersion { key: &'static str, version: String },
    #[error("min_version is above max_version")]
    NoVersionLeft,
    #[error("the password of {user:?} is not a bcrypt hash: make one with `htpasswd -nBC 10 {user}`")]
    NoHash { user: String, source: bcrypt::BcryptError },
    #[error(
        "the bcrypt hash of {user:?} has cost {cost}, which takes too long to check: use a cost of 10 to {MOST_COST}"
    )]
    Cost { user: String, cost: u32 },
    #[error(transparent)]
    Random(#[from] NoRandomNumbers),
    #[error("it lowers protection ({0}), which only a restart of lagstop can do")]
    Lowered(&'static str),
    #[error("there is no certificate in it")]
    NoCertificate,
    #[error("there is no certificate in it: {0}")]
    Certificate(#[source] pem::Error),
    #[error("there is no private key in it: {0}")]
    Key(#[source] pem::Error),
    #[error(transparent)]
    Tls(#[from] rustls::Error),
    #[error(transparent)]
    Verifier(#[from] VerifierBuilderError),
}
