//! Intervals of another host, from the `lagstop serve` there.
//!
//! Where the connection breaks it is made again, with what the server kept in between. What it did not keep is missing: the
//! next interval begins later than the last one ended.

mod error;
mod server;

use std::{
    error::Error,
    sync::{Arc, Mutex, PoisonError, mpsc as blocking},
    thread,
    time::{Duration, Instant},
};

use tokio::sync::{mpsc, watch};

pub use error::ConnectedError;
use server::{Feed, Node};

use super::{Order, SourceError, Stop, Stream};
use crate::{
    client::Connection,
    model::{Interval, Nanos, Session},
    recording::{Epoch, Gap, StreamEnd, Streamed},
};

/// Intervals that may wait for a slow reader.
const AHEAD: usize = 4;
/// How long to wait before connecting again, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Time beyond that of the intervals after which it ends, where the server is not there.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Clone, Debug)]
pub struct ConnectOptions {
    pub connection: Connection,
    /// With which to begin.
    pub begin: Begin,
    /// How long to go on, from now on; for ever where `None`.
    pub duration: Option<Duration>,
}

/// With which interval to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// With the oldest that the server has at hand.
    Oldest,
    /// With the last whole one.
    Last,
    /// So long ago, as far as the server keeps them. Zero: with the next one that begins.
    Ago(Duration),
}

/// How the connection is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Address of the server.
    pub server: String,
    /// Why there is no connection. `None` where there is one.
    pub lost: Option<String>,
    /// Does a sentinel there only watch, so that nothing is measured at the moment?
    pub is_calm: bool,
}

/// Connects, and goes on with what comes.
///
/// # Errors
/// When the server cannot be reached, or does not give intervals.
pub fn connected(options: ConnectOptions) -> Result<Stream, SourceError> {
    let ConnectOptions { connection, begin, duration } = options;
    let node = Node::new(&connection)?;
    let back = if let Begin::Ago(back) = begin { back } else { Duration::ZERO };
    let feed = node.follow(back, None)?;
    let remote = feed.session().clone();
    let clock = Clock::of(&remote, feed.now, begin);
    let session = clock.session(&remote);
    let (sender, intervals) = mpsc::channel(AHEAD);
    let (stop, stopped) = Stop::new();
    let (link, links) = watch::channel(Link { server: node.url().to_owned(), ..Link::default() });
    let outlet = Outlet(Arc::new(Mutex::new(Some(sender))));
    let closing = outlet.clone();
    // What was before is as much as the server kept.
    let until = duration.map(|duration| feed.now.saturating_sub(clock.first_start).saturating_add(duration.into()));
    let interval = Duration::from_nanos(session.interval_ns.0);
    let patience = duration.map(|duration| duration.saturating_add(interval).saturating_add(PATIENCE));
    thread::spawn(move || closing.close_when(&stopped, patience));
    let follower = Follower {
        node,
        remote,
        clock,
        outlet,
        link,
        until,
        seq: 0,
        last_end: Nanos::ZERO,
        last_came: Instant::now(),
        pause: FIRST_PAUSE,
    };
    thread::spawn(move || follower.run(feed));
    Ok(Stream { session, intervals, stop, looks: None, watched: None, link: Some(links) })
}

/// Where intervals go, until somebody closes it. A read from a network cannot be interrupted: whoever listens does not wait for it.
#[derive(Clone)]
struct Outlet(Arc<Mutex<Option<Sender>>>);

type Sender = mpsc::Sender<Result<Interval, SourceError>>;

impl Outlet {
    fn sender(&self) -> Option<Sender> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone().filter(|sender| !sender.is_closed())
    }

    /// Passes it on. `false` where nobody listens any more.
    fn send(&self, item: Result<Interval, SourceError>) -> bool {
        self.sender().is_some_and(|sender| sender.blocking_send(item).is_ok())
    }

    fn close(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Closes it when somebody asks to, or when the time is up.
    fn close_when(&self, orders: &blocking::Receiver<Order>, patience: Option<Duration>) {
        let end = patience.map(|patience| Instant::now() + patience);
        loop {
            let order = match end {
                Some(end) => orders.recv_timeout(end.saturating_duration_since(Instant::now())).map_err(drop),
                None => orders.recv().map_err(drop),
            };
            // When its intervals end is the server's affair.
            if order != Ok(Order::Read) {
                break;
            }
        }
        self.close();
    }
}

/// Converts times of the server's clock into times of this stream's.
#[derive(Clone, Copy, Debug)]
struct Clock {
    /// What is added to the server's, in nanoseconds.
    shift: i128,
    /// When this stream's is 0, since 1970.
    zero: Option<Nanos>,
    /// What ends before that, or begins before, on the server's clock, is not wanted.
    first_end: Nanos,
    first_start: Nanos,
}

impl Clock {
    /// `now`: when the last interval ended that was there already.
    fn of(session: &Session, now: Nanos, begin: Begin) -> Self {
        let (first_end, first_start) = match begin {
            Begin::Oldest => (Nanos::ZERO, Nanos::ZERO),
            Begin::Last => (now, Nanos::ZERO),
            Begin::Ago(back) => (Nanos::ZERO, now.saturating_sub(back.into())),
        };
        let zero = Epoch::of(session).map(|epoch| epoch.unix(first_start));
        Self { shift: -i128::from(first_start.0), zero, first_end, first_start }
    }

    /// The server's session, with when this stream begins.
    fn session(&self, remote: &Session) -> Session {
        let started_at = self.zero.map_or_else(|| remote.started_at.clone(), |zero| Epoch::UNIX.text(zero));
        Session { started_at, ..remote.clone() }
    }

    /// The server was started again, and so was its clock. What it says from now on was after `last_end`, also where the wall's
    /// clock was set.
    fn restart(&mut self, session: &Session, last_end: Nanos) {
        let there = Epoch::of(session).map(|epoch| epoch.unix(Nanos::ZERO));
        let shift = self.zero.zip(there).map(|(zero, there)| i128::from(there.0) - i128::from(zero.0));
        *self = Self {
            shift: shift.unwrap_or(0).max(last_end.0.into()),
            first_end: Nanos::ZERO,
            first_start: Nanos::ZERO,
            ..*self
        };
    }

    /// When an interval began, on this stream's clock. `None` if it is not wanted, or has been passed on already.
    fn start(&self, interval: &Interval, last_end: Nanos) -> Option<Nanos> {
        let end = interval.start_ns.saturating_add(interval.duration_ns);
        let is_wanted = interval.start_ns >= self.first_start && end >= self.first_end;
        self.here(interval.start_ns).filter(|start| is_wanted && *start >= last_end)
    }

    /// Converts a time of the server's clock into one of this stream's. `None` if it is before the beginning.
    fn here(&self, there: Nanos) -> Option<Nanos> {
        u64::try_from(i128::from(there.0) + self.shift).ok().map(Nanos)
    }
}

/// Takes what comes, and connects again.
struct Follower {
    node: Node,
    /// The server's own.
    remote: Session,
    clock: Clock,
    outlet: Outlet,
    link: watch::Sender<Link>,
    /// When to end, on the stream's clock.
    until: Option<Nanos>,
    seq: u64,
    last_end: Nanos,
    /// When the last interval came.
    last_came: Instant,
    pause: Duration,
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.outlet.close();
    }
}

impl Follower {
    fn run(mut self, mut feed: Feed) {
        loop {
            match feed.read_next() {
                Ok(Streamed::Interval(interval)) => {
                    if !self.pass_on(*interval) {
                        return;
                    }
                }
                Ok(Streamed::Gap(gap)) => {
                    if !self.waits_through(&gap) {
                        return;
                    }
                }
                // A second one is an error.
                Ok(Streamed::Session(_)) => {}
                Ok(Streamed::Ended(end)) => match self.again(end) {
                    Some(next) => feed = next,
                    None => return,
                },
                Err(error) => {
                    self.outlet.send(Err(ConnectedError::from(error).into()));
                    return;
                }
            }
        }
    }

    /// Passes an interval on, if it is wanted. `false` where there is nothing more to do.
    fn pass_on(&mut self, interval: Interval) -> bool {
        self.has_come(false);
        let Some(start_ns) = self.clock.start(&interval, self.last_end) else { return true };
        let interval = Interval { seq: self.seq, start_ns, ..interval };
        self.seq += 1;
        self.last_end = start_ns.saturating_add(interval.duration_ns);
        // If half an interval or less is left, there is no further one.
        let is_last =
            self.until.is_some_and(|until| self.last_end.0.saturating_add(interval.duration_ns.0 / 2) >= until.0);
        self.outlet.send(Ok(interval)) && !is_last
    }

    /// Nothing was measured there meanwhile. `false` where there is nothing more to do.
    fn waits_through(&mut self, gap: &Gap) -> bool {
        self.has_come(true);
        let is_over = self.until.zip(self.clock.here(gap.end())).is_some_and(|(until, end)| end >= until);
        !is_over && self.outlet.sender().is_some()
    }

    /// The server is there.
    fn has_come(&mut self, is_calm: bool) {
        self.last_came = Instant::now();
        self.pause = FIRST_PAUSE;
        self.link.send_if_modified(|link| std::mem::replace(&mut link.is_calm, is_calm) != is_calm);
    }

    /// Connects again, however often that takes. `None` where nobody waits for it, or it is of no use.
    fn again(&mut self, end: StreamEnd) -> Option<Feed> {
        let mut why: Box<dyn Error> = end.into();
        let interval = Duration::from_nanos(self.remote.interval_ns.0);
        loop {
            self.say(Some(&*why));
            thread::sleep(self.pause);
            self.pause = self.pause.saturating_mul(2).min(LONGEST_PAUSE);
            self.outlet.sender()?;
            let back = self.last_came.elapsed().saturating_add(interval);
            let followed = self.node.follow(back, Some(interval)).and_then(|feed| self.recognise(feed));
            match followed {
                Ok(feed) => {
                    self.say(None);
                    return Some(feed);
                }
                Err(error) if error.is_passing() => why = error.into(),
                Err(error) => {
                    self.outlet.send(Err(error.into()));
                    return None;
                }
            }
        }
    }

    /// The same host as before, and the same boot? lagstop may have been started again there.
    fn recognise(&mut self, feed: Feed) -> Result<Feed, ConnectedError> {
        let (before, now) = (&self.remote, feed.session());
        let is_same =
            (&before.hostname, &before.boot_id, before.group_by) == (&now.hostname, &now.boot_id, now.group_by);
        if !is_same {
            return Err(ConnectedError::OtherHost { url: self.node.url().to_owned() });
        }
        if before.started_at != now.started_at {
            self.clock.restart(now, self.last_end);
        }
        self.remote = now.clone();
        Ok(feed)
    }

    fn say(&self, lost: Option<&dyn Error>) {
        self.link.send_modify(|link| link.lost = lost.map(ToString::to_string));
    }
}

#[cfg(test)]
mod tests;
