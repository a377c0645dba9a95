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
    /// Switches are timed only between some readings.
    samples: bool,
    /// While switches are not timed, and while they are.
    ns_per_switch: [Option<f64>; 2],
    /// Time in the programs, and switches, at the last reading.
    seen: (Duration, u64),
    total: f64,
}

impl ProbeCost {
    /// Begins the timing. Without CAP_SYS_ADMIN, or before Linux 5.8, the cost stays unknown.
    pub(super) fn start(samples: bool) -> Self {
        Self { timing: enable_stats(Stats::RunTime).ok(), samples, ..Self::default() }
    }

    /// Takes in a reading, up to which there were so many `switches`, the last ones timed or not.
    pub(super) fn update(&mut self, ebpf: &Ebpf, switches: u64, timed: bool) {
        let since = switches.saturating_sub(self.seen.1);
        let rate = &mut self.ns_per_switch[usize::from(timed)];
        if self.timing.is_some() {
            let in_programs = ebpf.programs().filter_map(|(_, program)| Some(program.info().ok()?.run_time())).sum();
            if rate.is_none() {
                if since < ENOUGH_SWITCHES {
                    return;
                }
                let took: Duration = Duration::saturating_sub(in_programs, self.seen.0);
                *rate = Some(took.as_nanos() as f64 / since as f64);
            }
            self.seen.0 = in_programs;
        }
        self.total += rate.unwrap_or_default() * since as f64;
        self.seen.1 = switches;
        if self.is_known() {
            self.timing = None;
        }
    }

    fn is_known(&self) -> bool {
        let [untimed, timed] = self.ns_per_switch;
        timed.is_some() && (untimed.is_some() || !self.samples)
    }

    /// Time in the programs up to the last reading.
    pub(super) fn total(&self) -> Option<Nanos> {
        self.is_known().then_some(Nanos(self.total as u64))
    }
}
