//! What a rule finds.

use std::{fmt, sync::Arc};

use serde::Serialize;

use super::{Confidence, Figure, Threshold};
use crate::model::CgroupId;

/// What a rule found, and everything that it takes to judge it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// The rule.
    pub id: FindingId,
    /// How bad it is.
    pub severity: Severity,
    /// Whom it is about.
    pub subject: Subject,
    /// What was found, in one sentence.
    pub verdict: String,
    /// What was measured.
    pub evidence: Vec<Figure>,
    /// What it was held against.
    pub thresholds: Vec<Threshold>,
    /// How sure it is.
    pub confidence: Confidence,
    /// What speaks against it, one sentence each.
    pub against: Vec<String>,
    /// What to do, the most promising first.
    pub advice: Vec<Advice>,
}

/// The rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingId {
    /// What scheduling itself costs.
    SchedulingOverhead,
    /// How much of the CPU time that looks used is work.
    Utilisation,
    /// Who is light, who is heavy, and who waits.
    LoadClasses,
    /// A light cgroup that waits long.
    LightWaits,
}

/// How bad it is. Ordered from the best to the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Subject {
    /// The host.
    Host,
    /// A cgroup. Path and name are as they are on the host: they may hold anything.
    Cgroup {
        /// Inode number of its directory.
        id: CgroupId,
        /// Path from the root of its hierarchy.
        path: Arc<str>,
        /// What people call it.
        name: Arc<str>,
    },
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
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

    /// With the command.
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

/// The name in JSON.
impl fmt::Display for FindingId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::SchedulingOverhead => "scheduling_overhead",
            Self::Utilisation => "utilisation",
            Self::LoadClasses => "load_classes",
            Self::LightWaits => "light_waits",
        })
    }
}

/// "host", or what people call the cgroup.
impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host => f.pad("host"),
            Self::Cgroup { id: CgroupId::OTHER, .. } => f.pad("(other)"),
            Self::Cgroup { name, path, id } => match (&**name, &**path) {
                ("", "") => f.pad(&format!("cgroup {}", id.0)),
                ("", path) => f.pad(path),
                (name, _) => f.pad(name),
            },
        }
    }
}
