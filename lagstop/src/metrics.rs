//! What `lagstop serve` exposes: intervals added up to totals that only grow, and these as metrics.
//!
//! Pure: no I/O, no clock. Intervals go into an [`Accumulator`]; a [`MetricsSnapshot`] of it is encoded as what the scraper
//! asks for ([`encode`]). `docs/metrics.md` has every metric.

mod accumulator;
mod caused;
mod families;
mod format;
mod histogram;
mod labels;
mod listeners;
mod members;
mod message;
mod protobuf;
mod sampled_costs;
mod series;
mod snapshot;
mod text;

pub use accumulator::{Accumulator, MetricsSettings};
pub use families::{About, Family, Kind, families, families_about};
pub use format::{Exposition, encode};
pub use histogram::Histogram;
pub use labels::{Label, Labels};
pub use series::{CausedSeries, CgroupSeries, HostSeries, ListenerSeries};
pub use snapshot::MetricsSnapshot;

#[cfg(test)]
mod tests;
