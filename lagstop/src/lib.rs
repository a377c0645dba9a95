//! lagstop measures what the scheduler itself costs on a densely packed Linux host: per cgroup, who pays, who causes it,
//! and what helps.

pub mod diagnosis;
pub mod kernel;
pub mod model;
pub mod report;
pub mod source;
