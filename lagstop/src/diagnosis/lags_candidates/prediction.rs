//! What would become of the waits if light cgroups went first: simulated, and by a formula beside it.

use crate::{
    diagnosis::cost_curve::CostCurve,
    queueing::{self, Class as Jobs},
    simulation::{Outcome, Policy, Switching, Trace, run},
};

/// What every simulation here draws its times with: the same recording gives the same report.
const SEED: u64 = 1;
/// Work that a simulation may be, as bursts × tasks on a CPU: some tenths of a second.
const MOST_WORK: f64 = 6e6;
/// Bursts that are simulated, whatever the work.
const BURSTS: std::ops::RangeInclusive<f64> = 5e3..=3e4;

/// Who a cgroup of the trace is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Light,
    Heavy,
    /// In no class: the root, and those without a row of their own.
    Unrated,
}

/// What is predicted.
#[derive(Clone, Debug)]
pub(super) struct Prediction {
    /// How much is simulated.
    pub(super) seconds: f64,
    pub(super) bursts: u64,
    /// The waits in the intervals that are simulated, as measured.
    pub(super) measured: Waits,
    /// The same, simulated: what all that is predicted is held against.
    pub(super) status_quo: Waits,
    /// The lightest first, all the time: what LAGS does.
    pub(super) lightest_first: After,
    /// Some light cgroups before all others, the most that the heavy ones bear. `None` where nobody gains by it.
    pub(super) static_first: Option<Static>,
    /// The same by formulas. `None` where that has no end.
    pub(super) model: Option<Model>,
}

/// What formulas have for one CPU with its part of the load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Model {
    /// The wait of a light burst with the light first, against all sharing.
    pub(super) light_left: f64,
    /// Tasks waiting on average on all CPUs, all sharing.
    pub(super) waiting: f64,
}

/// Tasks waiting on average.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Waits {
    pub(super) light: f64,
    pub(super) heavy: f64,
    pub(super) all: f64,
}

/// What comes of another policy, each figure against the status quo as simulated.
#[derive(Clone, Debug)]
pub(super) struct After {
    pub(super) waits: Waits,
    /// Time that heavy cgroups take for the same work, waits included: 1 is no change.
    pub(super) heavy_time: f64,
    /// What is left of each cgroup's wait, by its number: 1 is no change. `None` of one that did not wait.
    pub(super) of_group: Vec<Option<f64>>,
    /// Switches: 1 is no change.
    pub(super) switches: f64,
    /// What they cost: 1 is no change. No number where costs were not measured.
    pub(super) overhead: f64,
}

/// Some cgroups first.
#[derive(Clone, Debug)]
pub(super) struct Static {
    /// By their numbers.
    pub(super) first: Vec<usize>,
    pub(super) after: After,
}

impl Prediction {
    /// How far the simulation of what was measured is off, of all waits: 0 is not at all, 1 is twice as long.
    pub(super) fn error(&self) -> f64 {
        self.status_quo.all / self.measured.all - 1.0
    }
}

/// Predicts from `trace`, whose cgroups are of `kinds` by their number; the light ones are put first in the order of
/// `lightest`, for as long as heavy ones take no more than `tolerance` longer. Switches cost what `curve` says. `None` where
/// nothing can be simulated.
pub(super) fn predict(
    trace: &Trace,
    kinds: &[Kind],
    lightest: &[usize],
    tolerance: f64,
    curve: Option<&CostCurve>,
) -> Option<Prediction> {
    trace.is_sound().then_some(())?;
    let trace = &trace.shortened(most_bursts(trace));
    let seconds = trace.duration();
    let waits = |of: &dyn Fn(usize) -> f64| {
        let sum = |kind: Kind| (0..trace.groups).filter(|&group| kinds[group] == kind).map(of).sum::<f64>() / seconds;
        let (light, heavy) = (sum(Kind::Light), sum(Kind::Heavy));
        Waits { light, heavy, all: light + heavy + sum(Kind::Unrated) }
    };
    let measured = trace.measured_waits();
    let switching = switching(trace, curve);
    let now = run(trace, &switching, Policy::Sharing, SEED);
    let after = |policy: Policy<'_>| {
        let outcome = run(trace, &switching, policy, SEED);
        let left = |(before, after): (&crate::simulation::Served, &crate::simulation::Served)| {
            (before.wait > 0.0).then(|| after.wait / before.wait)
        };
        After {
            waits: waits(&|group| outcome.groups[group].wait),
            heavy_time: heavy_time(&outcome, kinds) / heavy_time(&now, kinds),
            of_group: now.groups.iter().zip(&outcome.groups).map(left).collect(),
            switches: outcome.switches / now.switches,
            overhead: outcome.switching / now.switching,
        }
    };
    Some(Prediction {
        seconds,
        bursts: trace.bursts(),
        measured: waits(&|group| measured[group]),
        status_quo: waits(&|group| now.groups[group].wait),
        lightest_first: after(Policy::LightestFirst),
        static_first: put_first(trace.groups, lightest, tolerance, &after),
        model: model(trace, kinds),
    })
}

/// What switches take by this host's own costs, as often as tasks were measured to give way to each other.
fn switching(trace: &Trace, curve: Option<&CostCurve>) -> Switching {
    let costs = Switching::new(f64::INFINITY, |tasks| curve.map_or(0.0, |curve| curve.at(tasks) * 1e-9));
    let shared = run(trace, &costs, Policy::Sharing, SEED).shared;
    costs.in_turns_as_measured(trace, shared)
}

/// As many of the lightest as heavy cgroups bear: none of them, 1, 2, 4 and so on.
fn put_first(groups: usize, lightest: &[usize], tolerance: f64, after: &dyn Fn(Policy<'_>) -> After) -> Option<Static> {
    let mut best: Option<Static> = None;
    let mut first = vec![false; groups];
    let sizes = std::iter::successors(Some(1), |size| Some(size * 2)).take_while(|&size| size < lightest.len());
    for size in sizes.chain((!lightest.is_empty()).then_some(lightest.len())) {
        lightest[..size].iter().for_each(|&group| first[group] = true);
        let after = after(Policy::First(&first));
        // One that has no heavy cgroups has nobody to pay.
        if after.heavy_time > 1.0 + tolerance {
            break;
        }
        let is_better = best.as_ref().is_none_or(|best| after.waits.light <= best.after.waits.light);
        if is_better {
            best = Some(Static { first: lightest[..size].to_vec(), after });
        }
    }
    best
}

/// Time that heavy cgroups take for each second of work.
fn heavy_time(outcome: &Outcome, kinds: &[Kind]) -> f64 {
    let heavy = || outcome.groups.iter().zip(kinds).filter(|(_, kind)| **kind == Kind::Heavy).map(|(served, _)| served);
    heavy().map(|served| served.cpu + served.wait).sum::<f64>() / heavy().map(|served| served.work).sum::<f64>()
}

fn most_bursts(trace: &Trace) -> u64 {
    let steps = trace.steps.len().max(1) as f64;
    let tasks =
        trace.steps.iter().flat_map(|step| &step.demands).map(|(_, demand)| f64::from(demand.tasks)).sum::<f64>();
    // Each event looks at the tasks on a CPU, and at when each CPU is done.
    let crowd = (tasks / steps / trace.cpus as f64).max(1.0);
    (MOST_WORK / (crowd + trace.cpus as f64 / 8.0)).clamp(*BURSTS.start(), *BURSTS.end()) as u64
}

/// Preemptive priority of the light against processor sharing, on one CPU with its part of the load.
fn model(trace: &Trace, kinds: &[Kind]) -> Option<Model> {
    let seconds = trace.duration() * trace.cpus as f64;
    let demands = || trace.steps.iter().flat_map(|step| &step.demands);
    // One that never sleeps asks for all there is.
    demands().all(|(_, demand)| !demand.never_sleeps()).then_some(())?;
    let jobs = |is_first: bool| {
        let of = || demands().filter(|(group, _)| (kinds[*group] == Kind::Light) == is_first).map(|(_, demand)| demand);
        let bursts: f64 = of().map(|demand| f64::from(demand.bursts)).sum();
        let service: f64 = of().map(|demand| f64::from(demand.bursts) * demand.service).sum();
        Jobs { arrivals: bursts / seconds, service: if bursts > 0.0 { service / bursts } else { 0.0 } }
    };
    let classes = [jobs(true), jobs(false)];
    let shared = queueing::sharing(&classes)?;
    // By Little's law.
    let waiting =
        classes.iter().zip(&shared).map(|(class, wait)| class.arrivals * wait).sum::<f64>() * trace.cpus as f64;
    let light_left = queueing::preemptive(&classes)[0]? / shared[0];
    light_left.is_finite().then_some(Model { light_left, waiting })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulation::{Demand, Step};

    /// In a second.
    fn demand(credit: f64, tasks: u32, bursts: u32, service: f64, waited: f64) -> Demand {
        let slept = f64::from(tasks) - f64::from(bursts) * service - waited;
        Demand { credit, tasks, bursts, service, slept, waited, taken: 0.0, is_many: false }
    }

    /// The CFS-LAGS paper's mix (§3, §4): 12 CPUs; many functions that hardly ever run, and a few that always want to.
    fn skewed(light: usize, heavy: usize) -> (Trace, Vec<Kind>) {
        let of = |group: usize| {
            if group < light { demand(0.1, 4, 10, 0.007, 0.1) } else { demand(2.0, 12, 25, 0.02, 2.0) }
        };
        let groups = light + heavy;
        let step = Step { duration: 1.0, demands: (0..groups).map(|group| (group, of(group))).collect() };
        let kinds = (0..groups).map(|group| if group < light { Kind::Light } else { Kind::Heavy }).collect();
        (Trace { cpus: 12, groups, steps: vec![step; 20] }, kinds)
    }

    fn predicted((trace, kinds): &(Trace, Vec<Kind>), tolerance: f64) -> Prediction {
        let lightest: Vec<usize> = (0..trace.groups).filter(|&group| kinds[group] == Kind::Light).collect();
        predict(trace, kinds, &lightest, tolerance, None).unwrap()
    }

    #[test]
    fn of_equals_nobody_gains() {
        let (mut trace, kinds) = skewed(20, 9);
        for (_, asked) in trace.steps.iter_mut().flat_map(|step| &mut step.demands) {
            *asked = demand(1.0, 12, 22, 0.02, 1.0);
        }
        let prediction = predicted(&(trace, kinds), 0.1);
        assert_eq!(prediction.lightest_first.waits, prediction.status_quo);
        assert_eq!((prediction.lightest_first.heavy_time, prediction.lightest_first.switches), (1.0, 1.0));
    }

    #[test]
    fn heavy_cgroups_pay_no_more_than_they_bear() {
        // More than the host can do is asked for: whoever goes last gets nothing.
        let mix = skewed(200, 4);
        let [strict, lax] = [0.0, 5.0].map(|tolerance| {
            let first = predicted(&mix, tolerance).static_first;
            assert!(first.as_ref().is_none_or(|first| first.after.heavy_time <= 1.0 + tolerance), "{first:?}");
            first.map_or(0, |first| first.first.len())
        });
        assert!(strict < lax, "{strict} and {lax}");
    }

    /// Of many cgroups with little each, so that sharing by cgroup is sharing by task, which the formula has.
    #[test]
    fn the_formula_agrees_with_the_simulation_of_one_cpu() {
        let light = demand(0.1, 10, 10, 0.001, 0.1);
        let heavy = demand(0.9, 10, 2, 0.01, 0.1);
        let demands = (0..50).map(|group| (group, if group < 20 { light } else { heavy })).collect();
        let trace = Trace { cpus: 1, groups: 50, steps: vec![Step { duration: 1.0, demands }; 100] };
        let kinds = (0..50).map(|group| if group < 20 { Kind::Light } else { Kind::Heavy }).collect();
        let prediction = predicted(&(trace, kinds), 1.0);
        // All the light have one credit, and share among themselves.
        let simulated = prediction.lightest_first.waits.light / prediction.status_quo.light;
        let model = prediction.model.unwrap();
        assert!((model.light_left / simulated - 1.0).abs() < 0.2, "{model:?} and {simulated}");
        let waiting = prediction.status_quo.all;
        assert!((model.waiting / waiting - 1.0).abs() < 0.2, "{model:?} and {waiting}");
    }

    #[test]
    fn what_cannot_be_simulated_is_not_predicted() {
        assert!(predict(&Trace::default(), &[], &[], 0.1, None).is_none());
        let (mut trace, kinds) = skewed(2, 1);
        trace.steps[0].demands[0].1.bursts = 0;
        assert_eq!(predicted(&(trace, kinds), 0.1).model, None, "one never sleeps");
    }
}
