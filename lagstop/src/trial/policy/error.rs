//! Why a policy is not for this kernel, or not for these cgroups.

use std::{num::ParseFloatError, path::PathBuf};

use thiserror::Error;

use super::THROTTLE;
use crate::trial::cgroup_file::BUDGET;

#[derive(Debug, Error)]
pub enum PolicyError {
    #[error(
        "it takes light cgroups that wait long and heavy ones beside them, and there are not both: --light names the light ones"
    )]
    NotBoth,
    #[error("this kernel has no slices of tasks: they came with Linux 6.12")]
    NoSlices,
    #[error("this kernel has no cpu.latency_awareness: it takes the patch of the CFS-LAGS paper")]
    NoLatencyAwareness,
    #[error("{0} has no cpu.idle: it came with Linux 5.15")]
    NoIdle(String),
    #[error("{path} has no {file}")]
    NoWeight { path: String, file: &'static str },
    #[error("{file} of {path} is {says}")]
    Weight { path: String, file: String, says: String, source: ParseFloatError },
    #[error(
        "a real-time task that loops would keep its CPU for good: {THROTTLE} is -1 or has no effect on this kernel, and no \
         fair server is known to be on"
    )]
    NoThrottle,
    #[error("{} has no {BUDGET}", .0.display())]
    NoBudget(PathBuf),
    #[error("{BUDGET} of the root is {says}")]
    RootBudget { says: String, source: ParseFloatError },
    #[error("the root has no real-time budget to give away: its {BUDGET} is {0}")]
    BudgetUsedUp(f64),
}
