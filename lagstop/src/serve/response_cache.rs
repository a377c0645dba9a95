//! What was encoded, for all who ask for it.

use std::{
    io,
    sync::{Arc, Weak},
};

use flate2::{Compression, write::GzEncoder};
use hyper::body::Bytes;
use thiserror::Error;
use tokio::{
    sync::Mutex,
    task::{JoinError, spawn_blocking},
};

use super::negotiation::{Coding, Representation};
use crate::{
    metrics::{Exposition, MetricsSnapshot, encode},
    model::Nanos,
};

/// Bodies of earlier intervals that slow readers may still hold on to, of each representation. Where they hold more, everybody
/// gets the last one again until they have gone: memory does not grow with them, and nobody is turned away.
const MOST_EARLIER: usize = 2;

/// Why there is no body.
#[derive(Debug, Error)]
pub(super) enum EncodeError {
    #[error("cannot encode the metrics: {0}")]
    Write(#[from] io::Error),
    /// It panicked, or lagstop ends.
    #[error("cannot encode the metrics: {0}")]
    Died(#[from] JoinError),
}

/// The last body in each representation.
#[derive(Debug, Default)]
pub(super) struct Bodies([[Arc<Mutex<Slot>>; Coding::ALL.len()]; Exposition::ALL.len()]);

#[derive(Debug, Default)]
struct Slot {
    last: Option<Last>,
    earlier: Vec<Weak<Vec<u8>>>,
}

#[derive(Debug)]
struct Last {
    of: Version,
    body: Arc<Vec<u8>>,
}

/// Which snapshot it is: intervals, and when it was taken. A sentinel publishes others without an interval.
type Version = (u64, Nanos);

/// Lets go of the body when the last reader does.
struct Shared(Arc<Vec<u8>>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Bodies {
    /// All metrics of `snapshot`, or of an earlier one where slow readers hold too many. Encoding happens once for each,
    /// somewhere else, and goes on when whoever asked for it has gone: it cannot be made to happen more often.
    pub(super) async fn get(
        &self,
        wanted: Representation,
        snapshot: Arc<MetricsSnapshot>,
    ) -> Result<Bytes, EncodeError> {
        let slot = &self.0[wanted.format as usize][wanted.coding as usize];
        let mut slot = Arc::clone(slot).lock_owned().await;
        let version = (snapshot.intervals, snapshot.taken_in);
        if let Some(body) = slot.fitting(version) {
            return Ok(body);
        }
        let encoding = tokio::spawn(async move {
            let expected = slot.last.as_ref().map_or(64 << 10, |last| last.body.len() / 16 * 17);
            let encoded = spawn_blocking(move || wanted.of(&snapshot, expected)).await;
            let body = Arc::new(encoded??);
            slot.store(version, Arc::clone(&body));
            Ok(Bytes::from_owner(Shared(body)))
        });
        encoding.await?
    }
}

impl Representation {
    /// All metrics of `snapshot`, in about `expected` bytes.
    fn of(self, snapshot: &Arc<MetricsSnapshot>, expected: usize) -> io::Result<Vec<u8>> {
        let mut body = Vec::with_capacity(expected);
        match self.coding {
            Coding::Identity => encode(self.format, snapshot, &mut body)?,
            Coding::Gzip => {
                let mut gzip = GzEncoder::new(&mut body, Compression::fast());
                encode(self.format, snapshot, &mut gzip)?;
                gzip.finish()?;
            }
        }
        Ok(body)
    }
}

impl Slot {
    /// The last body, if it is of this snapshot, or there can be no other now.
    fn fitting(&mut self, version: Version) -> Option<Bytes> {
        self.earlier.retain(|body| body.strong_count() > 0);
        let is_full = self.earlier.len() >= MOST_EARLIER;
        let last = self.last.as_ref().filter(|last| last.of == version || is_full)?;
        Some(Bytes::from_owner(Shared(Arc::clone(&last.body))))
    }

    fn store(&mut self, of: Version, body: Arc<Vec<u8>>) {
        if let Some(before) = self.last.replace(Last { of, body }) {
            self.earlier.push(Arc::downgrade(&before.body));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(intervals: u64) -> Arc<MetricsSnapshot> {
        Arc::new(MetricsSnapshot { intervals, ..MetricsSnapshot::default() })
    }

    async fn get(bodies: &Bodies, intervals: u64) -> Bytes {
        let wanted = Representation { format: Exposition::OpenMetrics, coding: Coding::Identity };
        bodies.get(wanted, snapshot(intervals)).await.unwrap()
    }

    fn says(body: &Bytes, intervals: u64) -> bool {
        String::from_utf8_lossy(body).contains(&format!("lagstop_intervals_total {intervals}\n"))
    }

    #[tokio::test]
    async fn an_interval_is_encoded_once() {
        let bodies = Bodies::default();
        let (first, again) = (get(&bodies, 1).await, get(&bodies, 1).await);
        assert!(says(&first, 1));
        assert_eq!(first.as_ptr(), again.as_ptr());
        assert!(says(&get(&bodies, 2).await, 2));
    }

    #[tokio::test]
    async fn what_a_sentinel_publishes_without_an_interval_is_encoded_anew() {
        let bodies = Bodies::default();
        let wanted = Representation { format: Exposition::OpenMetrics, coding: Coding::Identity };
        let at = |seconds| MetricsSnapshot { taken_in: Nanos(seconds * Nanos::SECOND.0), ..MetricsSnapshot::default() };
        let first = bodies.get(wanted, at(5).into()).await.unwrap();
        let second = bodies.get(wanted, at(6).into()).await.unwrap();
        assert_ne!(first, second);
    }

    #[tokio::test]
    async fn slow_readers_hold_a_limited_number() {
        let bodies = Bodies::default();
        let mut held = Vec::new();
        for interval in 1..=10 {
            held.push(get(&bodies, interval).await);
        }
        assert!(says(&held[2], 3) && says(&held[9], 3), "the first three are all there are");
        held.remove(0);
        assert!(says(&get(&bodies, 11).await, 11), "one has gone");
    }
}
