//! What lagstop's own programs cost.
//!
//! The kernel times programs only on request, and the timing itself costs two clock reads a run. So they are timed for the
//! first moments, and from then on what a run took is multiplied by how often they ran. The kernel's timer sees the
//! program, not the way into it and back: `cargo xtask overhead` measures the whole.

use std::os::fd::OwnedFd;

use aya::{
    Ebpf,
    sys::{Stats, enable_stats},
};

use crate::model::Nanos;

/// Runs of a program that make its mean worth believing.
const ENOUGH_RUNS: u64 = 50;

/// Mean cost of a run of each program, as far as known.
#[derive(Debug, Default)]
pub(super) struct ProbeCost {
    /// Keeps the kernel's timing on.
    timing: Option<OwnedFd>,
    per_run: Option<PerRun>,
}

/// Mean time in each program.
#[derive(Clone, Copy, Debug)]
struct PerRun {
    entry: f64,
    switch: f64,
    exit: f64,
}

impl ProbeCost {
    /// Begins the timing. Without CAP_SYS_ADMIN, or before Linux 5.8, the cost stays unknown.
    pub(super) fn start() -> Self {
        Self { timing: enable_stats(Stats::RunTime).ok(), per_run: None }
    }

    /// Ends the timing once the programs have run often enough.
    pub(super) fn update(&mut self, ebpf: &Ebpf) {
        if self.timing.is_none() {
            return;
        }
        let mean = |name: &str| {
            let info = ebpf.program(name)?.info().ok()?;
            (info.run_count() >= ENOUGH_RUNS).then(|| info.run_time().as_nanos() as f64 / info.run_count() as f64)
        };
        let Some(switch) = mean("switch") else { return };
        // Not attached, they did not run and cost nothing.
        self.per_run = Some(PerRun { entry: mean("entry").unwrap_or(0.0), switch, exit: mean("exit").unwrap_or(0.0) });
        self.timing = None;
    }

    /// Time in the programs for this many switches and calls that kept the running task.
    pub(super) fn of(&self, switches: u64, kept_calls: u64) -> Option<Nanos> {
        let PerRun { entry, switch, exit } = self.per_run?;
        let calls = (switches + kept_calls) as f64;
        Some(Nanos(((entry + exit) * calls + switch * switches as f64) as u64))
    }
}
