//! Results of a benchmark.

use schemars::JsonSchema;
use serde::Serialize;

use super::{BenchSettings, BenchWorkload, Latencies, Tally};
use crate::{
    model::{self, Nanos},
    trial::Policy,
};

/// Results of a benchmark.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Bench {
    /// Version of this format.
    pub schema: &'static str,
    /// The host.
    pub host: BenchHost,
    /// The workload.
    pub workload: BenchWorkload,
    /// Seed of the random requests.
    pub seed: u64,
    /// CPU time of a request, in milliseconds. `mix` uses 10, 100 and 1,000 instead.
    pub work_ms: f64,
    /// Mean demand of a function, in CPUs. Only for open loops with generated requests.
    pub demand: Option<f64>,
    /// Whether the functions with at least the mean demand were left out. The light ones' latencies are then what they take with
    /// no heavy one beside them.
    pub light_alone: bool,
    /// Latency that closed loops are tuned to, in milliseconds.
    pub latency_target_ms: Option<f64>,
    /// A request is in time up to this latency, in milliseconds.
    pub in_time_ms: f64,
    /// Levels of cgroups between the base and a function.
    pub depth: u32,
    /// The runs, in order.
    pub points: Vec<BenchRun>,
    /// Planned runs that were not made, or not completed.
    pub missing: Vec<MissingRun>,
}

/// A run without results.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MissingRun {
    /// Functions per CPU.
    pub density: u32,
    /// The scheduling policy that was planned. `None`: no policy.
    pub policy: Option<Policy>,
    /// Number of its round, counted from 0.
    pub round: u32,
    /// Why it has no results.
    pub why: String,
}

/// The host of a benchmark.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct BenchHost {
    /// Name of the host.
    pub hostname: String,
    /// Kernel of the host.
    pub kernel: String,
    /// CPUs that functions could run on.
    pub cpus: u32,
    /// Version of the cgroup interface.
    pub cgroup_version: u32,
}

/// One run.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct BenchRun {
    /// Functions per CPU.
    pub density: u32,
    /// Number of functions.
    pub functions: u32,
    /// The scheduling policy. `None`: no policy.
    pub policy: Option<Policy>,
    /// Number of its round, counted from 0.
    pub round: u32,
    /// Maximum number of requests that a function processes concurrently.
    pub at_once: u32,
    /// Measured time, in seconds.
    pub seconds: f64,
    /// Requests that arrived.
    pub offered: u64,
    /// Arrived requests that were served in time.
    pub in_time: u64,
    /// Arrived requests that were not served by the end. Their latency counts until the end.
    pub unfinished: u64,
    /// Requests served in time, per second.
    pub throughput: f64,
    /// Latency of all requests.
    pub latency: Latency,
    /// Functions with less than the mean demand. `None` in closed loops, where all functions have the same demand.
    pub light: Option<BenchSide>,
    /// The other functions. `None` if they were left out, too.
    pub heavy: Option<BenchSide>,
    /// Scheduling overhead, as a share of the time of all CPUs. `None` if not measured, here and below.
    pub overhead: Option<f64>,
    /// Mean pick cost of a switch, in nanoseconds.
    pub pick_ns: Option<f64>,
    /// Mean swap cost of a switch, in nanoseconds.
    pub swap_ns: Option<f64>,
    /// Switches away from tasks other than idle, per second.
    pub switches_per_second: f64,
    /// Mean number of tasks waiting on run queues.
    pub waiting: Option<f64>,
    /// Share of the time of all CPUs that was not idle.
    pub cpu_utilisation: f64,
    /// Share of the time of all CPUs that was spent on the tasks' own work.
    pub effective_utilisation: Option<f64>,
    /// All latencies, as an HdrHistogram of microseconds (V2, compressed, base64).
    #[schemars(with = "String")]
    pub latencies: Latencies,
}

/// Results for a part of the functions.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct BenchSide {
    /// Number of these functions.
    pub functions: u32,
    /// Requests that arrived.
    pub offered: u64,
    /// Latency of these requests.
    pub latency: Latency,
    /// CPU time of these functions, in cores.
    pub cpu: f64,
    /// Mean number of their tasks waiting on run queues.
    pub waiting: Option<f64>,
}

/// Latency of requests. All values are `None` if there are no requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Latency {
    /// The median.
    pub p50_ns: Option<Nanos>,
    /// The 95th percentile.
    pub p95_ns: Option<Nanos>,
    /// The 99th percentile.
    pub p99_ns: Option<Nanos>,
}

impl From<&Latencies> for Latency {
    fn from(all: &Latencies) -> Self {
        Self { p50_ns: all.quantile(0.5), p95_ns: all.quantile(0.95), p99_ns: all.quantile(0.99) }
    }
}

impl Bench {
    /// The version of this form.
    pub const SCHEMA: &'static str = "lagstop.bench/1";

    /// One without runs, yet.
    pub fn new(settings: &BenchSettings, host: BenchHost) -> Self {
        let ms = |time: std::time::Duration| time.as_secs_f64() * 1e3;
        let is_closed = settings.workload.is_closed();
        Self {
            schema: Self::SCHEMA,
            host,
            workload: settings.workload,
            seed: settings.seed,
            work_ms: ms(settings.work),
            demand: (settings.workload == BenchWorkload::Azure && settings.traces.is_empty())
                .then_some(settings.demand),
            light_alone: settings.light_alone,
            latency_target_ms: is_closed.then(|| ms(settings.latency_target)),
            in_time_ms: ms(BenchSettings::IN_TIME),
            depth: settings.depth,
            points: Vec::new(),
            missing: Vec::new(),
        }
    }
}

impl BenchRun {
    /// Of what functions got done and what the host was measured to do meanwhile.
    pub(super) fn new(
        density: u32,
        functions: u32,
        round: u32,
        seconds: f64,
        tally: &Tally,
        host: &model::Host,
    ) -> Self {
        let (pick, swap) = (host.totals.pick_ns.zip(host.idle.pick_ns), host.totals.swap_ns.zip(host.idle.swap_ns));
        let kept = host.totals.kept_ns.unwrap_or_default().saturating_sub(host.idle.kept_ns.unwrap_or_default());
        let switches = host.task_switches();
        let each = |cost: Nanos| (switches > 0).then(|| cost.0 as f64 / switches as f64);
        let time = host.capacity().seconds() / f64::from(u32::try_from(host.cpus_online.max(1)).unwrap_or(u32::MAX));
        let per_second = |value: f64| if time > 0.0 { value / time } else { 0.0 };
        Self {
            density,
            functions,
            policy: None,
            round,
            at_once: BenchSettings::MOST_AT_ONCE,
            seconds,
            offered: tally.offered,
            in_time: tally.in_time,
            unfinished: tally.unfinished,
            throughput: tally.in_time as f64 / seconds,
            latency: Latency::from(&tally.latencies),
            light: None,
            heavy: None,
            overhead: host.overhead(),
            pick_ns: pick.and_then(|(all, idle)| each(all.saturating_sub(idle).saturating_sub(kept))),
            swap_ns: swap.and_then(|(all, idle)| each(all.saturating_sub(idle))),
            switches_per_second: per_second(switches as f64),
            waiting: host.totals.runq_wait_ns.map(|wait| per_second(wait.seconds())),
            cpu_utilisation: host.cpu_utilisation(),
            effective_utilisation: host.effective_utilisation(),
            latencies: tally.latencies.clone(),
        }
    }

    /// Mean cost of a switch, in nanoseconds.
    pub fn switch_cost_ns(&self) -> Option<f64> {
        Some(self.pick_ns? + self.swap_ns?)
    }
}
