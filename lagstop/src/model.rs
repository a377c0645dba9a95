//! What one interval says. Pure data and arithmetic: no I/O, no clock, no eBPF, no terminal.

mod by_cpu;
mod cgroup;
mod closer_look;
mod cpu;
mod crowd;
mod distribution;
mod hook;
mod host;
mod interval;
mod listener;
mod load_credit;
mod merge;
mod selection;
mod services;
mod session;
mod snapshot;
mod totals;
mod units;

pub use by_cpu::ByCpu;
pub use cgroup::{Cgroup, CgroupId, CgroupLabel, GroupBy, Throttling, Workload};
pub use closer_look::{CloserLook, Limits, Quota, Thread};
pub use cpu::{Cpu, Crowding, Place};
pub use distribution::{Bucket, Distribution, DistributionError, DistributionSum};
pub use hook::{Hook, HookState};
pub use host::{Host, Idle, Lost, Pressure};
pub use interval::Interval;
pub use listener::{Listener, ListenerTotals, NetworkNamespace, Traffic};
pub use load_credit::LoadCredits;
pub use merge::{Merger, merge};
pub use selection::Selection;
pub use services::{Services, Times};
pub use session::Session;
pub use snapshot::{CgroupCounters, CgroupState, CpuTotals, HostFigures, Snapshot};
pub use totals::Totals;
pub use units::{Cores, KERNEL_LOAD, Nanos, Tasks};
