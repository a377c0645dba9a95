//! A body that goes on for as long as somebody reads it.

use std::{
    collections::VecDeque,
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use hyper::body::{Body, Bytes, Frame, SizeHint};
use tokio::sync::broadcast::{Receiver, error::RecvError};

use super::{chunks::Chunks, feed::Followed, places::Place};

/// What is answered.
#[derive(Debug)]
pub(super) enum Answer {
    /// It is there already.
    Whole(Chunks),
    /// It comes bit by bit.
    Live(Live),
}

/// What a follower still gets.
pub(super) struct Live {
    before: VecDeque<Bytes>,
    next: Option<Next>,
    _place: Place,
}

type Next = Pin<Box<dyn Future<Output = (Result<Bytes, RecvError>, Receiver<Bytes>)> + Send>>;

impl std::fmt::Debug for Live {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Live").field("before", &self.before.len()).finish_non_exhaustive()
    }
}

impl Live {
    /// Holds `place` until it ends.
    pub(super) fn new(followed: Followed, place: Place) -> Self {
        Self { before: followed.before.into(), next: Some(next(followed.live)), _place: place }
    }
}

fn next(mut live: Receiver<Bytes>) -> Next {
    Box::pin(async move {
        let next = live.recv().await;
        (next, live)
    })
}

impl Body for Live {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(piece) = self.before.pop_front() {
            return Poll::Ready(Some(Ok(Frame::data(piece))));
        }
        let Some(waiting) = &mut self.next else { return Poll::Ready(None) };
        let Poll::Ready((piece, live)) = waiting.as_mut().poll(context) else { return Poll::Pending };
        match piece {
            Ok(piece) => {
                self.next = Some(next(live));
                Poll::Ready(Some(Ok(Frame::data(piece))))
            }
            // It lags too far behind, or there will be no more: it is over.
            Err(RecvError::Lagged(_) | RecvError::Closed) => {
                self.next = None;
                Poll::Ready(None)
            }
        }
    }
}

impl From<Chunks> for Answer {
    fn from(whole: Chunks) -> Self {
        Self::Whole(whole)
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Whole(whole) => Pin::new(whole).poll_frame(context),
            Self::Live(live) => Pin::new(live).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(whole) => whole.is_end_stream(),
            Self::Live(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(whole) => whole.size_hint(),
            Self::Live(_) => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{net::IpAddr, sync::Arc};

    use super::*;
    use crate::{
        model::{Interval, Nanos, fixture},
        serve::{
            feed::{Feeder, MOST_BEHIND},
            places::Places,
        },
    };

    fn add(feeder: &mut Feeder, seq: u64) {
        let interval = Interval { seq, start_ns: Nanos(seq), ..fixture::idle(1)[0].clone() };
        feeder.add(&interval).unwrap();
    }

    async fn piece(live: &mut Live) -> Option<Bytes> {
        let frame = std::future::poll_fn(|context| Pin::new(&mut *live).poll_frame(context)).await?;
        frame.unwrap().into_data().ok()
    }

    #[tokio::test]
    async fn whoever_lags_too_far_behind_is_cut_off_and_gives_its_place_back() {
        let mut feeder = Feeder::new(&fixture::session()).unwrap();
        let places = Arc::new(Places::new(1, 1));
        let peer = IpAddr::from([127, 0, 0, 1]).into();
        let mut live = Live::new(feeder.feed().follow(Nanos::ZERO), places.take(peer).unwrap());
        assert!(piece(&mut live).await.is_some(), "the header");
        (0..MOST_BEHIND as u64).for_each(|seq| add(&mut feeder, seq));
        for _ in 0..MOST_BEHIND {
            assert!(piece(&mut live).await.is_some(), "as far as it may");
        }
        (0..=MOST_BEHIND as u64).for_each(|seq| add(&mut feeder, 100 + seq));
        assert!(piece(&mut live).await.is_none() && piece(&mut live).await.is_none());
        assert!(places.take(peer).is_none());
        drop(live);
        assert!(places.take(peer).is_some());
    }
}
