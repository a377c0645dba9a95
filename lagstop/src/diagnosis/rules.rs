//! Which rules there are, and how they are applied.

use super::{
    Finding, Observations, OwnCost, Report, Subject, Thresholds, backlog, density, lags_candidates, migrations,
    overcommitted_threads, quota_without_cpuset, scheduling_overhead, utilisation, wait_causes,
};
use crate::model::CgroupId;

impl Observations {
    /// Applies all rules.
    pub fn diagnose(&self, thresholds: &Thresholds) -> Report {
        let mut findings = vec![
            scheduling_overhead::judge(self, thresholds),
            utilisation::judge(self, thresholds),
            lags_candidates::judge(self, thresholds),
            wait_causes::judge(self, thresholds),
            density::judge(self, thresholds),
        ];
        findings.extend(self.of_cgroups(thresholds));
        findings.extend(backlog::judge(self, thresholds));
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        let host = self.host.clone().unwrap_or_default();
        Report {
            session: self.session.clone(),
            span: self.span,
            summary: self.summary(),
            findings,
            thresholds: thresholds.clone(),
            own_cost: OwnCost::of(&host, self.span.duration_ns),
            lost: host.lost,
            commands_withheld: None,
        }
    }

    /// Applies the rules that judge cgroups one by one.
    fn of_cgroups(&self, thresholds: &Thresholds) -> impl Iterator<Item = Finding> {
        let rules = [migrations::judge, overcommitted_threads::judge, quota_without_cpuset::judge];
        rules.into_iter().flat_map(|judge| judge(self, thresholds))
    }

    /// What the rules find about one cgroup.
    pub fn about(&self, id: CgroupId, thresholds: &Thresholds) -> Vec<Finding> {
        // Everybody's, not only the first of the worst.
        let thresholds = Thresholds { max_cgroup_findings: usize::MAX, ..thresholds.clone() };
        let about =
            |finding: &Finding| matches!(finding.subject, Subject::Cgroup { id: found, .. } if found == Some(id));
        let mut findings: Vec<Finding> = self.of_cgroups(&thresholds).filter(about).collect();
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        findings
    }
}
