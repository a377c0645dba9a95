//! What goes wrong between lagstop and a server, as sentences.

use std::{fmt, io, path::PathBuf, time::Duration};

use rustls::pki_types::pem;
use schemars::JsonSchema;
use serde::Serialize;
use ureq::http::{self, header::InvalidHeaderValue, uri::InvalidUri};

use crate::display::plain;

/// The most characters of a server message that are shown.
const SHOWN: usize = 400;

/// Why a query has no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The address is invalid.
    #[error("`{url}` is not a server address: write http://HOST:9090 or https://HOST/PREFIX")]
    Url {
        url: String,
        /// `None` if the address is valid, but not of a server.
        source: Option<InvalidUri>,
    },
    /// The address has a password in it.
    #[error("all users of this host can read a password in the URL. Write a token to a file and use --token-file")]
    Userinfo,
    /// A token would be sent unencrypted.
    #[error("{what} would be sent to {host} unencrypted. Use https, or --insecure on a trusted network")]
    Unencrypted {
        /// The token, or a secret header.
        what: String,
        /// The host that would receive it.
        host: String,
    },
    /// A header is invalid.
    #[error("{name:?} with its value is not an HTTP header: write NAME:VALUE, e.g. X-Scope-OrgID:team")]
    Header { name: String, source: http::Error },
    /// The token cannot be sent.
    #[error("the token contains characters that are invalid in HTTP headers. Check the token file")]
    Token(#[source] InvalidHeaderValue),
    /// A file cannot be read.
    #[error("cannot read {}: {}", path.display(), plain(source))]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file has invalid contents.
    #[error("{}: {source}", path.display())]
    Certificate {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: CertificateError,
    },
    /// The server is unreachable.
    #[error("cannot query {url}: {}", why(source, url))]
    Unreachable {
        /// The server.
        url: String,
        source: Box<ureq::Error>,
    },
    /// The server did not answer in time.
    #[error("{url} did not answer within {} s. Use a shorter --window or a longer --timeout", within.as_secs())]
    Slow {
        /// The server.
        url: String,
        /// The timeout.
        within: Duration,
    },
    /// The server redirects.
    #[error(
        "{from} redirects to `{to}`. Use that address, without /api/v1 and the rest. lagstop sends tokens only to the given address"
    )]
    Redirect {
        /// The server.
        from: String,
        /// The target of the redirect.
        to: String,
    },
    /// The answer is too long.
    #[error("the answer is longer than {} MiB. Use a shorter --window, or select fewer nodes with --match. The query was: {query}", most >> 20)]
    TooLong {
        /// The query.
        query: String,
        /// Limit of the answer, in bytes.
        most: u64,
    },
    /// The answer is not from a Prometheus server.
    #[error("{url} does not answer like Prometheus ({source}). Check the address; it ends before /api/v1")]
    NoAnswer {
        /// The server.
        url: String,
        /// What is wrong with the answer.
        source: serde_json::Error,
    },
    /// The server refused the query.
    #[error("{0}")]
    Refused(Box<Refused>),
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

/// A query that the server refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Refused {
    /// The query, in PromQL.
    pub query: String,
    /// HTTP status.
    pub status: u16,
    /// Error type from the server.
    pub kind: String,
    /// Error message from the server.
    pub why: String,
    #[serde(skip)]
    retry_after: Option<Duration>,
}

impl Refused {
    pub(super) fn new(query: &str, status: u16, kind: &str, why: &str, retry_after: Option<Duration>) -> Self {
        let cut = |text: &str| -> String {
            let words: Vec<&str> = text.split_whitespace().collect();
            words.join(" ").chars().take(SHOWN).collect()
        };
        Self { query: query.to_owned(), status, kind: cut(kind), why: cut(why), retry_after }
    }

    /// What the user can do about it.
    const fn remedy(&self) -> &'static str {
        match self.status {
            401 => " Pass a token with --token-file.",
            403 => " Request permission to read these series.",
            404 => " Check the address; it ends before /api/v1.",
            429 | 500..=599 => " Try again later, or use a shorter --window.",
            _ => "",
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the server refuses (HTTP {}", self.status)?;
        if !self.kind.is_empty() {
            write!(f, ", {}", self.kind)?;
        }
        f.write_str(")")?;
        if !self.why.is_empty() {
            write!(f, ": {}", self.why)?;
        }
        write!(f, ".{} The query was: {}", self.remedy(), self.query)
    }
}

impl ClientError {
    /// Of what happened on the way to `url`.
    pub(super) fn of(error: ureq::Error, url: &str, within: Duration) -> Self {
        use ureq::Timeout::{Connect, Resolve};
        let url = url.to_owned();
        let is_slow = match &error {
            ureq::Error::Timeout(timeout) => !matches!(timeout, Connect | Resolve),
            ureq::Error::Io(error) => error.kind() == io::ErrorKind::TimedOut,
            _ => false,
        };
        if is_slow { Self::Slow { url, within } } else { Self::Unreachable { url, source: Box::new(error) } }
    }

    /// May it be otherwise in a moment?
    pub(super) fn is_passing(&self) -> bool {
        match self {
            Self::Unreachable { source, .. } => may_pass(source),
            // A server that ran out of time says 503, too.
            Self::Refused(refused) => matches!(refused.status, 429 | 502 | 503 | 504) && !self.is_too_much(),
            _ => false,
        }
    }

    /// Could a shorter time be answered?
    pub fn is_too_much(&self) -> bool {
        match self {
            Self::Slow { .. } | Self::TooLong { .. } => true,
            Self::Refused(refused) => {
                let why = refused.why.to_lowercase();
                let words =
                    ["too many samples", "too many points", "exceeded maximum resolution", "timed out", "limit"];
                refused.kind == "timeout"
                    || refused.status == 413
                    || words.iter().any(|word| why.contains(word)) && refused.status != 429
            }
            _ => false,
        }
    }

    /// How long the server asks to be left alone.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused(refused) => refused.retry_after,
            _ => None,
        }
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

/// May it be otherwise in a moment?
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

/// What TLS is not content with, in what the system said.
fn tls(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref().and_then(|inner| inner.downcast_ref())
}

/// What TLS is not content with, and what to do.
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

    fn refused(status: u16, kind: &str, why: &str) -> ClientError {
        ClientError::Refused(Box::new(Refused::new("up{", status, kind, why, None)))
    }

    #[test]
    fn a_refusal_has_the_query_and_a_remedy() {
        let said = refused(400, "bad_data", "parse   error\nat 1").to_string();
        assert_eq!(said, "the server refuses (HTTP 400, bad_data): parse error at 1. The query was: up{");
        let long = refused(400, &format!("{}\n", "x".repeat(60_000)), "").to_string();
        assert!(long.len() < 600, "a kind is as foreign as a reason: {} bytes", long.len());
        assert!(refused(401, "", "").to_string().contains("--token-file"));
        assert!(refused(500, "", &"x".repeat(10_000)).to_string().len() < 600);
    }

    #[test]
    fn what_tls_is_not_content_with_has_a_remedy() {
        let wrapped = |error: rustls::Error| {
            let error = ureq::Error::Io(io::Error::new(io::ErrorKind::InvalidData, error));
            ClientError::of(error, "https://prometheus", Duration::from_secs(1)).to_string()
        };
        let unknown = rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer);
        assert!(wrapped(unknown).ends_with("accept any certificate with --insecure"));
        assert!(
            wrapped(rustls::Error::AlertReceived(rustls::AlertDescription::CertificateRequired))
                .contains("--client-cert")
        );
        assert!(wrapped(rustls::Error::HandshakeNotComplete).contains("uses https"));
    }

    #[test]
    fn what_passes_is_told_from_what_is_too_much() {
        let of = |error: ClientError| (error.is_passing(), error.is_too_much());
        assert_eq!(of(refused(503, "", "overloaded")), (true, false));
        assert_eq!(of(refused(503, "timeout", "query timed out in expression evaluation")), (false, true));
        assert_eq!(
            of(refused(422, "execution", "query processing would load too many samples into memory")),
            (false, true)
        );
        assert_eq!(of(refused(429, "", "rate limit")), (true, false));
        assert_eq!(of(refused(400, "bad_data", "parse error")), (false, false));
    }
}
