//! Predictions for single cgroups: all of their waits, and the longest ones.

use super::{
    Forecaster, Predicted, Unpredicted,
    change::{ERROR_LEFT, MOST_ENDLESS, pairs},
    fit::{Fit, HARDLY, Misfit, SimulatedSide, kinds},
};
use crate::{
    diagnosis::simulation::{Served, SimulationOutcome},
    model::{Distribution, DistributionSum, Nanos},
};

/// Prediction for one cgroup, or for several together.
#[derive(Clone, Debug)]
pub(in crate::diagnosis) struct Member {
    /// Of all its waits.
    pub(in crate::diagnosis) wait: Result<Predicted, Unpredicted>,
    /// Of their 99th percentile.
    pub(in crate::diagnosis) tail: Result<Tail, Unpredicted>,
}

/// The 99th percentile of waits: as measured, and its change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::diagnosis) struct Tail {
    pub(in crate::diagnosis) now: Nanos,
    pub(in crate::diagnosis) change: Predicted,
}

/// What a prediction of the light cgroups' waits, or of one cgroup's, is off by at the least, as a logarithm: seen in an earlier
/// calibration where the simulation itself is right (docs/accuracy.md).
pub(super) const WAIT_OFF: f64 = 0.2;
/// The same for their 99th percentile. Chosen: √(0.2² + (ln 1.25)²), as a bucket is 25 % wide.
const TAIL_OFF: f64 = 0.3;
/// With fewer waits than this, measured or simulated, the 99th percentile depends on single ones: of so many, two are above it.
const FEWEST_WAITS: u64 = 200;

/// Measured values of each cgroup in the simulated part, by its number.
pub(super) struct Measured {
    served: Vec<Served>,
    /// CPU time of tasks that never sleep, in seconds.
    spun: Vec<f64>,
}

impl Measured {
    pub(super) fn of(from: &Forecaster<'_>) -> Self {
        let count = from.trace().groups.len();
        let (mut served, mut spun) = (vec![Served::default(); count], vec![0.0; count]);
        for (number, demand) in from.trace().steps.iter().flat_map(|step| &step.demands) {
            let work = demand.spun + demand.work();
            let sum = &mut served[*number];
            *sum = Served { cpu: sum.cpu + work, work: sum.work + work, wait: sum.wait + demand.waited };
            spun[*number] += demand.spun;
        }
        Self { served, spun }
    }

    /// Did anything run in it?
    pub(super) fn has(&self, number: usize) -> bool {
        self.served[number].cpu > 0.0
    }
}

impl Member {
    /// Of the cgroups with these numbers together.
    pub(super) fn of(
        from: &Forecaster<'_>,
        measured: &Measured,
        then: &[SimulationOutcome],
        numbers: &[usize],
    ) -> Self {
        let sum = |groups: &[Served]| add(numbers.iter().map(|&number| groups[number]));
        let was = sum(&measured.served);
        let spun: f64 = numbers.iter().map(|&number| measured.spun[number]).sum();
        let mean = |runs: &[SimulationOutcome]| {
            let (all, count) = (add(runs.iter().map(|run| sum(&run.groups))), runs.len() as f64);
            Served { cpu: all.cpu / count, work: all.work / count, wait: all.wait / count }
        };
        let simulated: Vec<Served> = kinds(&from.now).map(mean).collect();
        let fit = if spun > MOST_ENDLESS * was.work {
            Err(Unpredicted::NeverSleeps)
        } else if was.wait / from.trace().duration() < HARDLY {
            Err(Misfit::HardlyWaits(SimulatedSide::Light).into())
        } else {
            Fit::among(&simulated, was, SimulatedSide::Light).map_err(Unpredicted::from)
        };
        let wait = fit.clone().and_then(|fit| {
            predicted(from, then, &fit.kinds, fit.error, WAIT_OFF, |outcome| sum(&outcome.groups).wait)
        });
        let tail = wait.and(fit).and_then(|fit| {
            let now = tail_of(from, numbers).ok_or(Unpredicted::FewWaits)?;
            let of = |outcome: &SimulationOutcome| tail_in(outcome, numbers);
            // From the kinds of arrivals that reproduce the total of its waits.
            let runs = kinds(&from.now).enumerate().filter(|(kind, _)| fit.kinds.contains(kind)).map(|(_, runs)| runs);
            let tails: Vec<Served> =
                runs.map(|runs| Served { wait: runs.iter().map(of).sum::<f64>() / runs.len() as f64, ..was }).collect();
            if tails.iter().any(|tail| tail.wait.is_nan()) {
                return Err(Unpredicted::FewWaits);
            }
            let near = Fit::among(&tails, Served { wait: now.seconds(), ..was }, SimulatedSide::Light)
                .map_err(|misfit| misfit.of_what("the p99 wait"))?;
            let both: Vec<usize> = near.kinds.iter().map(|&kind| fit.kinds[kind]).collect();
            let change = predicted(from, then, &both, near.error, TAIL_OFF, of)?;
            Ok(Tail { now, change })
        });
        Self { wait, tail }
    }
}

impl Tail {
    /// "from 46.0 ms to about 9.00 ms (5.10 ms to 15.2 ms)".
    pub(in crate::diagnosis) fn fall(&self) -> String {
        let to = |change: f64| Nanos((self.now.0 as f64 * (1.0 + change)) as u64);
        let Predicted { change, low, high } = self.change;
        format!("from {} to about {} ({} to {})", self.now, to(change), to(low), to(high))
    }
}

/// The change of a figure between simulations, for these kinds of arrivals, which are off by `error`.
fn predicted(
    from: &Forecaster<'_>,
    then: &[SimulationOutcome],
    wanted: &[usize],
    error: f64,
    least_off: f64,
    of: impl Fn(&SimulationOutcome) -> f64,
) -> Result<Predicted, Unpredicted> {
    if wanted.is_empty() {
        return Err(Unpredicted::NoRatio);
    }
    let ratio = |(now, then): (&SimulationOutcome, &SimulationOutcome)| (of(then) / of(now)).ln();
    let ratios: Vec<Vec<f64>> =
        pairs(&from.now, then, wanted).map(|(now, then)| now.iter().zip(then).map(ratio).collect()).collect();
    let it = Predicted::of(&ratios, (ERROR_LEFT * error.ln_1p()).hypot(least_off)).ok_or(Unpredicted::NoRatio)?;
    it.why_too_wide().map_or(Ok(it), Err)
}

/// The 99th percentile of these waits. `None` if they are too few.
pub fn tail_of_waits(waits: &Distribution) -> Option<Nanos> {
    waits.quantile(0.99).filter(|_| waits.count() >= FEWEST_WAITS)
}

/// The measured 99th percentile of these cgroups. `None` if there is no distribution, or too few waits.
fn tail_of(from: &Forecaster<'_>, numbers: &[usize]) -> Option<Nanos> {
    let waits = numbers.iter().filter_map(|&number| from.waits.get(number)?.as_ref());
    tail_of_waits(&Distribution::sum(waits))
}

/// The simulated 99th percentile of these cgroups, in seconds. NaN if there are too few waits.
fn tail_in(outcome: &SimulationOutcome, numbers: &[usize]) -> f64 {
    let mut waits = DistributionSum::default();
    for of_one in numbers.iter().filter_map(|&number| outcome.waits.get(number)) {
        waits.add(&of_one.distribution());
    }
    tail_of_waits(&waits.total()).map_or(f64::NAN, Nanos::seconds)
}

fn add(all: impl Iterator<Item = Served>) -> Served {
    all.fold(Served::default(), |sum, it| Served {
        cpu: sum.cpu + it.cpu,
        work: sum.work + it.work,
        wait: sum.wait + it.wait,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        diagnosis::{Forecast, Intervention, Observations, fixture::competing, forecast::Competitors},
        model::fixture::session,
    };

    /// What ten times the weight does for `web`, of which a simulation made up what was measured.
    #[test]
    fn single_cgroups_of_the_light_side_are_predicted_and_tails_only_where_they_are_reproduced() {
        let mut observations = Observations::new(session());
        let groups = [("web", 4, 60, 6.0), ("api", 4, 40, 6.0), ("batch", 6, 0, 0.0), ("train", 6, 0, 0.0)];
        competing(20, &groups).iter().for_each(|interval| observations.add(interval));
        let path = |name: &str| -> Arc<str> { format!("/apps.slice/{name}").into() };
        let number = |name: &str| observations.asked.number_at(&path(name)).unwrap();
        let sides = Competitors { light: ["web", "api"].map(path).into(), heavy: ["batch", "train"].map(path).into() };
        let weights = sides.light.iter().map(|path| (Arc::clone(path), 1_000.0)).collect();
        let mut forecaster = observations.forecaster().unwrap();
        let policy = forecaster.policy(&Intervention { weights, ..Intervention::default() });
        let then = forecaster.simulate(&policy).unwrap();

        let forecast = Forecast::of(&forecaster, &sides, &then);
        let wait = forecast.member(number("web")).unwrap().wait.unwrap();
        assert!(wait.change < -0.2 && wait.is_significant(), "{wait:?}");
        assert!(forecast.member(number("batch")).is_none(), "it is heavy");

        let web = number("web");
        let mut tail_if = |measured: Option<Distribution>| {
            forecaster.waits[web] = measured;
            Member::of(&forecaster, &Measured::of(&forecaster), &then, &[web]).tail.ok()
        };
        let of = |ns: u64, count| Some(Distribution::of([(Nanos(ns), count)]));
        let near: Vec<Tail> = (0..6).filter_map(|doubled| tail_if(of(2_000_000 << doubled, 2_000))).collect();
        assert!(!near.is_empty(), "one of them is near what is simulated");
        assert!(near.iter().all(|tail| tail.change.low <= tail.change.change && tail.change.change < 0.0), "{near:?}");
        for far in [of(1_000, 2_000), of(5_000_000_000, 2_000), of(near[0].now.0, 20), None] {
            assert_eq!(tail_if(far.clone()), None, "{far:?}");
        }
    }

    #[test]
    fn a_fall_is_said_from_where_to_where() {
        let tail = Tail { now: Nanos(46_000_000), change: Predicted { change: -0.8, low: -0.9, high: -0.7 } };
        assert_eq!(tail.fall(), "from 46.0 ms to about 9.20 ms (4.60 ms to 13.8 ms)");
    }
}
