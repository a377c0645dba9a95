//! A recording of what was last, in memory until it is wanted.

use std::{collections::VecDeque, fmt, io::Write, path::Path, path::PathBuf, time::Duration};

use super::rotation::Files;
use crate::{
    cli::Failure,
    model::{Interval, Lost, Nanos, Session},
    recording::{Chunks, Footer, Gap, Line, SCHEMA, WriteError, now},
};

/// Keeps the last so long, compressed.
pub(super) struct Ring {
    files: Files,
    time: Nanos,
    chunks: Chunks,
    header: Vec<u8>,
    /// What is compressed, each piece with the intervals in it.
    pieces: VecDeque<Piece>,
    /// What the youngest piece is made of.
    open: Piece,
    /// The end of the last interval that was written.
    written_to: Option<Nanos>,
}

/// What makes a ring be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    Signal,
    Threshold,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Signal => "SIGUSR1",
            Self::Threshold => "a threshold was crossed",
        })
    }
}

/// A chunk, or the beginning of one.
#[derive(Clone, Debug, Default)]
struct Piece {
    bytes: Vec<u8>,
    intervals: u64,
    lost: Lost,
    end: Nanos,
}

impl Ring {
    pub(super) fn new(base: &Path, time: Duration, keep: Option<usize>) -> Result<Self, Failure> {
        Ok(Self {
            files: Files::new(base, keep)?,
            time: Nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)),
            chunks: Chunks::new(),
            header: Vec::new(),
            pieces: VecDeque::new(),
            open: Piece::default(),
            written_to: None,
        })
    }

    pub(super) fn begin(&mut self, session: &Session) -> Result<(), WriteError> {
        self.header = self.chunks.compress(&Line::Header { schema: SCHEMA, session: session.clone() })?;
        Ok(())
    }

    pub(super) fn interval(&mut self, interval: Interval) -> Result<(), WriteError> {
        self.open.end = interval.start_ns.plus(interval.duration_ns);
        self.open.intervals += 1;
        self.open.lost.add(&interval.host.lost);
        self.push(&Line::Interval(Box::new(interval)))?;
        if self.chunks.is_between() {
            let end = self.open.end;
            self.pieces.push_back(std::mem::take(&mut self.open));
            self.open.end = end;
        }
        // A piece goes when those behind it are long enough without it.
        while self.pieces.front().is_some_and(|oldest| self.open.end.minus(oldest.end) >= self.time) {
            self.pieces.pop_front();
        }
        Ok(())
    }

    pub(super) fn gap(&mut self, gap: Gap) -> Result<(), WriteError> {
        self.push(&Line::Gap(gap))
    }

    fn push(&mut self, line: &Line) -> Result<(), WriteError> {
        let bytes = self.chunks.compress(line)?;
        self.open.bytes.extend_from_slice(&bytes);
        Ok(())
    }

    /// Writes what there is into a new file. Nothing where that would hold mostly what the last one does.
    pub(super) fn dump(&mut self, why: Cause) -> Result<Option<PathBuf>, Failure> {
        let now_at = self.open.end;
        if self.written_to.is_some_and(|last| now_at.minus(last) < self.time) && why == Cause::Threshold {
            return Ok(None);
        }
        self.written_to = Some(now_at);
        // The open chunk is ended, so that what is written is whole.
        let rest = self.chunks.end_chunk()?;
        self.open.bytes.extend_from_slice(&rest);
        let end = self.open.end;
        self.pieces.push_back(std::mem::take(&mut self.open));
        self.open.end = end;

        let mut lost = Lost::default();
        self.pieces.iter().for_each(|piece| lost.add(&piece.lost));
        let intervals = self.pieces.iter().map(|piece| piece.intervals).sum();
        let footer = Footer { ended_at: now(), intervals, reason: why.to_string(), lost };
        let footer = self.chunks.compress(&Line::Footer(footer))?;
        let (path, mut file, _) = self.files.create_named(Duration::ZERO)?;
        let pieces = self.pieces.iter().map(|piece| &piece.bytes[..]);
        for bytes in std::iter::once(&self.header[..]).chain(pieces).chain([&footer[..]]) {
            file.write_all(bytes).map_err(WriteError::from)?;
        }
        Ok(Some(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::Reader;

    fn interval(seq: u64) -> Interval {
        Interval { seq, start_ns: Nanos(seq * Nanos::SECOND.0), duration_ns: Nanos::SECOND, ..Interval::default() }
    }

    #[test]
    fn what_was_last_is_written_when_it_is_wanted() {
        let home = tempfile::tempdir().unwrap();
        let mut ring = Ring::new(&home.path().join("ring.jsonl.zst"), Duration::from_secs(100), None).unwrap();
        ring.begin(&Session::default()).unwrap();
        (0..500).for_each(|seq| ring.interval(interval(seq)).unwrap());
        let path = ring.dump(Cause::Threshold).unwrap().unwrap();
        let mut reader = Reader::open(&path).unwrap();
        let first = reader.interval(0).unwrap().seq;
        assert!((340..=400).contains(&first), "the last hundred, and the chunk that they begin in: {first}");
        assert_eq!(reader.interval(reader.len() - 1).unwrap(), interval(499));
        assert_eq!(reader.footer().unwrap().intervals, reader.len() as u64);
        // It goes on.
        (500..520).for_each(|seq| ring.interval(interval(seq)).unwrap());
        assert_eq!(ring.dump(Cause::Threshold).unwrap(), None, "mostly the same");
        let path = ring.dump(Cause::Signal).unwrap().unwrap();
        let mut reader = Reader::open(&path).unwrap();
        assert_eq!(reader.interval(reader.len() - 1).unwrap(), interval(519));
    }
}
