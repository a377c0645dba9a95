//! What is to be run.

use std::time::Duration;

use clap::ValueEnum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::trial::Policy;

/// How requests come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Workload {
    /// Closed loop: as many at once as keep the latency near a target (Meta's resource-control demo)
    Resctl,
    /// Open loop: heavy-tailed over ten demand bands, bursts from second to second (Azure Functions 2021)
    Azure,
    /// Open loop: 0 to 5 requests a second for each function, at any time
    Random,
    /// Like resctl; each request is two halves at once
    Parallel,
    /// Like resctl; 30 % of the requests take 10 ms, 40 % 100 ms, 30 % a second
    Mix,
}

impl Workload {
    /// Is the next request only sent when one is done?
    pub const fn is_closed(self) -> bool {
        matches!(self, Self::Resctl | Self::Parallel | Self::Mix)
    }

    /// As on the command line and in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Resctl => "resctl",
            Self::Azure => "azure",
            Self::Random => "random",
            Self::Parallel => "parallel",
            Self::Mix => "mix",
        }
    }
}

/// How to run it.
#[derive(Clone, Debug)]
pub struct BenchSettings {
    /// How requests come.
    pub workload: Workload,
    /// Functions per CPU, one run each.
    pub densities: Vec<u32>,
    /// Which changes to scheduling are tried, one run each; `None` is none. As many runs as there are, and one where there are
    /// none.
    pub policies: Vec<Option<Policy>>,
    /// How often the whole sweep is done.
    pub rounds: u32,
    /// How long a run is measured.
    pub duration: Duration,
    /// How long it runs before.
    pub warm_up: Duration,
    /// CPU time of a request.
    pub work: Duration,
    /// Latency that closed loops are tuned to.
    pub latency_target: Duration,
    /// CPUs' worth of work that a function asks for on average, in open loops.
    pub demand: f64,
    /// Levels of cgroups between the base and a function.
    pub depth: u32,
    /// The base's name, below the root of the hierarchy.
    pub base: String,
    /// The same one gives the same requests.
    pub seed: u64,
    /// Requests of each second, instead of made-up ones.
    pub traces: Vec<super::Trace>,
}

impl BenchSettings {
    /// A request counts as served in time up to here (paper, §3.1).
    pub const IN_TIME: Duration = Duration::from_secs(1);
    /// Requests that a function works on at once, at most; the others wait in it.
    pub const MOST_AT_ONCE: u32 = 64;
    /// Functions at most: more are no host.
    pub const MOST_FUNCTIONS: u32 = 5_000;
    /// Requests of a run at most: all of them may have to wait in memory, some 16 bytes each.
    pub const MOST_REQUESTS: f64 = 2e7;

    /// How long all of it takes, but for starting and cleaning up.
    pub fn takes(&self) -> Duration {
        let runs = self.densities.len().saturating_mul(self.policies.len().max(1));
        let runs = u32::try_from(runs).unwrap_or(u32::MAX).saturating_mul(self.rounds);
        (self.warm_up + self.duration + Self::IN_TIME).saturating_mul(runs)
    }
}
