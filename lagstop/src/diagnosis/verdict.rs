//! The answer: what is wrong, whose doing it is, and what to do. Made of what the rules found.
//!
//! Several rules see the same trouble from different sides. Each cause is told once, by the rule that explains it best; the
//! worst is the headline, a few more stand beneath it, and the rest are findings like any other.

mod explained;
mod headline;

use schemars::JsonSchema;
use serde::Serialize;

use super::{Advice, Candidate, Finding, Observations, Rule, Severity, Subject, Thresholds};

/// What is wrong with a host, in a sentence and by cause.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Verdict {
    /// How bad it is for those whose work runs here.
    pub severity: Severity,
    /// What is wrong and whose doing it is, or that nothing is.
    pub headline: String,
    /// What to do about it. `None` where there is nothing to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<Advice>,
    /// What makes tasks wait or wastes CPU time, the worst first; the first is the headline. Each says it in its own words.
    pub causes: Vec<VerdictCause>,
    /// What could not be judged because of how the recording was made or read, a sentence each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_judged: Vec<String>,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct VerdictCause {
    /// The rule whose finding it is.
    pub rule: Rule,
    /// How bad it is, or the worst of what it explains.
    pub severity: Severity,
    /// Who is harmed.
    pub subject: Subject,
    /// Whose doing it is, the worst first, where that was measured.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub culprits: Vec<Subject>,
    /// In a sentence or two.
    pub says: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<Advice>,
    /// Other findings that it explains.
    #[serde(skip)]
    explains: Vec<Explained>,
    /// Light and heavy cgroups that it compares.
    #[serde(skip)]
    compared: Vec<Candidate>,
    /// It is about a CPU set, and all that are in it.
    #[serde(skip)]
    is_of_set: bool,
}

/// A finding that a cause explains: its rule, and whom it is about.
type Explained = (Rule, Subject);

impl Verdict {
    /// Causes that are told beneath the headline. Chosen: a report fits on a screen.
    pub const BENEATH: usize = 3;

    pub(super) fn of(observations: &Observations, findings: &[Finding], thresholds: &Thresholds) -> Self {
        let causes = explained::causes(findings);
        let verdict = match causes.first() {
            Some(worst) => Self {
                severity: worst.severity,
                headline: worst.says.clone(),
                next: worst.next.clone(),
                causes,
                not_judged: Vec::new(),
            },
            None => headline::without_cause(observations, findings, thresholds),
        };
        Self { not_judged: observations.not_judged(), ..verdict }
    }

    pub(super) fn advice_mut(&mut self) -> impl Iterator<Item = &mut Advice> {
        self.next.iter_mut().chain(self.causes.iter_mut().filter_map(|cause| cause.next.as_mut()))
    }

    /// The causes beneath the headline.
    pub fn beneath(&self) -> &[VerdictCause] {
        let others = self.causes.get(1..).unwrap_or_default();
        &others[..others.len().min(Self::BENEATH)]
    }

    /// Is this finding one of the causes that are told, or explained by one?
    pub fn tells(&self, finding: &Finding) -> bool {
        self.causes.iter().take(1 + Self::BENEATH).any(|cause| cause.is_of(finding) || cause.explains(finding))
    }
}

impl VerdictCause {
    fn of(finding: &Finding) -> Self {
        Self {
            rule: finding.rule,
            severity: finding.severity,
            subject: finding.subject.clone(),
            culprits: finding.culprits.clone(),
            says: finding.verdict.clone(),
            next: finding.advice.first().cloned(),
            explains: Vec::new(),
            compared: finding.cgroups.clone(),
            is_of_set: explained::is_of_set(finding),
        }
    }

    /// Is it this finding's?
    pub fn is_of(&self, finding: &Finding) -> bool {
        (self.rule, &self.subject) == (finding.rule, &finding.subject)
    }

    fn explains(&self, finding: &Finding) -> bool {
        self.explains.iter().any(|(rule, subject)| (*rule, subject) == (finding.rule, &finding.subject))
    }

    /// Whoever does the harm, or suffers it.
    fn is_about(&self, subject: &Subject) -> bool {
        self.subject == *subject || self.culprits.contains(subject)
    }
}

#[cfg(test)]
mod tests;
