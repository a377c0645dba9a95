//! Measuring when a client asks, and only then: each measurement is kept in memory as a recording, about which more can
//! be asked.
//!
//! Attaching takes privileges that the threads which talk to the client do not have. The thread that has them takes
//! nothing but a time from them.

use std::{
    collections::VecDeque,
    fs::File,
    io,
    os::fd::AsRawFd,
    sync::{Arc, PoisonError, mpsc as blocking},
    thread,
    time::{Duration, Instant},
};

use rustix::fs::{MemfdFlags, memfd_create};
use tokio::sync::{Mutex, oneshot};

use super::{
    library::Listed,
    trouble::{Source, Trouble},
};
use crate::{
    model::Lost,
    recording::{Footer, Line, SCHEMA, WriteError, Writer, now},
    source::Stream,
};

/// Measurements that are kept. The oldest goes first.
pub(super) const KEPT: usize = 6;
/// Most bytes of one measurement.
const MOST_BYTES: u64 = 128 << 20;
/// One that began so shortly before somebody asks is new enough.
const NEW: Duration = Duration::from_secs(1);

/// How long to measure, or to look back.
#[derive(Clone, Copy, Debug)]
pub struct MeasuringTime {
    /// In seconds, unless the client asks otherwise.
    pub default: u64,
    pub most: u64,
    /// Is it before the call, or from then on?
    pub looks_back: bool,
}

/// Measures when it is asked to.
#[derive(Debug)]
pub struct Measurer {
    orders: blocking::Sender<Order>,
    pub(super) window: MeasuringTime,
    /// One measures at a time.
    turn: Mutex<()>,
    kept: std::sync::Mutex<Kept>,
}

struct Order {
    duration: Duration,
    reply: oneshot::Sender<Result<Stream, Source>>,
}

#[derive(Debug, Default)]
struct Kept {
    /// How many there have been.
    count: u64,
    measured: VecDeque<Measured>,
}

#[derive(Clone, Debug)]
struct Measured {
    listed: Listed,
    began: Instant,
    seconds: u64,
}

impl Measurer {
    /// `start` begins to measure for a time, on a thread that has what this one has now: give that up afterwards.
    ///
    /// # Errors
    /// When there can be no thread.
    pub fn new(
        window: MeasuringTime,
        start: impl Fn(Duration) -> Result<Stream, Source> + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let (orders, taken) = blocking::channel::<Order>();
        let start = Arc::new(start);
        thread::Builder::new().name("measurer".to_owned()).spawn(move || {
            for Order { duration, reply } in taken {
                let start = Arc::clone(&start);
                // Whoever starts gives up what only starting takes, and the next one needs it again.
                let started = thread::Builder::new().name("start".to_owned()).spawn(move || {
                    // If nobody waits any more, the measurement ends.
                    let _ = reply.send(start(duration));
                });
                // If there is no thread, there is no reply, and the caller notices.
                drop(started);
            }
        })?;
        Ok(Self { orders, window, turn: Mutex::default(), kept: std::sync::Mutex::default() })
    }

    /// What is kept, the oldest first.
    pub(super) fn list(&self) -> Vec<Listed> {
        self.kept().measured.iter().map(|measured| measured.listed.clone()).collect()
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Measures for so long, and keeps it. Those who ask at the same time get the same.
    pub(super) async fn measure(&self, seconds: Option<u64>) -> Result<Listed, Trouble> {
        let MeasuringTime { default, most, .. } = self.window;
        let seconds = seconds.unwrap_or(default);
        if !(1..=most).contains(&seconds) {
            return Err(Trouble::Range { name: "seconds", least: 1, most });
        }
        let asked = Instant::now();
        let _turn = self.turn.lock().await;
        let is_new = |last: &&Measured| last.seconds >= seconds && last.began + NEW >= asked;
        if let Some(last) = self.kept().measured.back().filter(is_new) {
            return Ok(last.listed.clone());
        }
        let (reply, started) = oneshot::channel();
        let order = Order { duration: Duration::from_secs(seconds), reply };
        self.orders.send(order).map_err(|_| Trouble::Died)?;
        let stream = started.await.map_err(|_| Trouble::Died)?.map_err(Trouble::Measure)?;
        let began = Instant::now();
        let file = keep(stream).await?;
        let mut kept = self.kept();
        kept.count += 1;
        let path = format!("/proc/self/fd/{}", file.as_raw_fd()).into();
        let listed = Listed { name: format!("measurement-{}", kept.count), path, _open: Some(Arc::new(file)) };
        kept.measured.push_back(Measured { listed: listed.clone(), began, seconds });
        if kept.measured.len() > KEPT {
            kept.measured.pop_front();
        }
        Ok(listed)
    }
}

/// Writes what comes into a file that is in memory only.
async fn keep(mut stream: Stream) -> Result<File, Trouble> {
    let write_error = |error: io::Error| Trouble::Keep(WriteError::from(error));
    let file = File::from(memfd_create("lagstop", MemfdFlags::CLOEXEC).map_err(|error| write_error(error.into()))?);
    let mut writer = Writer::to_file(file.try_clone().map_err(write_error)?).compressed();
    writer.write(&Line::Header { schema: SCHEMA, session: stream.session.clone() })?;
    let mut footer = Footer { reason: "duration".to_owned(), ..Footer::default() };
    while let Some(interval) = stream.intervals.recv().await {
        let interval = interval.map_err(|error| Trouble::Measure(error.into()))?;
        let lost: Lost = interval.host.lost;
        footer.lost.add(&lost);
        footer.intervals += 1;
        writer.write(&Line::Interval(Box::new(interval)))?;
        if writer.written() > MOST_BYTES {
            "too many bytes to keep".clone_into(&mut footer.reason);
            break;
        }
    }
    if footer.intervals == 0 {
        return Err(Trouble::NoInterval);
    }
    footer.ended_at = now();
    writer.write(&Line::Footer(footer))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;
    use crate::{
        model::{Interval, fixture},
        recording::Reader,
        source::{SourceError, Stop},
    };

    fn stream(intervals: Vec<Result<Interval, SourceError>>) -> Stream {
        let (sender, receiver) = mpsc::channel(intervals.len().max(1));
        intervals.into_iter().for_each(|interval| sender.try_send(interval).unwrap());
        let (stop, _) = Stop::new();
        Stream { session: fixture::session(), intervals: receiver, stop, looks: None, watched: None, link: None }
    }

    fn measurer(start: impl Fn(Duration) -> Result<Stream, Source> + Send + Sync + 'static) -> Measurer {
        Measurer::new(MeasuringTime { default: 10, most: 45, looks_back: false }, start).unwrap()
    }

    #[tokio::test]
    async fn a_measurement_is_a_recording_and_the_oldest_are_forgotten() {
        let measurer = measurer(|_| Ok(stream(fixture::idle(5).into_iter().map(Ok).collect())));
        let first = measurer.measure(None).await.unwrap();
        let reader = Reader::open(&first.path).unwrap();
        assert_eq!((first.name.as_str(), reader.len(), reader.footer().is_some()), ("measurement-1", 5, true));
        for seconds in 11..18 {
            // Longer each time: the last one is too short.
            measurer.measure(Some(seconds)).await.unwrap();
        }
        let names: Vec<String> = measurer.list().into_iter().map(|it| it.name).collect();
        assert_eq!((names.len(), names[0].as_str(), names[5].as_str()), (KEPT, "measurement-3", "measurement-8"));
    }

    #[tokio::test]
    async fn who_asks_at_the_same_time_gets_the_same() {
        let measurer = measurer(|_| Ok(stream(fixture::idle(5).into_iter().map(Ok).collect())));
        let (one, other) = tokio::join!(measurer.measure(Some(10)), measurer.measure(Some(9)));
        assert_eq!((one.unwrap().name, other.unwrap().name), ("measurement-1".into(), "measurement-1".into()));
    }

    #[tokio::test]
    async fn why_there_is_no_measurement_is_said() {
        let said = async |measurer: Measurer, seconds| measurer.measure(seconds).await.unwrap_err().to_string();
        assert_eq!(said(measurer(|_| Err("no root".into())), None).await, "cannot measure: no root");
        assert_eq!(said(measurer(|_| Err("never".into())), Some(u64::MAX)).await, "`seconds` must be from 1 to 45");
        assert!(said(measurer(|_| Ok(stream(vec![]))), None).await.contains("no interval"));
        let broken = || stream(vec![Ok(fixture::idle(1)[0].clone()), Err(SourceError::Died)]);
        assert!(said(measurer(move |_| Ok(broken())), None).await.contains("bug in lagstop"));
        let dies = measurer(|_| panic!("a fault of lagstop's own, as the test wants it"));
        assert!(said(dies, None).await.contains("bug in lagstop"));
    }
}
