//! How the figures of a finding came about.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Tool,
    head::{Head, about},
};
use crate::{
    diagnosis::{Explanation, Finding, Rule, is_inside},
    mcp::{
        answer::{Answer, List, bounded, limit},
        names,
        seen::Seen,
        shelf::{Shelf, Unnamed, aside},
        trouble::Trouble,
    },
};

pub(super) struct Explain;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Request {
    /// Which finding: the `rule` of one that `diagnose` lists, e.g. noisy_neighbour.
    finding: String,
    /// Only findings about this cgroup: a path, a name or an id from another answer.
    cgroup: Option<String>,
    /// Name of a recording, from the tool `recordings` or from an earlier answer. By default the only one; on a live
    /// host, the last measurement.
    recording: Option<String>,
    /// Items in each list of the answer, from 1 to 50 (default 10).
    limit: Option<u64>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Reply {
    #[serde(flatten)]
    head: Head,
    /// Findings of this rule, each with the formula and the source of every figure, and with what went into it.
    explanations: List<Explanation>,
}

impl Tool for Explain {
    const NAME: &'static str = "explain";
    const TITLE: &'static str = "Explain a finding";
    const ABOUT: &'static str = "\
        How the figures of one finding were computed: formula, inputs and source of each. Ask it when a figure of a \
        diagnosis is doubted or has to be understood.";
    type Request = Request;
    type Reply = Reply;

    async fn answer(shelf: &Shelf, request: Request) -> Result<Answer, Trouble> {
        let most = limit(request.limit)?;
        let unknown = || Trouble::NoFinding(names::quoted(&request.finding));
        let rule = Rule::ALL.into_iter().find(|rule| rule.name() == request.finding).ok_or_else(unknown)?;
        let seen = shelf.look(request.recording.as_deref(), None, Unnamed::Last).await?;
        aside(move || {
            let findings = findings(&seen, rule, request.cgroup.as_deref())?;
            let said: Vec<&str> = findings.iter().map(|finding| finding.verdict.as_str()).take(most).collect();
            let text = format!("{}\n{}", said.join("\n"), about(&seen));
            let explain = |finding: &&Finding| {
                let brief = Finding { cgroups: Vec::new(), ..(*finding).clone() };
                Explanation { finding: brief, ..seen.observations.explain(finding) }
            };
            bounded(most, seen.names(), &text, |most| Reply {
                head: Head::of(&seen),
                explanations: List::of(findings.iter().map(explain), most),
            })
        })
        .await?
    }
}

/// The findings of `rule`: only those about `cgroup`, if one is named.
fn findings<'s>(seen: &'s Seen, rule: Rule, cgroup: Option<&str>) -> Result<Vec<&'s Finding>, Trouble> {
    let of_rule = seen.report().findings.iter().filter(|finding| finding.rule == rule);
    let cgroups = cgroup.map(|said| seen.cgroups(said)).transpose()?;
    let is_about = |finding: &&Finding| {
        cgroups.as_ref().is_none_or(|cgroups| {
            let path = finding.subject.path();
            let is_one = finding.subject.id().is_some_and(|id| cgroups.iter().any(|cgroup| cgroup.id == id));
            is_one || path.is_some_and(|path| cgroups.iter().all(|cgroup| is_inside(&cgroup.path, path)))
        })
    };
    let found: Vec<&Finding> = of_rule.filter(is_about).collect();
    let about = cgroup.map(|said| format!(" about {}", names::quoted(names::unquoted(said)))).unwrap_or_default();
    if found.is_empty() { Err(Trouble::NoFinding(format!("{rule}{about}"))) } else { Ok(found) }
}
