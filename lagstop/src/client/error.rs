//! Why a server cannot be reached, or must not be, as sentences.

use std::{io, path::PathBuf};

use rustls::pki_types::pem;
use ureq::http::{self, header::InvalidHeaderValue, uri::InvalidUri};

use crate::display::plain;

/// Why a server cannot be reached.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// The address is invalid.
    #[error("`{url}` is not a server address: write http://HOST:PORT or https://HOST/PREFIX")]
    Url {
        url: String,
        /// `None` if the address is valid, but not of a server.
        source: Option<InvalidUri>,
    },
    /// The address has a password in it.
    #[error(
        "all users of this host can read a password in the URL. Write it to a file and use --password-file or --token-file"
    )]
    Userinfo,
    /// A secret would be sent unencrypted.
    #[error("{what} would be sent to {host} unencrypted. Use https, or --insecure on a trusted network")]
    Unencrypted {
        /// The token, the password, or a secret header.
        what: String,
        /// The host that would receive it.
        host: String,
    },
    /// A header is invalid.
    #[error("{name:?} with its value is not an HTTP header: write NAME:VALUE, e.g. X-Scope-OrgID:team")]
    Header { name: String, source: http::Error },
    /// The token cannot be sent.
    #[error("the token or password contains characters that are invalid in HTTP headers. Check the file")]
    Token(#[source] InvalidHeaderValue),
    /// A file cannot be read.
    #[error("cannot read {}: {}", path.display(), plain(source))]
    File { path: PathBuf, source: io::Error },
    /// A file has invalid contents.
    #[error("{}: {source}", path.display())]
    Certificate {
        path: PathBuf,
        /// What is wrong with it.
        source: CertificateError,
    },
    /// The server is unreachable.
    #[error("cannot reach {url}: {}", why(source, url))]
    Unreachable { url: String, source: Box<ureq::Error> },
}

/// What is wrong with certificates or keys in a file.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    #[error("not in PEM format: {0}")]
    Pem(#[source] Box<ureq::Error>),
    #[error("the file contains no certificate")]
    NoCertificate,
    #[error("the file contains no private key")]
    NoKey(#[source] Option<pem::Error>),
    #[error("the certificate does not match the key in {}: {source}", key.display())]
    Pair { key: PathBuf, source: rustls::Error },
}

impl ConnectionError {
    /// The error of a request to `url`.
    pub(crate) fn of(error: ureq::Error, url: &str) -> Self {
        Self::Unreachable { url: url.to_owned(), source: Box::new(error) }
    }

    /// May a later try succeed?
    pub(crate) fn is_passing(&self) -> bool {
        matches!(self, Self::Unreachable { source, .. } if may_pass(source))
    }
}

/// What happened on the way to a server, and what to do.
fn why(error: &ureq::Error, url: &str) -> String {
    match error {
        ureq::Error::Timeout(_) => "no connection. Check the address and the network".to_owned(),
        ureq::Error::HostNotFound => "unknown host name. Check the address".to_owned(),
        ureq::Error::Io(error) => match tls(error) {
            Some(error) => of_tls(error),
            None => {
                let spoken = if url.starts_with("https") { "https" } else { "http" };
                format!("{}. Check that the server is running and uses {spoken}", plain(error))
            }
        },
        ureq::Error::Rustls(error) => of_tls(error),
        other => other.to_string(),
    }
}

/// May a later try succeed?
fn may_pass(error: &ureq::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, UnexpectedEof};
    match error {
        ureq::Error::Timeout(_) => true,
        ureq::Error::Io(error) => {
            tls(error).is_none()
                && matches!(error.kind(), ConnectionRefused | ConnectionReset | ConnectionAborted | UnexpectedEof)
        }
        _ => false,
    }
}

/// The error of TLS that is inside of a system's error.
fn tls(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref().and_then(|inner| inner.downcast_ref())
}

/// What is wrong with TLS, and what to do.
fn of_tls(error: &rustls::Error) -> String {
    let remedy = match error {
        rustls::Error::InvalidCertificate(_) => {
            "Name the CA of its certificate with --ca-file, or accept any certificate with --insecure"
        }
        rustls::Error::AlertReceived(_) => {
            "The server may require a client certificate: use --client-cert and --client-key"
        }
        _ => "Check that the server uses https at this address",
    };
    format!("{error}. {remedy}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tls_is_not_content_with_has_a_remedy() {
        let wrapped = |error: rustls::Error| {
            let error = ureq::Error::Io(io::Error::new(io::ErrorKind::InvalidData, error));
            ConnectionError::of(error, "https://prometheus").to_string()
        };
        let unknown = rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer);
        assert!(wrapped(unknown).ends_with("accept any certificate with --insecure"));
        assert!(
            wrapped(rustls::Error::AlertReceived(rustls::AlertDescription::CertificateRequired))
                .contains("--client-cert")
        );
        assert!(wrapped(rustls::Error::HandshakeNotComplete).contains("uses https"));
    }
}
