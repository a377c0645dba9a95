//! Why something is not measured, or not in the best way.

use thiserror::Error;

use crate::{
    display::short_name,
    kernel::{Setback, error::chain},
    model::Measure,
};

/// What speaks against a way, or against one of its probes.
#[derive(Clone, Debug, Error)]
pub(super) enum Refusal {
    #[error("turned off")]
    Off,
    #[error("needs {0}, which is missing or off")]
    Needs(Measure),
    #[error("needs run-queue waits from sched_info: clock times do not include the CPU")]
    ByTheClock,
    #[error("the loaded sched_ext scheduler {} replaces the pick function; to measure it, stop that scheduler and start lagstop again", short_name(.0, 64))]
    NotCalled(String),
    #[error("this kernel is built without {0}")]
    Option(&'static str),
    #[error("kernel {release} has no {what}")]
    Lacks { release: String, what: String },
    #[error("kernel {release} has unknown arguments for the tracepoint {tracepoint}")]
    Arguments { release: String, tracepoint: &'static str },
    #[error("BPF trampolines need the kernel's own types")]
    Types,
    #[error("on kernel {release} a task that sleeps in {function} may return to freed memory")]
    Sleeps { release: String, function: &'static str },
    #[error("{}", chain(.0))]
    Tried(#[source] Setback),
}
