//! Compressed recordings: read chunk by chunk, and within one from its beginning.

mod lines;

use std::{
    fs::File,
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use self::lines::{FrameLines, suspicious};
use super::{
    Part, ReadError,
    error::Problem,
    frames::{Frame, Kind, SKIPPABLE_HEADER, frame_at},
    head::{self, Head},
    outline::Outline,
    room,
};
use crate::{
    model::{Interval, Nanos},
    recording::{
        chunk::{INDEX_MAGIC, Index},
        packed::{Names, PackedInterval, unpack},
    },
};

/// Frames of a file at most: a chunk has three, and lasts a minute.
const MOST_FRAMES: usize = 1 << 20;
/// The longest index that is read: it has a number for each interval of a chunk.
const LONGEST_INDEX: u64 = 1 << 20;
/// More lines than any file has: what an index says of them is added to.
const MOST_LINES: u64 = u64::MAX / 2;

/// The intervals of a compressed recording. It takes eight bytes of memory an interval, and what the interval takes that
/// was asked for last.
#[derive(Debug)]
pub(super) struct Compressed {
    path: PathBuf,
    file: Arc<File>,
    /// Its length when it was opened, and of what was read to open it, not compressed.
    len: u64,
    expanded: u64,
    longest_line: u64,
    chunks: Vec<Chunk>,
    /// When each interval began.
    starts: Vec<Nanos>,
    cursor: Option<Cursor>,
}

/// Lines that are compressed together.
#[derive(Clone, Copy, Debug)]
struct Chunk {
    frame: Frame,
    /// Its first interval.
    first: usize,
    /// Lines of the recording before it.
    lines_before: u64,
    /// Does an index tell of it, so that its lines were not read when it was opened?
    has_index: bool,
    /// Where its intervals are written as one.
    merged_at: Option<u64>,
    /// Has it been read to its end, where its checksum is?
    is_verified: bool,
}

/// Where it was read last, to go on from.
#[derive(Debug)]
struct Cursor {
    chunk: usize,
    /// The interval that comes next.
    next: usize,
    names: Names,
    lines: FrameLines,
}

impl Compressed {
    /// Finds all chunks, and takes in what all of a recording must be read for. Frames that no index tells of are read.
    pub(super) fn open(path: &Path, file: File, longest_line: u64, outline: &mut Outline) -> Result<Self, ReadError> {
        let error = |source| ReadError::new(path, None, Problem::Read(source));
        let len = file.metadata().map_err(error)?.len();
        let mut this = Self {
            path: path.to_owned(),
            file: Arc::new(file),
            len,
            expanded: 0,
            longest_line,
            chunks: Vec::new(),
            starts: Vec::new(),
            cursor: None,
        };
        let (mut at, mut lines) = (0, 0);
        let mut pending: Vec<Frame> = Vec::new();
        while let Some(frame) = frame_at(&this.file, at, len).map_err(error)? {
            at = frame.end;
            match frame.kind {
                // The first has the header.
                Kind::Data { .. } if this.chunks.is_empty() => this.scan(frame, &mut lines, outline)?,
                Kind::Data { .. } => pending.push(frame),
                Kind::Skippable(INDEX_MAGIC) => match (&pending[..], this.index(frame)) {
                    (&[data, ref merged @ ..], Some(index)) if merged.len() <= 1 => {
                        this.take_in(data, merged.first().copied(), &index, &mut lines, outline)?;
                        pending.clear();
                    }
                    _ => this.scan_all(&mut pending, &mut lines, outline)?,
                },
                Kind::Skippable(_) => {}
                // As a file system may leave it after a power cut.
                Kind::Unknown => outline.is_cut = true,
            }
            if pending.len() + this.chunks.len() > MOST_FRAMES {
                return Err(ReadError::new(path, None, Problem::TooManyFrames { limit: MOST_FRAMES }));
            }
        }
        this.scan_all(&mut pending, &mut lines, outline)?;
        Ok(this)
    }

    pub(super) const fn len(&self) -> usize {
        self.starts.len()
    }

    pub(super) fn start_of(&self, n: usize) -> Nanos {
        self.starts[n]
    }

    /// Its chunks where their intervals are written as one, and parts of others.
    pub(super) fn parts(&self) -> Vec<Part> {
        let ends = self.chunks.iter().skip(1).map(|chunk| chunk.first).chain([self.len()]);
        let parts = |(chunk, end): (&Chunk, usize)| match chunk.merged_at {
            merged_at @ Some(_) => vec![Part { intervals: chunk.first..end, merged_at }],
            None => Part::of(chunk.first..end).collect(),
        };
        self.chunks.iter().zip(ends).flat_map(parts).filter(|part| !part.intervals.is_empty()).collect()
    }

    pub(super) fn interval(&mut self, n: usize) -> Result<Interval, ReadError> {
        let chunk = self.chunks.partition_point(|chunk| chunk.first <= n).saturating_sub(1);
        // After an error, reading restarts.
        let cursor = self.cursor.take().filter(|cursor| cursor.chunk == chunk && cursor.next <= n);
        let mut cursor = match cursor {
            Some(cursor) => cursor,
            None => self.start(chunk)?,
        };
        let read = cursor.read_to(n, self.starts[n]).and_then(|found| found.ok_or_else(|| self.not_there(chunk)));
        if self.chunks[chunk].is_verified {
            let read = read.map_err(|problem| self.error_in(chunk, &cursor, problem))?;
            self.cursor = Some(cursor);
            return Ok(read);
        }
        // Verify only with the first interval that is read: the caller may want no other.
        let lines_before = self.chunks[chunk].lines_before;
        cursor.lines.finish().map_err(|problem| ReadError::new(&self.path, Some(lines_before + 1), problem))?;
        self.chunks[chunk].is_verified = true;
        read.map_err(|problem| self.error_in(chunk, &cursor, problem))
    }

    /// The merged interval of the frame at `at`.
    pub(super) fn merged(&self, at: u64) -> Result<Interval, ReadError> {
        let error = |problem| ReadError::new(&self.path, None, problem);
        let end = self.file.metadata().map_err(|source| error(Problem::Read(source)))?.len();
        let frame = frame_at(&self.file, at, end).map_err(|source| error(Problem::Read(source)))?;
        let frame = frame.ok_or_else(|| error(Problem::Changed))?;
        let mut lines = FrameLines::open(&self.file, frame, self.longest_line).map_err(error)?;
        let merged = read_merged(&mut lines, self.names_of(frame));
        lines.finish().map_err(error)?;
        merged.map_err(error)
    }

    fn start(&self, chunk: usize) -> Result<Cursor, ReadError> {
        let Chunk { frame, first, lines_before, .. } = self.chunks[chunk];
        let lines = FrameLines::open(&self.file, frame, self.longest_line)
            .map_err(|problem| ReadError::new(&self.path, Some(lines_before + 1), problem))?;
        Ok(Cursor { chunk, next: first, names: self.names_of(frame), lines })
    }

    /// No names yet, and room for those of `frame`.
    fn names_of(&self, frame: Frame) -> Names {
        Names::within(room::names(frame.end - frame.start, self.len))
    }

    /// What is wrong where an interval is not where it was found when the recording was opened.
    fn not_there(&self, chunk: usize) -> Problem {
        if self.chunks[chunk].has_index { Problem::WrongIndex } else { Problem::Changed }
    }

    fn error_in(&self, chunk: usize, cursor: &Cursor, problem: Problem) -> ReadError {
        ReadError::new(&self.path, Some(self.chunks[chunk].lines_before + cursor.lines.number()), problem)
    }

    /// What an index says. `None` where it cannot be understood: then what it tells of is read.
    fn index(&self, frame: Frame) -> Option<Index> {
        let length = frame.end - frame.start - SKIPPABLE_HEADER;
        let mut json = vec![0; usize::try_from(length.min(LONGEST_INDEX)).ok()?];
        self.file.read_exact_at(&mut json, frame.start + SKIPPABLE_HEADER).ok()?;
        serde_json::from_slice(&json).ok().filter(|index: &Index| index.lines_before <= MOST_LINES)
    }

    /// Takes in a chunk with an index.
    fn take_in(
        &mut self,
        frame: Frame,
        merged: Option<Frame>,
        index: &Index,
        lines: &mut u64,
        outline: &mut Outline,
    ) -> Result<(), ReadError> {
        let error = |problem| ReadError::new(&self.path, Some(index.lines_before), problem);
        for gap in &index.gaps {
            outline.gap(gap.clone()).map_err(error)?;
        }
        for &start in &index.start_ns {
            outline.interval(start).map_err(error)?;
        }
        self.chunks.push(Chunk {
            frame,
            first: self.starts.len(),
            lines_before: index.lines_before,
            has_index: true,
            merged_at: merged.map(|frame| frame.start),
            is_verified: false,
        });
        self.starts.extend_from_slice(&index.start_ns);
        *lines = index.lines_before;
        Ok(())
    }

    fn scan_all(&mut self, frames: &mut Vec<Frame>, lines: &mut u64, outline: &mut Outline) -> Result<(), ReadError> {
        frames.drain(..).try_for_each(|frame| self.scan(frame, lines, outline))
    }

    fn scan(&mut self, frame: Frame, lines: &mut u64, outline: &mut Outline) -> Result<(), ReadError> {
        // It is being read to its end.
        let is_verified = true;
        let chunk = Chunk {
            frame,
            first: self.starts.len(),
            lines_before: *lines,
            has_index: false,
            merged_at: None,
            is_verified,
        };
        let Self { path, file, longest_line, starts, .. } = self;
        let mut read = FrameLines::open(file, frame, *longest_line)
            .map_err(|problem| ReadError::new(path, Some(chunk.lines_before + 1), problem))?;
        loop {
            let number = chunk.lines_before + read.number() + 1;
            let taken = read.next().and_then(|line| {
                let Some(line) = line else { return Ok(false) };
                scan_line(line, starts, outline).map(|()| true)
            });
            match taken {
                Ok(true) => {}
                Ok(false) => break,
                Err(problem) => return Err(ReadError::new(path, Some(number), problem)),
            }
        }
        *lines = chunk.lines_before + read.number();
        // Many frames may do together what one may not.
        self.expanded = self.expanded.saturating_add(read.bytes());
        if self.expanded > suspicious(self.len) {
            return Err(ReadError::new(path, Some(*lines), Problem::Bomb));
        }
        if read.is_cut() {
            outline.is_cut = true;
            // Something may be left of a header.
            if let Some(rest) = read.rest().filter(|_| starts.is_empty()) {
                outline.parse(rest, false).map_err(|problem| ReadError::new(path, Some(*lines + 1), problem))?;
            }
        }
        self.chunks.push(chunk);
        Ok(())
    }
}

impl Cursor {
    /// Reads on to interval `n`, which begins at `start`. `None` where it does not, or there is none.
    fn read_to(&mut self, n: usize, start: Nanos) -> Result<Option<Interval>, Problem> {
        while let Some(line) = self.lines.next()? {
            let head = kind(line)?;
            match head {
                Head::Names => self.names.learn(super::names(line)?)?,
                Head::Interval(began) | Head::Packed(began) => {
                    let this = self.next;
                    self.next += 1;
                    if this < n {
                        continue;
                    }
                    if began != start {
                        return Ok(None);
                    }
                    if matches!(head, Head::Packed(_)) {
                        return packed(line, &self.names).map(Some);
                    }
                    return serde_json::from_slice(line).map_err(|error| Problem::wrong("interval", error));
                }
                _ => {}
            }
        }
        Ok(None)
    }
}

fn read_merged(lines: &mut FrameLines, mut names: Names) -> Result<Interval, Problem> {
    while let Some(line) = lines.next()? {
        match kind(line)? {
            Head::Names => names.learn(super::names(line)?)?,
            Head::Merged => return packed(line, &names),
            _ => {}
        }
    }
    Err(Problem::Changed)
}

fn scan_line(line: &[u8], starts: &mut Vec<Nanos>, outline: &mut Outline) -> Result<(), Problem> {
    if line.is_empty() {
        return Ok(());
    }
    let head = match head::skim(line) {
        Some(head) => Some(head),
        None => outline.parse(line, true)?,
    };
    match head {
        Some(Head::Interval(start) | Head::Packed(start)) => {
            outline.interval(start)?;
            starts.push(start);
            Ok(())
        }
        Some(head) => outline.line(head, line),
        None => Ok(()),
    }
}

fn kind(line: &[u8]) -> Result<Head, Problem> {
    if line.is_empty() {
        return Ok(Head::Other);
    }
    head::skim(line).map_or_else(|| head::parse(line).map_err(|error| Problem::wrong("line", error)), Ok)
}

fn packed(line: &[u8], names: &Names) -> Result<Interval, Problem> {
    let packed: PackedInterval = serde_json::from_slice(line).map_err(|error| Problem::wrong("interval", error))?;
    unpack(&packed, names).map_err(|error| Problem::wrong("interval", error))
}

/// A part of a file, from its beginning.
#[derive(Debug)]
struct Piece {
    file: Arc<File>,
    at: u64,
    end: u64,
}

impl io::Read for Piece {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let room = usize::try_from(self.end.saturating_sub(self.at)).unwrap_or(usize::MAX).min(buffer.len());
        let read = self.file.read_at(&mut buffer[..room], self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}
