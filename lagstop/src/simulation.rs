//! What would become of the waits in a recording if other cgroups went first: its tasks, simulated on the host's CPUs.
//!
//! Trace-driven: in each interval the tasks of a cgroup run as many bursts of CPU time, as long on average, as were measured,
//! and sleep in between as long on average as they did. When each one wakes up and how long its burst is, is not in a
//! recording: it is drawn at random. Switches cost what they cost on this host, and what they take is missing for work. What
//! the simulation says of the policy that was measured can be held against the measurement: that is its error.

mod cpu;
mod demand;
mod policy;
mod run;
mod switching;

pub use demand::{Demand, Step, Trace};
pub use policy::Policy;
pub use run::{Outcome, Served, run};
pub use switching::Switching;
