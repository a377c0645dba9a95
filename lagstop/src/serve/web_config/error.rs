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
    Read { path: PathBuf, source: io::Error },
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
    #[error("the file is empty. To serve without TLS and passwords, omit --web-config")]
    Empty,
    #[error(transparent)]
    Yaml(Box<serde_saphyr::Error>),
    #[error("lagstop does not support {key}: {instead}")]
    Unsupported { key: &'static str, instead: &'static str },
    #[error("{0} is empty. Fill it in or remove it")]
    NoValue(&'static str),
    #[error("the file has neither TLS nor passwords. To serve without them, omit --web-config")]
    Open,
    #[error("tls_server_config needs {0}")]
    Needs(&'static str),
    #[error(
        "client_ca_file has no effect with client_auth_type NoClientCert. Set RequireAndVerifyClientCert, or remove it"
    )]
    UnusedAuthorities,
    #[error("client_auth_type {0} does not verify clients. Set RequireAndVerifyClientCert")]
    UnsafeClientAuth(String),
    #[error("unknown client_auth_type {0}. Set NoClientCert, VerifyClientCertIfGiven or RequireAndVerifyClientCert")]
    NoClientAuth(String),
    #[error("{key} {version} is insecure (RFC 8996) and not supported. Set TLS12 or TLS13")]
    OldVersion { key: &'static str, version: String },
    #[error("unknown {key} {version}. Set TLS12 or TLS13")]
    NoVersion { key: &'static str, version: String },
    #[error("min_version is above max_version")]
    NoVersionLeft,
    #[error("the password of {user:?} is not a bcrypt hash. Create one with `htpasswd -nBC 10 {user}`")]
    NoHash { user: String, source: bcrypt::BcryptError },
    #[error("the bcrypt hash of {user:?} has cost {cost}, which is too slow to check. Use a cost of 10 to {MOST_COST}")]
    Cost { user: String, cost: u32 },
    #[error(transparent)]
    Random(#[from] NoRandomNumbers),
    #[error("it lowers protection ({0}). Restart lagstop to apply it")]
    Lowered(&'static str),
    #[error("the file contains no certificate")]
    NoCertificate,
    #[error("the file contains no certificate: {0}")]
    Certificate(#[source] pem::Error),
    #[error("the file contains no private key: {0}")]
    Key(#[source] pem::Error),
    #[error(transparent)]
    Tls(#[from] rustls::Error),
    #[error(transparent)]
    Verifier(#[from] VerifierBuilderError),
}
