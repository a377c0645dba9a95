//! The most recent part of a recording, in memory until it is wanted.

use std::{
    collections::VecDeque,
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};

use super::rotation::{Files, Made};
use crate::{
    cli::{Failure, output::cannot},
    model::{Interval, Lost, Nanos, Session},
    recording::{Chunks, Footer, Gap, Line, SCHEMA, WriteError, now},
};

/// Keeps the last `time` of a recording, compressed.
pub(super) struct Ring {
    files: Files,
    time: Nanos,
    chunks: Chunks,
    header: Vec<u8>,
    /// Complete pieces, the oldest first.
    pieces: VecDeque<Piece>,
    /// The piece that is still being filled.
    open: Piece,
    /// Until this time, on the clock of the intervals, thresholds cause no write.
    rests_until: Nanos,
}

/// How long after a failed write a threshold tries again.
const RETRY: Nanos = Nanos(10 * Nanos::SECOND.0);

/// What makes a ring be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DumpCause {
    Signal,
    Threshold,
}

impl fmt::Display for DumpCause {
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
            time: Nanos::from(time),
            chunks: Chunks::new(),
            header: Vec::new(),
            pieces: VecDeque::new(),
            open: Piece::default(),
            rests_until: Nanos::ZERO,
        })
    }

    pub(super) fn begin(&mut self, session: &Session) -> Result<(), Failure> {
        self.files.check()?;
        self.header = self.chunks.compress(&Line::Header { schema: SCHEMA, session: session.clone() })?;
        Ok(())
    }

    pub(super) fn interval(&mut self, interval: Interval, gap: Option<Gap>) -> Result<(), WriteError> {
        self.open.end = interval.start_ns.saturating_add(interval.duration_ns);
        self.open.intervals += 1;
        self.open.lost.add(&interval.host.lost);
        self.push(&Line::Interval(Box::new(interval)))?;
        if let Some(gap) = gap {
            self.gap(gap)?;
        }
        if self.chunks.is_between() {
            self.close();
        }
        // A piece is dropped when the newer pieces are long enough without it.
        while self.pieces.front().is_some_and(|oldest| self.open.end.saturating_sub(oldest.end) >= self.time) {
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

    /// Writes the content into a new file. `None` if a threshold asks for it soon after the last file, which would have
    /// mostly the same content. What could not be written can be asked for again.
    pub(super) fn dump(&mut self, why: DumpCause) -> Result<Option<PathBuf>, Failure> {
        let now = self.open.end;
        if why == DumpCause::Threshold && now < self.rests_until {
            return Ok(None);
        }
        let written = self.write(why);
        self.rests_until = now.saturating_add(if written.is_ok() { self.time } else { self.time.min(RETRY) });
        written.map(Some)
    }

    fn write(&mut self, why: DumpCause) -> Result<PathBuf, Failure> {
        // Ends the open chunk, so that the file is complete.
        let rest = self.chunks.end_chunk()?;
        self.open.bytes.extend_from_slice(&rest);
        self.close();

        let mut lost = Lost::default();
        self.pieces.iter().for_each(|piece| lost.add(&piece.lost));
        let intervals = self.pieces.iter().map(|piece| piece.intervals).sum();
        let footer = Footer { ended_at: now(), intervals, reason: why.to_string(), lost };
        let footer = self.chunks.compress(&Line::Footer(footer))?;
        let Made { path, file, .. } = self.files.make(Duration::ZERO)?;
        let pieces = self.pieces.iter().map(|piece| &piece.bytes[..]);
        file.fill(std::iter::once(&self.header[..]).chain(pieces).chain([&footer[..]]))
            .map_err(|error| cannot(&path, "written", &error))?;
        self.files.prune()?;
        Ok(path)
    }

    /// Begins a new piece.
    fn close(&mut self) {
        let end = self.open.end;
        self.pieces.push_back(std::mem::take(&mut self.open));
        self.open.end = end;
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
        (0..500).for_each(|seq| ring.interval(interval(seq), None).unwrap());
        let path = ring.dump(DumpCause::Threshold).unwrap().unwrap();
        let mut reader = Reader::open(&path).unwrap();
        let first = reader.interval(0).unwrap().seq;
        assert!((340..=400).contains(&first), "the last hundred, and the chunk that they begin in: {first}");
        assert_eq!(reader.interval(reader.len() - 1).unwrap(), interval(499));
        assert_eq!(reader.footer().unwrap().intervals, reader.len() as u64);
        // It goes on.
        (500..520).for_each(|seq| ring.interval(interval(seq), None).unwrap());
        assert_eq!(ring.dump(DumpCause::Threshold).unwrap(), None, "mostly the same");
        let path = ring.dump(DumpCause::Signal).unwrap().unwrap();
        let mut reader = Reader::open(&path).unwrap();
        assert_eq!(reader.interval(reader.len() - 1).unwrap(), interval(519));
    }

    #[test]
    fn gaps_are_where_they_were_found() {
        let home = tempfile::tempdir().unwrap();
        let mut ring = Ring::new(&home.path().join("ring.jsonl.zst"), Duration::from_secs(100), None).unwrap();
        ring.begin(&Session::default()).unwrap();
        // After each, so also after the last of a chunk.
        for seq in 0..70 {
            let gap = Gap { start_ns: Nanos((seq + 1) * Nanos::SECOND.0), ..Gap::default() };
            ring.interval(interval(seq), Some(gap)).unwrap();
        }
        let reader = Reader::open(&ring.dump(DumpCause::Signal).unwrap().unwrap()).unwrap();
        assert_eq!((reader.len(), reader.gaps().len()), (70, 70));
    }

    #[test]
    fn what_could_not_be_written_is_kept() {
        let home = tempfile::tempdir().unwrap();
        let mut ring = Ring::new(&home.path().join("out/ring.jsonl.zst"), Duration::from_secs(100), None);
        assert!(ring.is_err(), "there is no such directory");
        std::fs::create_dir(home.path().join("out")).unwrap();
        ring = Ring::new(&home.path().join("out/ring.jsonl.zst"), Duration::from_secs(100), None);
        let mut ring = ring.unwrap();
        ring.begin(&Session::default()).unwrap();
        (0..5).for_each(|seq| ring.interval(interval(seq), None).unwrap());
        std::fs::remove_dir(home.path().join("out")).unwrap();
        assert!(ring.dump(DumpCause::Threshold).unwrap_err().to_string().contains("Create its directory first"));
        std::fs::create_dir(home.path().join("out")).unwrap();
        assert_eq!(ring.dump(DumpCause::Threshold).unwrap(), None, "it was tried a moment ago");
        (5..20).for_each(|seq| ring.interval(interval(seq), None).unwrap());
        let path = ring.dump(DumpCause::Threshold).unwrap().unwrap();
        assert_eq!(Reader::open(&path).unwrap().len(), 20);
    }
}
