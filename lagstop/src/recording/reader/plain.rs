//! Recordings as plain lines: where they begin is found out at once, what is in them when it is asked for.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read, Seek},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use super::{
    error::{Problem, ReadError},
    head::{self, Head},
    outline::Outline,
};
use crate::{
    model::{Interval, Nanos},
    recording::packed::{Names, unpack},
};

/// Bytes that are read at once.
const BUFFER: usize = 256 << 10;

/// The intervals of a plain recording. It takes eight bytes of memory a line, and what the interval takes that was asked
/// for last.
#[derive(Debug)]
pub(super) struct Plain {
    lines: Lines,
    /// Where the intervals' lines begin.
    intervals: Vec<u64>,
    /// Names of the cgroups in packed lines: there are some if a compressed recording was only decompressed.
    names: Names,
}

impl Plain {
    /// Finds all lines, and takes in what all of a recording must be read for.
    pub(super) fn open(path: &Path, file: File, longest: u64, outline: &mut Outline) -> Result<Self, ReadError> {
        let file = BufReader::with_capacity(BUFFER, file);
        let lines = Lines { path: path.to_owned(), file, longest, line: Vec::new() };
        let mut plain = Self { lines, intervals: Vec::new(), names: Names::trusted() };
        plain.scan(outline)?;
        plain.intervals.shrink_to_fit();
        Ok(plain)
    }

    pub(super) fn len(&self) -> usize {
        self.intervals.len()
    }

    /// When interval `n` began: without reading the rest of it, where it is written as lagstop does.
    pub(super) fn start_of(&mut self, n: usize) -> Result<Nanos, ReadError> {
        let at = self.intervals[n];
        match self.lines.head(at)? {
            Head::Interval(start) | Head::Packed(start) => Ok(start),
            _ => Err(self.lines.error_at(at, Problem::Changed)),
        }
    }

    pub(super) fn interval(&mut self, n: usize) -> Result<Interval, ReadError> {
        let at = self.intervals[n];
        let Self { lines, names, .. } = self;
        let line = lines.read(at)?;
        let read = if matches!(head::skim(line), Some(Head::Packed(_))) {
            serde_json::from_slice(line)
                .map_err(|error| Problem::wrong("interval", error))
                .and_then(|packed| unpack(&packed, names).map_err(|error| Problem::wrong("interval", error)))
        } else {
            serde_json::from_slice(line).map_err(|error| Problem::wrong("interval", error))
        };
        read.map_err(|problem| self.lines.error_at(at, problem))
    }

    fn scan(&mut self, outline: &mut Outline) -> Result<(), ReadError> {
        let (mut at, mut number) = (0, 0);
        loop {
            number += 1;
            let Skimmed { head, len, is_whole } = self.lines.next(number)?;
            if len == 0 {
                return Ok(());
            }
            if !is_blank(&head, len) {
                let taken = self.take_in(outline, at, &head, is_whole)?;
                taken.map_err(|problem| ReadError::new(&self.lines.path, Some(number), problem))?;
            }
            at += len;
            if !is_whole {
                return Ok(());
            }
            self.lines.seek(at)?;
        }
    }

    /// Takes in the line at `at`, which begins with `head`. The outer error is of the file, the inner of the line.
    fn take_in(
        &mut self,
        outline: &mut Outline,
        at: u64,
        head: &[u8],
        is_whole: bool,
    ) -> Result<Result<(), Problem>, ReadError> {
        let head = match head::skim(head) {
            // Cut short, it may still begin well.
            Some(head) if is_whole => head,
            _ => match outline.parse(self.lines.read(at)?, is_whole) {
                Ok(Some(head)) => head,
                Ok(None) => return Ok(Ok(())),
                Err(problem) => return Ok(Err(problem)),
            },
        };
        let taken = match head {
            Head::Interval(start) | Head::Packed(start) => {
                let taken = outline.interval(start);
                if taken.is_ok() {
                    self.intervals.push(at);
                }
                taken
            }
            // The file itself is as large as they are.
            Head::Names => super::names(self.lines.read(at)?).and_then(|names| Ok(self.names.learn(names)?)),
            Head::Header | Head::Gap | Head::Footer => outline.line(head, self.lines.read(at)?),
            Head::Merged | Head::ChunkEnd | Head::Other => outline.other(),
        };
        Ok(taken)
    }
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
                parsed.map_err(|error| self.error_at(at, Problem::wrong("interval", error)))
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

/// A line that was gone over.
#[derive(Debug, Default)]
struct Skimmed {
    head: Vec<u8>,
    /// Its length, with its end. 0 where the file ended before.
    len: u64,
    /// Has it an end?
    is_whole: bool,
}

fn is_blank(head: &[u8], len: u64) -> bool {
    head.len() as u64 == len && head.trim_ascii().is_empty()
}
