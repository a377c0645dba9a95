//! A body that is there already.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use hyper::body::{Body, Bytes, Frame, SizeHint};

/// Pieces of this size are handed on at a time.
const CHUNK: usize = 64 << 10;

/// A body that is there already, which others may share.
#[derive(Debug, Default)]
pub(super) struct Chunks(Bytes);

impl<B: Into<Bytes>> From<B> for Chunks {
    fn from(body: B) -> Self {
        Self(body.into())
    }
}

impl Body for Chunks {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let length = self.0.len().min(CHUNK);
        Poll::Ready((length > 0).then(|| Ok(Frame::data(self.0.split_to(length)))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.len() as u64)
    }
}
