//! A moment that several processes mean.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use super::Nanos;

/// A moment on the clock that all processes of a host share, and its kernel (`CLOCK_MONOTONIC`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KernelTime(pub(crate) Nanos);

impl KernelTime {
    pub(crate) fn now() -> Self {
        Self::both().1
    }

    fn both() -> (Instant, Self) {
        let now = clock_gettime(ClockId::Monotonic);
        (Instant::now(), Self(now.into()))
    }

    /// From an `Instant` of this process.
    pub(crate) fn of(when: Instant) -> Self {
        let (now, Self(at)) = Self::both();
        let later = Nanos::from(when.saturating_duration_since(now));
        let earlier = Nanos::from(now.saturating_duration_since(when));
        Self(at.saturating_add(later).saturating_sub(earlier))
    }

    /// As an `Instant` of this process. `None` if it is out of reach.
    pub(crate) fn instant(self) -> Option<Instant> {
        let (now, Self(at)) = Self::both();
        if self.0 >= at {
            now.checked_add(Duration::from_nanos(self.0.saturating_sub(at).0))
        } else {
            now.checked_sub(Duration::from_nanos(at.saturating_sub(self.0).0))
        }
    }

    /// As a line.
    pub(crate) fn write(self) -> String {
        self.0.0.to_string()
    }

    /// From a line. `None` if it holds no moment.
    pub(crate) fn read(line: &str) -> Option<Self> {
        line.trim().parse().ok().map(|ns| Self(Nanos(ns)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_same_for_whoever_reads_it() {
        let now = Instant::now();
        for when in [now + Duration::from_secs(7), now.checked_sub(Duration::from_millis(5)).unwrap()] {
            let read = KernelTime::read(&format!("{}\n", KernelTime::of(when).write())).unwrap().instant().unwrap();
            let apart = if read > when { read - when } else { when - read };
            assert!(apart < Duration::from_millis(5), "{apart:?}: what passes between two looks at the clock");
        }
        assert_eq!((KernelTime::read("go"), KernelTime::read("")), (None, None));
        assert!(KernelTime(Nanos(u64::MAX)).instant().is_none_or(|when| when > now));
    }
}
