//! lagstop measures what the scheduler itself costs on a densely packed Linux host: per cgroup, who pays, who causes it,
//! and what helps.

mod background;
pub mod bench;
pub mod check;
pub mod cli;
pub mod client;
pub mod diagnosis;
pub mod diff;
pub mod display;
pub mod export;
pub mod fleet;
pub mod host;
pub mod kernel;
#[cfg(feature = "mcp")]
pub mod mcp;
pub mod memory;
pub mod metrics;
pub mod model;
pub mod random;
pub mod recording;
pub mod reference;
pub mod report;
pub mod run;
pub mod schedule;
pub mod serve;
mod signals;
pub mod source;
mod stats;
pub mod top;
pub mod trial;
pub mod units;
