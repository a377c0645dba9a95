//! Points in time within a recording, as they are written on the command line.

use std::time::Duration;

use crate::{
    model::Nanos,
    recording::{Epoch, ReadError, Reader},
};

/// A point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    AfterStart(Nanos),
    BeforeEnd(Nanos),
    At(Epoch),
}

impl When {
    /// The time on the clock of the recording's intervals. A time of day needs a recording with a start time; in other
    /// recordings it means the beginning.
    pub(super) fn on_clock_of(self, reader: &mut Reader) -> Result<Nanos, ReadError> {
        let Some(last) = reader.len().checked_sub(1) else { return Ok(Nanos::ZERO) };
        Ok(match self {
            Self::AfterStart(time) => reader.start_of(0)?.saturating_add(time),
            Self::BeforeEnd(time) => {
                let last = reader.interval(last)?;
                last.start_ns.saturating_add(last.duration_ns).saturating_sub(time)
            }
            Self::At(time) => {
                let zero = Epoch::of(reader.session()).unwrap_or(time);
                time.unix(Nanos::ZERO).saturating_sub(zero.unix(Nanos::ZERO))
            }
        })
    }
}

/// Parses a time after the beginning (`10m`), a time before the end (`-5m`), or RFC 3339 in UTC.
pub(super) fn when(text: &str) -> Result<When, String> {
    let length = |text: &str| -> Option<Nanos> {
        let time: Duration = humantime::parse_duration(text).ok()?;
        u64::try_from(time.as_nanos()).ok().map(Nanos)
    };
    let parsed = match text.strip_prefix('-') {
        Some(text) => length(text).map(When::BeforeEnd),
        None => length(text).map(When::AfterStart).or_else(|| Epoch::parse(text).map(When::At)),
    };
    parsed.ok_or_else(|| {
        "write 90s or 10m after the start, -5m before the end, or a time in UTC, e.g. 2026-11-21T12:30:00Z".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_in_time_are_written_in_three_ways() {
        assert_eq!(when("1m 30s"), Ok(When::AfterStart(Nanos(90_000_000_000))));
        assert_eq!(when("-5ms"), Ok(When::BeforeEnd(Nanos(5_000_000))));
        let at = |text| When::At(Epoch::parse(text).unwrap());
        assert_eq!(when("2026-11-21T12:30:00.5Z"), Ok(at("2026-11-21T12:30:00.5Z")));
        assert_eq!(when("2026-11-21 12:30:00"), Ok(at("2026-11-21T12:30:00Z")));
        for text in ["", "soon", "-", "12:30", "2026-11-21T12:30:00+01:00", "--5m", "99999999999y"] {
            assert!(when(text).unwrap_err().contains("UTC"), "{text}");
        }
    }
}
