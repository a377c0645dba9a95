//! What a rule finds.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use super::{Confidence, Figure, FigureDefinition, Severity, Subject, Threshold};
use crate::{display::display_name, model::Nanos, units::Value};

/// What a rule found, and everything that it takes to judge it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Finding {
    /// The rule.
    pub rule: Rule,
    /// How bad it is.
    pub severity: Severity,
    /// Whom it is about.
    pub subject: Subject,
    /// Which cgroups cause it, the worst first, where that was measured.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub culprits: Vec<Subject>,
    /// What was found, in one sentence.
    pub verdict: String,
    /// What was measured.
    pub measured: Vec<Figure>,
    /// What it was held against.
    pub threshold: Vec<Threshold>,
    /// How sure it is.
    pub confidence: Confidence,
    /// Caveats, one sentence each, the most important first.
    pub caveats: Vec<String>,
    /// What to do, the most promising first.
    pub advice: Vec<Advice>,
    /// Every cgroup that a rule compared, for programs: people are shown a few of them in `measured`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cgroups: Vec<Candidate>,
}

impl Finding {
    /// Whether it has this figure, measured or not.
    pub(super) fn has(&self, figure: &FigureDefinition) -> bool {
        figure.among(&self.measured).is_some()
    }

    /// The value of this figure. `None` if it was not measured, or if the finding is without it.
    pub(super) fn value(&self, figure: &FigureDefinition) -> Option<Value> {
        figure.among(&self.measured)?.value
    }
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
    /// Who makes a cgroup wait, and takes more than its share.
    NoisyNeighbour,
    /// What those that wait wait for.
    WaitCauses,
    /// More tasks want to run than there are CPUs.
    Overload,
    /// A quota that is used up.
    Throttled,
    /// CPU time that a hypervisor takes.
    Steal,
    /// Waits on full CPUs while others are idle.
    Pinned,
    /// Less CPU time than weights, quotas and CPU sets grant.
    Starved,
    /// As much CPU time as the weights grant, and too little for that.
    Outweighed,
    /// Siblings get the same, whatever they weigh.
    WeightsHaveNoEffect,
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
    /// The command that sets again what was set before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undo: Option<String>,
}

impl Advice {
    /// Advice that no one command carries out.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), command: None, undo: None }
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

    /// With the command that takes it back, where there is one.
    #[must_use]
    pub fn undo_if(self, undo: Option<String>) -> Self {
        Self { undo, ..self }
    }

    /// Without commands.
    pub(super) fn withhold(&mut self) {
        self.command = None;
        self.undo = None;
    }

    /// Its commands, each with what is shown before it.
    pub fn commands(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let all = [("$", &self.command), ("Undo:", &self.undo)];
        all.into_iter().filter_map(|(mark, command)| Some((mark, command.as_deref()?)))
    }

    /// The same as a script that can be run as it is: what takes it back is a comment.
    pub fn script(&self) -> Option<String> {
        let undo = self.undo.iter().map(|undo| format!("# Undo: {}", display_name(undo)));
        let command = self.command.iter().map(|command| display_name(command).into_owned());
        let lines: Vec<String> = command.chain(undo).collect();
        (!lines.is_empty()).then(|| lines.join("\n"))
    }
}

impl Rule {
    /// The name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SchedulingOverhead => "scheduling_overhead",
            Self::Utilisation => "utilisation",
            Self::LagsCandidates => "lags_candidates",
            Self::NoisyNeighbour => "noisy_neighbour",
            Self::WaitCauses => "wait_causes",
            Self::Density => "density",
            Self::Migrations => "migrations",
            Self::OvercommittedThreads => "overcommitted_threads",
            Self::QuotaWithoutCpuset => "quota_without_cpuset",
            Self::Backlog => "backlog",
            Self::Overload => "overload",
            Self::Throttled => "throttled",
            Self::Steal => "steal",
            Self::Pinned => "pinned",
            Self::Starved => "starved",
            Self::Outweighed => "outweighed",
            Self::WeightsHaveNoEffect => "weights_have_no_effect",
        }
    }

    /// What it looks at, for people.
    pub const fn title(self) -> &'static str {
        match self {
            Self::SchedulingOverhead => "cost of scheduling",
            Self::Utilisation => "CPU time lost to switching",
            Self::LagsCandidates => "short jobs behind long ones",
            Self::NoisyNeighbour => "waits behind one neighbour",
            Self::WaitCauses => "what tasks wait for",
            Self::Density => "how many cgroups fit",
            Self::Migrations => "moves between CPUs",
            Self::OvercommittedThreads => "too many threads",
            Self::QuotaWithoutCpuset => "quota below the visible CPUs",
            Self::Backlog => "connection backlogs",
            Self::Overload => "too few CPUs",
            Self::Throttled => "throttling",
            Self::Steal => "steal",
            Self::Pinned => "full CPUs beside idle ones",
            Self::Starved => "less than its share",
            Self::Outweighed => "low weights",
            Self::WeightsHaveNoEffect => "weights without effect",
        }
    }

    pub const ALL: [Self; 17] = [
        Self::SchedulingOverhead,
        Self::Utilisation,
        Self::LagsCandidates,
        Self::NoisyNeighbour,
        Self::WaitCauses,
        Self::Density,
        Self::Migrations,
        Self::OvercommittedThreads,
        Self::QuotaWithoutCpuset,
        Self::Backlog,
        Self::Overload,
        Self::Throttled,
        Self::Steal,
        Self::Pinned,
        Self::Starved,
        Self::Outweighed,
        Self::WeightsHaveNoEffect,
    ];
}

/// The name in JSON.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
