//! Findings of single cgroups and listeners.

use super::{Confidence, Figure, Finding, Rule, Severity, Subject, Threshold, Thresholds};
use crate::units;

/// The worst of `found`, by severity and then by the number beside each, up to the requested number. If there are none,
/// `healthy`.
pub(super) fn worst(
    mut found: Vec<(f64, Finding)>,
    thresholds: &Thresholds,
    healthy: impl FnOnce() -> Finding,
) -> Vec<Finding> {
    if found.is_empty() {
        return vec![healthy()];
    }
    found.sort_by(|(a, one), (b, other)| other.severity.cmp(&one.severity).then(b.total_cmp(a)));
    let most = thresholds.max_cgroup_findings.max(1);
    let hidden = found.len().saturating_sub(most) as u64;
    let mut findings: Vec<Finding> = found.into_iter().take(most).map(|(_, finding)| finding).collect();
    if let Some(last) = findings.last_mut().filter(|_| hidden > 0) {
        last.caveats.insert(0, format!("{} more findings of this kind are not shown.", units::count(hidden)));
    }
    findings
}

/// A finding about the host: no single cgroup or listener has the problem, or this is unknown.
pub(super) fn healthy(
    rule: Rule,
    (severity, verdict): (Severity, String),
    measured: Vec<Figure>,
    threshold: Threshold,
    confidence: Confidence,
) -> Finding {
    Finding {
        rule,
        culprits: Vec::new(),
        severity,
        subject: Subject::Host,
        verdict,
        measured,
        threshold: vec![threshold],
        confidence,
        caveats: Vec::new(),
        advice: Vec::new(),
        cgroups: Vec::new(),
    }
}
