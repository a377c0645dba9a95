//! Which rules there are, and how they are applied.

use std::{borrow::Cow, collections::BTreeSet};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use super::{
    Figure, FigureDefinition, Finding, MeasuringCost, Observations, Report, Rule, Subject, Thresholds, Verdict,
    backlog, density,
    figure::{FigureName, figures, sources::COUNTED},
    lags_candidates, migrations, noisy_neighbour, outweighed, overcommitted_threads,
    overload::{self, Load},
    pinned, quota_without_cpuset,
    reweighting::Simulations,
    scheduling_overhead,
    shares::Shares,
    starved, steal, throttled, utilisation, wait_causes, weights_have_no_effect,
};
use crate::model::{CgroupId, Measure};

// Figures of the summary that no rule has.
figures! {
    cgroups: Count, "cgroups that ran" = "cgroups in which anything was counted", COUNTED;
}

impl Observations {
    /// Applies all rules.
    pub fn diagnose(&self, thresholds: &Thresholds) -> Report {
        let (verdict, findings) = self.judged(&Simulations::new(self), thresholds);
        let host = self.host.clone().unwrap_or_default();
        Report {
            session: self.session.clone(),
            span: self.span,
            loaded_sched_ext: self.schedulers.loaded().cloned(),
            summary: self.summary(),
            verdict,
            findings,
            thresholds: thresholds.clone(),
            own_cost: MeasuringCost::of(&host, self.span.duration_ns),
            lost: host.lost,
            commands_withheld: None,
        }
    }

    /// The verdict alone, without the simulations that take a while.
    pub fn verdict(&self, thresholds: &Thresholds) -> (Verdict, Vec<Finding>) {
        self.judged(&Simulations::none(self), thresholds)
    }

    /// The verdict, and what all rules find, the worst first.
    fn judged(&self, simulations: &Simulations<'_>, thresholds: &Thresholds) -> (Verdict, Vec<Finding>) {
        let (shares, load) = (Shares::of(self, thresholds), Load::of(self, thresholds));
        let mut findings = vec![
            overload::judge(self, &load, thresholds),
            steal::judge(self, thresholds),
            scheduling_overhead::judge(self, thresholds),
            utilisation::judge(self, thresholds),
            lags_candidates::judge(self, simulations, thresholds),
            wait_causes::judge(self, thresholds),
            density::judge(self, thresholds),
        ];
        findings.extend(backlog::judge(self, thresholds));
        // The verdict counts all that are in the same situation, but the report has findings of their own for only some
        // of them.
        let everybody = Thresholds { max_cgroup_findings: usize::MAX, ..thresholds.clone() };
        let of = |thresholds| -> Vec<Finding> {
            let mut all: Vec<Finding> =
                findings.iter().cloned().chain(self.of_cgroups((&shares, &load), simulations, thresholds)).collect();
            all.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
            all
        };
        (Verdict::of(self, &of(&everybody), thresholds), of(thresholds))
    }

    /// Main figures of the host.
    fn summary(&self) -> Vec<Figure> {
        let Some(host) = &self.host else { return Vec::new() };
        let whole = self.whole();
        let no_cost = self.session.why_not(Measure::SwitchCost);
        let no_wait = self.session.why_not(Measure::RunqWait);
        let seconds = self.span.duration_ns.seconds();
        let mut summary = vec![
            scheduling_overhead::figures::overhead.measured(whole.overhead(), &no_cost).note("of all CPU time"),
            scheduling_overhead::figures::mean_switch_cost.measured(host.mean_switch_cost(), &no_cost),
            scheduling_overhead::figures::switch_rate.is(whole.switches as f64 / seconds),
            utilisation::figures::cpu_utilisation.is(whole.utilisation()),
            utilisation::figures::effective_utilisation.measured(whole.effective_utilisation(), &no_cost),
            overcommitted_threads::figures::runnable_per_cpu
                .measured(whole.wait_ns.map(|_| whole.load_per_cpu()), &no_wait),
            figures::cgroups.is(self.cgroups.len() as u64),
        ];
        if let Some(steal) = steal::stolen(self) {
            summary.push(steal::figures::steal.is(steal));
        }
        summary
    }

    /// Applies the rules that judge cgroups one by one.
    fn of_cgroups(
        &self,
        (shares, load): (&Shares, &Load),
        simulations: &Simulations<'_>,
        thresholds: &Thresholds,
    ) -> impl Iterator<Item = Finding> {
        let rules = [
            throttled::judge,
            pinned::judge,
            migrations::judge,
            overcommitted_threads::judge,
            quota_without_cpuset::judge,
        ];
        let of_shares = [starved::judge, outweighed::judge, weights_have_no_effect::judge];
        let by_itself = rules.into_iter().flat_map(|judge| judge(self, thresholds));
        let by_shares = of_shares.into_iter().flat_map(|judge| judge(self, shares, thresholds));
        by_itself.chain(by_shares).chain(noisy_neighbour::judge(self, (shares, load), simulations, thresholds))
    }

    /// What the rules find about one cgroup.
    pub fn about(&self, id: CgroupId, thresholds: &Thresholds) -> Vec<Finding> {
        // Of all cgroups, not only of the worst.
        let thresholds = Thresholds { max_cgroup_findings: usize::MAX, ..thresholds.clone() };
        let about =
            |finding: &Finding| matches!(finding.subject, Subject::Cgroup { id: found, .. } if found == Some(id));
        let (shares, load) = (Shares::of(self, &thresholds), Load::of(self, &thresholds));
        let mut findings: Vec<Finding> =
            self.of_cgroups((&shares, &load), &Simulations::none(self), &thresholds).filter(about).collect();
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        findings
    }
}

impl JsonSchema for FigureName {
    fn schema_name() -> Cow<'static, str> {
        "FigureName".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let of_rules = Rule::ALL.into_iter().flat_map(Rule::figures);
        let names: BTreeSet<&str> = of_rules.chain(figures::ALL).map(|definition| definition.name).collect();
        json_schema!({ "type": "string", "enum": names })
    }
}

impl Rule {
    /// What it may show.
    pub(crate) fn figures(self) -> &'static [&'static FigureDefinition] {
        match self {
            Self::SchedulingOverhead => scheduling_overhead::figures::ALL,
            Self::Utilisation => utilisation::figures::ALL,
            Self::LagsCandidates => lags_candidates::figures::ALL,
            Self::NoisyNeighbour => noisy_neighbour::figures::ALL,
            Self::WaitCauses => wait_causes::figures::ALL,
            Self::Density => density::figures::ALL,
            Self::Migrations => migrations::figures::ALL,
            Self::OvercommittedThreads => overcommitted_threads::figures::ALL,
            Self::QuotaWithoutCpuset => quota_without_cpuset::figures::ALL,
            Self::Backlog => backlog::figures::ALL,
            Self::Overload => overload::figures::ALL,
            Self::Throttled => throttled::figures::ALL,
            Self::Steal => steal::figures::ALL,
            Self::Pinned => pinned::figures::ALL,
            Self::Starved => starved::figures::ALL,
            Self::Outweighed => outweighed::figures::ALL,
            Self::WeightsHaveNoEffect => weights_have_no_effect::figures::ALL,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::model::{FileCounters, ListenerTotals, Totals};

    #[test]
    fn a_figure_is_declared_once_and_is_not_called_as_a_counter() {
        let mut declared: BTreeMap<&str, &FigureDefinition> = BTreeMap::new();
        for figure in Rule::ALL.into_iter().flat_map(Rule::figures).chain(figures::ALL) {
            let first = *declared.entry(figure.name).or_insert(figure);
            assert!(std::ptr::eq(first, *figure), "{first:?} and {figure:?}");
        }
        // In formulas, a counter's name is its sum. That of a figure with the same name must be the same.
        let counters = [&Totals::COUNTERS[..], &FileCounters::COUNTERS, &ListenerTotals::COUNTERS].concat();
        for counter in counters.iter().filter(|counter| !counter.is_most_of_parts) {
            if let Some(figure) = declared.get(counter.name) {
                assert_eq!(figure.formula, counter.name, "{figure:?}");
            }
        }
    }
}
