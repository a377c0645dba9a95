//! `--sentinel`, and what commands tell of it.

use std::time::Duration;

use clap::Args;

use super::values::positive;
use crate::source::SentinelState;

/// Whether to measure only while something is wrong.
#[derive(Args, Clone, Debug)]
pub(super) struct SentinelArgs {
    /// Attach nothing while all is calm: watch pressure, throttling and run queues in files, and measure only while something is
    /// wrong. With record it needs --ring
    #[arg(long)]
    sentinel: bool,

    /// With --sentinel: keep measuring until nothing has been wrong for this long
    #[arg(long, value_name = "TIME", default_value = "3m", requires = "sentinel", value_parser = positive)]
    linger: Duration,
}

impl SentinelArgs {
    /// How long to measure after the last sign of trouble. `None` without a sentinel.
    pub(super) fn linger(&self) -> Option<Duration> {
        self.sentinel.then_some(self.linger)
    }
}

/// What it does now, in words.
pub(super) fn watching(now: &SentinelState) -> String {
    match &now.why {
        Some(why) if now.is_attached => format!("measuring: {why}"),
        _ => "watching: nothing is attached".to_owned(),
    }
}
