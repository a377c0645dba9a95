//! How a host is, in short.

use std::cmp::Reverse;

use schemars::JsonSchema;
use serde::Serialize;

use super::{
    Tool,
    head::{Head, Request, headline, short},
};
use crate::{
    diagnosis::{Figure, Verdict},
    mcp::{
        answer::{Answer, List, bounded, limit},
        shelf::{Shelf, Unnamed, aside},
        trouble::Trouble,
    },
    model::{Cgroup, CgroupNow},
};

pub(super) struct Overview;

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Reply {
    #[serde(flatten)]
    head: Head,
    /// What is wrong, what causes it, and what to do.
    verdict: Verdict,
    /// Main figures of the host.
    summary: Vec<Figure>,
    /// Cgroups with the longest waits first; with equal waits, those with the most CPU time.
    cgroups: List<CgroupNow>,
    /// Measures that are missing on this host, as text. Empty if all are there.
    not_measured: String,
}

impl Tool for Overview {
    const NAME: &'static str = "overview";
    const TITLE: &'static str = "How a host is";
    const ABOUT: &'static str = "\
        Begin here. Says in a sentence what is wrong with the CPU of a host and which cgroup (container, service) \
        causes it, or that it is healthy; then main figures and the cgroups that wait longest. On a live host it \
        measures for some seconds first.";
    type Request = Request;
    type Reply = Reply;

    async fn answer(shelf: &Shelf, request: Request) -> Result<Answer, Trouble> {
        let most = limit(request.limit)?;
        let seen = shelf.look(request.recording.as_deref(), request.seconds, Unnamed::New).await?;
        aside(move || {
            let report = seen.report();
            let mut cgroups: Vec<&Cgroup> = seen.whole.cgroups.iter().collect();
            let waited = |cgroup: &Cgroup| cgroup.totals.runq_wait_ns.unwrap_or_default();
            cgroups.sort_by_key(|cgroup| (Reverse((waited(cgroup), cgroup.totals.cpu_ns)), cgroup.id));
            bounded(most, seen.names(), &headline(&seen, report), |most| Reply {
                head: Head::of(&seen),
                verdict: short(&report.verdict, most),
                summary: report.summary.clone(),
                cgroups: List::of(cgroups.iter().map(|cgroup| CgroupNow::of(cgroup, seen.whole.duration_ns)), most),
                not_measured: seen.observations.session().not_measured().unwrap_or_default(),
            })
        })
        .await?
    }
}
