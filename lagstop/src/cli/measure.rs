//! Arguments of every subcommand that measures.

use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::Deserialize;

use super::{config::MeasureConfig, hooks::HookArgs};
use crate::{
    model::{GroupBy, LoadCredits},
    source::{FilesOptions, LiveOptions, SourceError, Stream, files, live, live_as_nobody},
};

/// How to measure.
#[derive(Args, Clone, Debug)]
pub(super) struct MeasureArgs {
    /// Length of an interval [default: 1s]
    #[arg(long, value_name = "TIME", value_parser = interval)]
    interval: Option<Duration>,

    /// What groups tasks: the cgroup the scheduler groups them by, or their cgroup v2 leaf [default: scheduler]
    #[arg(long, value_name = "WHAT")]
    group_by: Option<Grouping>,

    /// Cgroups told apart at once; more share the row `(other)` [default: 2500]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    max_cgroups: Option<u32>,

    /// Time constant of Load Credit [default: 2s]
    #[arg(long, value_name = "TIME", value_parser = positive)]
    load_credit_time: Option<Duration>,

    #[command(flatten)]
    hooks: HookArgs,

    /// Measure nothing: the programs only read the clock, for finding out what that costs
    #[arg(long, hide = true)]
    clock_only: bool,
}

#[derive(Clone, Copy, Debug, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Grouping {
    /// The cgroup in whose run queues a task competes
    Scheduler,
    /// The cgroup v2 leaf
    Leaf,
}

impl MeasureArgs {
    /// What was asked for instead of a measurement.
    pub(super) fn list(&self) -> Option<String> {
        self.hooks.list()
    }

    /// Starts to measure, for `duration` or until it is stopped; what was not given is as in `config`.
    pub(super) fn start(&self, duration: Option<Duration>, config: &MeasureConfig) -> Result<Stream, SourceError> {
        live(self.options(duration, config))
    }

    /// The same for who measures day and night and serves it to strangers: as nobody, and in intervals of its own, for those of
    /// the file are for people who wait for them.
    pub(super) fn start_every(&self, default: Duration, config: &MeasureConfig) -> Result<Stream, SourceError> {
        let config = MeasureConfig { interval: Some(default), ..config.clone() };
        live_as_nobody(self.options(None, &config))
    }

    /// What groups tasks.
    pub(super) fn group_by(&self, config: &MeasureConfig) -> Grouping {
        self.group_by.or(config.group_by).unwrap_or(Grouping::Scheduler)
    }

    fn options(&self, duration: Option<Duration>, config: &MeasureConfig) -> LiveOptions {
        let credit_time = self.load_credit_time.or(config.load_credit_time);
        LiveOptions {
            interval: self.interval.or(config.interval).unwrap_or(INTERVAL),
            duration,
            group_by: self.group_by(config).into(),
            max_cgroups: self
                .max_cgroups
                .or(config.max_cgroups.map(|most| most.0))
                .unwrap_or(LiveOptions::DEFAULT_MAX_CGROUPS),
            load_credit_time: credit_time.unwrap_or(Duration::from_nanos(LoadCredits::TIME_CONSTANT.0)),
            wishes: self.hooks.wishes(),
            btf: self.hooks.btf.clone(),
            clock_only: self.clock_only,
        }
    }

    /// Starts to measure; where the kernel does not allow that, to read what its files tell, until it is stopped.
    pub(super) fn start_or_read(&self, config: &MeasureConfig) -> Result<Stream, SourceError> {
        match self.start(None, config) {
            // Who chose a way wants that one.
            Err(SourceError::Kernel(why)) if self.hooks.are_default() => {
                let LiveOptions { interval, duration, group_by, load_credit_time, .. } = self.options(None, config);
                let options = FilesOptions { interval, duration, group_by, load_credit_time };
                files(options, why.to_string())
            }
            started => started,
        }
    }
}

impl From<Grouping> for GroupBy {
    fn from(grouping: Grouping) -> Self {
        match grouping {
            Grouping::Scheduler => Self::Scheduler,
            Grouping::Leaf => Self::Leaf,
        }
    }
}

/// Length of an interval, unless asked otherwise.
const INTERVAL: Duration = Duration::from_secs(1);
/// Nobody waits longer, and clocks can count it.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 3_600);

/// A time such as `30s` or `500ms`, longer than nothing.
pub(super) fn positive(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).map_err(|error| format!("{error}; write it as 500ms, 30s or 5m"))?;
    if time.is_zero() {
        Err("it must be longer than nothing".to_owned())
    } else if time > LONGEST {
        Err("it must be a year at most".to_owned())
    } else {
        Ok(time)
    }
}

/// Reading takes about a millisecond: shorter intervals would measure lagstop.
pub(super) fn interval(text: &str) -> Result<Duration, String> {
    const SHORTEST: Duration = Duration::from_millis(20);
    let time = positive(text)?;
    if time < SHORTEST { Err("it must be at least 20ms".to_owned()) } else { Ok(time) }
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
}
