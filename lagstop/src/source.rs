//! Where intervals come from. What reads a stream cannot tell a live one from a recorded one.

mod beat;
mod connected;
mod departed;
mod files;
mod labels;
mod live;
mod looks;
mod recorded;
mod sampling;
mod scheduler;
mod sentinel;
mod session;

use std::sync::mpsc as blocking;

use thiserror::Error;
use tokio::sync::{mpsc, watch};

pub use connected::{Begin, ConnectOptions, ConnectedError, Link, connected};
pub use files::{FilesOptions, files};
pub(crate) use live::live_since;
pub use live::{LiveOptions, live, live_as_nobody};
pub use looks::Looks;
pub use recorded::recorded;
pub use sentinel::{SentinelState, sentinel, sentinel_as_nobody};

use crate::model::{Interval, Session};

/// A stream of intervals. Dropping it ends it.
pub struct Stream {
    /// What holds for all of them.
    pub session: Session,
    /// The intervals, in order. Closed at the end; an error is the last item.
    pub intervals: mpsc::Receiver<Result<Interval, SourceError>>,
    /// Ends the stream early.
    pub stop: Stop,
    /// Takes closer looks at single cgroups; `None` where intervals are not of the running host.
    pub looks: Option<Looks>,
    /// How a sentinel is doing; `None` where it is always measured.
    pub watched: Option<watch::Receiver<SentinelState>>,
    /// How the connection is; `None` where intervals come over none.
    pub link: Option<watch::Receiver<Link>>,
}

/// Ends a stream: what was measured since the last interval comes as a shorter one, then no more.
#[derive(Clone, Debug)]
pub struct Stop(blocking::Sender<Order>);

/// What a stream is told while it goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// End the interval now, and begin the next one.
    Read,
    Stop,
}

impl Stop {
    /// A handle, and what it is heard by.
    pub fn new() -> (Self, blocking::Receiver<Order>) {
        let (sender, receiver) = blocking::channel();
        (Self(sender), receiver)
    }

    /// Ends the stream. Once is enough; it is no error when it has ended already.
    pub fn stop(&self) {
        let _ = self.0.send(Order::Stop);
    }

    /// Ends the running interval of a live stream now, so that what has happened so far is told.
    pub fn read_now(&self) {
        let _ = self.0.send(Order::Read);
    }
}

/// What of `state` is next. `None` where there is none, or no more.
pub async fn changed<T: Clone>(state: &mut Option<watch::Receiver<T>>) -> Option<T> {
    let receiver = state.as_mut()?;
    if receiver.changed().await.is_err() {
        *state = None;
        return None;
    }
    Some(receiver.borrow_and_update().clone())
}

/// Why a stream could not start, or ended early.
#[derive(Debug, Error)]
pub enum SourceError {
    /// The kernel side.
    #[error(transparent)]
    Kernel(#[from] crate::kernel::KernelError),
    /// A fault of lagstop's own.
    #[error("measuring ended because of a bug in lagstop. Please report it with the message above")]
    Died,
    #[error(transparent)]
    Recording(#[from] crate::recording::ReadError),
    /// Another host's server.
    #[error(transparent)]
    Connected(#[from] ConnectedError),
    /// The host's files.
    #[error(transparent)]
    Host(#[from] crate::host::HostError),
}
