//! Measures the host in the background, on threads of its own: threads that only attach and read give up privileges that the
//! caller may still need.

use std::{
    io,
    num::NonZeroU32,
    ops::Range,
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    thread,
    time::{Duration, Instant},
};

use thiserror::Error;

use crate::{
    display::plain,
    host::ExcludedCpus,
    kernel::Wishes,
    model::{GroupBy, Interval, LoadCredits, Session},
    source::{LiveOptions, SourceError, Stop, Stream, live_since},
};

/// A measurement that runs in the background.
#[derive(Debug)]
pub(crate) struct Background {
    session: Session,
    /// Start of the clock of its intervals.
    began: Instant,
    intervals: Receiver<Result<Interval, SourceError>>,
    stop: Stop,
}

/// Why nothing is measured.
#[derive(Debug, Error)]
pub enum BackgroundError {
    /// Measuring cannot start, or has failed.
    #[error(transparent)]
    Source(#[from] SourceError),
    #[error("cannot start a thread: {}", plain(.0))]
    Thread(#[source] io::Error),
    /// Attaching took too long.
    #[error(
        "measuring did not start within {0:?}, probably because lagstop gets too little CPU time. Try again when the host is less busy, or \
         run the same command with more weight: sudo systemd-run --scope --property=CPUWeight=1000 lagstop ARGUMENTS"
    )]
    Late(Duration),
    /// It still runs, but no interval comes.
    #[error("measuring has stopped")]
    Silent,
}

/// What is said once it is measured: the session, when the clock began, and what ends it.
type Begun = (Session, Instant, Stop);

impl Background {
    /// Attaching takes a second or so of CPU time. On a host where lagstop gets little of that it takes longer.
    const PATIENCE: Duration = Duration::from_mins(1);
    /// Ending takes less, unless something is wrong.
    const LAST_READING: Duration = Duration::from_secs(10);
    /// Interval length for callers that need no shorter one.
    pub(crate) const INTERVAL: Duration = Duration::from_millis(500);

    /// Starts measuring up to `cgroups` cgroups in intervals of length `interval`, and waits until it measures.
    pub(crate) fn start(cgroups: u32, interval: Duration) -> Result<Self, BackgroundError> {
        // Fixed on purpose: the user's settings do not apply here.
        let options = LiveOptions {
            interval,
            duration: None,
            group_by: GroupBy::Scheduler,
            max_cgroups: cgroups,
            load_credit_time: Duration::from_nanos(LoadCredits::TIME_CONSTANT.0),
            wishes: Wishes::default(),
            btf: None,
            clock_only: false,
            exclude_cpus: ExcludedCpus::default(),
            cost_sampling: NonZeroU32::MIN,
        };
        Self::of(move || live_since(options), Self::PATIENCE)
    }

    fn of(
        start: impl FnOnce() -> Result<(Stream, Instant), SourceError> + Send + 'static,
        patience: Duration,
    ) -> Result<Self, BackgroundError> {
        let (begins, begun) = channel();
        let (sender, intervals) = channel();
        let run = move || match start() {
            Ok((stream, began)) => pass_on(stream, began, &begins, &sender),
            // The caller may have stopped waiting.
            Err(error) => drop(begins.send(Err(error))),
        };
        thread::Builder::new().name("background".to_owned()).spawn(run).map_err(BackgroundError::Thread)?;
        match begun.recv_timeout(patience) {
            Ok(begun) => {
                let (session, began, stop) = begun?;
                Ok(Self { session, began, intervals, stop })
            }
            Err(RecvTimeoutError::Timeout) => Err(BackgroundError::Late(patience)),
            Err(RecvTimeoutError::Disconnected) => Err(SourceError::Died.into()),
        }
    }

    pub(crate) const fn session(&self) -> &Session {
        &self.session
    }

    /// The next interval, and when it was. `None` if none comes within `patience`.
    pub(crate) fn next(&self, patience: Duration) -> Result<Option<(Range<Instant>, Interval)>, BackgroundError> {
        match self.intervals.recv_timeout(patience) {
            Ok(interval) => {
                let interval = interval?;
                let [start, duration] = [interval.start_ns, interval.duration_ns].map(|ns| Duration::from_nanos(ns.0));
                Ok(Some((self.began + start..self.began + start + duration, interval)))
            }
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(SourceError::Died.into()),
        }
    }
}

/// Waits until nothing is attached any more: it must not disturb what runs or is measured next.
impl Drop for Background {
    fn drop(&mut self) {
        self.stop.stop();
        let until = Instant::now() + Self::LAST_READING;
        while self.intervals.recv_timeout(until.saturating_duration_since(Instant::now())).is_ok() {}
    }
}

/// Passes on what a stream gives without ever waiting for the receiver: that would make intervals longer.
fn pass_on(
    stream: Stream,
    began: Instant,
    begins: &Sender<Result<Begun, SourceError>>,
    sender: &Sender<Result<Interval, SourceError>>,
) {
    let Stream { session, mut intervals, stop, .. } = stream;
    // If nobody waits any more, dropping the stream ends it.
    if begins.send(Ok((session, began, stop))).is_err() {
        return;
    }
    while let Some(interval) = intervals.blocking_recv() {
        if sender.send(interval).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    };

    use tokio::sync::mpsc;

    use super::*;
    use crate::model::Nanos;

    const SHORT: Duration = Duration::from_millis(100);
    const LONG: Duration = Duration::from_secs(60);

    /// A stream of these, which goes on until it is stopped. Sets `is_over` when it has ended.
    fn stream(all: Vec<Result<Interval, SourceError>>, is_over: &Arc<AtomicBool>) -> Stream {
        let (sender, intervals) = mpsc::channel(1);
        let (stop, stopped) = Stop::new();
        let is_over = Arc::clone(is_over);
        thread::spawn(move || {
            all.into_iter().for_each(|interval| sender.blocking_send(interval).unwrap());
            let _ = stopped.recv();
            thread::sleep(SHORT);
            is_over.store(true, Ordering::SeqCst);
        });
        Stream { session: Session::default(), intervals, stop, looks: None, watched: None, link: None }
    }

    #[test]
    fn when_an_interval_was_does_not_depend_on_when_it_is_taken() {
        let (began, is_over) = (Instant::now(), Arc::default());
        let second =
            |n| Interval { start_ns: Nanos(n * Nanos::SECOND.0), duration_ns: Nanos::SECOND, ..Interval::default() };
        let given = stream((0..20).map(|n| Ok(second(n))).collect(), &is_over);
        let background = Background::of(move || Ok((given, began)), LONG).unwrap();
        for n in 0..20 {
            let (times, interval) = background.next(LONG).unwrap().unwrap();
            let starts = began + Duration::from_secs(n);
            assert_eq!((times, interval), (starts..starts + Duration::from_secs(1), second(n)));
        }
        assert!(background.next(Duration::ZERO).unwrap().is_none(), "it goes on");
        drop(background);
        assert!(is_over.load(Ordering::SeqCst), "its end is waited for");
    }

    #[test]
    fn why_nothing_is_measured_is_said() {
        let why = |start: Result<Background, BackgroundError>| start.unwrap_err().to_string();
        let refused = why(Background::of(|| Err(crate::kernel::KernelError::UserNamespace.into()), LONG));
        assert!(refused.contains("user namespace"), "{refused}");
        let for_ever = || loop {
            thread::park();
        };
        let late = why(Background::of(for_ever, SHORT));
        assert!(late.starts_with("measuring did not start within 100ms"), "{late}");
        let given = stream(vec![Ok(Interval::default()), Err(SourceError::Died)], &Arc::default());
        let background = Background::of(move || Ok((given, Instant::now())), LONG).unwrap();
        assert!(background.next(LONG).unwrap().is_some());
        assert!(matches!(background.next(LONG), Err(BackgroundError::Source(SourceError::Died))));
        let fault = Background::of(|| panic!("a fault of lagstop's own, as the test wants it"), LONG);
        assert!(matches!(fault, Err(BackgroundError::Source(SourceError::Died))));
    }
}
