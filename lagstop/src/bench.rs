//! The colocation benchmark of the CFS-LAGS paper (arXiv 2508.15703, §3.1, §5.2): N functions, each a process in a cgroup of
//! its own, under load; what they get done, how long that takes, and what the scheduler takes for itself meanwhile.
//!
//! Functions are processes of lagstop's own ([`function`]) that wait to be told when to start: all at the same moment. What the host does is measured
//! by one more, `lagstop record`, which gives up its privileges as always: who puts cgroups up does not measure.
//! `docs/benchmark.md` says how it maps to the paper.

mod arrivals;
mod assignment;
pub mod function;
mod latencies;
mod leavings;
mod moment;
mod point;
mod room;
mod run;
mod settings;
mod tally;
mod trace;
mod work;

pub use arrivals::{Demand, demands};
pub use assignment::Assignment;
pub use latencies::Latencies;
pub use leavings::sweep;
pub use point::{Bench, Host, Latency, Missing, Point, Side};
pub use room::{at_once, requests};
pub use run::{BenchError, FUNCTION, Progress, run};
pub use settings::{Settings, Workload};
pub use tally::Tally;
pub use trace::{Trace, TraceError};
pub use work::Speed;
