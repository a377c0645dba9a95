//! Signals that ask a program to end or to stop.

use std::{io, time::Duration};

use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGINT, SIGTERM and SIGHUP.
pub(crate) struct Endings {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Endings {
    /// Listens for them from now on, instead of dying of them.
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    pub(crate) async fn wait(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hangup.recv() => {}
        }
    }

    /// Has one of them come already?
    pub(crate) async fn have_come(&mut self) -> bool {
        // It is told of when the runtime looks next.
        tokio::time::timeout(Duration::from_millis(1), self.wait()).await.is_ok()
    }
}

/// SIGUSR1: asks for what is in memory.
pub(crate) struct Dumps(Signal);

impl Dumps {
    /// Listens for it from now on, instead of dying of it.
    pub(crate) fn listen() -> io::Result<Self> {
        signal(SignalKind::user_defined1()).map(Self)
    }

    pub(crate) async fn wait(&mut self) {
        self.0.recv().await;
    }
}

/// SIGTSTP: what a shell's job control sends.
pub(crate) struct Stops(Signal);

impl Stops {
    /// Listens for it from now on, instead of stopping.
    pub(crate) fn listen() -> io::Result<Self> {
        signal(SignalKind::from_raw(libc::SIGTSTP)).map(Self)
    }

    pub(crate) async fn wait(&mut self) {
        self.0.recv().await;
    }
}
