//! What lagstop's own programs cost.
//!
//! The kernel times programs only on request, and the timing itself costs two clock reads a run. So they are timed for the
//! first moments, and from then on what they all took for each switch is multiplied by the switches. The kernel's timer
//! sees the program, not the way into it and back: `cargo xtask overhead` measures the whole.

use std::{os::fd::OwnedFd, time::Duration};

use aya::{
    Ebpf,
    sys::{Stats, enable_stats},
};

use crate::model::Nanos;

/// Switches that make the mean worth believing.
const ENOUGH_SWITCHES: u64 = 100;

/// Mean cost of all programs for each switch, as far as known.
#[derive(Debug, Default)]
pub(super) struct ProbeCost {
    /// Keeps the kernel's timing on.
    timing: Option<OwnedFd>,
    ns_per_switch: Option<f64>,
}

impl ProbeCost {
    /// Begins the timing. Without CAP_SYS_ADMIN, or before Linux 5.8, the cost stays unknown.
    pub(super) fn start() -> Self {
        Self { timing: enable_stats(Stats::RunTime).ok(), ns_per_switch: None }
    }

    /// Ends the timing once there were enough `switches`.
    pub(super) fn update(&mut self, ebpf: &Ebpf, switches: u64) {
        if self.timing.is_none() || switches < ENOUGH_SWITCHES {
            return;
        }
        let in_programs: Duration =
            ebpf.programs().filter_map(|(_, program)| Some(program.info().ok()?.run_time())).sum();
        self.ns_per_switch = Some(in_programs.as_nanos() as f64 / switches as f64);
        self.timing = None;
    }

    /// Time in the programs for this many switches.
    pub(super) fn of(&self, switches: u64) -> Option<Nanos> {
        self.ns_per_switch.map(|ns| Nanos((ns * switches as f64) as u64))
    }
}
