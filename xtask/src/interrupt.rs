//! Ctrl-C, SIGTERM and a terminal that goes end the run in order: what was measured is written, and nothing is left behind.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    flag,
};

#[derive(Clone)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    const STEP: Duration = Duration::from_millis(50);

    /// From now on notices these signals instead of dying of them.
    pub(crate) fn listen() -> io::Result<Self> {
        let came = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            flag::register(signal, Arc::clone(&came))?;
        }
        Ok(Self(came))
    }

    /// Ends all waits, as a signal would.
    pub(crate) fn come(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_come(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Waits until `done` gives something, until it is interrupted, or until `time` is over. Gives what `done` gave
    /// last.
    pub(crate) fn wait<T>(&self, time: Duration, mut done: impl FnMut() -> Option<T>) -> Option<T> {
        let end = Instant::now() + time;
        loop {
            let found = done();
            let left = end.saturating_duration_since(Instant::now());
            if found.is_some() || left.is_zero() || self.has_come() {
                return found;
            }
            thread::sleep(left.min(Self::STEP));
        }
    }

    /// Sleeps, unless it is interrupted.
    pub(crate) fn sleep(&self, time: Duration) {
        self.wait(time, || None::<()>);
    }

    #[cfg(test)]
    pub(crate) fn never() -> Self {
        Self(Arc::default())
    }
}
