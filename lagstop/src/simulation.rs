//! What would become of the waits in a recording if other cgroups went first: its tasks, simulated on the host's CPUs.
//!
//! Trace-driven: in each interval as many bursts of CPU time arrive in a cgroup, as long on average, as were measured; no
//! more of them are runnable at once than it had tasks. When they come and how long each is, is not in a recording: it is
//! drawn at random, and is the same under every policy. What the simulation says of the policy that was measured can be held
//! against the measurement: that is its error.

mod cpu;
mod demand;
mod policy;
mod run;

pub use demand::{Demand, Step, Trace};
pub use policy::Policy;
pub use run::{Outcome, Served, run};
