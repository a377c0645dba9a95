//! What came of it.

use schemars::JsonSchema;
use serde::Serialize;

use super::{BenchSettings, Latencies, Tally, Workload};
use crate::{
    model::{self, Nanos},
    trial::Policy,
};

/// A whole benchmark.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Bench {
    /// Version of this form.
    pub schema: &'static str,
    /// Where.
    pub host: BenchHost,
    /// How requests came.
    pub workload: Workload,
    /// What they were drawn with.
    pub seed: u64,
    /// CPU time of a request, in milliseconds. Those of `mix` are 10, 100 and 1,000.
    pub work_ms: f64,
    /// CPUs' worth of work that a function asks for on average, in open loops that are made up.
    pub demand: Option<f64>,
    /// Latency that closed loops are tuned to, in milliseconds.
    pub latency_target_ms: Option<f64>,
    /// A request is in time up to this latency, in milliseconds.
    pub in_time_ms: f64,
    /// Levels of cgroups between the base and a function.
    pub depth: u32,
    /// The runs, in the order in which they were made.
    pub points: Vec<Point>,
    /// The runs that were to be made and were not, or not to their end.
    pub missing: Vec<Missing>,
}

/// A run that there is nothing to say of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Missing {
    /// Functions per CPU.
    pub density: u32,
    /// What was to be changed about scheduling. `None`: nothing.
    pub policy: Option<Policy>,
    /// Which round it belongs to, from 0 on.
    pub round: u32,
    /// Why.
    pub why: String,
}

/// Where it ran.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct BenchHost {
    /// Its name.
    pub hostname: String,
    /// Its kernel.
    pub kernel: String,
    /// CPUs that functions could run on.
    pub cpus: u32,
    /// Version of the cgroup interface.
    pub cgroup_version: u32,
}

/// One run.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Point {
    /// Functions per CPU.
    pub density: u32,
    /// Functions.
    pub functions: u32,
    /// What was changed about scheduling. `None`: nothing.
    pub policy: Option<Policy>,
    /// Which round it belongs to, from 0 on.
    pub round: u32,
    /// Requests that a function works on at once, at most.
    pub at_once: u32,
    /// How long it was measured, in seconds.
    pub seconds: f64,
    /// Requests that came.
    pub offered: u64,
    /// Of those, the ones that were served in time.
    pub in_time: u64,
    /// Of those, the ones that were not served by the end. Their latency counts as far as it had come.
    pub unfinished: u64,
    /// Requests served in time, each second.
    pub throughput: f64,
    /// How long all of them took.
    pub latency: Latency,
    /// Functions that ask for less than the mean. `None` in closed loops, where all ask alike.
    pub light: Option<BenchSide>,
    /// The other functions.
    pub heavy: Option<BenchSide>,
    /// Scheduling overhead, as a share of the time of all CPUs. `None` is not measured, here and below.
    pub overhead: Option<f64>,
    /// Mean pick cost of a switch, in nanoseconds.
    pub pick_ns: Option<f64>,
    /// Mean swap cost of a switch, in nanoseconds.
    pub swap_ns: Option<f64>,
    /// Switches away from tasks other than idle, each second.
    pub switches_per_second: f64,
    /// Tasks waiting on run queues, on average.
    pub waiting: Option<f64>,
    /// Share of the time of all CPUs that was not idle.
    pub perceived_utilisation: f64,
    /// Of that, the tasks' own work.
    pub effective_utilisation: Option<f64>,
    /// All latencies, as an HdrHistogram of microseconds (V2, compressed, base64).
    #[schemars(with = "String")]
    pub latencies: Latencies,
}

/// What became of some of the functions.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct BenchSide {
    /// How many they are.
    pub functions: u32,
    /// Requests that came.
    pub offered: u64,
    /// How long these took.
    pub latency: Latency,
    /// CPU time that they used, in cores.
    pub cpu: f64,
    /// Tasks of theirs waiting on run queues, on average.
    pub waiting: Option<f64>,
}

/// How long requests took. `None` of none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Latency {
    /// The median.
    pub p50_ns: Option<Nanos>,
    /// 95 % took no longer.
    pub p95_ns: Option<Nanos>,
    /// 99 % took no longer.
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
            demand: (settings.workload == Workload::Azure && settings.traces.is_empty()).then_some(settings.demand),
            latency_target_ms: is_closed.then(|| ms(settings.latency_target)),
            in_time_ms: ms(BenchSettings::IN_TIME),
            depth: settings.depth,
            points: Vec::new(),
            missing: Vec::new(),
        }
    }
}

impl Point {
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
            perceived_utilisation: host.perceived_utilisation(),
            effective_utilisation: host.effective_utilisation(),
            latencies: tally.latencies.clone(),
        }
    }

    /// Mean cost of a switch, in nanoseconds.
    pub fn switch_cost_ns(&self) -> Option<f64> {
        Some(self.pick_ns? + self.swap_ns?)
    }
}
