//! Reading a recording back: where its lines begin is found out at once, what is in them when it is asked for.

mod error;
mod head;
#[cfg(test)]
mod tests;

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read, Seek},
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

pub use error::ReadError;

use super::line::{Footer, SCHEMA};
use crate::model::{Interval, Nanos, Session};
use error::Problem;
use head::Head;

/// A recording. It takes eight bytes of memory a line, and what the interval takes that was asked for last.
#[derive(Debug)]
pub struct Reader {
    lines: Lines,
    session: Session,
    /// Where the intervals' lines begin.
    intervals: Vec<u64>,
    footer: Option<Footer>,
    is_cut: bool,
}

/// The longest line that is read: more than intervals of 100,000 cgroups take.
const LONGEST_LINE: u64 = 256 << 20;
/// How a header begins, as lagstop writes it.
const HEADER: &[u8] = br#"{"kind":"header""#;
/// Read at once.
const BUFFER: usize = 256 << 10;

impl Reader {
    /// Opens the recording in the file `path`.
    ///
    /// # Errors
    /// When it cannot be read, or is no recording: a sentence that says where and what to do.
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        Self::open_with(path, LONGEST_LINE)
    }

    fn open_with(path: &Path, longest_line: u64) -> Result<Self, ReadError> {
        let mut lines = Lines::open(path, longest_line)?;
        let mut found = Found::default();
        lines.scan(&mut found)?;
        let Some(session) = found.session else { return Err(lines.error(Problem::Empty)) };
        found.intervals.shrink_to_fit();
        Ok(Self { lines, session, intervals: found.intervals, footer: found.footer, is_cut: found.is_cut })
    }

    /// What holds for all intervals.
    pub const fn session(&self) -> &Session {
        &self.session
    }

    /// Number of intervals.
    pub fn len(&self) -> usize {
        self.intervals.len()
    }

    /// Are there none?
    pub fn is_empty(&self) -> bool {
        self.intervals.is_empty()
    }

    /// What is said at the end. `None` where the recording was cut off, or still goes on.
    pub const fn footer(&self) -> Option<&Footer> {
        self.footer.as_ref()
    }

    /// Does it end in the middle of a line? That line is left out.
    pub const fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// When interval `n` began, since the first reading: without reading the rest of it, where it is written as lagstop does.
    ///
    /// # Errors
    /// Those of [`Self::interval`].
    pub fn start_of(&mut self, n: usize) -> Result<Nanos, ReadError> {
        let at = self.place_of(n)?;
        match self.lines.head(at)? {
            Head::Interval(start) => Ok(start),
            _ => Err(self.lines.error_at(at, Problem::Changed)),
        }
    }

    /// Interval `n`, counted from 0.
    ///
    /// # Errors
    /// When there is no such interval, or its line is not as it should be.
    pub fn interval(&mut self, n: usize) -> Result<Interval, ReadError> {
        let at = self.place_of(n)?;
        let parsed = serde_json::from_slice(self.lines.read(at)?);
        parsed.map_err(|error| self.lines.error_at(at, Problem::wrong("interval", &error)))
    }

    fn place_of(&self, n: usize) -> Result<u64, ReadError> {
        let count = self.intervals.len();
        self.intervals.get(n).copied().ok_or_else(|| self.lines.error(Problem::NoInterval { n, count }))
    }
}

/// What a scan finds.
#[derive(Debug, Default)]
struct Found {
    session: Option<Session>,
    intervals: Vec<u64>,
    last_start: Option<Nanos>,
    footer: Option<Footer>,
    is_cut: bool,
}

/// The file, by its lines.
#[derive(Debug)]
struct Lines {
    path: PathBuf,
    file: BufReader<File>,
    longest: u64,
    /// The line that was read last, without its end.
    line: Vec<u8>,
}

impl Lines {
    fn open(path: &Path, longest: u64) -> Result<Self, ReadError> {
        let error = |problem| ReadError::new(path, None, problem);
        // Nobody may be at the other end of a pipe: not waiting for them, it opens, and is refused.
        let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path);
        let file = file.map_err(|source| error(Problem::Open(source)))?;
        let metadata = file.metadata().map_err(|source| error(Problem::Open(source)))?;
        if metadata.is_dir() {
            return Err(error(Problem::Directory));
        }
        if !metadata.is_file() {
            return Err(error(Problem::NoFile));
        }
        let file = BufReader::with_capacity(BUFFER, file);
        Ok(Self { path: path.to_owned(), file, longest, line: Vec::new() })
    }

    /// Finds all lines, and takes in what all of a recording must be read for.
    fn scan(&mut self, found: &mut Found) -> Result<(), ReadError> {
        let (mut at, mut number) = (0, 0);
        loop {
            number += 1;
            let Skimmed { head, len, is_whole } = self.next(number)?;
            if len == 0 {
                return Ok(());
            }
            if number == 1
                && let Some(compression) = error::compression(&head)
            {
                return Err(self.error(compression));
            }
            if !is_blank(&head, len) {
                self.take_in(found, at, number, &head, is_whole)?;
            }
            at += len;
            if !is_whole {
                return Ok(());
            }
            self.seek(at)?;
        }
    }

    /// Takes in the line at `at`, which begins with `head`.
    fn take_in(
        &mut self,
        found: &mut Found,
        at: u64,
        number: u64,
        head: &[u8],
        is_whole: bool,
    ) -> Result<(), ReadError> {
        let fail = |lines: &Self, problem| Err(ReadError::new(&lines.path, Some(number), problem));
        let head = match head::skim(head) {
            // Cut short, it may still begin well.
            Some(head) if is_whole => head,
            _ => match head::parse(self.read(at)?) {
                Ok(head) => head,
                Err(_) if !is_whole && (found.session.is_some() || head.starts_with(HEADER)) => {
                    found.is_cut = true;
                    return if found.session.is_some() { Ok(()) } else { fail(self, Problem::CutHeader) };
                }
                Err(error) if found.session.is_some() => return fail(self, Problem::wrong("line", &error)),
                Err(error) => return fail(self, Problem::no_recording(&error)),
            },
        };
        match head {
            Head::Header if found.session.is_some() => fail(self, Problem::SecondHeader),
            Head::Header => {
                let session = header(self.read(at)?);
                found.session = Some(session.map_err(|problem| ReadError::new(&self.path, Some(number), problem))?);
                Ok(())
            }
            _ if found.session.is_none() => fail(self, Problem::NoHeader),
            Head::Interval(_) if found.footer.is_some() => fail(self, Problem::AfterFooter),
            Head::Interval(start) if found.last_start.is_some_and(|last| last >= start) => {
                fail(self, Problem::OutOfOrder)
            }
            Head::Interval(start) => {
                found.last_start = Some(start);
                found.intervals.push(at);
                Ok(())
            }
            Head::Footer if found.footer.is_some() => fail(self, Problem::AfterFooter),
            Head::Footer => {
                let footer = serde_json::from_slice(self.read(at)?).map_err(|error| Problem::wrong("footer", &error));
                found.footer = Some(footer.map_err(|problem| ReadError::new(&self.path, Some(number), problem))?);
                Ok(())
            }
            Head::Other => Ok(()),
        }
    }

    /// Goes over the next line, and keeps its beginning. Leaves the file behind it.
    fn next(&mut self, number: u64) -> Result<Skimmed, ReadError> {
        let mut skimmed = Skimmed::default();
        while !skimmed.is_whole {
            let chunk = loop {
                match self.file.fill_buf() {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(ReadError::new(&self.path, Some(number), Problem::Read(error))),
                    Ok(chunk) => break chunk,
                }
            };
            if chunk.is_empty() {
                break;
            }
            let end = chunk.iter().position(|byte| *byte == b'\n');
            let used = end.map_or(chunk.len(), |end| end + 1);
            let room = head::LONGEST.saturating_sub(skimmed.head.len());
            skimmed.head.extend_from_slice(&chunk[..used.min(room)]);
            skimmed.len += used as u64;
            skimmed.is_whole = end.is_some();
            self.file.consume(used);
            if skimmed.len > self.longest {
                return Err(ReadError::new(&self.path, Some(number), Problem::TooLong { limit: self.longest }));
            }
        }
        Ok(skimmed)
    }

    /// The beginning of the line at `at`; all of it where that does not tell.
    fn head(&mut self, at: u64) -> Result<Head, ReadError> {
        self.seek(at)?;
        let mut head = Vec::with_capacity(head::LONGEST);
        let read = (&mut self.file).take(head::LONGEST as u64).read_to_end(&mut head);
        read.map_err(|error| self.error_at(at, Problem::Read(error)))?;
        match head::skim(&head) {
            Some(head) => Ok(head),
            None => {
                let parsed = head::parse(self.read(at)?);
                parsed.map_err(|error| self.error_at(at, Problem::wrong("interval", &error)))
            }
        }
    }

    /// The line at `at`.
    fn read(&mut self, at: u64) -> Result<&[u8], ReadError> {
        self.seek(at)?;
        self.line.clear();
        let read = (&mut self.file).take(self.longest + 1).read_until(b'\n', &mut self.line);
        match read {
            Err(error) => Err(self.error_at(at, Problem::Read(error))),
            Ok(0) => Err(self.error_at(at, Problem::Changed)),
            // It was shorter when the file was opened.
            Ok(len) if len as u64 > self.longest => Err(self.error_at(at, Problem::TooLong { limit: self.longest })),
            Ok(_) => Ok(self.line.trim_ascii_end()),
        }
    }

    /// Goes to `at`. What was read ahead is kept where it is of use.
    fn seek(&mut self, at: u64) -> Result<(), ReadError> {
        let now = self.file.stream_position();
        let moved = now.and_then(|now| self.file.seek_relative(at.wrapping_sub(now).cast_signed()));
        moved.map_err(|error| self.error(Problem::Read(error)))
    }

    fn error(&self, problem: Problem) -> ReadError {
        ReadError::new(&self.path, None, problem)
    }

    /// An error in the line at `at`. Its number is counted only now.
    fn error_at(&self, at: u64, problem: Problem) -> ReadError {
        ReadError::new(&self.path, self.number_of(at).ok(), problem)
    }

    /// The number of the line at `at`, counted from 1.
    fn number_of(&self, at: u64) -> io::Result<u64> {
        let (mut number, mut done) = (1, 0);
        let mut buffer = vec![0; BUFFER];
        while done < at {
            let room = usize::try_from(at - done).unwrap_or(BUFFER).min(BUFFER);
            match self.file.get_ref().read_at(&mut buffer[..room], done)? {
                0 => break,
                len => {
                    number += buffer[..len].iter().filter(|byte| **byte == b'\n').count() as u64;
                    done += len as u64;
                }
            }
        }
        Ok(number)
    }
}

/// What a header tells, where it is of a format that is known.
fn header(line: &[u8]) -> Result<Session, Problem> {
    match head::schema(line)? {
        schema if schema == u64::from(SCHEMA) => {
            serde_json::from_slice(line).map_err(|error| Problem::wrong("header", &error))
        }
        schema => Err(Problem::schema(schema, line)),
    }
}

/// A line that was gone over.
#[derive(Debug, Default)]
struct Skimmed {
    /// Its beginning.
    head: Vec<u8>,
    /// Its length, with its end. 0 where the file ended before.
    len: u64,
    /// Has it an end?
    is_whole: bool,
}

fn is_blank(head: &[u8], len: u64) -> bool {
    head.len() as u64 == len && head.trim_ascii().is_empty()
}
