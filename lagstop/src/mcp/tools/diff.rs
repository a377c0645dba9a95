//! What changed from one recording to another.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Tool;
use crate::{
    diff::{CgroupChanges, Change, Counts, Diff, DiffSettings, Lone, compare},
    mcp::{
        answer::{Answer, List, bounded, limit},
        names::NOTICE,
        shelf::{Shelf, Unnamed, aside},
        trouble::Trouble,
    },
};

pub(super) struct DiffTool;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Request {
    /// Name of the recording before the change, from the tool `recordings` or from an earlier answer.
    before: String,
    /// Name of the recording after the change.
    after: String,
    /// Items in each list of the answer, from 1 to 50 (default 10).
    limit: Option<u64>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Reply {
    /// How names of the measured host are marked, and why.
    notice: &'static str,
    before: String,
    after: String,
    /// What changed, in a sentence or two.
    conclusion: String,
    /// Whether anything got significantly worse, on the host or in a cgroup.
    is_worse: bool,
    /// Caveats of the comparison.
    caveats: Vec<String>,
    /// Significant changes of the host. Metrics that are not listed did not change by more than chance explains, or
    /// could not be compared.
    host: List<Change>,
    /// Numbers of cgroups by kind.
    counts: Counts,
    /// Cgroups with significant changes, most changed first, each with these only.
    cgroups: List<CgroupChanges>,
    /// Cgroups only in the second recording, most CPU time first.
    appeared: List<Lone>,
    /// Cgroups only in the first recording, most CPU time first.
    gone: List<Lone>,
}

impl Tool for DiffTool {
    const NAME: &'static str = "diff";
    const TITLE: &'static str = "Compare two recordings";
    const ABOUT: &'static str = "\
        What changed from one recording to another, on the host and in each cgroup, and whether that is more than \
        chance. On a live host: call `overview` with 45 `seconds` before and after a change, and compare the two \
        measurements. Short ones show large changes only.";
    type Request = Request;
    type Reply = Reply;

    async fn answer(shelf: &Shelf, request: Request) -> Result<Answer, Trouble> {
        let most = limit(request.limit)?;
        let before = shelf.look(Some(&request.before), None, Unnamed::Last).await?;
        let after = shelf.look(Some(&request.after), None, Unnamed::Last).await?;
        aside(move || {
            let diff = compare(&before.side()?, &after.side()?, &DiffSettings::default());
            let (of_before, of_after) = (&before.listed.name, &after.listed.name);
            let conclusion = diff.verdict();
            let text = format!("From {of_before} to {of_after}: {conclusion}");
            let names = before.names().with(after.names());
            bounded(most, &names, &text, |most| reply(&diff, (of_before, of_after), &conclusion, most))
        })
        .await?
    }
}

fn reply(diff: &Diff, (before, after): (&str, &str), conclusion: &str, most: usize) -> Reply {
    let significant = |changes: &[Change]| -> Vec<Change> {
        changes.iter().filter(|change| change.verdict.is_significant()).cloned().collect()
    };
    let changed = diff.cgroups.iter().filter(|cgroup| cgroup.is_significant());
    let cgroups = changed.map(|cgroup| {
        let mut cgroup = cgroup.clone();
        cgroup.changes.retain(|change| change.verdict.is_significant());
        cgroup
    });
    Reply {
        notice: NOTICE,
        before: before.to_owned(),
        after: after.to_owned(),
        conclusion: conclusion.to_owned(),
        is_worse: diff.is_worse(),
        caveats: diff.doubts.clone(),
        host: List::of(significant(&diff.host), most),
        counts: diff.counts,
        cgroups: List::of(cgroups, most),
        appeared: List::of(diff.appeared.iter().cloned(), most),
        gone: List::of(diff.gone.iter().cloned(), most),
    }
}
