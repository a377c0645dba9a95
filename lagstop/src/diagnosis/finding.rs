//! What a rule finds.

use std::{fmt, net::SocketAddr, sync::Arc};

use schemars::JsonSchema;
use serde::Serialize;

use super::{Confidence, Figure, Threshold};
use crate::{
    model::{CgroupId, Nanos},
    units::Value,
};

/// What a rule found, and everything that it takes to judge it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Finding {
    /// The rule.
    pub rule: Rule,
    /// How bad it is.
    pub severity: Severity,
    /// Whom it is about.
    pub subject: Subject,
    /// What was found, in one sentence.
    pub verdict: String,
    /// What was measured.
    pub measured: Vec<Figure>,
    /// What it was held against.
    pub threshold: Vec<Threshold>,
    /// How sure it is.
    pub confidence: Confidence,
    /// What speaks against it, one sentence each.
    pub against: Vec<String>,
    /// What to do, the most promising first.
    pub advice: Vec<Advice>,
    /// Every cgroup that a rule compared, for programs: people are shown a few of them in `measured`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cgroups: Vec<Candidate>,
}

/// The rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// What scheduling itself costs.
    SchedulingOverhead,
    /// How much of the CPU time that looks used is work.
    Utilisation,
    /// Who is light and waits, who is heavy, and what would come of the light going first.
    LagsCandidates,
    /// How many active cgroups the host bears.
    Density,
    /// Tasks that are moved from CPU to CPU too often.
    Migrations,
    /// Connections that wait to be accepted.
    Backlog,
    /// More runnable threads than CPUs that they get.
    OvercommittedThreads,
    /// A quota below the CPUs that are seen, and run into.
    QuotaWithoutCpuset,
    /// Contended, throttled or stolen from.
    WaitCauses,
}

/// How bad it is. Ordered from the best to the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// No problem found.
    Ok,
    /// It cannot be said.
    NotEnoughData,
    /// Worth knowing.
    Info,
    /// Worth acting on.
    Warning,
    /// Act on it.
    Critical,
}

/// Whom a finding is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Subject {
    /// The host.
    Host,
    /// A cgroup. Path and name are as they are on the host: they may hold anything.
    Cgroup {
        /// Inode number of its directory. `None` of one that only others are inside of, which is not measured itself.
        id: Option<CgroupId>,
        /// Path from the root of its hierarchy.
        path: Arc<str>,
        /// What people call it.
        name: Arc<str>,
    },
    /// A listening TCP address.
    Listener {
        /// Inode number of its network namespace.
        netns: u32,
        /// Address and port.
        address: SocketAddr,
        /// Inode number of the directory of the cgroup that accepts. `None` where it is not known.
        id: Option<CgroupId>,
        path: Option<Arc<str>>,
    },
}

/// A cgroup that takes part in the comparison of light and heavy ones.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Candidate {
    /// Which.
    #[serde(flatten)]
    pub cgroup: Subject,
    /// Light or heavy.
    pub class: CandidateClass,
    /// Light, and waits long for others: it would gain from going first.
    pub waits_long: bool,
    /// Mean Load Credit of all inside of it, in tasks.
    pub load_credit: Value,
    /// CPU time, in cores.
    pub cpu: Value,
    /// Run-queue wait for each second of CPU time. `None` where it had none.
    pub wait_per_cpu: Option<Value>,
    /// 99th percentile of its run-queue waits. `None` where there is no distribution.
    pub wait_p99_ns: Option<Nanos>,
    /// What is left of its wait where those that wait long get more weight, as simulated: 1 is no change. `None` where it was not simulated, or
    /// does not wait there.
    pub wait_left: Option<Value>,
}

/// Below or above the fair share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CandidateClass {
    /// It used less CPU time than its weight's part of what it and its siblings used.
    Light,
    /// All others.
    Heavy,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Advice {
    /// What, and what it costs.
    pub text: String,
    /// The command that does it, for a POSIX shell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

impl Advice {
    /// Advice that no one command carries out.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), command: None }
    }

    /// With the command, where there is one.
    #[must_use]
    pub fn command_if(self, command: Option<String>) -> Self {
        Self { command, ..self }
    }

    #[must_use]
    pub fn command(mut self, command: impl Into<String>) -> Self {
        self.command = Some(command.into());
        self
    }
}

impl Severity {
    /// Does what is this bad support a verdict of `self`? A bad verdict wants as bad or worse, a good one as good.
    pub(super) fn is_supported_by(self, other: Self) -> bool {
        if self >= Self::Info { other >= self } else { other <= self }
    }

    /// For people: it says without colour how bad it is.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::NotEnoughData => "NOT ENOUGH DATA",
            Self::Info => "INFO",
            Self::Warning => "WARNING",
            Self::Critical => "CRITICAL",
        }
    }
}

impl Rule {
    /// The name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SchedulingOverhead => "scheduling_overhead",
            Self::Utilisation => "utilisation",
            Self::LagsCandidates => "lags_candidates",
            Self::WaitCauses => "wait_causes",
            Self::Density => "density",
            Self::Migrations => "migrations",
            Self::OvercommittedThreads => "overcommitted_threads",
            Self::QuotaWithoutCpuset => "quota_without_cpuset",
            Self::Backlog => "backlog",
        }
    }

    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::SchedulingOverhead,
        Self::Utilisation,
        Self::LagsCandidates,
        Self::WaitCauses,
        Self::Density,
        Self::Migrations,
        Self::OvercommittedThreads,
        Self::QuotaWithoutCpuset,
        Self::Backlog,
    ];
}

/// The name in JSON.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Subject {
    /// So that it can be found on the host: with path and inode number, or network namespace.
    pub fn exactly(&self) -> String {
        match self {
            Self::Host => "host".to_owned(),
            Self::Cgroup { path, id, .. } => match id {
                Some(id) => format!("cgroup {path} (inode {})", id.0),
                None => format!("cgroup {path}"),
            },
            Self::Listener { netns, address, path, .. } => {
                let cgroup = path.as_ref().map(|path| format!(", cgroup {path}")).unwrap_or_default();
                format!("listener {address} (network namespace {netns}{cgroup})")
            }
        }
    }
}

/// "host", what people call the cgroup, or the address.
impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host => f.pad("host"),
            Self::Listener { address, .. } => f.pad(&address.to_string()),
            Self::Cgroup { id: Some(CgroupId::OTHER), .. } => f.pad("(other)"),
            Self::Cgroup { name, path, id } => match (&**name, &**path) {
                ("", "") => f.pad(&format!("cgroup {}", id.map_or(0, |id| id.0))),
                ("", path) => f.pad(path),
                (name, _) => f.pad(name),
            },
        }
    }
}
