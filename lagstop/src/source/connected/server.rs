//! What is spoken with `lagstop serve`.

use std::{io::Read, path::Path, time::Duration};

use ureq::{BodyReader, http};

use super::ConnectedError;
use crate::{
    client::{Connection, ConnectionError, Server},
    model::{Nanos, Session},
    recording::{ReadError, StreamReader, Streamed},
};

/// How long a server may take to answer: it may have to try this password, and others before it.
const ANSWERING: Duration = Duration::from_secs(20);
/// How long nothing may come where the length of an interval is not known.
const SILENCE: Duration = Duration::from_secs(60);
/// Bytes of a refusal that are read.
const MOST_OF_A_REFUSAL: u64 = 400;

/// A node that serves its intervals.
pub(super) struct Node(Server);

/// What comes from it.
pub(super) struct Feed {
    reader: StreamReader<BodyReader<'static>>,
    session: Session,
    /// When the last interval ended that was there already.
    pub(super) now: Nanos,
}

impl Node {
    pub(super) fn new(connection: &Connection) -> Result<Self, ConnectedError> {
        Ok(Self(Server::new(connection)?))
    }

    pub(super) fn url(&self) -> &str {
        self.0.url()
    }

    /// Asks for what was in the last `back`, and what comes, in intervals of this length.
    pub(super) fn follow(&self, back: Duration, interval: Option<Duration>) -> Result<Feed, ConnectedError> {
        let silence = interval.map_or(SILENCE, |interval| interval.saturating_mul(3) + Duration::from_secs(10));
        let agent = self.0.agent().timeout_recv_response(Some(ANSWERING)).timeout_per_read(Some(silence)).build();
        let path = format!("/api/v1/intervals?back={}", back.as_secs_f64().ceil());
        let url = || self.url().to_owned();
        let answer = self.0.get(&agent.new_agent(), &path).call().map_err(|error| match error {
            ureq::Error::Timeout(ureq::Timeout::RecvResponse) => ConnectedError::Slow { url: url() },
            error => ConnectionError::of(error, self.url()).into(),
        })?;
        if answer.status() != http::StatusCode::OK {
            return Err(self.refused(answer));
        }
        let now = answer.headers().get("lagstop-now-ns").and_then(|now| now.to_str().ok()?.parse().ok());
        let mut reader = StreamReader::new(answer.into_body().into_reader(), Path::new(self.url()))?;
        match reader.read_next()? {
            Streamed::Session(session) => Ok(Feed { reader, session: *session, now: Nanos(now.unwrap_or(0)) }),
            Streamed::Ended(source) => Err(ConnectedError::Broken { url: url(), source }),
            Streamed::Interval(_) | Streamed::Gap(_) => Err(ConnectedError::NoHeader { url: url() }),
        }
    }

    fn refused(&self, answer: http::Response<ureq::Body>) -> ConnectedError {
        let status = answer.status().as_u16();
        let mut said = Vec::new();
        // What came is good enough.
        let _ = answer.into_body().into_reader().take(MOST_OF_A_REFUSAL).read_to_end(&mut said);
        let said = String::from_utf8_lossy(&said);
        let words: Vec<&str> = said.split_whitespace().collect();
        ConnectedError::Refused { url: self.url().to_owned(), status, said: words.join(" ") }
    }
}

impl Feed {
    pub(super) const fn session(&self) -> &Session {
        &self.session
    }

    /// Waits for what comes next.
    pub(super) fn read_next(&mut self) -> Result<Streamed, ReadError> {
        self.reader.read_next()
    }
}
