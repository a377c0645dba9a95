//! Client of a Prometheus server, or of a server with the same HTTP API: Thanos, Mimir, VictoriaMetrics.
//!
//! Size and time of answers are limited.

mod error;

use std::{
    io::Read,
    thread,
    time::{Duration, Instant},
};

use serde::de::DeserializeOwned;
use ureq::{Agent, http};

pub use error::{ClientError, Refused};

use super::answer::{Answer, Matrix};
use crate::client::{Connection, Server};

/// The longest answer that is read.
const MOST_BYTES: u64 = 64 << 20;
/// The most bytes of an error response that are read.
const MOST_ERROR_BYTES: u64 = 64 << 10;
/// Attempts for a query if the server is busy.
const ATTEMPTS: u32 = 4;
/// How long to wait before asking again, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// The most warnings of the server that are kept.
const MOST_WARNINGS: usize = 20;

/// A server, and what it said so far.
pub struct Client {
    agent: Agent,
    server: Server,
    timeout: Duration,
    warnings: Vec<String>,
    requests: u64,
    bytes: u64,
}

impl Client {
    /// Connects to nothing yet. An answer takes `timeout` at most.
    ///
    /// # Errors
    /// When the address, a header or a certificate is invalid.
    pub fn new(connection: &Connection, timeout: Duration) -> Result<Self, ClientError> {
        let server = Server::new(connection)?;
        let agent = server.agent().timeout_global(Some(timeout)).build().new_agent();
        Ok(Self { agent, server, timeout, warnings: Vec::new(), requests: 0, bytes: 0 })
    }

    pub fn url(&self) -> &str {
        self.server.url()
    }

    /// What the server said beside its answers, each once.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// How often it was asked, and how many bytes it answered.
    pub const fn traffic(&self) -> (u64, u64) {
        (self.requests, self.bytes)
    }

    /// The names of the series that match, between two moments in seconds since 1970.
    ///
    /// # Errors
    /// When the server does not answer, or refuses to.
    pub(super) fn names(&mut self, selector: &str, start: u64, end: u64) -> Result<Vec<String>, ClientError> {
        let (start, end) = (start.to_string(), end.to_string());
        let parameters = [("match[]", selector), ("start", &start), ("end", &end)];
        let answer = self.ask("label/__name__/values", &parameters, selector, false)?;
        Ok(answer.unwrap_or_default())
    }

    /// A query for the moments from `start` to `end`, `step` apart, in seconds.
    ///
    /// # Errors
    /// As [`Self::names`]. [`ClientError::is_too_much`] says whether less could be had.
    pub(super) fn range(&mut self, query: &str, start: u64, end: u64, step: u64) -> Result<Matrix, ClientError> {
        // The rest is for the network, so that the error message of the server still arrives.
        let timeout = format!("{}ms", (self.timeout / 10 * 9).as_millis().max(1));
        let [start, end, step] = [start, end, step].map(|number| number.to_string());
        let parameters = [("query", query), ("start", &start), ("end", &end), ("step", &step), ("timeout", &timeout)];
        let answer = self.ask("query_range", &parameters, query, true)?;
        Ok(answer.unwrap_or(Matrix { result: Vec::new() }))
    }

    /// Asks until there is an answer, or a reason to stop. Queries change nothing, so they can be repeated.
    fn ask<T: DeserializeOwned>(
        &mut self,
        what: &str,
        parameters: &[(&str, &str)],
        query: &str,
        by_form: bool,
    ) -> Result<Option<T>, ClientError> {
        let mut pause = FIRST_PAUSE;
        let begun = Instant::now();
        for attempt in 1.. {
            let error = match self.ask_once(what, parameters, query, by_form) {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let wait = error.retry_after().unwrap_or(pause).min(LONGEST_PAUSE);
            let is_patient = begun.elapsed().saturating_add(wait) < self.timeout.saturating_mul(2);
            if attempt >= ATTEMPTS || !error.is_passing() || !is_patient {
                return Err(error);
            }
            thread::sleep(wait);
            pause = pause.saturating_mul(2);
        }
        Ok(None)
    }

    fn ask_once<T: DeserializeOwned>(
        &mut self,
        what: &str,
        parameters: &[(&str, &str)],
        query: &str,
        by_form: bool,
    ) -> Result<Option<T>, ClientError> {
        let path = format!("/api/v1/{what}");
        self.requests += 1;
        let base = self.server.url();
        let unreachable = |error: ureq::Error| ClientError::of(error, base, self.timeout);
        // Queries may be longer than the addresses that some proxies accept.
        let answer = if by_form {
            let request = self.server.with_headers(self.agent.post(format!("{base}{path}")));
            request.send_form(parameters.iter().copied())
        } else {
            self.server.get(&self.agent, &path).query_pairs(parameters.iter().copied()).call()
        };
        let mut answer = answer.map_err(unreachable)?;
        let status = answer.status();
        let header = |name: http::HeaderName| {
            answer.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
        };
        if status.is_redirection() {
            let to = header(http::header::LOCATION).unwrap_or_default();
            return Err(ClientError::Redirect { from: base.to_owned(), to });
        }
        let retry_after =
            header(http::header::RETRY_AFTER).and_then(|seconds| seconds.parse().ok()).map(Duration::from_secs);
        let most = if status.is_success() { MOST_BYTES } else { MOST_ERROR_BYTES };
        let mut body = Vec::new();
        let read = answer.body_mut().as_reader().take(most + 1).read_to_end(&mut body);
        self.bytes += body.len() as u64;
        read.map_err(|error| ClientError::of(error.into(), base, self.timeout))?;
        if status.is_success() && body.len() as u64 > most {
            return Err(ClientError::TooLong { query: query.to_owned(), most });
        }
        let refused = |said: &str, kind: &str| {
            ClientError::Refused(Box::new(Refused::new(query, status.as_u16(), kind, said, retry_after)))
        };
        let parsed: Answer<T> = match serde_json::from_slice(&body) {
            Ok(parsed) => parsed,
            Err(_) if !status.is_success() => return Err(refused(&String::from_utf8_lossy(&body), "")),
            Err(source) => return Err(ClientError::NoAnswer { url: base.to_owned(), source }),
        };
        if !status.is_success() || !parsed.error.is_empty() || !parsed.error_type.is_empty() {
            return Err(refused(&parsed.error, &parsed.error_type));
        }
        for warning in parsed.warnings {
            if self.warnings.len() < MOST_WARNINGS && !self.warnings.contains(&warning) {
                self.warnings.push(warning);
            }
        }
        Ok(parsed.data)
    }
}
