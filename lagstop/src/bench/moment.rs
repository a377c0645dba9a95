//! A moment that several processes mean.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// A moment on the clock that all processes of a host share (`CLOCK_MONOTONIC`), in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment(u64);

impl Moment {
    fn now() -> (Instant, Self) {
        let now = clock_gettime(ClockId::Monotonic);
        let now = Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0));
        (Instant::now(), Self(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// It, from what this process calls it.
    pub(super) fn of(when: Instant) -> Self {
        let (now, Self(ns)) = Self::now();
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let later = nanos(when.saturating_duration_since(now));
        let earlier = nanos(now.saturating_duration_since(when));
        Self(ns.saturating_add(later).saturating_sub(earlier))
    }

    /// What this process calls it. `None` where that is out of reach.
    pub(super) fn instant(self) -> Option<Instant> {
        let (now, Self(ns)) = Self::now();
        if self.0 >= ns {
            now.checked_add(Duration::from_nanos(self.0 - ns))
        } else {
            now.checked_sub(Duration::from_nanos(ns - self.0))
        }
    }

    /// As a line.
    pub(super) fn write(self) -> String {
        self.0.to_string()
    }

    /// From a line. `None` where it is none.
    pub(super) fn read(line: &str) -> Option<Self> {
        line.trim().parse().ok().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_same_for_whoever_reads_it() {
        let now = Instant::now();
        for when in [now + Duration::from_secs(7), now.checked_sub(Duration::from_millis(5)).unwrap()] {
            let read = Moment::read(&format!("{}\n", Moment::of(when).write())).unwrap().instant().unwrap();
            let apart = if read > when { read - when } else { when - read };
            assert!(apart < Duration::from_millis(5), "{apart:?}: what passes between two looks at the clock");
        }
        assert_eq!((Moment::read("go"), Moment::read("")), (None, None));
        assert!(Moment(u64::MAX).instant().is_none_or(|when| when > now));
    }
}
