//! All findings on a recording, and what they rest on.

use schemars::JsonSchema;
use serde::Serialize;

use super::{Figure, Finding, LoadedSchedExt, Severity, Span, Thresholds, Verdict};
use crate::{
    model::{Host, Lost, Nanos, OwnCost, Session, lost_kind},
    units::{Unit, if_measured},
};

/// All findings on a recording, and what they rest on.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Report {
    /// Where and how it was measured.
    pub session: Session,
    /// How long.
    pub span: Span,
    /// What scheduled the host in place of the kernel's own scheduler, as far as that was recorded. `None`: nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loaded_sched_ext: Option<LoadedSchedExt>,
    /// What is wrong, whose doing it is, and what to do.
    pub verdict: Verdict,
    /// The figures that people ask for first.
    pub summary: Vec<Figure>,
    /// What was found, the worst first.
    pub findings: Vec<Finding>,
    /// What it was held against.
    pub thresholds: Thresholds,
    /// What measuring cost.
    pub own_cost: MeasuringCost,
    /// What could not be measured.
    pub lost: Lost,
    /// Why advice has no commands, and how to get them. `None` where it has all that there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commands_withheld: Option<String>,
}

/// What measuring cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct MeasuringCost {
    #[serde(flatten)]
    pub own: OwnCost,
    /// Process and programs, as CPUs kept busy on average. `None` where one is not measured.
    pub cores: Option<f64>,
}

impl MeasuringCost {
    pub(super) fn of(host: &Host, duration: Nanos) -> Self {
        let own = host.own_cost;
        let all = own.self_probe_ns.map(|probe| probe.saturating_add(own.self_cpu_ns));
        Self { own, cores: all.filter(|_| duration > Nanos::ZERO).map(|all| all.cores(duration).0) }
    }
}

impl Report {
    /// The system that was measured, for people: kernel, CPUs, and the scheduler if it is not the kernel's own.
    pub fn system(&self) -> String {
        let Self { session, span, loaded_sched_ext, .. } = self;
        let kernel = if session.kernel.is_empty() { "(unknown)" } else { &session.kernel };
        let scheduler = loaded_sched_ext.as_ref().map(|loaded| format!(", {}", loaded.in_words(span.intervals)));
        format!("Linux {kernel}, {}{}", session.cpus(session.cpus_online), scheduler.unwrap_or_default())
    }

    /// The worst severity of all findings.
    pub fn worst(&self) -> Severity {
        self.findings.iter().map(|finding| finding.severity).max().unwrap_or(Severity::NotEnoughData)
    }

    /// What could not be measured, in a sentence.
    fn what_was_lost(&self) -> String {
        let kinds = self.lost.kinds().filter(|&(_, count)| count > 0);
        let counted: Vec<String> = kinds.map(|(what, count)| lost_kind(what, count)).collect();
        if counted.is_empty() { "Nothing was lost.".to_owned() } else { format!("Lost: {}.", counted.join(", ")) }
    }

    /// What measuring cost and what was lost.
    pub fn cost_and_losses(&self) -> String {
        let cores = Unit::Cores.show_if_measured(self.own_cost.cores);
        format!("Measuring took {cores}. {}", self.what_was_lost())
    }

    /// What measuring cost, what was lost, what was measured by what or was not, and why there are no commands: a sentence each.
    pub fn footer(&self) -> Vec<String> {
        let MeasuringCost { own, cores } = &self.own_cost;
        let probes = if_measured(own.self_probe_ns, |ns| ns.to_string());
        let cores = cores.map(|cores| format!(", {} in all", Unit::Cores.show(cores))).unwrap_or_default();
        let mut lines = vec![
            format!("Measuring took {} of CPU time and {probes} in the kernel{cores}.", own.self_cpu_ns),
            self.what_was_lost(),
        ];
        let hooks = self.session.hooks.iter();
        let ways: Vec<String> =
            hooks.filter_map(|hook| Some(format!("{} by {}", hook.name, hook.way.as_ref()?))).collect();
        if !ways.is_empty() {
            lines.push(format!("Measured: {}.", ways.join(", ")));
        }
        lines.extend(
            self.session
                .missing_hooks()
                .map(|hook| format!("Not measured: {} ({}: {}).", hook.measures.join(", "), hook.name, hook.detail)),
        );
        lines.extend(self.commands_withheld.clone());
        lines
    }
}
