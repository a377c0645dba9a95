//! A body that is there already.

use std::{
    collections::VecDeque,
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use hyper::body::{Body, Bytes, Frame, SizeHint};

/// Pieces of this size are handed on at a time.
const CHUNK: usize = 64 << 10;

/// A body that is there already, in pieces which others may share.
#[derive(Debug, Default)]
pub(super) struct Chunks(VecDeque<Bytes>);

impl<B: Into<Bytes>, const N: usize> From<[B; N]> for Chunks {
    fn from(pieces: [B; N]) -> Self {
        Self(pieces.into_iter().map(Into::into).filter(|piece| !piece.is_empty()).collect())
    }
}

impl Body for Chunks {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some(first) = self.0.front_mut() else { return Poll::Ready(None) };
        let chunk = first.split_to(first.len().min(CHUNK));
        if first.is_empty() {
            self.0.pop_front();
        }
        Poll::Ready(Some(Ok(Frame::data(chunk))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.iter().map(|piece| piece.len() as u64).sum())
    }
}
