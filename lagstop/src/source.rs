//! Where intervals come from. What reads a stream cannot tell a live one from a recorded one.

use tokio::sync::mpsc;

use crate::model::{Interval, Session};

/// A stream of intervals. It ends when the channel closes; an error is its last item.
pub struct Stream {
    /// What holds for all of them.
    pub session: Session,
    /// The intervals, in order.
    pub intervals: mpsc::Receiver<Result<Interval, SourceError>>,
}

/// Why a stream ended early.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The kernel side could not start or go on.
    #[error(transparent)]
    Kernel(#[from] crate::kernel::KernelError),
}
