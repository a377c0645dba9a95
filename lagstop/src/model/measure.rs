//! What there is to measure.

use std::{fmt, str::FromStr};

use thiserror::Error;

/// Something that is measured in one of several ways, depending on the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Measure {
    /// Switches, CPU time, threads. Without them there is nothing.
    Switches,
    /// Pick and swap cost.
    SwitchCost,
    /// Time in the function that picks the next task of the fair class.
    Pick,
    /// Time a task was runnable and not running.
    RunqWait,
    /// What made it wait.
    Blame,
    /// Moves between CPUs.
    Migrations,
    /// TCP connections that are established and closed.
    TcpState,
    /// Connections that a process takes.
    Accept,
}

impl Measure {
    /// All, in the order in which they are shown.
    pub const ALL: [Self; 8] = [
        Self::Switches,
        Self::SwitchCost,
        Self::Pick,
        Self::RunqWait,
        Self::Blame,
        Self::Migrations,
        Self::TcpState,
        Self::Accept,
    ];

    /// Its name in `--hooks` and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Switches => "switches",
            Self::SwitchCost => "switch-cost",
            Self::Pick => "pick",
            Self::RunqWait => "runq-wait",
            Self::Blame => "blame",
            Self::Migrations => "migrations",
            Self::TcpState => "tcp-state",
            Self::Accept => "accept",
        }
    }

    /// What is not measured without it.
    pub const fn gives(self) -> &'static [&'static str] {
        match self {
            Self::Switches => &["everything"],
            Self::SwitchCost => &["pick cost", "swap cost", "kept-running cost", "switch cost", "overhead"],
            Self::Pick => &["pick function cost"],
            Self::RunqWait => &["run-queue wait", "runnable load", "Load Credit"],
            Self::Blame => &["causes of waits"],
            Self::Migrations => &["migrations"],
            Self::TcpState => &["accept wait", "service of listeners", "abandoned connections"],
            Self::Accept => &["accept wait", "service of listeners"],
        }
    }

    /// The measure of which it is a part: alone it is of no use.
    pub const fn needs(self) -> Option<Self> {
        match self {
            Self::TcpState => Some(Self::Accept),
            Self::Accept => Some(Self::TcpState),
            Self::Blame => Some(Self::RunqWait),
            _ => None,
        }
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that no measure has.
#[derive(Debug, Error)]
#[error("unknown measure `{0}`; known measures: {known}", known = Measure::ALL.map(Measure::name).join(", "))]
pub struct UnknownMeasure(String);

impl FromStr for Measure {
    type Err = UnknownMeasure;

    fn from_str(name: &str) -> Result<Self, UnknownMeasure> {
        let known = Self::ALL.into_iter().find(|measure| measure.name() == name);
        known.ok_or_else(|| UnknownMeasure(name.to_owned()))
    }
}
