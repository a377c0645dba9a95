//! What every answer about a recording begins with.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    diagnosis::{Report, Span, Verdict, VerdictCause},
    mcp::{names::NOTICE, seen::Seen},
    model::HostNow,
};

/// What is asked about all of a recording.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Request {
    /// Name of a recording, from the tool `recordings` or from an earlier answer. By default the only one; on a live
    /// host, a new measurement.
    pub(super) recording: Option<String>,
    /// How many seconds to measure, 10 by default, if the `source` of `recordings` is live; or to look back, 60 by default, if
    /// it is connected.
    pub(super) seconds: Option<u64>,
    /// Items in each list of the answer, from 1 to 50 (default 10).
    pub(super) limit: Option<u64>,
}

/// What was looked at.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Head {
    /// How names of the measured host are marked, and why.
    notice: &'static str,
    /// Pass this as `recording` to ask more about the same time.
    recording: String,
    host: HostNow,
    /// Start of the first interval, RFC 3339.
    started_at: String,
    span: Span,
    /// Whether the recording was ended. If not, it was cut off, or is still being written.
    is_complete: bool,
}

impl Head {
    pub(super) fn of(seen: &Seen) -> Self {
        let session = seen.observations.session();
        Self {
            notice: NOTICE,
            recording: seen.listed.name.clone(),
            host: HostNow::of(&seen.whole.host, session, seen.whole.duration_ns),
            started_at: session.started_at.clone(),
            span: seen.observations.span(),
            is_complete: seen.is_whole,
        }
    }
}

/// The verdict with at most `most` causes.
pub(super) fn short(verdict: &Verdict, most: usize) -> Verdict {
    let mut verdict = verdict.clone();
    verdict.causes.truncate(most);
    verdict
}

/// The verdict in a few sentences, and what it is about.
pub(super) fn headline(seen: &Seen, report: &Report) -> String {
    let verdict = &report.verdict;
    let mut lines = vec![verdict.headline.clone()];
    lines.extend(verdict.next.iter().map(|advice| format!("Next: {}", advice.text)));
    lines.extend(verdict.beneath().iter().map(|VerdictCause { says, .. }| format!("Also: {says}")));
    lines.push(about(seen));
    lines.join("\n")
}

/// Which recording it is.
pub(super) fn about(seen: &Seen) -> String {
    let (session, span) = (seen.observations.session(), seen.observations.span());
    let cut = if seen.is_whole { "" } else { ", which was cut off or is still being written" };
    format!(
        "Recording {}{cut}: {} in {}, host {}, from {}.",
        seen.listed.name,
        crate::units::plural(span.intervals, "interval"),
        span.duration_ns,
        session.hostname,
        session.started_at
    )
}
