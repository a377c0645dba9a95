//! Values of flags and of the configuration file, as people write them.

use std::time::Duration;

use clap::ValueEnum;
use globset::Glob;
use serde::Deserialize;

use crate::model::GroupBy;

/// What groups tasks.
#[derive(Clone, Copy, Debug, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Grouping {
    /// The cgroup whose run queues contain the task
    Scheduler,
    /// The task's cgroup v2 leaf
    Leaf,
}

impl From<Grouping> for GroupBy {
    fn from(grouping: Grouping) -> Self {
        match grouping {
            Grouping::Scheduler => Self::Scheduler,
            Grouping::Leaf => Self::Leaf,
        }
    }
}

/// An upper limit that clocks can still count. Nobody waits that long.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 3_600);

/// A time above 0, such as `30s` or `500ms`.
pub(super) fn positive(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).map_err(|error| format!("{error}; write it as 500ms, 30s or 5m"))?;
    if time.is_zero() {
        Err("the time must be longer than 0".to_owned())
    } else if time > LONGEST {
        Err("the time must be at most a year".to_owned())
    } else {
        Ok(time)
    }
}

/// A length of intervals. Reading takes about a millisecond, so shorter intervals would mostly measure lagstop.
pub(super) fn interval(text: &str) -> Result<Duration, String> {
    const SHORTEST: Duration = Duration::from_millis(20);
    let time = positive(text)?;
    if time < SHORTEST { Err("the interval must be at least 20ms".to_owned()) } else { Ok(time) }
}

/// A pattern of paths.
pub(super) fn glob(text: &str) -> Result<Glob, String> {
    Glob::new(text).map_err(|error| format!("{}; * matches any characters, ? matches one", error.kind()))
}

/// A share from 0 to 1, as in 0.8 or 80%.
pub(super) fn share(text: &str) -> Result<f64, String> {
    part(text)
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(|| "write a share from 0 to 1, such as 0.01 or 1%".to_owned())
}

/// As [`share`] reads it.
pub(super) fn written(share: f64) -> String {
    format!("{:.0}%", share * 100.0)
}

/// A share of a whole, as in 0.8 or 80%. `None` if it is not a number.
pub(super) fn part(text: &str) -> Option<f64> {
    let text = text.trim();
    match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().ok().map(|percent| percent / 100.0),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_checked() {
        assert_eq!(positive("90s"), Ok(Duration::from_secs(90)));
        assert!(
            positive("0s").is_err()
                && positive("soon").is_err()
                && positive("500000000000y").is_err()
                && positive("").is_err()
        );
        assert!(interval("5ms").is_err() && interval("20ms").is_ok());
    }

    #[test]
    fn parts_are_numbers_or_percentages() {
        assert_eq!(["0.8", "80 %", " 0"].map(part), [Some(0.8), Some(0.8), Some(0.0)]);
        assert_eq!(["", "much", "%"].map(part), [None; 3]);
        assert_eq!(share(&written(0.05)), Ok(0.05));
    }
}
