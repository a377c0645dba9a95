//! What a collector answers (opentelemetry.io/docs/specs/otlp, OTLP/HTTP response).

use std::time::Duration;

use prost::Message;

/// Of what a collector says, so much is shown.
const SHOWN: usize = 400;

/// `ExportMetricsServiceResponse`, `opentelemetry/proto/collector/metrics/v1/metrics_service.proto`.
#[derive(Clone, PartialEq, Eq, Message)]
struct Response {
    #[prost(message, optional, tag = "1")]
    partial_success: Option<PartialSuccess>,
}

#[derive(Clone, PartialEq, Eq, Message)]
struct PartialSuccess {
    #[prost(int64, tag = "1")]
    rejected_data_points: i64,
    #[prost(string, tag = "2")]
    error_message: String,
}

/// `google.rpc.Status`, with which a collector says why not.
#[derive(Clone, PartialEq, Eq, Message)]
struct Status {
    #[prost(string, tag = "2")]
    message: String,
}

/// What came of a push.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The collector has all of it.
    Taken,
    /// It has all but so many points, which it does not want again; or it has them, and has something to say.
    Partly { rejected: u64, why: String },
    /// It has it not, and asks perhaps to be left alone for so long.
    Failed { why: String, after: Option<Duration> },
}

impl Outcome {
    /// Of an answer with this status and body, and `Retry-After` where it has that.
    pub(super) fn of(status: u16, retry_after: Option<&str>, body: &[u8]) -> Self {
        if !(200..300).contains(&status) {
            let said = Status::decode(body).map(|status| cut(&status.message)).unwrap_or_default();
            let why = if said.is_empty() {
                format!("it answers with HTTP status {status}")
            } else {
                format!("it answers with HTTP status {status}: {said}")
            };
            // Seconds; of the other form, a date, it is not known whose clock is right.
            let after = retry_after.and_then(|seconds| seconds.trim().parse().ok()).map(Duration::from_secs);
            return Self::Failed { why, after };
        }
        // Who answers something else has taken it all the same.
        let partial = Response::decode(body).ok().and_then(|response| response.partial_success).unwrap_or_default();
        let (rejected, why) = (u64::try_from(partial.rejected_data_points).unwrap_or(0), cut(&partial.error_message));
        if rejected == 0 && why.is_empty() { Self::Taken } else { Self::Partly { rejected, why } }
    }

    /// Of two requests of the same push.
    pub(super) fn and(self, next: Self) -> Self {
        match (self, next) {
            (failed @ Self::Failed { .. }, _) | (_, failed @ Self::Failed { .. }) => failed,
            (Self::Taken, other) | (other, Self::Taken) => other,
            (Self::Partly { rejected, why }, Self::Partly { rejected: more, .. }) => {
                Self::Partly { rejected: rejected.saturating_add(more), why }
            }
        }
    }

    pub(super) const fn is_failed(&self) -> bool {
        matches!(self, Self::Failed { .. })
    }

    /// How long the collector asks to be left alone.
    pub(super) const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Failed { after, .. } => *after,
            Self::Taken | Self::Partly { .. } => None,
        }
    }

    /// What is to be said of it where `before` is what came of the push before: once, not every time.
    pub(super) fn said_after(&self, before: &Self, collector: &str) -> Option<String> {
        if std::mem::discriminant(self) == std::mem::discriminant(before) {
            return None;
        }
        Some(match self {
            Self::Taken => format!("metrics are pushed to {collector} again"),
            Self::Partly { rejected: 0, why } => format!("{collector} took a push with a warning: {why}"),
            Self::Partly { rejected, why } => {
                let why = if why.is_empty() { "it does not say why" } else { why };
                format!("{collector} rejected {rejected} data points of a push and took the rest: {why}")
            }
            Self::Failed { why, .. } => format!("metrics cannot be pushed to {collector}: {why}. lagstop keeps trying"),
        })
    }
}

/// The beginning, on one line.
fn cut(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").chars().take(SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partly(rejected_data_points: i64, error_message: &str) -> Vec<u8> {
        let partial_success = Some(PartialSuccess { rejected_data_points, error_message: error_message.to_owned() });
        Response { partial_success }.encode_to_vec()
    }

    #[test]
    fn what_is_refused_of_a_push_is_counted() {
        assert_eq!(Outcome::of(200, None, b""), Outcome::Taken);
        assert_eq!(Outcome::of(200, None, b"{}"), Outcome::Taken, "no message, but taken");
        assert_eq!(Outcome::of(200, None, &partly(0, "")), Outcome::Taken);
        let three = Outcome::of(202, None, &partly(3, "too\nold"));
        assert_eq!(three, Outcome::Partly { rejected: 3, why: "too old".to_owned() });
        let five = Outcome::of(200, None, &partly(5, &"x".repeat(10_000)));
        let both = three.clone().and(Outcome::Taken).and(five.clone());
        assert_eq!(both, Outcome::Partly { rejected: 8, why: "too old".to_owned() });
        let said = both.said_after(&Outcome::Taken, "http://otel").unwrap();
        assert_eq!(said, "http://otel rejected 8 data points of a push and took the rest: too old");
        assert_eq!(five.said_after(&three, ""), None, "once");
        assert!(five.said_after(&Outcome::Taken, "").unwrap().len() < 600);
        let negative = Outcome::of(200, None, &partly(-1, "?"));
        assert_eq!(negative, Outcome::Partly { rejected: 0, why: "?".to_owned() });
        let warned = negative.said_after(&Outcome::Taken, "http://otel").unwrap();
        assert_eq!(warned, "http://otel took a push with a warning: ?");
    }

    #[test]
    fn a_collector_says_why_not_and_when_again() {
        let body = Status { message: "slow\tdown".to_owned() }.encode_to_vec();
        let busy = Outcome::of(429, Some(" 30 "), &body);
        assert_eq!(busy.retry_after(), Some(Duration::from_secs(30)));
        let said = busy.said_after(&Outcome::Taken, "http://otel").unwrap();
        assert!(said.ends_with("http://otel: it answers with HTTP status 429: slow down. lagstop keeps trying"));
        for after in [None, Some("Fri, 31 Dec 1999 23:59:59 GMT"), Some("-1"), Some("")] {
            assert_eq!(Outcome::of(503, after, b"\xff").retry_after(), None, "{after:?}");
        }
        assert!(busy.clone().and(Outcome::Taken).is_failed() && Outcome::Taken.and(busy).is_failed());
    }
}
