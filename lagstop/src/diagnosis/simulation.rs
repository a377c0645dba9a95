//! What would become of the waits in a recording if cgroups were scheduled otherwise: its tasks, simulated on the host's CPUs.
//!
//! Trace-driven: in each interval the tasks of a cgroup run as many bursts of CPU time, as long on average, as were measured,
//! and sleep in between as long on average as they did. When each one wakes up and how long its burst is, is not in a
//! recording: it is drawn at random. The scheduler is the kernel's fair one (EEVDF) with its tree of cgroups, weights, slices,
//! ticks, quotas and CPU sets. Switches cost what they cost on this host, and what they take is missing for work. What the
//! simulation says of the policy that was measured can be held against the measurement: that is its error.

mod cpu;
mod credit;
mod demand;
mod fair;
mod kernel;
mod outcome;
mod policy;
mod run;
mod settled;
mod shared;
mod switching;

pub use demand::{Arrivals, Demand, Step, Trace};
pub use kernel::SimulatedKernel;
pub use outcome::{Served, SimulatedWaits, SimulationOutcome};
pub use policy::{SimulatedDynamic, SimulatedPolicy, Weight};
pub use run::run;
pub use switching::Switching;

pub use crate::model::Group;
