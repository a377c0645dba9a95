//! What to say where no cause was found.

use super::{Verdict, VerdictCause};
use crate::{
    diagnosis::{Finding, Observations, Rule, Severity, Thresholds, overload},
    model::{Distribution, Measure},
    units,
};

/// The verdict that all is well, or that this is unknown.
pub(super) fn without_cause(observations: &Observations, findings: &[Finding], thresholds: &Thresholds) -> Verdict {
    let unknown = observations.too_short(thresholds).or_else(|| {
        let all_unknown = findings.iter().all(|finding| finding.severity == Severity::NotEnoughData);
        all_unknown.then(|| "no rule had what it needs".to_owned())
    });
    let unknown = unknown.or_else(|| {
        let why = || format!("run-queue wait is {}", observations.session.why_not(Measure::RunqWait));
        observations.whole().wait_ns.is_none().then(why)
    });
    if let Some(why) = unknown {
        let headline = format!("Cannot tell how this host does: {why}.");
        return Verdict {
            severity: Severity::NotEnoughData,
            headline,
            next: None,
            causes: Vec::new(),
            not_judged: Vec::new(),
        };
    }
    unexplained(observations, findings, thresholds).unwrap_or_else(|| Verdict {
        severity: Severity::Ok,
        headline: healthy(observations),
        next: None,
        causes: Vec::new(),
        not_judged: Vec::new(),
    })
}

/// The verdict that cgroups, or tasks outside of them, wait long without one main cause. `None` if none does.
fn unexplained(observations: &Observations, findings: &[Finding], thresholds: &Thresholds) -> Option<Verdict> {
    let long = overload::waiting_long(observations, thresholds, |_| true);
    // A cgroup that fills the CPUs alone says most. The overview of all waits always exists.
    let of = |rule: Rule| findings.iter().find(|it| it.rule == rule && it.severity == Severity::Info);
    let finding = of(Rule::Overload).or_else(|| of(Rule::WaitCauses)).or_else(|| of(Rule::NoisyNeighbour))?;
    let told = if long > 0 {
        let wait = if long == 1 { "waits" } else { "wait" };
        let all = units::plural(observations.active(), "cgroup");
        format!("{long} of {all} {wait} long for a CPU. {}", finding.verdict)
    } else if finding.rule == Rule::Overload && overload::is_felt(finding, thresholds) {
        // For tasks that are in no single cgroup.
        format!("{} No other cgroup waits long.", finding.verdict)
    } else {
        return None;
    };
    let cause = VerdictCause { says: told.clone(), ..VerdictCause::of(finding) };
    Some(Verdict {
        severity: Severity::Info,
        headline: told,
        next: cause.next.clone(),
        causes: vec![cause],
        not_judged: Vec::new(),
    })
}

fn healthy(observations: &Observations) -> String {
    let whole = observations.whole();
    let mut facts = Vec::new();
    let waits = observations.cgroups.values().filter_map(|observed| observed.runq_wait.as_ref());
    let waits = Distribution::sum(waits);
    match waits.quantile(0.99).zip(waits.quantile(1.0)) {
        // A few very long waits show in no other figure.
        Some((p99, longest)) => {
            facts.push(format!("99 % of all waits for a CPU end within {p99} (the longest: about {longest})"));
        }
        None => facts.push("no task waits for a CPU".to_owned()),
    }
    match whole.overhead() {
        Some(overhead) => facts.push(format!("switching takes {} of the CPU time", units::percent(overhead))),
        None => facts.push("switching costs were not measured".to_owned()),
    }
    let used = units::percent(whole.utilisation());
    // What was shorter than a merged interval is unknown.
    let healthy = if observations.span.merged_intervals > 0 { "Healthy on average" } else { "Healthy" };
    format!("{healthy}: {}, and the CPUs are {used} busy.", facts.join(", "))
}
