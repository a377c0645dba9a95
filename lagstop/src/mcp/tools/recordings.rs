//! Which recordings there are.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Tool;
use crate::{
    mcp::{
        answer::{Answer, List, bounded, limit},
        library::Listed,
        names::{NOTICE, Names},
        shelf::{Shelf, Source, aside},
        trouble::Trouble,
    },
    model::Nanos,
    recording::Reader,
    units::plural,
};

pub(super) struct Recordings;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Request {
    /// Recordings in the answer, from 1 to 50 (default 10), the last by name first; measurements: the newest first.
    limit: Option<u64>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Reply {
    /// How names of the measured host are marked, and why.
    notice: &'static str,
    source: Source,
    recordings: List<Recording>,
}

/// A recording.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct Recording {
    /// Pass this as `recording`.
    recording: String,
    /// Why it cannot be read. `None` if it can.
    problem: Option<String>,
    /// What is in it. `None` if it cannot be read.
    contents: Option<Contents>,
}

/// What is in a recording.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct Contents {
    host: Host,
    /// Start of the first interval, RFC 3339.
    started_at: String,
    intervals: usize,
    /// Intended length of an interval, in nanoseconds.
    interval_ns: Nanos,
    /// Whether the recording was ended. If not, it was cut off, or is still being written.
    is_complete: bool,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
struct Host {
    name: String,
    kernel: String,
}

impl Tool for Recordings {
    const NAME: &'static str = "recordings";
    const TITLE: &'static str = "List recordings";
    const ABOUT: &'static str = "\
        The recordings that the other tools can be asked about, by name, with host, start and length. On a live host: \
        the measurements of this session.";
    type Request = Request;
    type Reply = Reply;

    async fn answer(shelf: &Shelf, request: Request) -> Result<Answer, Trouble> {
        let most = limit(request.limit)?;
        let (source, mut all) = (shelf.source(), shelf.list());
        all.reverse();
        aside(move || {
            let count = all.len();
            // What is not shown is not opened.
            let shown: Vec<Recording> = all.iter().take(most).map(open).collect();
            let kind = if source == Source::Recordings { "recording" } else { "measurement" };
            let named: Vec<&str> = shown.iter().map(|one| one.recording.as_str()).collect();
            let text = match count - shown.len() {
                _ if count == 0 => format!("There is no {kind} yet."),
                0 => format!("{}: {}.", plural(count as u64, kind), named.join(", ")),
                more => format!("{}: {}, and {more} more.", plural(count as u64, kind), named.join(", ")),
            };
            bounded(most, &Names::default(), &text, |most| Reply {
                notice: NOTICE,
                source,
                recordings: List::some_of(shown.iter().take(most).cloned(), count),
            })
        })
        .await?
    }
}

fn open(listed: &Listed) -> Recording {
    let recording = listed.name.clone();
    match Reader::open(&listed.path) {
        Ok(reader) => Recording { recording, problem: None, contents: Some(Contents::of(&reader)) },
        Err(error) => Recording { recording, problem: Some(error.to_string()), contents: None },
    }
}

impl Contents {
    fn of(reader: &Reader) -> Self {
        let session = reader.session();
        Self {
            host: Host { name: session.hostname.clone(), kernel: session.kernel.clone() },
            started_at: session.started_at.clone(),
            intervals: reader.len(),
            interval_ns: session.interval_ns,
            is_complete: reader.footer().is_some() && !reader.is_cut(),
        }
    }
}
