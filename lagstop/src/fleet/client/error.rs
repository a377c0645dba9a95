//! What goes wrong between lagstop and a server, as sentences.

use std::{fmt, io, time::Duration};

use schemars::JsonSchema;
use serde::Serialize;

use crate::client::ConnectionError;

/// The most characters of a server message that are shown.
const SHOWN: usize = 400;

/// Why a query has no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    #[error("{url} did not answer within {} s. Use a shorter --window or a longer --timeout", within.as_secs())]
    Slow { url: String, within: Duration },
    #[error(
        "{from} redirects to `{to}`. Use that address, without /api/v1 and the rest. lagstop sends tokens only to the given address"
    )]
    Redirect { from: String, to: String },
    #[error("the answer is longer than {} MiB. Use a shorter --window, or select fewer nodes with --match. The query was: {query}", most >> 20)]
    TooLong {
        query: String,
        /// Limit of the answer, in bytes.
        most: u64,
    },
    /// The answer is not from a Prometheus server.
    #[error("{url} does not answer like Prometheus ({source}). Check the address; it ends before /api/v1")]
    NoAnswer { url: String, source: serde_json::Error },
    #[error("{0}")]
    Refused(Box<Refused>),
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
        let is_slow = match &error {
            ureq::Error::Timeout(timeout) => !matches!(timeout, Connect | Resolve),
            ureq::Error::Io(error) => error.kind() == io::ErrorKind::TimedOut,
            _ => false,
        };
        if is_slow { Self::Slow { url: url.to_owned(), within } } else { ConnectionError::of(error, url).into() }
    }

    /// Can the same query succeed a moment later?
    pub(super) fn is_passing(&self) -> bool {
        match self {
            Self::Connection(error) => error.is_passing(),
            // A server whose query timed out also answers with 503.
            Self::Refused(refused) => matches!(refused.status, 429 | 502 | 503 | 504) && !self.is_too_much(),
            _ => false,
        }
    }

    /// Can a query for a shorter time succeed?
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
