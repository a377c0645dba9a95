//! The intervals as a compressed recording that never ends, made once for all who follow it.
//!
//! Whoever comes late gets the header, the chunk that is open from its beginning, for it says the names, and from there on what
//! everybody gets. Chunks that are full are kept for a while, for those who want to know what was.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Instant, SystemTime},
};

use hyper::body::Bytes;
use tokio::sync::broadcast::{self, Receiver};

use crate::{
    model::{Interval, Nanos, Session},
    recording::{Chunks, Gap, Line, SCHEMA, WriteError},
};

/// Bytes of full chunks that are kept at most.
const KEPT: usize = 8 << 20;
/// Intervals that a follower may lag behind. Whoever lags more is cut off and can come again: the open chunk is there still.
pub(super) const MOST_BEHIND: usize = 8;

#[derive(Debug)]
pub struct Feeder {
    chunks: Chunks,
    feed: Arc<Feed>,
    /// Until when followers know what was, and when that was.
    told: (Nanos, Instant),
}

/// What followers get.
#[derive(Debug)]
pub struct Feed {
    header: Bytes,
    kept: Mutex<Kept>,
    live: broadcast::Sender<Bytes>,
}

#[derive(Debug, Default)]
struct Kept {
    /// Full chunks, the oldest first.
    full: VecDeque<Chunk>,
    open: Chunk,
    /// What was said last of a calm time, as long as it lasts.
    calm: Option<Bytes>,
    /// When the end of the open chunk was.
    at: Option<SystemTime>,
}

#[derive(Debug, Default)]
struct Chunk {
    pieces: Vec<Bytes>,
    bytes: usize,
    /// When its last interval ended, or was last heard that all is calm.
    end: Nanos,
}

/// What one follower gets.
#[derive(Debug)]
pub(super) struct Followed {
    pub(super) before: Vec<Bytes>,
    pub(super) live: Receiver<Bytes>,
    /// When the last interval before ended, or all was still calm: on the clock of the intervals, and on the wall's.
    pub(super) now: Nanos,
    pub(super) at: SystemTime,
}

impl Feeder {
    /// For the intervals of `session`.
    ///
    /// # Errors
    /// When the library that compresses fails.
    pub fn new(session: &Session) -> Result<Self, WriteError> {
        let mut chunks = Chunks::to_follow();
        let header = chunks.compress(&Line::Header { schema: SCHEMA, session: session.clone() })?.into();
        let feed = Feed { header, kept: Mutex::default(), live: broadcast::Sender::new(MOST_BEHIND) };
        Ok(Self { chunks, feed: Arc::new(feed), told: (Nanos::ZERO, Instant::now()) })
    }

    pub fn feed(&self) -> Arc<Feed> {
        Arc::clone(&self.feed)
    }

    /// Passes an interval on.
    ///
    /// # Errors
    /// When the library that compresses fails.
    pub fn add(&mut self, interval: &Interval) -> Result<(), WriteError> {
        let piece: Bytes = self.chunks.compress_interval(interval)?.into();
        let end = interval.start_ns.saturating_add(interval.duration_ns);
        self.feed.add(piece, end, self.chunks.is_between());
        self.told = (end, Instant::now());
        Ok(())
    }

    /// Nothing is measured at the moment, for all is calm: followers hear that somebody is there.
    ///
    /// # Errors
    /// When the library that compresses fails.
    pub fn calm(&mut self) -> Result<(), WriteError> {
        let (start, at) = self.told;
        let rest = self.chunks.end_chunk()?;
        if !rest.is_empty() {
            self.feed.add(rest.into(), start, true);
        }
        let now = Instant::now();
        let passed = Nanos::from(now.saturating_duration_since(at));
        let gap = Gap::calm(start, passed);
        self.told = (gap.end(), now);
        let mut piece = self.chunks.compress(&Line::Gap(gap))?;
        piece.extend(self.chunks.end_chunk()?);
        self.feed.pass(piece.into(), self.told.0);
        Ok(())
    }
}

impl Feed {
    fn add(&self, piece: Bytes, end: Nanos, is_full: bool) {
        // Held while it is sent: a follower that comes now gets it once.
        let mut kept = self.kept();
        kept.open.bytes += piece.len();
        kept.open.end = end;
        kept.open.pieces.push(piece.clone());
        kept.calm = None;
        kept.at = Some(SystemTime::now());
        if is_full {
            let chunk = std::mem::take(&mut kept.open);
            // The end of what is kept says where it goes on.
            kept.open.end = chunk.end;
            kept.full.push_back(chunk.joined());
            while kept.full.iter().map(|chunk| chunk.bytes).sum::<usize>() > KEPT {
                kept.full.pop_front();
            }
        }
        // Nobody may follow.
        let _ = self.live.send(piece);
    }

    /// Sends a piece that is of no use any more as soon as an interval comes, and so is part of no chunk.
    fn pass(&self, piece: Bytes, now: Nanos) {
        let mut kept = self.kept();
        kept.open.end = now;
        kept.calm = Some(piece.clone());
        kept.at = Some(SystemTime::now());
        let _ = self.live.send(piece);
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All that is kept of the last `back`, and what comes.
    pub(super) fn follow(&self, back: Nanos) -> Followed {
        let kept = self.kept();
        let from = kept.open.end.saturating_sub(back);
        let full = kept.full.iter().filter(|chunk| chunk.end > from);
        let chunks = full.chain([&kept.open]).flat_map(|chunk| &chunk.pieces);
        let before = std::iter::once(&self.header).chain(chunks).chain(&kept.calm).cloned().collect();
        let at = kept.at.unwrap_or_else(SystemTime::now);
        Followed { before, live: self.live.subscribe(), now: kept.open.end, at }
    }
}

impl Chunk {
    /// In one piece.
    fn joined(self) -> Self {
        Self { pieces: vec![self.pieces.concat().into()], ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{model::fixture, recording::Reader};

    fn read(pieces: &[Bytes]) -> Vec<u64> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), pieces.concat()).unwrap();
        let mut reader = Reader::open(file.path()).unwrap();
        (0..reader.len()).map(|n| reader.interval(n).unwrap().seq).collect()
    }

    fn interval(seq: u64) -> Interval {
        let start_ns = Nanos(seq * Nanos::SECOND.0);
        Interval { seq, start_ns, duration_ns: Nanos::SECOND, ..fixture::idle(1)[0].clone() }
    }

    #[test]
    fn whoever_comes_late_gets_a_recording_from_the_open_chunk_on() {
        let mut feeder = Feeder::new(&fixture::session()).unwrap();
        let feed = feeder.feed();
        assert_eq!(feed.follow(Nanos::ZERO).now, Nanos::ZERO);
        (0..70).for_each(|seq| feeder.add(&interval(seq)).unwrap());
        let mut followed = feed.follow(Nanos::ZERO);
        assert_eq!(followed.now, Nanos(70 * Nanos::SECOND.0));
        assert_eq!(read(&followed.before), (60..70).collect::<Vec<_>>());
        feeder.add(&interval(70)).unwrap();
        followed.before.push(followed.live.try_recv().unwrap());
        assert_eq!(read(&followed.before), (60..71).collect::<Vec<_>>(), "each once");
        let back = feed.follow(Nanos(30 * Nanos::SECOND.0));
        assert_eq!(read(&back.before), (0..71).collect::<Vec<_>>(), "whole chunks");
    }

    #[test]
    fn followers_hear_of_a_calm_time_and_go_on_after_it() {
        let mut feeder = Feeder::new(&fixture::session()).unwrap();
        let feed = feeder.feed();
        (0..3).for_each(|seq| feeder.add(&interval(seq)).unwrap());
        let mut early = feed.follow(Nanos::ZERO);
        feeder.calm().unwrap();
        let mut late = feed.follow(Nanos::ZERO);
        assert!(late.now > Nanos(3 * Nanos::SECOND.0), "it is later than when the last interval ended");
        feeder.calm().unwrap();
        feeder.add(&interval(100)).unwrap();
        let all = |followed: &mut Followed| {
            let mut pieces = std::mem::take(&mut followed.before);
            pieces.extend(std::iter::from_fn(|| followed.live.try_recv().ok()));
            pieces
        };
        assert_eq!(read(&all(&mut early)), [0, 1, 2, 100]);
        assert_eq!(read(&all(&mut late)), [100], "what is full is for those who look back");
        let back = all(&mut feed.follow(Nanos(200 * Nanos::SECOND.0)));
        assert_eq!(read(&back), [0, 1, 2, 100]);
    }

    #[test]
    fn calm_times_follow_on_each_other() {
        let mut feeder = Feeder::new(&fixture::session()).unwrap();
        let feed = feeder.feed();
        let mut followed = feed.follow(Nanos::ZERO);
        feeder.add(&interval(1)).unwrap();
        (0..3).for_each(|_| feeder.calm().unwrap());
        let pieces: Vec<Bytes> = std::iter::from_fn(|| followed.live.try_recv().ok()).collect();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), [&followed.before[..], &pieces].concat().concat()).unwrap();
        let gaps = Reader::open(file.path()).unwrap().gaps().to_vec();
        assert_eq!((gaps.len(), gaps[0].start_ns), (3, Nanos(2 * Nanos::SECOND.0)));
        assert!(gaps.windows(2).all(|two| two[0].end() == two[1].start_ns), "{gaps:?}");
    }

    #[test]
    fn what_is_kept_has_a_limit() {
        let feeder = Feeder::new(&fixture::session()).unwrap();
        let feed = feeder.feed();
        for n in 1..=100 {
            feed.add(vec![0; 1 << 20].into(), Nanos(n), true);
        }
        let kept = feed.follow(Nanos(u64::MAX)).before;
        let bytes: usize = kept.iter().map(Bytes::len).sum();
        assert!((KEPT..KEPT + (1 << 20)).contains(&bytes), "{bytes}");
    }
}
