//! Why a policy is not for this kernel, or not for these cgroups.

use std::{num::ParseFloatError, path::PathBuf};

use thiserror::Error;

use super::THROTTLE;
use crate::{
    display::short_name,
    trial::{Sides, SwitchError, cgroup_file::BUDGET},
};

#[derive(Debug, Error)]
pub enum PolicyError {
    #[error(
        "there is no {} cgroup to try it on, and a trial needs a light and a heavy one. Cgroups with cpu.idle, and those that \
         contain lagstop itself, are left out",
        missing
    )]
    NotBoth { missing: &'static str },
    #[error(
        "the sched_ext scheduler {} is loaded, and may ignore weights, cpu.idle and slices: the trial would change files without \
         effect. Stop that scheduler first, or try lags-static",
        short_name(.0, 64)
    )]
    OtherScheduler(String),
    #[error(transparent)]
    Switch(#[from] SwitchError),
    #[error("this kernel has no task slices, which came with Linux 6.12")]
    NoSlices,
    #[error("this kernel has no cpu.latency_awareness, which needs the patch of the CFS-LAGS paper")]
    NoLatencyAwareness,
    #[error("{0} has no cpu.idle, which came with Linux 5.15")]
    NoIdle(String),
    #[error("{path} has no {file}")]
    NoWeight { path: String, file: &'static str },
    #[error("{file} of {path} is {says}")]
    Weight { path: String, file: String, says: String, source: ParseFloatError },
    #[error(
        "a looping real-time task would block its CPU forever: {THROTTLE} is -1 or has no effect on this kernel, and lagstop \
         found no active fair server"
    )]
    NoThrottle,
    #[error("{} has no {BUDGET}", .0.display())]
    NoBudget(PathBuf),
    #[error("{BUDGET} of the root is {says}")]
    RootBudget { says: String, source: ParseFloatError },
    #[error("the root has no real-time budget left: its {BUDGET} is {0}")]
    BudgetUsedUp(f64),
}

impl PolicyError {
    /// One of the sides is empty.
    pub(in crate::trial) const fn not_both(sides: &Sides) -> Self {
        Self::NotBoth { missing: if sides.light.is_empty() { "light" } else { "heavy" } }
    }
}
