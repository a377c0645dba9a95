//! Several hosts side by side: where the most is lost, and where advice pays most.

use schemars::JsonSchema;
use serde::Serialize;

use super::{FigureDefinition, Finding, Report, Rule, Severity, lags_candidates, scheduling_overhead, wait_causes};
use crate::units::Value;

/// Several hosts, the one that loses most first.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Hosts {
    /// The hosts.
    pub hosts: Vec<DiagnosedHost>,
    /// All of them.
    pub total: HostCosts,
    /// Hosts whose switch costs were not measured: what is lost there is in no sum.
    pub unmeasured: usize,
}

/// One of several hosts.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct DiagnosedHost {
    /// What its scheduling costs, and what would help.
    #[serde(flatten)]
    pub figures: HostCosts,
    /// How bad its worst finding is.
    pub severity: Severity,
    /// What was found on it.
    pub report: Report,
}

/// What scheduling costs, and what would help.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct HostCosts {
    /// CPUs.
    pub cpus: u64,
    /// Overhead as a share of the time of all CPUs. `None` where it was not measured.
    pub overhead: Option<Value>,
    /// Cores lost to scheduling. `None` where it was not measured.
    pub cores_lost: Option<Value>,
    /// Tasks waiting on average. `None` where it was not measured.
    pub waiting: Option<Value>,
    /// Cores that going lightest first would free, as simulated. `None` where nobody would gain, or it was not simulated.
    pub cores_freed: Option<Value>,
    /// Part of the light cgroups' wait that it would spare.
    pub light_gain: Option<Value>,
}

impl HostCosts {
    fn of(report: &Report) -> Self {
        let figure = |rule: Rule, of: &FigureDefinition| {
            let finding = report.findings.iter().find(|finding| finding.rule == rule)?;
            finding.value(of)
        };
        let overhead = scheduling_overhead::figures::overhead.among(&report.summary).and_then(|figure| figure.value);
        // Advice that would not help those that wait does not count.
        let is_advised =
            |finding: &&Finding| finding.rule == Rule::LagsCandidates && finding.severity >= Severity::Warning;
        let advised = |of: &FigureDefinition| {
            report.findings.iter().find(is_advised).and_then(|_| figure(Rule::LagsCandidates, of))
        };
        let cpus = report.session.cpus_online;
        Self {
            cpus,
            overhead,
            cores_lost: overhead.map(|share| Value::Real(share.as_f64() * cpus as f64)),
            waiting: figure(Rule::WaitCauses, &wait_causes::figures::waiting),
            cores_freed: advised(&lags_candidates::figures::cores_freed),
            light_gain: advised(&lags_candidates::figures::light_gain),
        }
    }
}

impl Hosts {
    /// Of the reports on single hosts.
    pub fn new(reports: Vec<Report>) -> Self {
        let mut hosts: Vec<DiagnosedHost> = reports
            .into_iter()
            .map(|report| DiagnosedHost { figures: HostCosts::of(&report), severity: report.worst(), report })
            .collect();
        let number = |value: Option<Value>| value.map_or(f64::NEG_INFINITY, Value::as_f64);
        hosts.sort_by(|a, b| {
            let by_loss = number(b.figures.cores_lost).total_cmp(&number(a.figures.cores_lost));
            by_loss.then_with(|| a.report.session.hostname.cmp(&b.report.session.hostname))
        });
        let sum = |of: fn(&HostCosts) -> Option<Value>| {
            let known: Vec<f64> = hosts.iter().filter_map(|host| of(&host.figures)).map(Value::as_f64).collect();
            (!known.is_empty()).then(|| known.iter().sum::<f64>())
        };
        let measured = hosts.iter().filter(|host| host.figures.cores_lost.is_some());
        let measured_cpus: u64 = measured.clone().map(|host| host.figures.cpus).fold(0, u64::saturating_add);
        let lost = sum(|figures| figures.cores_lost);
        let total = HostCosts {
            cpus: hosts.iter().map(|host| host.figures.cpus).fold(0, u64::saturating_add),
            overhead: lost.map(|lost| lost / measured_cpus as f64).filter(|share| share.is_finite()).map(Value::Real),
            cores_lost: lost.map(Value::Real),
            waiting: sum(|figures| figures.waiting).map(Value::Real),
            cores_freed: sum(|figures| figures.cores_freed).map(Value::Real),
            light_gain: None,
        };
        let unmeasured = hosts.len() - measured.count();
        Self { hosts, total, unmeasured }
    }

    /// The host on which advice pays most: the one where most cores are freed. `None` where it pays nowhere.
    pub fn pays_most(&self) -> Option<&DiagnosedHost> {
        let freed = |host: &&DiagnosedHost| host.figures.cores_freed.map_or(0.0, Value::as_f64);
        self.hosts.iter().filter(|host| freed(host) > 0.0).max_by(|a, b| freed(a).total_cmp(&freed(b)))
    }

    /// The worst severity of all hosts.
    pub fn worst(&self) -> Severity {
        self.hosts.iter().map(|host| host.severity).max().unwrap_or(Severity::NotEnoughData)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        diagnosis::{Thresholds, diagnose, fixture::contended},
        model::{Interval, Session, fixture},
    };

    fn report(hostname: &str, intervals: &[Interval]) -> Report {
        let session = Session { hostname: hostname.to_owned(), ..fixture::session() };
        diagnose(&session, intervals, &Thresholds::default())
    }

    #[test]
    fn hosts_are_ranked_by_what_they_lose_and_added_up() {
        let all = Hosts::new(vec![
            report("idle", &fixture::idle(60)),
            report("blind", &fixture::without_cost(60)),
            report("full", &contended(60)),
        ]);
        let names: Vec<&str> = all.hosts.iter().map(|host| &*host.report.session.hostname).collect();
        assert_eq!((names, all.unmeasured, all.total.cpus), (vec!["full", "idle", "blind"], 1, 12));
        let lost = |host: usize| all.hosts[host].figures.cores_lost.map_or(0.0, Value::as_f64);
        assert!((all.total.cores_lost.unwrap().as_f64() - lost(0) - lost(1)).abs() < 1e-12);
        assert!((all.total.overhead.unwrap().as_f64() - (lost(0) + lost(1)) / 8.0).abs() < 1e-12, "of the measured");
        assert_eq!(all.pays_most().unwrap().report.session.hostname, "full");
        assert_eq!(all.worst(), Severity::Critical);
    }

    #[test]
    fn of_no_hosts_nothing_is_said() {
        let all = Hosts::new(Vec::new());
        assert_eq!(
            (all.worst(), all.pays_most().is_none(), all.total.cores_lost),
            (Severity::NotEnoughData, true, None)
        );
    }
}
