//! Reading a recording back, plain or compressed.

mod compressed;
mod error;
mod frames;
mod head;
mod outline;
mod plain;
mod room;
mod streamed;
#[cfg(test)]
mod tests;

use std::{fs::File, ops::Range, os::unix::fs::FileExt, os::unix::fs::OpenOptionsExt, path::Path, path::PathBuf};

use serde::{Deserialize, Deserializer};

use self::{compressed::Compressed, error::Problem, outline::Outline, plain::Plain};
use super::{
    line::{Footer, Gap},
    packed::Named,
};
use crate::model::{
    Interval, Merger, Nanos, Session,
    bounded::{self, CGROUPS},
};

pub use error::ReadError;
pub use streamed::{StreamEnd, StreamReader, Streamed};

/// A recording. What is in an interval is found out when it is asked for.
#[derive(Debug)]
pub struct Reader {
    path: PathBuf,
    /// Length of the file when it was opened.
    bytes: u64,
    session: Session,
    outline: Outline,
    store: Store,
    parts: Vec<Part>,
}

/// Where intervals are read from.
#[derive(Debug)]
enum Store {
    Plain(Plain),
    Compressed(Box<Compressed>),
}

/// Intervals that are read as one when only an overview is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    intervals: Range<usize>,
    /// Where they are written as one.
    merged_at: Option<u64>,
}

impl Part {
    /// As many as a chunk has, of intervals that are in none.
    const INTERVALS: usize = 60;

    /// `intervals` in parts.
    fn of(intervals: Range<usize>) -> impl Iterator<Item = Self> {
        let end = intervals.end;
        intervals.step_by(Self::INTERVALS).map(move |first| {
            let last = first.saturating_add(Self::INTERVALS).min(end);
            Self { intervals: first..last, merged_at: None }
        })
    }
}

/// The longest line that is read: more than intervals of 100,000 cgroups take.
const LONGEST_LINE: u64 = 256 << 20;

impl Reader {
    /// Opens the recording in the file `path`.
    ///
    /// # Errors
    /// When it cannot be read, or is no recording: a sentence that says where and what to do.
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        Self::open_with(path, LONGEST_LINE)
    }

    fn open_with(path: &Path, longest_line: u64) -> Result<Self, ReadError> {
        let error = |problem| ReadError::new(path, None, problem);
        // A pipe may have nobody at its other end: opened without waiting for them, it is refused below.
        let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path);
        let file = file.map_err(|source| error(Problem::Open(source)))?;
        let metadata = file.metadata().map_err(|source| error(Problem::Open(source)))?;
        if metadata.is_dir() {
            return Err(error(Problem::Directory));
        }
        if !metadata.is_file() {
            return Err(error(Problem::NoFile));
        }
        let mut magic = [0; 4];
        let read = file.read_at(&mut magic, 0).map_err(|source| error(Problem::Read(source)))?;
        let bytes = metadata.len();
        let mut outline = Outline::with_room_for_gaps(room::gaps(bytes));
        let (store, parts) = match error::compression(&magic[..read]) {
            None => {
                let plain = Plain::open(path, file, longest_line, &mut outline)?;
                let parts = Part::of(0..plain.len()).collect();
                (Store::Plain(plain), parts)
            }
            Some(error::Compression::Zstd) => {
                let compressed = Compressed::open(path, file, longest_line, &mut outline)?;
                let parts = compressed.parts();
                (Store::Compressed(Box::new(compressed)), parts)
            }
            Some(error::Compression::Gzip) => return Err(error(Problem::Gzip)),
        };
        let Some(session) = outline.session.take() else { return Err(error(Problem::Empty)) };
        Ok(Self { path: path.to_owned(), bytes, session, outline, store, parts })
    }

    /// What holds for all intervals.
    pub const fn session(&self) -> &Session {
        &self.session
    }

    pub fn len(&self) -> usize {
        match &self.store {
            Store::Plain(plain) => plain.len(),
            Store::Compressed(compressed) => compressed.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What is said at the end. `None` where the recording was cut off, or still goes on.
    pub const fn footer(&self) -> Option<&Footer> {
        self.outline.footer.as_ref()
    }

    /// Does it end in the middle of a line? That line is left out.
    pub const fn is_cut(&self) -> bool {
        self.outline.is_cut
    }

    /// Times of which nothing is known.
    pub fn gaps(&self) -> &[Gap] {
        &self.outline.gaps
    }

    pub const fn is_compressed(&self) -> bool {
        matches!(self.store, Store::Compressed(_))
    }

    /// When interval `n` began, since the first reading.
    ///
    /// # Errors
    /// Those of [`Self::interval`].
    pub fn start_of(&mut self, n: usize) -> Result<Nanos, ReadError> {
        self.check(n)?;
        match &mut self.store {
            Store::Plain(plain) => plain.start_of(n),
            Store::Compressed(compressed) => Ok(compressed.start_of(n)),
        }
    }

    /// Interval `n`, counted from 0. One after the other is fastest.
    ///
    /// # Errors
    /// When there is no such interval, or its line is not as it should be.
    pub fn interval(&mut self, n: usize) -> Result<Interval, ReadError> {
        self.check(n)?;
        match &mut self.store {
            Store::Plain(plain) => plain.interval(n),
            Store::Compressed(compressed) => compressed.interval(n),
        }
    }

    /// Are there so many cgroups in so many intervals that it takes seconds to read them one by one, and is there a
    /// shorter way, by [`Self::merged`]? Goes by the interval in the middle.
    ///
    /// # Errors
    /// Those of [`Self::interval`].
    pub fn is_long(&mut self) -> Result<bool, ReadError> {
        /// Cgroups in all intervals.
        const MANY: usize = 1_000_000;
        if !self.is_compressed() || self.is_empty() {
            return Ok(false);
        }
        let middle = self.interval(self.len() / 2)?;
        Ok(middle.cgroups.len().saturating_mul(self.len()) > MANY)
    }

    /// Parts that [`Self::merged`] gives: of a minute each, where intervals are a second.
    pub const fn parts(&self) -> usize {
        self.parts.len()
    }

    /// The intervals of a part as one, as if there had been no readings between its beginning and its end. In a compressed
    /// recording they are written so, and the intervals themselves are not read.
    ///
    /// # Errors
    /// Those of [`Self::interval`].
    pub fn merged(&mut self, part: usize) -> Result<Interval, ReadError> {
        let Some(Part { intervals, merged_at }) = self.parts.get(part).cloned() else {
            let count = self.parts.len();
            return Err(self.error(Problem::NoInterval { n: part, count }));
        };
        if let (Store::Compressed(compressed), Some(at)) = (&self.store, merged_at) {
            return compressed.merged(at);
        }
        // Each takes two kilobytes, and came out of some bytes of the file.
        let limit = CGROUPS.saturating_add(usize::try_from(self.bytes / 16).unwrap_or(usize::MAX));
        let mut merger = Merger::new(self.session.load_credit_time_ns);
        for n in intervals.clone() {
            merger.add(&self.interval(n)?);
            if merger.cgroups() > limit {
                return Err(self.error(Problem::TooManyCgroups { limit, intervals: intervals.len() }));
            }
        }
        merger.finish().ok_or_else(|| self.error(Problem::Changed))
    }

    fn check(&self, n: usize) -> Result<(), ReadError> {
        let count = self.len();
        if n < count { Ok(()) } else { Err(self.error(Problem::NoInterval { n, count })) }
    }

    fn error(&self, problem: Problem) -> ReadError {
        ReadError::new(&self.path, None, problem)
    }
}

/// What a line of names says.
fn names(line: &[u8]) -> Result<Vec<Named>, Problem> {
    #[derive(Deserialize)]
    struct Line {
        #[serde(deserialize_with = "named")]
        cgroups: Vec<Named>,
    }
    fn named<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Named>, D::Error> {
        bounded::list("names", CGROUPS, deserializer)
    }
    let Line { cgroups } = serde_json::from_slice(line).map_err(|error| Problem::wrong("line of names", error))?;
    Ok(cgroups)
}
