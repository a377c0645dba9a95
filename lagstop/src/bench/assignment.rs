//! What a function is told to do.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{BenchSettings, BenchWorkload, FunctionDemand, RequestTrace, Speed};

/// What a function is told to do, as a line of JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Assignment {
    pub function: u32,
    pub workload: BenchWorkload,
    /// Requests a second, in open loops.
    pub rate: Option<f64>,
    /// Requests of each second, instead of made-up ones.
    pub trace: Option<RequestTrace>,
    /// What requests are drawn with.
    pub seed: u64,
    /// How fast the CPU is.
    pub speed: Speed,
    /// CPU time of a request.
    pub work: Duration,
    /// Latency that closed loops are tuned to.
    pub latency_target: Duration,
    /// How long it runs before it is measured, and then.
    pub warm_up: Duration,
    /// How long it is measured.
    pub duration: Duration,
    /// Requests that it works on at once, at most; the others wait in it.
    pub at_once: u32,
}

impl Assignment {
    /// That of the function with this number.
    pub fn new(settings: &BenchSettings, function: u32, demand: FunctionDemand, speed: Speed, at_once: u32) -> Self {
        let traces = &settings.traces;
        Self {
            function,
            workload: settings.workload,
            rate: demand.rate,
            trace: (!traces.is_empty()).then(|| traces[function as usize % traces.len()].clone()),
            seed: settings.seed,
            speed,
            work: settings.work,
            latency_target: settings.latency_target,
            warm_up: settings.warm_up,
            duration: settings.duration,
            at_once,
        }
    }
}
