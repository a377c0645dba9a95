//! Makes the moments of the page for as long as somebody looks at it. While nobody does, nothing is made and nothing is kept: what
//! was is in the feed, and is made into moments when the next one comes.

use std::{
    collections::VecDeque,
    io::{self, Read},
    panic::{self, AssertUnwindSafe},
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use hyper::body::{Buf, Bytes};
use thiserror::Error;
use tokio::{
    sync::{
        broadcast::{self, Receiver, error::RecvError},
        watch,
    },
    time::timeout,
};

use super::{kept::Moments, maker::Maker};
use crate::{
    diagnosis::Thresholds,
    display::plain,
    model::{Interval, Nanos},
    recording::{ReadError, StreamReader, Streamed},
    serve::feed::{Feed, Followed},
};

/// How long moments are made after somebody looked last.
const LINGER: Duration = Duration::from_secs(600);
/// The page asks for what is new at least this often.
const LOOKS_EVERY: Duration = Duration::from_secs(3);
/// Intervals that making moments may lag behind.
const MOST_BEHIND: usize = 8;
/// How long the first visitor waits for the moments of the past.
const PATIENCE: Duration = Duration::from_secs(2);

/// Makes moments while somebody looks.
#[derive(Debug)]
pub struct Watcher {
    feed: Arc<Feed>,
    thresholds: Thresholds,
    moments: Moments,
    looks: Mutex<Looks>,
    news: broadcast::Sender<News>,
}

/// What comes while somebody looks.
#[derive(Clone, Debug)]
enum News {
    Interval(Arc<Interval>),
    /// Nothing is measured at the moment, for all is calm.
    Calm,
}

/// Who looks.
#[derive(Debug)]
struct Looks {
    last: Instant,
    /// Says whether the moments of the past are all made. `None` while no moments are made.
    at_work: Option<watch::Receiver<bool>>,
    /// Why nothing can be made any more.
    failed: Option<Fault>,
}

/// Why there are no moments.
#[derive(Debug, Error)]
pub(in crate::serve) enum WatchError {
    #[error("cannot make the figures of the page: there can be no thread: {}. Raise the limit of processes", plain(.0))]
    Thread(#[from] io::Error),
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// A fault of lagstop's own.
#[derive(Clone, Debug, Error)]
pub(in crate::serve) enum Fault {
    #[error("cannot read lagstop's own intervals, because of a bug in it. Please report it: {0}")]
    Read(Arc<ReadError>),
    #[error(
        "cannot make the figures of the page any more, because of a bug in lagstop. Please report it with the message that it \
         has printed"
    )]
    Died,
}

/// Why no more moments are made.
enum Ended {
    /// Nobody looks any more.
    Left,
    /// There are no more intervals.
    Over,
}

impl Watcher {
    /// For what was, the intervals of `feed`, and what will be shown, judged by `thresholds`.
    pub fn new(feed: Arc<Feed>, thresholds: &Thresholds) -> Arc<Self> {
        let looks = Mutex::new(Looks { last: Instant::now(), at_work: None, failed: None });
        let news = broadcast::Sender::new(MOST_BEHIND);
        Arc::new(Self { feed, thresholds: thresholds.clone(), moments: Moments::default(), looks, news })
    }

    /// Shows the next interval, or a piece of it, to whoever looks. If it is whole, it must be in the feed already.
    pub fn show(&self, interval: &Arc<Interval>) {
        // Nobody may look.
        let _ = self.news.send(News::Interval(Arc::clone(interval)));
    }

    /// Says to whoever looks that nothing is measured at the moment, for all is calm.
    pub fn calm(&self) {
        let _ = self.news.send(News::Calm);
    }

    /// Does somebody look at what comes? Not while what was is not made yet.
    pub fn is_looked_at(&self) -> bool {
        let looks = self.looks();
        looks.at_work.as_ref().is_some_and(|is_made| *is_made.borrow()) && looks.last.elapsed() < LOOKS_EVERY
    }

    /// The moments, for somebody who looks. Whoever comes first waits until they are made of what was.
    pub(in crate::serve) async fn look(self: &Arc<Self>) -> Result<&Moments, WatchError> {
        let mut is_made = self.begin()?;
        // If that takes longer, what there is by then will do.
        let _ = timeout(PATIENCE, is_made.wait_for(|is_made| *is_made)).await;
        Ok(&self.moments)
    }

    fn looks(&self) -> MutexGuard<'_, Looks> {
        self.looks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts to make moments, unless they are being made already.
    fn begin(self: &Arc<Self>) -> Result<watch::Receiver<bool>, WatchError> {
        let mut looks = self.looks();
        if let Some(fault) = &looks.failed {
            return Err(fault.clone().into());
        }
        looks.last = Instant::now();
        if let Some(is_made) = &looks.at_work {
            return Ok(is_made.clone());
        }
        let (says, is_made) = watch::channel(false);
        // In this order: what comes in between is in both.
        let news = self.news.subscribe();
        let (watcher, followed) = (Arc::downgrade(self), self.feed.follow(Nanos(u64::MAX)));
        thread::Builder::new().name("page".to_owned()).spawn(move || {
            let failed = match end_of(|| work(&watcher, followed, news, &says)) {
                // Somebody may look again by now.
                Ok(Ended::Left) => return,
                Ok(Ended::Over) => None,
                Err(fault) => Some(fault),
            };
            if let Some(watcher) = watcher.upgrade() {
                watcher.stop(watcher.looks(), failed);
            }
        })?;
        looks.at_work = Some(is_made.clone());
        Ok(is_made)
    }

    /// Stops if nobody looks any more, and gives whether that is so.
    fn leave(&self) -> bool {
        let looks = self.looks();
        let is_left = looks.last.elapsed() > LINGER;
        if is_left {
            self.stop(looks, None);
        }
        is_left
    }

    /// Lets go of all moments. The next one who looks begins again, unless making them has `failed`. Nobody can begin meanwhile:
    /// `looks` is locked.
    fn stop(&self, mut looks: MutexGuard<'_, Looks>, failed: Option<Fault>) {
        (looks.at_work, looks.failed) = (None, failed);
        self.moments.clear();
    }
}

/// How `work` ends. If it panics, the thread lives on to say so.
fn end_of(work: impl FnOnce() -> Result<Ended, ReadError>) -> Result<Ended, Fault> {
    let ended = panic::catch_unwind(AssertUnwindSafe(work)).map_err(|_| Fault::Died)?;
    ended.map_err(|error| Fault::Read(error.into()))
}

/// Makes moments of what was, and of what comes, until nobody looks, or there is no more. Says when what was has been read.
fn work(
    watcher: &Weak<Watcher>,
    followed: Followed,
    mut news: Receiver<News>,
    is_made: &watch::Sender<bool>,
) -> Result<Ended, ReadError> {
    let clock = Clock { now: followed.now, at: followed.at };
    let mut reader = StreamReader::new(Before(followed.before.into()), Path::new("the intervals of this server"))?;
    let mut maker = None;
    let mut was = Nanos::ZERO;
    loop {
        let next = reader.read_next()?;
        let Some(watcher) = watcher.upgrade() else { return Ok(Ended::Over) };
        match next {
            Streamed::Session(session) => {
                maker = Some(Maker::new(*session, &watcher.thresholds, watcher.moments.next()));
            }
            Streamed::Interval(interval) => {
                if let Some(maker) = &mut maker {
                    was = end(&interval);
                    watcher.moments.add(&maker.moment(*interval, clock.ended_at_ms(was)));
                }
            }
            Streamed::Gap(_) => watcher.moments.calm(),
            Streamed::Ended(_) => break,
        }
    }
    is_made.send_replace(true);
    let Some(mut maker) = maker else { return Ok(Ended::Over) };
    loop {
        let next = match news.blocking_recv() {
            Ok(next) => next,
            // The host is slow, and some moments are missing.
            Err(RecvError::Lagged(_)) => continue,
            Err(RecvError::Closed) => return Ok(Ended::Over),
        };
        let Some(watcher) = watcher.upgrade() else { return Ok(Ended::Over) };
        match next {
            News::Interval(interval) if end(&interval) <= was => {}
            News::Interval(interval) => {
                let ended_at_ms = clock.ended_at_ms(end(&interval));
                watcher.moments.add(&maker.moment(Arc::unwrap_or_clone(interval), ended_at_ms));
            }
            News::Calm => watcher.moments.calm(),
        }
        if watcher.leave() {
            return Ok(Ended::Left);
        }
    }
}

fn end(interval: &Interval) -> Nanos {
    interval.start_ns.saturating_add(interval.duration_ns)
}

/// The clock of the intervals, to turn its times into times of day.
struct Clock {
    /// A time on it, and when that was.
    now: Nanos,
    at: SystemTime,
}

impl Clock {
    /// The time of day of the end of an interval: a new one ended just now.
    fn ended_at_ms(&self, end: Nanos) -> u64 {
        let ago = Duration::from_nanos(self.now.saturating_sub(end).0);
        let at = if end > self.now { SystemTime::now() } else { self.at.checked_sub(ago).unwrap_or(UNIX_EPOCH) };
        u64::try_from(at.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
    }
}

/// What was, as a file.
struct Before(VecDeque<Bytes>);

impl Read for Before {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.0.front().is_some_and(Bytes::is_empty) {
            self.0.pop_front();
        }
        let Some(piece) = self.0.front_mut() else { return Ok(0) };
        let count = buffer.len().min(piece.len());
        piece.copy_to_slice(&mut buffer[..count]);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{model::fixture, serve::Feeder};

    fn feeder() -> Feeder {
        Feeder::new(&fixture::session()).unwrap()
    }

    fn newest(moments: &Moments) -> Option<u64> {
        moments.newest().map(|(n, _)| n)
    }

    #[tokio::test]
    async fn moments_are_made_of_what_was_when_somebody_looks() {
        let mut feeder = feeder();
        let watcher = Watcher::new(feeder.feed(), &Thresholds::default());
        // More than a chunk.
        let intervals = fixture::overloaded(70);
        intervals.iter().for_each(|interval| feeder.add(interval).unwrap());
        assert_eq!(newest(&watcher.moments), None, "nobody looks");
        assert_eq!(newest(watcher.look().await.unwrap()), Some(69));
        assert!((0..70).all(|n| watcher.moments.at(n).is_some()));
        // What was is not shown twice.
        watcher.show(&intervals[69].clone().into());
        let start_ns = end(&intervals[69]);
        let duration_ns = Nanos(7 * Nanos::SECOND.0);
        watcher.show(&Interval { seq: 70, start_ns, duration_ns, ..intervals[69].clone() }.into());
        let began = Instant::now();
        while newest(watcher.look().await.unwrap()) == Some(69) && began.elapsed() < Duration::from_secs(20) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let (n, body) = watcher.moments.newest().unwrap();
        let moment: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!((n, moment["duration_ns"].as_u64()), (70, Some(duration_ns.0)));
    }

    #[tokio::test]
    async fn somebody_looks_for_as_long_as_somebody_asks() {
        let watcher = Watcher::new(feeder().feed(), &Thresholds::default());
        assert!(!watcher.is_looked_at());
        watcher.look().await.unwrap();
        assert!(watcher.is_looked_at());
        watcher.looks().last = Instant::now().checked_sub(LOOKS_EVERY).unwrap();
        assert!(!watcher.is_looked_at(), "moments are made for a while, but nobody is in a hurry");
    }

    #[tokio::test]
    async fn when_nobody_looks_any_more_nothing_is_kept() {
        let mut feeder = feeder();
        let watcher = Watcher::new(feeder.feed(), &Thresholds::default());
        let intervals = fixture::overloaded(3);
        feeder.add(&intervals[0]).unwrap();
        assert_eq!(newest(watcher.look().await.unwrap()), Some(0));
        watcher.looks().last = Instant::now().checked_sub(LINGER + Duration::from_secs(1)).unwrap();
        feeder.add(&intervals[1]).unwrap();
        watcher.show(&intervals[1].clone().into());
        while watcher.looks().at_work.is_some() || newest(&watcher.moments).is_some() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        // By new numbers: 0 and 1 were other moments.
        assert_eq!(newest(watcher.look().await.unwrap()), Some(3), "the next one is shown what was");
        assert!(watcher.moments.at(2).is_some() && watcher.moments.at(1).is_none());
    }

    #[tokio::test]
    async fn whoever_comes_in_a_calm_time_is_told() {
        let mut feeder = feeder();
        let watcher = Watcher::new(feeder.feed(), &Thresholds::default());
        feeder.add(&fixture::overloaded(1)[0]).unwrap();
        feeder.calm().unwrap();
        let moments = watcher.look().await.unwrap();
        assert!(moments.is_calm() && newest(moments) == Some(0));
        watcher.show(&fixture::overloaded(2)[1].clone().into());
        while watcher.look().await.unwrap().is_calm() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        watcher.calm();
        while !watcher.look().await.unwrap().is_calm() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    #[tokio::test]
    async fn a_fault_while_moments_are_made_is_told_to_whoever_looks() {
        let mut feeder = feeder();
        let watcher = Watcher::new(feeder.feed(), &Thresholds::default());
        feeder.add(&fixture::overloaded(1)[0]).unwrap();
        watcher.look().await.unwrap();
        let fault = end_of(|| panic!("a bug")).err();
        watcher.stop(watcher.looks(), fault);
        let error = watcher.look().await.unwrap_err();
        assert!(matches!(error, WatchError::Fault(Fault::Died)), "{error}");
        assert!(error.to_string().contains("Please report it"));
        assert_eq!(newest(&watcher.moments), None, "what may be wrong is shown to nobody");
    }

    #[test]
    fn a_moment_that_was_has_the_time_of_then() {
        let at = UNIX_EPOCH + Duration::from_secs(1_000);
        let clock = Clock { now: Nanos(90 * Nanos::SECOND.0), at };
        assert_eq!(clock.ended_at_ms(Nanos(90 * Nanos::SECOND.0)), 1_000_000);
        assert_eq!(clock.ended_at_ms(Nanos(30 * Nanos::SECOND.0)), 940_000);
        assert!(clock.ended_at_ms(Nanos(95 * Nanos::SECOND.0)) > 1_700_000_000_000, "now");
    }
}
