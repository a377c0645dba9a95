//! Was a command disturbed while it ran? What its cgroup waited for, held against limits. Pure: no clock, no files.

mod account;
mod crowded;
mod limits;
mod outcome;
mod series;

pub use account::{Account, CommandWaits, WaitedBehind, Work};
pub use crowded::{CrowdedOut, Crowder};
pub use limits::{Disturbance, Limits};
pub use outcome::{CommandStatus, EndedRun, Exceeded, Run, RunShares, RunVerdict, Unmeasured, judge};
pub use series::{Method, RunSeries, Spread};
