//! Rule: who is light, who is heavy, and which light cgroups wait long.
//!
//! CFS-LAGS paper (arXiv 2508.15703, §4.1, §4.2): the scheduler serves light groups late although they would be done
//! soon. Light and heavy are below and above the fair share by Load Credit; the fair share is the mean of the credits of
//! all cgroups that were runnable, for equal weights.

use std::cmp::Reverse;

use super::{
    Advice, Figure, Finding, FindingId, Limit, Observations, Severity, Subject, Thresholds, Unit, confidence::Basis,
    observations::Observed, say, shell,
};
use crate::model::{CgroupId, Nanos};

/// Cgroups of each class that are named.
const TOP: usize = 5;
/// From this share of its periods on, a quota explains waits.
const THROTTLED_MATTERS: f64 = 0.01;

/// A cgroup with its class.
#[derive(Clone, Copy)]
struct Classed<'a> {
    id: CgroupId,
    observed: &'a Observed,
    /// Mean Load Credit over the intervals in which it was runnable.
    credit: f64,
    /// Share of that time in which it was light.
    light: f64,
    cpu: f64,
    wait: f64,
}

impl<'a> Classed<'a> {
    fn of((&id, observed): (&CgroupId, &'a Observed)) -> Option<Self> {
        (observed.rated_ns > 0.0).then_some(())?;
        Some(Self {
            id,
            observed,
            credit: observed.credit_ns / observed.rated_ns,
            light: observed.light_ns / observed.rated_ns,
            cpu: observed.totals.cpu_ns.0 as f64,
            wait: observed.totals.runq_wait_ns?.0 as f64,
        })
    }

    fn is_light(&self) -> bool {
        self.light > 0.5
    }

    fn wait_per_cpu(&self) -> f64 {
        self.wait / self.cpu
    }

    fn p99(&self) -> Option<Nanos> {
        self.observed.runq_wait.as_ref()?.quantile(0.99)
    }

    fn waits(&self) -> u64 {
        self.observed.totals.runq_waits.unwrap_or_default()
    }

    /// Much lighter than the heavy cgroups, whose mean Load Credit is `heavy_credit`, and waits long compared with its own
    /// service, for longer than anybody should notice.
    fn waits_long(&self, heavy_credit: f64, thresholds: &Thresholds) -> bool {
        let tail = self.p99().or_else(|| self.observed.totals.mean_runq_wait());
        self.is_light()
            && self.credit <= thresholds.light_credit * heavy_credit
            && self.waits() >= thresholds.min_waits
            && self.wait >= thresholds.light_wait_per_cpu * self.cpu
            && tail.is_some_and(|tail| tail >= thresholds.light_wait_p99)
    }

    fn throttled(&self) -> Option<f64> {
        (self.observed.periods > 0).then(|| self.observed.throttled as f64 / self.observed.periods as f64)
    }
}

/// A class added up.
struct Class {
    size: u64,
    credits: f64,
    cpu: f64,
    wait: f64,
    waits: u64,
}

impl Class {
    fn of<'a>(members: impl Iterator<Item = &'a Classed<'a>>) -> Self {
        members.fold(Self { size: 0, credits: 0.0, cpu: 0.0, wait: 0.0, waits: 0 }, |sum, member| Self {
            size: sum.size + 1,
            credits: sum.credits + member.credit,
            cpu: sum.cpu + member.cpu,
            wait: sum.wait + member.wait,
            waits: sum.waits.saturating_add(member.waits()),
        })
    }
}

impl Class {
    /// Mean Load Credit of its members; 0 of none.
    fn credit(&self) -> f64 {
        if self.size > 0 { self.credits / self.size as f64 } else { 0.0 }
    }
}

pub(super) fn judge(observations: &Observations, thresholds: &Thresholds) -> Vec<Finding> {
    let classed: Vec<Classed<'_>> = observations.cgroups.iter().filter_map(Classed::of).collect();
    let light = Class::of(classed.iter().filter(|c| c.is_light()));
    let heavy = Class::of(classed.iter().filter(|c| !c.is_light()));
    let (cpu, wait) = (light.cpu + heavy.cpu, light.wait + heavy.wait);
    let mut waiting: Vec<&Classed<'_>> = classed.iter().filter(|c| c.waits_long(heavy.credit(), thresholds)).collect();
    waiting.sort_by(|a, b| b.wait.total_cmp(&a.wait).then(a.id.cmp(&b.id)));
    let judged = Judged { observations, thresholds, classed: &classed, light, heavy, cpu, wait, waiting: &waiting };

    let mut findings = vec![judged.host()];
    if findings[0].severity != Severity::NotEnoughData {
        findings.extend(waiting.iter().take(thresholds.max_cgroup_findings).map(|cgroup| judged.cgroup(cgroup)));
    }
    findings
}

struct Judged<'a> {
    observations: &'a Observations,
    thresholds: &'a Thresholds,
    classed: &'a [Classed<'a>],
    light: Class,
    heavy: Class,
    cpu: f64,
    wait: f64,
    waiting: &'a [&'a Classed<'a>],
}

impl Judged<'_> {
    fn host(&self) -> Finding {
        let (severity, verdict) = self.verdict();
        let hidden = self.waiting.len().saturating_sub(self.thresholds.max_cgroup_findings);
        let mut against = doubts();
        if hidden > 0 {
            against.insert(0, format!("{hidden} more light cgroups wait long and have no finding of their own here."));
        }
        against.extend(self.observations.common_doubts());
        let evidence = match (self.classed.is_empty(), self.has_waits()) {
            (false, _) => self.evidence(),
            (true, true) => Vec::new(),
            (true, false) => self.unmeasured(),
        };
        Finding {
            id: FindingId::LoadClasses,
            severity,
            subject: Subject::Host,
            verdict,
            evidence,
            thresholds: [Limit::ContendedWait, Limit::LightCredit, Limit::LightWaitPerCpu, Limit::LightWaitP99]
                .map(|limit| self.thresholds.state(limit))
                .into(),
            confidence: Basis {
                intervals: self.observations.span.intervals,
                samples: self.light.waits.saturating_add(self.heavy.waits),
                samples_are: "waits",
                agreeing: None,
                lost: self.lost(),
            }
            .confidence(),
            against,
            advice: Vec::new(),
        }
    }

    fn verdict(&self) -> (Severity, String) {
        let intervals = self.observations.span.intervals;
        let needed = self.thresholds.min_intervals;
        if intervals < needed {
            let needed = say::plural(needed, "interval");
            let verdict = format!("Who waits cannot be said: it takes {needed} at least, and there are {intervals}.");
            return (Severity::NotEnoughData, verdict);
        }
        if self.classed.is_empty() {
            let why = self.observations.session.why_not("run-queue wait");
            let verdict = if self.has_waits() {
                "Who waits cannot be said: no cgroup but the root ran, so there is none to compare.".to_owned()
            } else {
                format!("Who waits cannot be said: run-queue wait is {why}.")
            };
            return (Severity::NotEnoughData, verdict);
        }
        let (light, heavy) = (say::plural(self.light.size, "cgroup"), self.heavy.size);
        let heavy_cpu = say::percent(self.share_of_cpu(&self.heavy));
        let waited = format!("{} tasks wait per CPU on average", say::number(self.waiting_per_cpu()));
        match self.waiting.len() {
            0 if self.waiting_per_cpu() < self.thresholds.contended_wait => {
                (Severity::Ok, format!("Nobody waits: {waited}."))
            }
            0 => (
                Severity::Info,
                format!(
                    "The CPUs are contended, {waited}, but none of the {light} below their fair share is much lighter than the others and waits long: priority by Load Credit would have nobody to put first."
                ),
            ),
            n => (
                Severity::Warning,
                format!(
                    "{n} of {light} below their fair share {} long, while {heavy} above it used {heavy_cpu} of the \
                     cgroups' CPU time.",
                    if n == 1 { "waits" } else { "wait" }
                ),
            ),
        }
    }

    fn has_waits(&self) -> bool {
        self.observations.host.as_ref().is_some_and(|host| host.totals.runq_wait_ns.is_some())
    }

    fn waiting_per_cpu(&self) -> f64 {
        self.wait / self.observations.whole().capacity_ns.max(1.0)
    }

    fn share_of_cpu(&self, class: &Class) -> f64 {
        if self.cpu > 0.0 { class.cpu / self.cpu } else { 0.0 }
    }

    fn lost(&self) -> u64 {
        self.observations.host.as_ref().map_or(0, |host| host.lost.task_states)
    }

    fn unmeasured(&self) -> Vec<Figure> {
        let why = self.observations.session.why_not("run-queue wait");
        vec![Figure::measured::<f64>("wait_per_cpu", "wait per CPU time", None, Unit::Factor, &why)]
    }

    fn evidence(&self) -> Vec<Figure> {
        let class = |class: &Class, count: (&'static str, &'static str), wait: (&'static str, &'static str)| {
            let mean = Nanos(class.wait as u64).mean(class.waits);
            let note = mean.map_or_else(|| "no waits".to_owned(), |mean| format!("{mean} each on average"));
            [
                Figure::new(count.0, count.1, class.size, Unit::Count)
                    .note(format!("{} of the CPU time", say::percent(self.share_of_cpu(class)))),
                Figure::new(wait.0, wait.1, class.wait / class.cpu, Unit::Factor).note(note),
            ]
        };
        let mut figures = vec![
            Figure::new("waiting_per_cpu", "tasks waiting per CPU", self.waiting_per_cpu(), Unit::Tasks),
            Figure::new("wait_per_cpu", "wait per CPU time", self.wait / self.cpu, Unit::Factor)
                .note("of all cgroups compared"),
        ];
        figures.extend(class(&self.light, ("light", "light cgroups"), ("light_wait", "their wait per CPU time")));
        figures.extend(class(&self.heavy, ("heavy", "heavy cgroups"), ("heavy_wait", "their wait per CPU time")));
        let mut heaviest: Vec<&Classed<'_>> = self.classed.iter().filter(|c| !c.is_light()).collect();
        heaviest.sort_by(|a, b| b.credit.total_cmp(&a.credit).then(a.id.cmp(&b.id)));
        figures.extend(heaviest.iter().take(TOP).map(|c| self.member(c, "heaviest", "heavy")));
        let mut light: Vec<&Classed<'_>> = self.classed.iter().filter(|c| c.is_light()).collect();
        light.sort_by_key(|c| (Reverse(c.wait as u64), c.id));
        figures.extend(light.iter().take(TOP).map(|c| self.member(c, "light_waiting_most", "light, waiting most")));
        figures
    }

    fn member(&self, c: &Classed<'_>, name: &'static str, label: &'static str) -> Figure {
        let p99 = c.p99().map(|p99| format!(", p99 wait {p99}")).unwrap_or_default();
        let share = if self.cpu > 0.0 { c.cpu / self.cpu } else { 0.0 };
        Figure::new(name, label, c.credit, Unit::Tasks).of(c.observed.subject(c.id)).note(format!(
            "Load Credit; {} of the CPU time, waited {} its own{p99}",
            say::percent(share),
            if c.cpu > 0.0 { Unit::Factor.show(c.wait_per_cpu()) } else { "n/a".to_owned() }
        ))
    }

    fn cgroup(&self, c: &Classed<'_>) -> Finding {
        let no_distribution = self.observations.session.why_not("run-queue wait");
        let subject = c.observed.subject(c.id);
        let heavy_cpu = say::percent(self.share_of_cpu(&self.heavy));
        let duration = self.observations.span.duration_ns;
        let verdict = format!(
            "{subject} is light and waits {} its own CPU time in run queues, while heavier cgroups use {heavy_cpu} of \
             the cgroups' CPU time.",
            if c.cpu > 0.0 { format!("{} times", say::number(c.wait_per_cpu())) } else { "longer than".to_owned() }
        );
        let mut against = vec!["All that speaks against the finding on the host's load classes.".to_owned()];
        if let Some(throttled) = c.throttled().filter(|&share| share >= THROTTLED_MATTERS) {
            against.insert(
                0,
                format!(
                    "Its own quota (cpu.max) was used up in {} of its periods: some of the wait may be throttling, which \
                     more weight does not cure.",
                    say::percent(throttled)
                ),
            );
        }
        let totals = &c.observed.totals;
        let session = &self.observations.session;
        Finding {
            id: FindingId::LightWaits,
            severity: Severity::Warning,
            subject,
            verdict,
            evidence: vec![
                Figure::new("load_credit", "mean Load Credit", c.credit, Unit::Tasks)
                    .note(format!("below its fair share {} of the time", say::percent(c.light))),
                Figure::new("cpu", "CPU time", totals.cpu_ns.cores(duration).0, Unit::Cores),
                Figure::new("waiting", "waiting on average", c.wait / duration.0 as f64, Unit::Tasks),
                Figure::new("wait_per_cpu", "wait per CPU time", c.wait_per_cpu(), Unit::Factor),
                Figure::measured("mean_wait", "mean wait", totals.mean_runq_wait(), Unit::Ns, &no_distribution),
                Figure::measured("p99_wait", "p99 wait", c.p99(), Unit::Ns, "the recording has no distribution of it"),
                Figure::new("heavy_cpu", "CPU time of heavy cgroups", self.share_of_cpu(&self.heavy), Unit::Share),
            ],
            thresholds: [Limit::LightCredit, Limit::LightWaitPerCpu, Limit::LightWaitP99]
                .map(|limit| self.thresholds.state(limit))
                .into(),
            confidence: Basis {
                intervals: self.observations.span.intervals,
                samples: c.waits(),
                samples_are: "waits",
                agreeing: None,
                lost: self.lost(),
            }
            .confidence(),
            against,
            advice: vec![
                Advice::new(format!(
                    "Give it twice the default weight, and see whether its wait falls: the heavier cgroups pay for it. \
                     Writing {} undoes it, where it was not set before.",
                    shell::default_weight(session)
                ))
                .command(shell::double_weight(session, c.id, &c.observed.path)),
            ],
        }
    }
}

fn doubts() -> Vec<String> {
    vec![
        "Behind whom a cgroup waited is not measured: that heavier ones ran meanwhile is circumstantial.".to_owned(),
        "The fair share assumes equal weights (cpu.weight 100) on one level: others are entitled to another share."
            .to_owned(),
        "Contention, throttling and steal are not told apart: each makes tasks wait.".to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::{diagnose, fixture};

    fn judged(intervals: &[crate::model::Interval], thresholds: &Thresholds) -> Vec<Finding> {
        let report = diagnose(&fixture::session(), intervals, thresholds);
        let ours = [FindingId::LoadClasses, FindingId::LightWaits];
        report.findings.into_iter().filter(|f| ours.contains(&f.id)).collect()
    }

    #[test]
    fn light_cgroups_that_wait_are_named_and_heavy_ones_are_not() {
        let findings = judged(&fixture::overloaded(40), &Thresholds::default());
        let named: Vec<String> =
            findings.iter().filter(|f| f.id == FindingId::LightWaits).map(|f| f.subject.to_string()).collect();
        assert_eq!(named, ["web", "api\u{1b}[2J"]);
        assert!(findings.iter().any(|f| f.id == FindingId::LoadClasses && f.severity == Severity::Warning));
    }

    #[test]
    fn findings_of_cgroups_are_bounded_and_say_how_many_more() {
        let few = Thresholds { max_cgroup_findings: 1, ..Thresholds::default() };
        let findings = judged(&fixture::overloaded(40), &few);
        assert_eq!(findings.iter().filter(|f| f.id == FindingId::LightWaits).count(), 1);
        let host = findings.iter().find(|f| f.id == FindingId::LoadClasses).unwrap();
        assert!(host.against[0].starts_with("1 more light"), "{:?}", host.against);
    }

    #[test]
    fn on_an_idle_host_nobody_waits() {
        let findings = judged(&fixture::idle(40), &Thresholds::default());
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].severity, Severity::Ok, "{}", findings[0].verdict);
        assert!(findings[0].verdict.starts_with("Nobody waits"));
    }
}
