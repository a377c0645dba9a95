//! What the clock of a recording's intervals says, as a time of day.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::model::{Nanos, Session};

/// When the clock of a recording's intervals was 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Epoch {
    /// Since 1970, UTC.
    unix: Nanos,
}

impl Epoch {
    /// That of a clock that counts since 1970.
    pub const UNIX: Self = Self { unix: Nanos::ZERO };

    /// That of a recording. `None` where its header says no time.
    pub fn of(session: &Session) -> Option<Self> {
        Self::parse(&session.started_at)
    }

    /// A time of day as RFC 3339 in UTC. `None` of any other text, and before 1970.
    pub fn parse(text: &str) -> Option<Self> {
        let time = humantime::parse_rfc3339_weak(text).ok()?;
        let unix = time.duration_since(UNIX_EPOCH).ok()?.as_nanos();
        Some(Self { unix: Nanos(u64::try_from(unix).ok()?) })
    }

    /// That of a recording whose clock is 0 when this one's is at `at`.
    #[must_use]
    pub const fn later(self, at: Nanos) -> Self {
        Self { unix: self.unix.saturating_add(at) }
    }

    /// Time since 1970, UTC, when the clock is at `at`.
    pub const fn unix(self, at: Nanos) -> Nanos {
        self.unix.saturating_add(at)
    }

    /// RFC 3339 in UTC, when the clock is at `at`: as fine as it has to be.
    pub fn text(self, at: Nanos) -> String {
        let unix = self.unix(at);
        let time: SystemTime = UNIX_EPOCH + Duration::from_nanos(unix.0);
        if unix.0.is_multiple_of(1_000_000) {
            humantime::format_rfc3339_millis(time).to_string()
        } else {
            humantime::format_rfc3339_nanos(time).to_string()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_stay_what_they_are() {
        let epoch = Epoch::parse("2026-11-21T12:30:32.637Z").unwrap();
        assert_eq!(epoch.text(Nanos::ZERO), "2026-11-21T12:30:32.637Z");
        assert_eq!(epoch.text(Nanos(1)), "2026-11-21T12:30:32.637000001Z");
        let later = epoch.later(Nanos(1));
        assert_eq!(Epoch::parse(&later.text(Nanos::ZERO)), Some(later));
        assert_eq!(later.unix(Nanos(4)).saturating_sub(epoch.unix(Nanos(5))), Nanos::ZERO);
        assert!(
            ["", "soon", "1969-01-01T00:00:00Z", "9999-01-01T00:00:00Z"].map(Epoch::parse).iter().all(Option::is_none)
        );
    }
}
