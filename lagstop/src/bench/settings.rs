//! Settings of a benchmark.

use std::time::Duration;

use clap::ValueEnum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::trial::{Policy, SwitchSettings};

/// How requests arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum BenchWorkload {
    /// Closed loop: concurrency follows a latency target (Meta's resource-control demo)
    Resctl,
    /// Open loop: heavy-tailed over ten demand bands, bursts from second to second (Azure Functions 2021)
    Azure,
    /// Open loop: 0 to 5 requests per second for each function, at random times
    Random,
    /// Like resctl, with each request split into two concurrent halves
    Parallel,
    /// Like resctl, with 30 % of the requests at 10 ms, 40 % at 100 ms, 30 % at 1 s
    Mix,
}

impl BenchWorkload {
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

#[derive(Clone, Debug)]
pub struct BenchSettings {
    pub workload: BenchWorkload,
    /// Functions per CPU, one run each.
    pub densities: Vec<u32>,
    /// Scheduling policies to try, one run each. `None` is a run without a policy. An empty list is one run without a
    /// policy.
    pub policies: Vec<Option<Policy>>,
    /// Of policies that switch the host's scheduler.
    pub switch: SwitchSettings,
    /// Number of repetitions of the whole sweep.
    pub rounds: u32,
    /// Measured time of a run.
    pub duration: Duration,
    /// Time of a run before measuring.
    pub warm_up: Duration,
    /// CPU time of a request.
    pub work: Duration,
    /// Latency that closed loops are tuned to.
    pub latency_target: Duration,
    /// Mean demand of a function in open loops, in CPUs.
    pub demand: f64,
    /// Leave out the functions with at least the mean demand.
    pub light_alone: bool,
    /// Levels of cgroups between the base and a function.
    pub depth: u32,
    /// The base's name, below the root of the hierarchy.
    pub base: String,
    /// Seed of the random requests.
    pub seed: u64,
    /// Recorded requests per second, instead of generated ones.
    pub traces: Vec<super::RequestTrace>,
}

impl BenchSettings {
    /// A request counts as served in time up to here (paper, §3.1).
    pub const IN_TIME: Duration = Duration::from_secs(1);
    /// Maximum number of requests that a function processes concurrently. Further requests wait in the function.
    pub const MOST_AT_ONCE: u32 = 64;
    /// Maximum number of functions: more than any host has.
    pub const MOST_FUNCTIONS: u32 = 5_000;
    /// Maximum number of requests of a run. All of them may wait in memory, at about 16 bytes each.
    pub const MOST_REQUESTS: f64 = 2e7;

    /// Total time, without starting and cleaning up.
    pub fn takes(&self) -> Duration {
        let runs = self.densities.len().saturating_mul(self.policies.len().max(1));
        let runs = u32::try_from(runs).unwrap_or(u32::MAX).saturating_mul(self.rounds);
        (self.warm_up + self.duration + Self::IN_TIME).saturating_mul(runs)
    }
}
