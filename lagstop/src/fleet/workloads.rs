//! What pods of one template cost all over the fleet.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::queries::Share;

/// The most workloads that are tracked separately.
const MOST: usize = 100_000;
/// Name of the rest. No pod can have this name.
const OTHERS: &str = "(others)";

/// What a workload makes others wait is worth a sentence from this on, in seconds each second over all nodes. Chosen: one task
/// then waits for it all the time ...
const NOTABLE_WAIT: f64 = 1.0;
/// ... if it is also this share of what all workloads cause. Chosen: of many that are alike none is to blame.
const NOTABLE_SHARE: f64 = 0.3;

/// Sums over the steps that were asked for, by cluster, namespace and workload.
#[derive(Clone, Debug, Default)]
pub struct Workloads {
    sums: HashMap<[String; 3], Sums>,
    /// Those for which there was no more room.
    others: Sums,
    has_others: bool,
    /// Steps that the server has any workload for.
    steps: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sums {
    cost: Option<f64>,
    cpu: Option<f64>,
    waiting: Option<f64>,
    caused: Option<f64>,
}

/// Costs of the pods of one template, on average over the steps with data.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct WorkloadFigures {
    /// Cluster. Empty if the scrapes have no label `cluster`.
    pub cluster: String,
    /// Namespace.
    pub namespace: String,
    /// Name of the template: the name of its pods without the suffix from the controller.
    pub workload: String,
    /// Cores spent on switching its pods. `None` if not measured.
    pub switch_cost: Option<f64>,
    /// CPU time of its pods, in cores.
    pub cpu: Option<f64>,
    /// Switch cost per second of its CPU time.
    pub cost_of_cpu: Option<f64>,
    /// Run-queue wait per second of its CPU time.
    pub wait_per_cpu: Option<f64>,
    /// Its share of the switch cost of all workloads.
    pub share: Option<f64>,
    /// Run-queue wait of other cgroups while its pods run, in seconds per second. `None` if not measured, or if too
    /// short to be exported.
    pub wait_caused: Option<f64>,
    /// Its share of the wait caused by all workloads.
    pub wait_caused_share: Option<f64>,
}

impl WorkloadFigures {
    /// Those that make others wait, the worst first.
    pub fn by_wait_caused(all: &[Self]) -> Vec<&Self> {
        let mut causing: Vec<&Self> = all.iter().filter(|it| it.caused() > 0.0).collect();
        // Stable: where they cause the same, the one that costs more is first.
        causing.sort_by(|a, b| b.caused().total_cmp(&a.caused()));
        causing
    }

    fn caused(&self) -> f64 {
        self.wait_caused.unwrap_or(0.0)
    }

    /// The one that makes others wait most. `None` where that is too little to speak of.
    pub fn noisiest(all: &[Self]) -> Option<&Self> {
        let worst = Self::by_wait_caused(all).into_iter().find(|it| it.workload != OTHERS)?;
        let is_notable = worst.caused() >= NOTABLE_WAIT && worst.wait_caused_share >= Some(NOTABLE_SHARE);
        is_notable.then_some(worst)
    }
}

impl Workloads {
    /// Adds what the server says of a workload in a step. What is no number, or less than none, is left out.
    /// `key` is the cluster, the namespace and the name.
    pub(super) fn add(&mut self, key: [&str; 3], share: Share, value: f64) {
        if !value.is_finite() || value < 0.0 {
            return;
        }
        let key = key.map(str::to_owned);
        let sums = if self.sums.contains_key(&key) || self.sums.len() < MOST {
            self.sums.entry(key).or_default()
        } else {
            self.has_others = true;
            &mut self.others
        };
        let sum = match share {
            Share::SwitchCost => &mut sums.cost,
            Share::Cpu => &mut sums.cpu,
            Share::Waiting => &mut sums.waiting,
            Share::WaitCaused => &mut sums.caused,
        };
        *sum = Some(sum.unwrap_or(0.0) + value);
    }

    /// Sets the number of steps that have any workload.
    pub(super) const fn over(&mut self, steps: usize) {
        self.steps = steps;
    }

    pub fn len(&self) -> usize {
        self.sums.len()
    }

    pub fn is_empty(&self) -> bool {
        self.sums.is_empty()
    }

    /// The ones that cost most first.
    pub fn ranked(&self) -> Vec<WorkloadFigures> {
        let steps = self.steps.max(1) as f64;
        let total =
            |of: fn(&Sums) -> Option<f64>| -> f64 { self.sums.values().chain([&self.others]).filter_map(of).sum() };
        let (all_cost, all_caused) = (total(|sums| sums.cost), total(|sums| sums.caused));
        let figures = |[cluster, namespace, workload]: [&str; 3], sums: &Sums| {
            let ratio =
                |of: Option<f64>, to: Option<f64>| of.zip(to).map(|(a, b)| a / b).filter(|ratio| ratio.is_finite());
            WorkloadFigures {
                cluster: cluster.to_owned(),
                namespace: namespace.to_owned(),
                workload: workload.to_owned(),
                switch_cost: sums.cost.map(|sum| sum / steps),
                cpu: sums.cpu.map(|sum| sum / steps),
                cost_of_cpu: ratio(sums.cost, sums.cpu),
                wait_per_cpu: ratio(sums.waiting, sums.cpu),
                share: ratio(sums.cost, Some(all_cost)),
                wait_caused: sums.caused.map(|sum| sum / steps),
                wait_caused_share: ratio(sums.caused, Some(all_caused)),
            }
        };
        let mut all: Vec<WorkloadFigures> =
            self.sums.iter().map(|(key, sums)| figures(key.each_ref().map(String::as_str), sums)).collect();
        if self.has_others {
            all.push(figures(["", "", OTHERS], &self.others));
        }
        let cost = |it: &WorkloadFigures| it.switch_cost.unwrap_or(f64::NEG_INFINITY);
        let name = |it: &WorkloadFigures| [it.cluster.clone(), it.namespace.clone(), it.workload.clone()];
        all.sort_by(|a, b| cost(b).total_cmp(&cost(a)).then_with(|| name(a).cmp(&name(b))));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workloads_are_ranked_by_what_they_cost_over_the_whole_time() {
        let mut workloads = Workloads::default();
        for (name, cost, cpu) in [("a", 1.0, 4.0), ("a", 1.0, 4.0), ("b", 3.0, 6.0), ("c", f64::NAN, 2.0)] {
            workloads.add(["", "x", name], Share::SwitchCost, cost);
            workloads.add(["", "x", name], Share::Cpu, cpu);
        }
        workloads.add(["", "x", "b"], Share::Waiting, 12.0);
        workloads.add(["", "x", "a"], Share::WaitCaused, 3.0);
        workloads.add(["", "x", "c"], Share::WaitCaused, 1.0);
        workloads.over(2);
        let ranked = workloads.ranked();
        let names: Vec<&str> = ranked.iter().map(|it| &*it.workload).collect();
        assert_eq!(names, ["b", "a", "c"]);
        assert_eq!(
            (ranked[0].switch_cost, ranked[0].cost_of_cpu, ranked[0].wait_per_cpu),
            (Some(1.5), Some(0.5), Some(2.0))
        );
        assert_eq!((ranked[0].share, ranked[1].switch_cost, ranked[1].wait_per_cpu), (Some(0.6), Some(1.0), None));
        let caused: Vec<_> = ranked.iter().map(|it| (it.wait_caused, it.wait_caused_share)).collect();
        assert_eq!(caused, [(None, None), (Some(1.5), Some(0.75)), (Some(0.5), Some(0.25))]);
        assert_eq!((ranked[2].switch_cost, ranked[2].share, ranked[2].cpu), (None, None, Some(1.0)));
    }

    #[test]
    fn a_workload_is_blamed_for_long_waits_that_are_mostly_its_own() {
        let noisiest = |caused: &[(&str, f64)]| {
            let mut workloads = Workloads::default();
            caused.iter().for_each(|&(name, caused)| workloads.add(["", "x", name], Share::WaitCaused, caused));
            workloads.over(1);
            let ranked = workloads.ranked();
            let order: Vec<String> =
                WorkloadFigures::by_wait_caused(&ranked).iter().map(|it| it.workload.clone()).collect();
            (order.concat(), WorkloadFigures::noisiest(&ranked).map(|it| it.workload.clone()))
        };
        assert_eq!(noisiest(&[("a", 0.5), ("b", 2.0), ("c", 0.0)]), ("ba".to_owned(), Some("b".to_owned())));
        assert_eq!(noisiest(&[("a", 0.2), ("b", 0.9)]), ("ba".to_owned(), None), "too little");
        assert_eq!(noisiest(&[("a", 2.0), ("b", 2.0), ("c", 2.0), ("d", 2.0)]).1, None, "all alike");
        assert_eq!(noisiest(&[]), (String::new(), None));
    }

    #[test]
    fn of_nothing_nothing_is_said() {
        assert!(Workloads::default().ranked().is_empty());
        let mut workloads = Workloads::default();
        workloads.add(["", "x", "a"], Share::SwitchCost, 0.0);
        assert_eq!(workloads.ranked()[0].share, None, "0 / 0");
    }
}
