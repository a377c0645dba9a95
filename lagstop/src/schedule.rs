//! LAGS as the host's scheduler (CFS-LAGS paper, §4.2), through sched_ext: kernel's facts → plan → object → attached, and what
//! each cgroup's share is, worked out once a second.
//!
//! aya has neither calls of kernel functions nor struct_ops for programs in Rust (aya#200, aya#1444): `object`, `calls` and
//! `operations` are as much of a loader as this takes. They go when aya has both.

mod attached;
mod calls;
mod demand;
mod error;
mod object;
mod operations;
mod plan;
mod real_time_guard;
mod run;
mod shares;
mod status;
mod topology;
mod tuning;

pub use attached::{AttachedScheduler, SchedulerCounts, SchedulerEnd};
pub use demand::IgnoredQuota;
pub use error::SchedulerError;
pub use plan::SchedulePlan;
pub use real_time_guard::RealTimeGuard;
pub use run::{GroupUse, Learnt, PreparedSchedule, RunningScheduler, ScheduleOptions, prepare};
pub use status::{GroupStatus, ScheduleState, SchedulerStatus, StatusError};
pub use tuning::{Credit, Tuning};

/// The object that `cargo xtask ebpf` builds.
static OBJECT: &[u8] = aya::include_bytes_aligned!("../bpf/scheduler.bpf.o");
/// What the kernel calls the scheduler.
pub const NAME: &str = "lags";
