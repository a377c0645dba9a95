//! Which findings are causes, and which findings are explained by others.

use std::cmp::Reverse;

use super::VerdictCause;
use crate::{
    diagnosis::{
        CandidateClass, FigureDefinition, Finding, Limit, Rule, Severity, Subject, is_inside, noisy_neighbour,
        overload, pinned,
    },
    units::{self, MOSTLY, Value},
};

/// Rules that find causes. If several are equally severe, the first explains most. All other rules describe, compare or
/// plan.
const CAUSES: [Rule; 15] = [
    Rule::Throttled,
    Rule::Pinned,
    Rule::Backlog,
    Rule::WeightsHaveNoEffect,
    Rule::Starved,
    Rule::Outweighed,
    Rule::Overload,
    Rule::LagsCandidates,
    Rule::NoisyNeighbour,
    Rule::OvercommittedThreads,
    Rule::Steal,
    Rule::SchedulingOverhead,
    Rule::Density,
    Rule::Utilisation,
    Rule::Migrations,
];
/// From this number on, cgroups with short jobs that wait are reported together. Chosen: one or two are better described by what
/// each waits for.
const SEVERAL: usize = 3;

/// Findings that need action, the worst first, without those that another one explains.
pub(super) fn causes(findings: &[Finding]) -> Vec<VerdictCause> {
    let mut ranked: Vec<(Rank, &Finding)> =
        findings.iter().filter_map(|finding| Some((Rank::of(finding, findings)?, finding))).collect();
    // The order of a rule's findings stays: the worst came first.
    ranked.sort_by_key(|&(rank, _)| rank);
    let ranked: Vec<&Finding> = ranked.into_iter().map(|(_, finding)| finding).collect();
    let mut causes: Vec<VerdictCause> = Vec::new();
    let (left_out, told): (Vec<&Finding>, Vec<&Finding>) =
        ranked.iter().partition(|finding| is_of_few(finding, &ranked));
    for finding in told {
        match causes.iter_mut().find(|cause| explains(cause, finding)) {
            Some(cause) => cause.take_in(finding),
            None => causes.push(VerdictCause::of(finding)),
        }
    }
    for overload in left_out {
        let of_them = causes.iter().position(|cause| share_culprits(cause, overload)).unwrap_or(0);
        if let Some(cause) = causes.get_mut(of_them) {
            cause.take_in(overload);
        }
    }
    causes.iter_mut().for_each(VerdictCause::tell_the_others);
    // One may have explained what another one was told early for.
    causes.sort_by_key(|cause| Reverse(cause.severity));
    causes
}

/// Where a finding stands among the causes, the first first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    severity: Reverse<Severity>,
    /// By [`CAUSES`].
    rule: usize,
    among: Among,
}

/// The order of what says who waits behind whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Among {
    /// Each finding of most rules; here, a neighbour that takes too much, or may.
    Any,
    /// Short jobs that wait behind long ones, and as long behind each other.
    ExplainsCompetitors,
    /// A neighbour that takes no more than its share.
    Competitor,
    /// Only one or two cgroups wait: what they wait for describes it better.
    Few,
}

impl Rank {
    /// `None` for what is no cause.
    fn of(finding: &Finding, all: &[Finding]) -> Option<Self> {
        let (mut severity, mut rule, mut among) = (finding.severity, finding.rule, Among::Any);
        if rule == Rule::LagsCandidates && waiting_long(finding) < SEVERAL {
            (rule, among) = (Rule::NoisyNeighbour, Among::Few);
        } else if rule == Rule::LagsCandidates {
            let cause = VerdictCause::of(finding);
            let competitors = all.iter().filter(|other| is_competitor(other) && explains(&cause, other));
            let worst = competitors.map(|other| other.severity).max();
            if let Some(worst) = worst.filter(|worst| *worst > severity) {
                // Else whoever happened to run would be told instead of the cause.
                (severity, rule, among) = (worst, Rule::NoisyNeighbour, Among::ExplainsCompetitors);
            }
        } else if is_competitor(finding) {
            among = Among::Competitor;
        }
        let rule = CAUSES.iter().position(|one| *one == rule)?;
        (finding.severity >= Severity::Warning).then_some(Self { severity: Reverse(severity), rule, among })
    }
}

/// Is it about a neighbour that takes no more than its share, all the time?
fn is_competitor(finding: &Finding) -> bool {
    let is_of_a_part = || finding.has(&noisy_neighbour::figures::contended);
    finding.rule == Rule::NoisyNeighbour && takes_too_much(finding) == Some(false) && !is_of_a_part()
}

/// Are the CPUs full because of a few cgroups, and do other findings describe what these do to most of the others?
fn is_of_few(finding: &Finding, all: &[&Finding]) -> bool {
    if finding.rule != Rule::Overload {
        return false;
    }
    let count = |figure: &FigureDefinition| finding.value(figure).map_or(f64::NAN, Value::as_f64);
    let filling = count(&overload::figures::filling);
    let is_named = |other: &&&Finding| other.culprits.iter().any(|culprit| finding.culprits.contains(culprit));
    let victims = |other: &&Finding| match other.rule {
        Rule::LagsCandidates => waiting_long(other),
        Rule::NoisyNeighbour => 1,
        _ => 0,
    };
    let victims: usize = all.iter().filter(is_named).map(victims).sum();
    let others = count(&overload::figures::waiting_long) - filling;
    others >= filling && victims as f64 >= MOSTLY * others
}

impl VerdictCause {
    /// Counts `finding` as explained.
    fn take_in(&mut self, finding: &Finding) {
        self.explains.push((finding.rule, finding.subject.clone()));
        if finding.severity > self.severity && finding.rule == Rule::NoisyNeighbour {
            self.says = format!("{} The worst: {}", self.says, finding.verdict);
        }
        self.severity = self.severity.max(finding.severity);
        // Its cost, and the others that it harms, are part of the story.
        if matches!(finding.rule, Rule::SchedulingOverhead | Rule::Backlog) {
            self.says = format!("{} {}", self.says, finding.verdict);
        }
    }

    /// Which others wait for the same reason.
    fn tell_the_others(&mut self) {
        let alike: Vec<&Subject> =
            self.explains.iter().filter(|(rule, _)| *rule == self.rule).map(|(_, subject)| subject).collect();
        let told = match alike[..] {
            [] => return,
            [one] => format!("{one} waits for the same reason."),
            [first, ..] => {
                let more = units::plural(alike.len() as u64 - 1, "other");
                format!("{first} and {more} wait for the same reason.")
            }
        };
        self.says = format!("{} {told}", self.says);
    }
}

fn explains(cause: &VerdictCause, finding: &Finding) -> bool {
    let is_same = cause.subject == finding.subject;
    let same_culprits = share_culprits(cause, finding);
    match (cause.rule, finding.rule) {
        // A cgroup that is stopped, or kept on a full CPU, queues behind its own threads and its neighbours there.
        (Rule::Throttled | Rule::Pinned, Rule::OvercommittedThreads) => {
            is_same || cause.is_of_set && cause.is_about(&finding.subject)
        }
        // Each CPU set is a separate cause.
        (Rule::Pinned, Rule::Pinned) => !cause.is_of_set && !is_of_set(finding),
        (Rule::Pinned, Rule::NoisyNeighbour | Rule::Starved) => {
            is_same || same_culprits || cause.is_about(&finding.subject) || finding.culprits.contains(&cause.subject)
        }
        // The weights explain why it waits behind others.
        (Rule::Starved | Rule::Outweighed | Rule::WeightsHaveNoEffect, Rule::NoisyNeighbour)
        | (Rule::Outweighed, Rule::Starved | Rule::Outweighed) => is_same || is_of_one_inside(cause, finding),
        (Rule::Starved | Rule::Outweighed | Rule::Throttled | Rule::Pinned | Rule::NoisyNeighbour, Rule::Backlog) => {
            is_of_one_inside(cause, finding)
        }
        (Rule::Starved | Rule::Outweighed, Rule::LagsCandidates) => {
            let mut waiting = finding.cgroups.iter().filter(|it| it.waits_long);
            waiting.all(|it| is_in(&it.cgroup, &cause.subject))
        }
        (Rule::Starved, Rule::WeightsHaveNoEffect) | (Rule::WeightsHaveNoEffect, Rule::Starved) => is_same,
        // Several cgroups behind the same neighbour, or equally short of CPU time.
        (Rule::NoisyNeighbour, Rule::NoisyNeighbour) => cause.culprits == finding.culprits,
        (Rule::Starved, Rule::Starved) => true,
        (Rule::Throttled, Rule::Pinned) => is_same,
        // They wait behind the heavy ones, and therefore behind each other.
        (Rule::LagsCandidates, Rule::NoisyNeighbour) => {
            let compared = |subject: &Subject| cause.compared.iter().find(|one| is_in(subject, &one.cgroup));
            let Some(victim) = compared(&finding.subject) else { return false };
            // Weight does not help against something inside of the cgroup itself.
            let is_beside =
                |culprit: &Subject| compared(culprit).is_some_and(|culprit| culprit.cgroup != victim.cgroup);
            // A cgroup that takes more than its share is a separate cause, except for those that gain here.
            let is_told = |culprit: &Subject| {
                cause.culprits.contains(culprit) || compared(culprit).is_some_and(|culprit| culprit.waits_long)
            };
            let gains = victim.waits_long && finding.culprits.iter().all(is_told);
            // That these make light ones wait is said, also where one of those waits less long than others.
            let is_behind_them = finding.culprits.iter().all(|culprit| cause.culprits.contains(culprit));
            victim.class == CandidateClass::Light
                && (gains || is_behind_them || takes_too_much(finding) == Some(false))
                // It is a warning at most.
                && (finding.severity <= Severity::Warning || is_competitor(finding))
                && finding.culprits.iter().all(is_beside)
        }
        (Rule::NoisyNeighbour, Rule::LagsCandidates) => {
            let mut waiting = finding.cgroups.iter().filter(|it| it.waits_long);
            waiting_long(finding) < SEVERAL && waiting.all(|it| is_in(&cause.subject, &it.cgroup))
        }
        // If there are too few CPUs, everybody queues.
        (Rule::Overload, Rule::OvercommittedThreads) => cause.is_about(&finding.subject),
        (Rule::Overload, Rule::SchedulingOverhead) => true,
        (Rule::SchedulingOverhead, Rule::Utilisation | Rule::Density)
        | (Rule::Overload, Rule::Utilisation | Rule::Density)
        | (Rule::Density, Rule::Utilisation) => true,
        _ => false,
    }
}

/// Is anybody to blame for both?
fn share_culprits(cause: &VerdictCause, finding: &Finding) -> bool {
    cause.culprits.iter().any(|culprit| finding.culprits.contains(culprit))
}

/// Is it about a CPU set?
pub(super) fn is_of_set(finding: &Finding) -> bool {
    finding.has(&pinned::figures::set_asked)
}

/// Does the neighbour take more than its share? `None` if unknown.
fn takes_too_much(finding: &Finding) -> Option<bool> {
    let limit = finding.threshold.iter().find(|limit| limit.name == Limit::neighbour_takes.name());
    let limit = limit.map_or(f64::INFINITY, |limit| limit.value.as_f64());
    finding.value(&noisy_neighbour::figures::takes).map(|takes| takes.as_f64() >= limit)
}

/// How many cgroups with short jobs wait long.
fn waiting_long(finding: &Finding) -> usize {
    finding.cgroups.iter().filter(|it| it.waits_long).count()
}

/// Is the finding about a cgroup inside of the one that the cause is about?
fn is_of_one_inside(cause: &VerdictCause, finding: &Finding) -> bool {
    is_in(&finding.subject, &cause.subject)
}

/// Is the cgroup `of`, or inside of it?
fn is_in(subject: &Subject, of: &Subject) -> bool {
    of.path().zip(subject.path()).is_some_and(|(of, path)| is_inside(path, of))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        diagnosis::{Candidate, Thresholds, diagnose},
        model::{CgroupId, fixture},
    };

    fn cgroup(name: &str) -> Subject {
        let id = name.bytes().fold(0, |sum, byte| 256 * sum + u64::from(byte));
        Subject::Cgroup { id: Some(CgroupId(id)), path: format!("/{name}").into(), name: name.into() }
    }

    fn finding(rule: Rule, subject: Subject, culprits: &[&str]) -> Finding {
        let some = diagnose(&fixture::session(), &fixture::overloaded(40), &Thresholds::default()).findings.remove(0);
        let culprits = culprits.iter().map(|name| cgroup(name)).collect();
        Finding { rule, subject, severity: Severity::Warning, culprits, cgroups: Vec::new(), ..some }
    }

    /// Two light ones, of which one waits long, behind two heavy ones.
    fn short_behind_long() -> Finding {
        let candidate = |name: &str, class, waits_long| Candidate {
            cgroup: cgroup(name),
            class,
            waits_long,
            load_credit: 1.0.into(),
            cpu: 1.0.into(),
            wait_per_cpu: None,
            wait_p99_ns: None,
            wait_left: None,
        };
        let (light, heavy) = (CandidateClass::Light, CandidateClass::Heavy);
        let cgroups = vec![
            candidate("a", light, true),
            candidate("b", light, false),
            candidate("x", heavy, false),
            candidate("y", heavy, false),
        ];
        Finding { cgroups, ..finding(Rule::LagsCandidates, Subject::Host, &["x"]) }
    }

    fn noisy(victim: &str, culprit: &str, takes: f64) -> Finding {
        Finding {
            measured: vec![noisy_neighbour::figures::takes.is(takes)],
            threshold: vec![Thresholds::default().state(Limit::neighbour_takes)],
            ..finding(Rule::NoisyNeighbour, cgroup(victim), &[culprit])
        }
    }

    fn is_explained(victim: &str, culprit: &str, takes: f64) -> bool {
        explains(&VerdictCause::of(&short_behind_long()), &noisy(victim, culprit, takes))
    }

    #[test]
    fn short_jobs_behind_long_ones_explain_waits_among_those_that_are_compared() {
        assert!(is_explained("a", "x", 9.0), "it would gain, whatever the heavy one takes");
        assert!(is_explained("a", "b", 1.0) && is_explained("b", "y", 1.0));
        assert!(is_explained("b", "x", 9.0), "that this one makes light ones wait is said");
        assert!(!is_explained("b", "y", 9.0) && !is_explained("a", "b", 9.0), "a bully is a cause of its own");
        assert!(!is_explained("x", "y", 1.0), "the advice is against it");
        assert!(!is_explained("a/in", "a/out", 1.0), "both gain alike");
        assert!(!is_explained("a", "z", 1.0) && !is_explained("z", "x", 1.0), "they are elsewhere");
    }

    #[test]
    fn a_harm_that_is_worse_than_its_cause_is_told_as_a_part_of_it() {
        let worse = |victim, culprit, takes| Finding { severity: Severity::Critical, ..noisy(victim, culprit, takes) };
        let mut many = short_behind_long();
        many.cgroups.extend([many.cgroups[0].clone(), many.cgroups[0].clone()]);
        let told = |noisy: &[Finding]| -> Vec<(Rule, Severity)> {
            let findings = [noisy, &[many.clone()]].concat();
            causes(&findings).iter().map(|cause| (cause.rule, cause.severity)).collect()
        };
        let [lags, bully] = [(Rule::LagsCandidates, Severity::Critical), (Rule::NoisyNeighbour, Severity::Critical)];
        assert_eq!(told(&[worse("a", "b", 1.0)]), [lags]);
        let verdicts = [worse("a", "b", 1.0), many.clone()].map(|finding| finding.verdict);
        let says = &causes(&[worse("a", "b", 1.0), many.clone()])[0].says;
        assert_eq!(*says, format!("{} The worst: {}", verdicts[1], verdicts[0]));
        let apart = [bully, (Rule::LagsCandidates, Severity::Warning)];
        assert_eq!(told(&[worse("a", "b", 9.0)]), apart, "a bully is a cause of its own");
        assert_eq!(told(&[worse("a", "x", 9.0)]), apart, "also if it is one of the heavy ones");
        assert_eq!(told(&[worse("a", "b", 1.0), worse("q", "z", 9.0)]), [bully, lags], "a bully comes first");
        let part = noisy_neighbour::figures::contended.is(15.0);
        let mut incident = worse("a", "b", 1.0);
        incident.measured.push(part);
        assert_eq!(told(&[incident]), apart, "an incident is not lost in what is always so");
    }

    #[test]
    fn an_overload_that_a_cause_tells_better_makes_it_as_bad() {
        let few = vec![overload::figures::waiting_long.is(4_u64), overload::figures::filling.is(1_u64)];
        let overload =
            Finding { severity: Severity::Critical, measured: few, ..finding(Rule::Overload, Subject::Host, &["x"]) };
        let mut many = short_behind_long();
        many.cgroups.extend([many.cgroups[0].clone(), many.cgroups[0].clone()]);
        let told = causes(&[overload, many]);
        assert_eq!(
            told.iter().map(|it| (it.rule, it.severity)).collect::<Vec<_>>(),
            [(Rule::LagsCandidates, Severity::Critical)]
        );
    }
}
