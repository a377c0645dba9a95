//! What the rules found, with evidence.

use schemars::JsonSchema;
use serde::Serialize;

use super::{
    Tool,
    head::{Head, Request, headline, short},
};
use crate::{
    diagnosis::{Finding, Verdict},
    mcp::{
        answer::{Answer, List, bounded, limit},
        shelf::{Shelf, Unnamed, aside},
        trouble::Trouble,
    },
};

pub(super) struct Diagnose;

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Reply {
    #[serde(flatten)]
    head: Head,
    /// What is wrong, what causes it, and what to do.
    verdict: Verdict,
    /// What each rule found, the worst first, with figures, thresholds, confidence and caveats.
    findings: List<Finding>,
    /// CPU time that measuring took, and what could not be measured.
    cost_and_losses: String,
    /// Why advice has no commands. `None` if it has all that there are.
    no_commands: Option<&'static str>,
}

const NO_COMMANDS: &str = "\
    Commands are left out: the recording is of another host or of an earlier boot, where they would name other \
    cgroups.";

impl Tool for Diagnose {
    const NAME: &'static str = "diagnose";
    const TITLE: &'static str = "Diagnose a host";
    const ABOUT: &'static str = "\
        The full diagnosis: the verdict, then every finding with measured figures, thresholds, confidence, caveats and \
        advice. Ask it for the evidence behind an overview, or for what else was checked. On a live host it measures \
        for some seconds first, unless `recording` names an earlier measurement.";
    type Request = Request;
    type Reply = Reply;

    async fn answer(shelf: &Shelf, request: Request) -> Result<Answer, Trouble> {
        let most = limit(request.limit)?;
        let seen = shelf.look(request.recording.as_deref(), request.seconds, Unnamed::New).await?;
        aside(move || {
            let report = seen.report();
            // The list of all cgroups that a finding compared is for programs: it is left out.
            let brief = |finding: &Finding| Finding { cgroups: Vec::new(), ..finding.clone() };
            bounded(most, seen.names(), &headline(&seen, report), |most| Reply {
                head: Head::of(&seen),
                verdict: short(&report.verdict, most),
                findings: List::of(report.findings.iter().map(brief), most),
                cost_and_losses: report.cost_and_losses(),
                no_commands: report.commands_withheld.as_ref().map(|_| NO_COMMANDS),
            })
        })
        .await?
    }
}
