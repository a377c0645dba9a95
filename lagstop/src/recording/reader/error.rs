//! Why a recording cannot be read, as sentences with a remedy.

use std::{
    fmt, io,
    path::{Path, PathBuf},
};

use thiserror::Error;

use super::head;
use crate::{
    display::plain,
    recording::{
        line::{OLDEST_SCHEMA, SCHEMA},
        packed::{TooManyNames, UnpackError},
    },
};

/// Why a recording cannot be read: which file, which line, what is wrong with it, and what to do.
#[derive(Debug, Error)]
#[error("{}{}: {problem}", path.display(), At(*line))]
pub struct ReadError {
    path: PathBuf,
    line: Option<u64>,
    #[source]
    problem: Problem,
}

impl ReadError {
    pub(super) fn new(path: &Path, line: Option<u64>, problem: Problem) -> Self {
        Self { path: path.to_owned(), line, problem }
    }

    /// The line that it is about, counted from 1. `None` where it is about the file.
    pub const fn line(&self) -> Option<u64> {
        self.line
    }
}

struct At(Option<u64>);

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |line| write!(f, ", line {line}"))
    }
}

#[derive(Debug, Error)]
pub(super) enum Problem {
    #[error("cannot open it: {}. Check the path and its permissions", plain(.0))]
    Open(#[source] io::Error),
    #[error("it is a directory. Name a file in it")]
    Directory,
    #[error("not a regular file: lagstop needs random access. Save the recording to a file first")]
    NoFile,
    #[error("cannot read it: {}. Copy it to another disk and try again", plain(.0))]
    Read(#[source] io::Error),
    #[error("it is compressed with gzip. Decompress it first: gunzip FILE")]
    Gzip,
    #[error("it is damaged: {}. Use the recording as it was written", plain(.0))]
    Damaged(#[source] io::Error),
    #[error("it expands to far more than its size explains; lagstop refuses it as a decompression bomb")]
    Bomb,
    #[error("it has more than {limit} cgroups in {intervals} intervals, too many for a recording of its size")]
    TooManyCgroups { limit: usize, intervals: usize },
    #[error("it has more than {limit} compressed frames, too many for a recording")]
    TooManyFrames { limit: usize },
    #[error("the file is empty. Record again")]
    Empty,
    #[error("not a recording of lagstop: {}. Name a file that `lagstop record` wrote", said(.0))]
    NoRecording(#[source] serde_json::Error),
    #[error("the header of the recording is missing. Use the whole recording, from its first line")]
    NoHeader,
    #[error("the recording ends within its header and has no data. Record again")]
    CutHeader,
    #[error("second header: the file contains several recordings. Split it into one file per recording")]
    SecondHeader,
    #[error("data after the footer, which ends a recording. Move the lines after the footer to another file")]
    AfterFooter,
    #[error(
        "written by a newer lagstop{}: its format is {schema}, and this version supports {SCHEMA}. Update lagstop",
        version.as_ref().map_or_else(String::new, |version| format!(", {}", harmless(version)))
    )]
    Newer { schema: u64, version: Option<String> },
    #[error("cannot parse the {what}: {source}. It was changed or damaged after it was recorded: {}", remedy(what))]
    Wrong { what: &'static str, source: Flaw },
    #[error("the line is longer than {} MiB, too long for a recording. Remove it", limit >> 20)]
    TooLong { limit: u64 },
    #[error(
        "the interval does not start after the previous one: lines were moved or duplicated. Sort them by `start_ns` and \
         remove duplicates"
    )]
    OutOfOrder,
    #[error("the file has changed since it was opened. Open it again")]
    Changed,
    #[error(
        "the index of the chunk does not match its contents. Decompress the file and read the result: zstd -d FILE"
    )]
    WrongIndex,
    #[error("no interval {n}: the recording has {count} intervals, counted from 0")]
    NoInterval { n: usize, count: usize },
}

impl From<TooManyNames> for Problem {
    fn from(_: TooManyNames) -> Self {
        Self::Bomb
    }
}

/// What is wrong with a line.
#[derive(Debug, Error)]
pub(super) enum Flaw {
    #[error("{}", said(.0))]
    Json(#[from] serde_json::Error),
    #[error("{}", harmless(&.0.to_string()))]
    Columns(#[from] UnpackError),
    #[error("unknown format {0}")]
    Format(u64),
}

impl Problem {
    pub(super) fn wrong(what: &'static str, flaw: impl Into<Flaw>) -> Self {
        Self::Wrong { what, source: flaw.into() }
    }

    /// What is wrong with a header of another format.
    pub(super) fn schema(schema: u64, header: &[u8]) -> Self {
        if schema < OLDEST_SCHEMA.into() {
            return Self::wrong("header", Flaw::Format(schema));
        }
        Self::Newer { schema, version: head::version(header) }
    }
}

fn remedy(what: &str) -> &'static str {
    if what == "header" { "use the original file" } else { "use the original file, or remove the line" }
}

/// What a file may be compressed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compression {
    Gzip,
    Zstd,
}

/// What a file is compressed with, by how it begins.
pub(super) fn compression(head: &[u8]) -> Option<Compression> {
    const GZIP: &[u8] = &[0x1f, 0x8b];
    const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
    [(GZIP, Compression::Gzip), (ZSTD, Compression::Zstd)]
        .into_iter()
        .find(|(magic, _)| head.starts_with(magic))
        .map(|(_, compression)| compression)
}

/// What the parser said, with its place in the line. It may quote what is in the file.
fn said(error: &serde_json::Error) -> String {
    let text = error.to_string();
    // It knows one line alone.
    let text = text.rsplit_once(" at line ").map_or(&*text, |(text, _)| text);
    match error.column() {
        0 => harmless(text),
        column => format!("{} at byte {column} of the line", harmless(text)),
    }
}

/// A quotation that nothing can hide in.
fn harmless(text: &str) -> String {
    const LONGEST: usize = 200;
    let mut shown = String::new();
    for c in text.chars() {
        match c {
            ' '..='~' => shown.push(c),
            c => shown.extend(c.escape_unicode()),
        }
        if shown.len() > LONGEST {
            return shown + "…";
        }
    }
    shown
}
