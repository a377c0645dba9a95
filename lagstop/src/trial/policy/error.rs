//! Why a policy is not for this kernel, or not for these cgroups.

use std::{num::ParseFloatError, path::PathBuf};

use thiserror::Error;

use super::THROTTLE;
use crate::{
    display::short_name,
    trial::{SwitchError, cgroup_file::BUDGET},
};

#[derive(Debug, Error)]
pub enum PolicyError {
    #[error(
        "the policy needs light cgroups with long waits and heavy cgroups beside them; lagstop did not find both (idle cgroups, and the one that lagstop runs in, do not count). Name the light ones with --light"
    )]
    NotBoth,
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
