//! The colocation benchmark of the CFS-LAGS paper (arXiv 2508.15703, §3.1, §5.2): N functions, each a process in a cgroup of
//! its own, under load; what they get done, how long that takes, and what the scheduler takes for itself meanwhile.
//!
//! Functions are processes of lagstop's own ([`function`]) that wait to be told when to start: all at the same moment.
//! `docs/bench.md` says how it maps to the paper.

mod arrivals;
mod assignment;
mod cleanup;
pub mod function;
mod latencies;
mod point;
mod resource_limits;
mod run;
mod settings;
mod tally;
mod trace;
mod work;

pub use arrivals::{FunctionDemand, demands};
pub use assignment::Assignment;
pub use cleanup::sweep;
pub use latencies::Latencies;
pub use point::{Bench, BenchHost, BenchRun, BenchSide, Latency, MissingRun};
pub use resource_limits::{at_once, requests};
pub use run::{BenchError, BenchProgress, FUNCTION, run};
pub use settings::{BenchSettings, BenchWorkload};
pub use tally::Tally;
pub use trace::{RequestTrace, TraceError, TraceRowError};
pub use work::Speed;
