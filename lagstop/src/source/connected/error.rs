//! Why the intervals of another host do not come, as sentences.

use thiserror::Error;

use crate::{
    client::ConnectionError,
    recording::{ReadError, StreamEnd},
};

/// Why a server gives no intervals.
#[derive(Debug, Error)]
pub enum ConnectedError {
    /// It cannot be reached, or must not be.
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    /// It is there, and does not answer.
    #[error("{url} did not answer in time. Check that `lagstop serve` listens at this address")]
    Slow { url: String },
    /// It was there, and is gone.
    #[error("{url}: {source}")]
    Broken { url: String, source: StreamEnd },
    /// It sent something else first.
    #[error("{url}: no header came")]
    NoHeader { url: String },
    #[error("{url} refuses (HTTP {status}): {said}.{}", remedy(*status))]
    Refused { url: String, status: u16, said: String },
    /// What it sends is no recording.
    #[error("cannot read what the server sends: {0}")]
    Read(#[from] ReadError),
    /// Another host answers, or another boot of it.
    #[error("{url} now answers for another host or another boot of it. Start lagstop again")]
    OtherHost { url: String },
}

impl ConnectedError {
    /// May a later try succeed?
    pub(super) fn is_passing(&self) -> bool {
        match self {
            Self::Connection(error) => error.is_passing(),
            Self::Slow { .. } | Self::Broken { .. } | Self::NoHeader { .. } => true,
            Self::Refused { status, .. } => matches!(status, 429 | 500..=599),
            Self::Read(_) | Self::OtherHost { .. } => false,
        }
    }
}

/// What the user can do about it.
const fn remedy(status: u16) -> &'static str {
    match status {
        300..=399 => " It redirects: use the address that it redirects to",
        401 => " Pass user and password with --password-file, or a token with --token-file",
        403 => " Request permission to read from this server",
        404 => " The address must be that of `lagstop serve`, in a version with --connect, without a path",
        421 => " Use localhost or an address in the URL",
        429 | 500..=599 => " Try again later",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_has_a_remedy_and_only_some_pass() {
        let of = |status| ConnectedError::Refused { url: "https://node".to_owned(), status, said: "no".to_owned() };
        assert!(of(401).to_string().contains("--password-file") && !of(401).is_passing());
        assert!(of(404).to_string().contains("lagstop serve") && !of(404).is_passing());
        assert!(of(503).is_passing() && ConnectedError::Slow { url: String::new() }.is_passing());
    }
}
