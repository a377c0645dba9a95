//! A fleet as a Prometheus server knows it: what `lagstop serve` exports on each node, asked for, put together, and read.
//!
//! [`Client`] speaks to the server, `queries` knows what to ask, [`gather()`] fills a [`NodeTable`] of nodes by steps of time,
//! and what follows is pure: [`Analysis`] ranks nodes and workloads, finds how overhead and waits grow with density, and says
//! how many nodes the same work would take.

mod analysis;
mod answer;
mod client;
mod curve;
mod draws;
#[cfg(test)]
pub(crate) mod fixture;
mod fluctuation;
mod gather;
mod knee;
mod packing;
mod points;
mod queries;
mod selector;
mod table;
mod window;
mod workloads;

#[doc(hidden)]
pub use answer::check_answer;

pub use analysis::{Analysis, Densities, FleetSettings, FleetTotals, Gaps, NodeFigures};
pub use client::{Client, ClientError, Refused};
pub use curve::Bin;
pub use gather::{GatherError, Gathered, MissingMetric, gather};
pub use knee::Knee;
pub(crate) use packing::UTILISATION_LIMIT;
pub use packing::{AssumedEffect, Bound, PackedFleet, Packing, Today};
pub use points::NodeStep;
pub use queries::{NodeMetric, Source};
pub use selector::{Matcher, MatcherError, Selector};
pub use table::NodeTable;
pub use window::{Window, WindowError};
pub use workloads::{WorkloadFigures, Workloads};
