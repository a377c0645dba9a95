//! What would become of waits if cgroups were scheduled otherwise, and how wrong that may be.
//!
//! The recording is simulated as it was and with the change, with the same random numbers, several times. This is done
//! for two kinds of arrivals: tasks that finish sooner get no more work, or get more work. The prediction is the ratio
//! of the two simulations, in the middle of both kinds. Its uncertainty comes from the spread of these ratios, and from
//! the error of the simulation against the measurement, for the cgroups that the figure is about. docs/accuracy.md
//! compares such predictions with trials.

mod change;
mod figure;
mod fit;
mod held;
mod member;
mod predicted;
mod sides;

use std::sync::Arc;

pub use change::{Predicted, Unpredicted};
pub use figure::ForecastFigure;
pub(in crate::diagnosis) use fit::MOST_OFF;
#[cfg(test)]
pub(in crate::diagnosis) use member::Member;
pub(in crate::diagnosis) use member::Tail;
pub use member::tail_of_waits;
pub use predicted::Forecast;
pub(in crate::diagnosis) use sides::siblings;
pub use sides::{Competitors, CompetitorsError};

use super::{Observations, asked::Asked, cost_curve::CostCurve};
use crate::{
    diagnosis::simulation::{
        Arrivals, Served, SimulatedDynamic, SimulatedKernel, SimulatedPolicy, SimulationOutcome, Switching, Trace,
        Weight, run,
    },
    model::{Distribution, Nanos},
};

/// How often the results of trials were inside of the predicted interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    /// The policy, as `lagstop trial` names it.
    pub(super) policy: &'static str,
    pub(super) figure: ForecastFigure,
    pub(super) inside: u32,
    pub(super) of: u32,
}

impl Held {
    /// How often predictions for this policy held in calibration, for the one of these figures that held most rarely.
    /// `None` if none of them was predicted.
    pub(super) fn of(policy: &str, figures: &[ForecastFigure]) -> Option<Self> {
        let is_it = |held: &&Self| held.policy == policy && figures.contains(&held.figure) && held.of > 0;
        held::HELD.iter().filter(is_it).copied().min_by(|a, b| a.share().total_cmp(&b.share()))
    }

    pub(super) fn share(self) -> f64 {
        f64::from(self.inside) / f64::from(self.of)
    }
}

/// Seeds of the simulations. They are fixed, so that the same recording gives the same report.
const SEEDS: [u64; 5] = [1, 2, 3, 4, 5];
/// Limit of the work of a simulation, as bursts × tasks on a CPU: some tenths of a second.
const MOST_WORK: f64 = 3e6;
/// CPU time that is simulated, in seconds: 250 ticks each.
const MOST_CPU_SECONDS: f64 = 500.0;
/// Ticks and slices that are simulated, in seconds: what a slice may be in the kernel (`__setparam_fair`, kernel/sched/fair.c).
const SLICES: std::ops::RangeInclusive<f64> = 1e-4..=0.1;
/// Number of simulated bursts, whatever the work.
const BURSTS: std::ops::RangeInclusive<f64> = 4e3..=2e4;

/// What is done to cgroups, by their paths. Of threads it is done to all inside of a cgroup.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Intervention {
    /// Weights, as `cpu.weight` has them.
    pub weights: Vec<(Arc<str>, f64)>,
    /// `cpu.idle` is set.
    pub idle: Vec<Arc<str>>,
    /// Slices of all threads.
    pub slices: Vec<(Arc<str>, Nanos)>,
    /// All threads are `SCHED_RR`.
    pub real_time: Vec<Arc<str>>,
    /// `cpu.idle` of whoever is heavy by Load Credit now: who is ranked, who is idle at first, and how.
    pub dynamic: Option<Ranking>,
    /// Ranked by Latency-Aware Group Scheduling in the kernel.
    pub lightest_first: Vec<Arc<str>>,
}

/// How cgroups become idle by Load Credit and no longer are.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranking {
    pub ranked: Vec<Arc<str>>,
    /// Who is idle at first.
    pub heavy: Vec<Arc<str>>,
    pub every: Nanos,
    /// Heavy from so many times the mean on.
    pub heavy_from: f64,
    /// Light again below so many.
    pub light_below: f64,
}

/// Simulations of a recording as it was.
#[derive(Debug)]
pub struct Forecaster<'a> {
    asked: &'a Asked,
    /// With each kind of arrivals.
    traces: [Trace; 2],
    kernel: SimulatedKernel,
    switching: Switching,
    has_costs: bool,
    /// Waits as measured, by the numbers of the cgroups. `None` where there is no distribution.
    waits: Vec<Option<Distribution>>,
    now: Vec<SimulationOutcome>,
}

impl Observations {
    /// Length of the simulated part in seconds, and its number of bursts. `None` if nothing can be simulated.
    pub(super) fn forecast_extent(&self) -> Option<(f64, u64)> {
        let trace = self.asked.trace();
        trace.is_sound().then(|| shortened(trace)).map(|it| (it.duration(), it.bursts()))
    }

    /// The cgroups that `is_light` says of by their paths, and the heavy ones: each at the level where the one competes with
    /// the other. Heavy are those that used more CPU time than one on average, in the smallest part of the tree that has all
    /// the light ones and such a one.
    ///
    /// # Errors
    /// Why no change can reach the one without the other.
    pub fn competitors(&self, is_light: impl Fn(&str) -> bool) -> Result<Competitors, CompetitorsError> {
        let asked = &self.asked;
        let numbers = 0..asked.trace().groups.len();
        let light: Vec<usize> = numbers.filter(|&number| is_light(asked.path(number))).collect();
        let rows = self.cgroups.iter().filter(|(id, _)| super::rated::is_rated(**id));
        let rows: Vec<(usize, u64)> =
            rows.filter_map(|(&id, observed)| Some((asked.number(id)?, observed.totals.cpu_ns.0))).collect();
        let is_other = |number: usize| !light.iter().any(|&one| asked.is_inside(number, one));
        let heavy_in = |part: Option<usize>| -> Vec<usize> {
            let inside: Vec<(usize, u64)> = rows
                .iter()
                .copied()
                .filter(|&(number, _)| part.is_none_or(|part| asked.is_inside(number, part)))
                .collect();
            let fair = inside.iter().map(|&(_, cpu)| cpu as f64).sum::<f64>() / inside.len().max(1) as f64;
            let is_heavy = |&(number, cpu): &(usize, u64)| cpu as f64 > fair && is_other(number);
            inside.into_iter().filter(is_heavy).map(|(number, _)| number).collect()
        };
        let parent = |number: usize| asked.trace().groups[number].parent;
        let has_all = |part: usize| light.iter().all(|&one| one != part && asked.is_inside(one, part));
        let above = light.first().and_then(|&one| parent(one));
        let mut part = std::iter::successors(above, |&number| parent(number)).find(|&part| has_all(part));
        let mut heavy = heavy_in(part);
        while let (Some(number), true) = (part, heavy.is_empty()) {
            part = parent(number);
            heavy = heavy_in(part);
        }
        Competitors::lifted(asked, &light, &heavy)
    }

    /// Simulates what was measured. `None` where nothing can be: nothing was asked for, or more than a host has.
    pub fn forecaster(&self) -> Option<Forecaster<'_>> {
        let asked = &self.asked;
        asked.trace().is_sound().then_some(())?;
        let trace = shortened(asked.trace());
        let usual = SimulatedKernel::usual(trace.cpus);
        let seconds =
            |time: Option<Nanos>, or: f64| time.map_or(or, Nanos::seconds).clamp(*SLICES.start(), *SLICES.end());
        let kernel = SimulatedKernel {
            tick: seconds(self.session.tick_ns, usual.tick),
            slice: seconds(self.session.base_slice_ns, usual.slice),
            most_times: self.session.cgroup_mode().most_times(trace.cpus),
            ..usual
        };
        let curve = CostCurve::of(&self.samples);
        let switching = Switching::new(|tasks| curve.as_ref().map_or(0.0, |curve| curve.at(tasks) * 1e-9));
        let has_costs = curve.is_some();
        let mut waits: Vec<Option<Distribution>> = vec![None; trace.groups.len()];
        for (&id, observed) in &self.cgroups {
            // A cgroup that was restarted under the same path has another id.
            if let Some(of_one) = asked.number(id).and_then(|number| waits.get_mut(number)) {
                observed.runq_wait.iter().for_each(|waits| of_one.get_or_insert_default().merge(waits));
            }
        }
        let traces = [trace.clone(), Trace { arrivals: Arrivals::Closed, ..trace }];
        let mut forecaster = Forecaster { asked, traces, kernel, switching, has_costs, waits, now: Vec::new() };
        forecaster.now = forecaster.simulate(&SimulatedPolicy::none())?;
        Some(forecaster)
    }
}

impl Forecaster<'_> {
    /// What an intervention does to `sides` and to the host.
    pub fn forecast(&self, sides: &Competitors, intervention: &Intervention) -> Forecast {
        let policy = self.policy(intervention);
        self.simulate(&policy).map_or_else(Forecast::none, |then| Forecast::of(self, sides, &then))
    }

    /// Simulates each kind of arrivals in turn, equally often. `None` if there is too much to simulate.
    fn simulate(&self, policy: &SimulatedPolicy) -> Option<Vec<SimulationOutcome>> {
        let once = |trace, seed| run(trace, &self.kernel, &self.switching, policy, seed);
        let all = self.traces.iter().flat_map(|trace| SEEDS.iter().map(move |&seed| (trace, seed)));
        all.map(|(trace, seed)| Some(once(trace, seed)).filter(|outcome| !outcome.wait().is_nan())).collect()
    }

    fn trace(&self) -> &Trace {
        &self.traces[0]
    }

    /// The cgroups of the trace that have one of these paths, or are inside of one.
    fn all_inside<'p>(&self, paths: impl Iterator<Item = &'p str>) -> Vec<bool> {
        let roots: Vec<usize> = paths.filter_map(|path| self.asked.number_at(path)).collect();
        let is_inside = |number| roots.iter().any(|&root| self.asked.is_inside(number, root));
        (0..self.trace().groups.len()).map(is_inside).collect()
    }

    fn policy(&self, intervention: &Intervention) -> SimulatedPolicy {
        let number = |path: &Arc<str>| self.asked.number_at(path);
        let is_idle = |number: usize| self.trace().groups[number].is_idle;
        let weighs = |(path, weight): &(Arc<str>, f64)| {
            let number = number(path)?;
            Some((number, Weight { weight: weight / crate::model::Level::DEFAULT_WEIGHT, is_idle: is_idle(number) }))
        };
        let idles = |path: &Arc<str>| {
            let number = number(path)?;
            Some((number, Weight { weight: self.trace().groups[number].weight, is_idle: true }))
        };
        let slices = intervention.slices.iter().flat_map(|(path, slice)| {
            let inside = self.all_inside([&**path].into_iter());
            let numbers = inside.into_iter().enumerate().filter(|(_, is)| *is).map(|(number, _)| number);
            numbers.map(|number| (number, slice.seconds().max(*SLICES.start()))).collect::<Vec<_>>()
        });
        let real_time = self.all_inside(intervention.real_time.iter().map(|path| &**path));
        SimulatedPolicy {
            weights: intervention
                .weights
                .iter()
                .filter_map(weighs)
                .chain(intervention.idle.iter().filter_map(idles))
                .collect(),
            slices: slices.collect(),
            real_time: real_time.into_iter().enumerate().filter(|(_, is)| *is).map(|(number, _)| number).collect(),
            dynamic: intervention.dynamic.as_ref().map(|it| SimulatedDynamic {
                ranked: it.ranked.iter().filter_map(number).collect(),
                heavy: it.heavy.iter().filter_map(number).collect(),
                every: it.every.seconds().max(0.01),
                heavy_from: it.heavy_from,
                light_below: it.light_below,
            }),
            lightest_first: intervention.lightest_first.iter().filter_map(number).collect(),
        }
    }

    /// The share of their CPU time that is used by tasks that never sleep.
    fn never_sleeps(&self, these: &[bool]) -> f64 {
        let demands = self.trace().steps.iter().flat_map(|step| &step.demands);
        let (spun, all) = demands
            .filter(|(number, _)| these[*number])
            .fold((0.0, 0.0), |(spun, all), (_, demand)| (spun + demand.spun, all + demand.spun + demand.work()));
        if all > 0.0 { spun / all } else { 0.0 }
    }

    /// The measured values in the simulated part, summed over the cgroups that `is` selects by number.
    fn measured(&self, is: impl Fn(usize) -> bool) -> Served {
        let demands = self.trace().steps.iter().flat_map(|step| &step.demands).filter(|(number, _)| is(*number));
        demands.fold(Served::default(), |sum, (_, demand)| {
            let work = demand.spun + demand.work();
            Served { cpu: sum.cpu + work, work: sum.work + work, wait: sum.wait + demand.waited }
        })
    }
}

/// The sum of the `groups` that `is` selects.
fn sum(groups: &[Served], is: impl Fn(usize) -> bool) -> Served {
    let members = groups.iter().enumerate().filter(|&(number, _)| is(number)).map(|(_, served)| served);
    members.fold(Served::default(), |sum, served| Served {
        cpu: sum.cpu + served.cpu,
        work: sum.work + served.work,
        wait: sum.wait + served.wait,
    })
}

/// A part of the trace that can be simulated in some tenths of a second.
fn shortened(trace: &Trace) -> Trace {
    trace.clone().settled().shortened(most_bursts(trace), MOST_CPU_SECONDS / trace.cpus as f64)
}

fn most_bursts(trace: &Trace) -> u64 {
    let steps = trace.steps.len().max(1) as f64;
    let demands = trace.steps.iter().flat_map(|step| &step.demands);
    let tasks: f64 = demands.map(|(_, demand)| f64::from(demand.tasks) + f64::from(demand.spinners)).sum();
    // Each event examines the tasks on a CPU, and the next event of each CPU.
    let crowd = (tasks / steps / trace.cpus as f64).max(1.0);
    (MOST_WORK / (crowd + trace.cpus as f64 / 8.0)).clamp(*BURSTS.start(), *BURSTS.end()) as u64
}
