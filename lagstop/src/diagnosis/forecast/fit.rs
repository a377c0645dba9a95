//! How far the simulation is off what was measured, and which kinds of arrivals can be trusted.

use thiserror::Error;

use super::{Forecaster, SEEDS, sum};
use crate::diagnosis::simulation::{Served, SimulationOutcome};

/// Whose waits a figure rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimulatedSide {
    Light,
    Heavy,
    Others,
    All,
}

/// Which cgroups of the trace are on which side, by their numbers.
#[derive(Clone, Debug)]
pub(super) struct SimulatedSides {
    pub(super) light: Vec<bool>,
    pub(super) heavy: Vec<bool>,
}

/// The kinds of arrivals whose simulations reproduce what was measured of a side.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Fit {
    /// Numbers of these kinds of arrivals.
    pub(super) kinds: Vec<usize>,
    /// Simulated waits / measured waits - 1, for the kind that is further off.
    pub(super) error: f64,
}

/// Why nothing is predicted of a side.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
pub enum Misfit {
    /// It hardly waits: there is no ratio to speak of.
    #[error("{} hardly wait", .0.name())]
    HardlyWaits(SimulatedSide),
    /// No simulation reproduces it; waits are off by so much in the nearest.
    #[error(
        "the simulation error is too large: {what} of {} {:+.0} % off the measured (limit {:.0} %)",
        side.name(),
        100.0 * off,
        100.0 * most
    )]
    Off {
        side: SimulatedSide,
        error: f64,
        /// What is off, by how much, and by how much it may be.
        what: &'static str,
        off: f64,
        most: f64,
    },
}

/// A side is not predicted if its simulated waits are off by more than this, as a share of the measured ones. Chosen: half.
pub(in crate::diagnosis) const MOST_OFF: f64 = 0.5;
/// The same limit for its CPU time. Chosen: smaller, as waits hang on how full the CPUs are.
const MOST_CPU_OFF: f64 = 0.25;
/// With fewer tasks waiting on average than this, a ratio of waits means nothing. Chosen: 1 ms in each second.
pub(super) const HARDLY: f64 = 0.001;

impl Misfit {
    /// The same misfit, for something else than all waits.
    pub(super) fn of_what(self, what: &'static str) -> Self {
        match self {
            Self::Off { side, error, off, most, .. } => Self::Off { side, error, what, off, most },
            hardly => hardly,
        }
    }
}

impl SimulatedSide {
    const fn name(self) -> &'static str {
        match self {
            Self::Light => "the prioritised cgroups",
            Self::Heavy => "the heavy cgroups",
            Self::Others => "all other cgroups",
            Self::All => "all cgroups",
        }
    }
}

impl SimulatedSides {
    pub(super) fn has(&self, side: SimulatedSide, number: usize) -> bool {
        match side {
            SimulatedSide::Light => self.light[number],
            SimulatedSide::Heavy => self.heavy[number],
            SimulatedSide::Others => !self.light[number] && !self.heavy[number],
            SimulatedSide::All => true,
        }
    }

    /// The sum over the cgroups of a side.
    pub(super) fn of(&self, side: SimulatedSide, groups: &[Served]) -> Served {
        sum(groups, |number| self.has(side, number))
    }
}

impl Fit {
    pub(super) fn of(from: &Forecaster<'_>, sides: &SimulatedSides, side: SimulatedSide) -> Result<Self, Misfit> {
        let measured = from.measured(|number| sides.has(side, number));
        if measured.wait / from.trace().duration() < HARDLY {
            return Err(Misfit::HardlyWaits(side));
        }
        let kinds: Vec<Served> = kinds(&from.now).map(|runs| mean(runs, sides, side)).collect();
        Self::among(&kinds, measured, side)
    }

    /// The kinds of arrivals whose simulation is near what was measured. `simulated` has one entry for each kind.
    pub(super) fn among(simulated: &[Served], measured: Served, side: SimulatedSide) -> Result<Self, Misfit> {
        let off = |it: &Served| (it.wait / measured.wait - 1.0, it.work / measured.work - 1.0);
        let is_near = |&(wait, cpu): &(f64, f64)| wait.abs() <= MOST_OFF && cpu.abs() <= MOST_CPU_OFF;
        let offs: Vec<(f64, f64)> = simulated.iter().map(off).collect();
        let further = |a: f64, b: f64| a.ln_1p().abs().total_cmp(&b.ln_1p().abs());
        let near = offs.iter().enumerate().filter(|(_, off)| is_near(off));
        let kinds: Vec<usize> = near.clone().map(|(kind, _)| kind).collect();
        if let Some(error) = near.map(|(_, off)| off.0).max_by(|&a, &b| further(a, b)) {
            return Ok(Self { kinds, error });
        }
        let nearest = offs.iter().min_by(|a, b| further(a.0, b.0)).copied();
        let (error, cpu) = nearest.unwrap_or((f64::NAN, f64::NAN));
        let (what, off, most) = match error.abs() <= MOST_OFF {
            true => ("CPU time", cpu, MOST_CPU_OFF),
            false => ("waits", error, MOST_OFF),
        };
        Err(Misfit::Off { side, error, what, off, most })
    }

    /// The error, or that of the nearest simulation. `None` if the side hardly waits.
    pub(super) fn error(of: &Result<Self, Misfit>) -> Option<f64> {
        match of {
            Ok(fit) => Some(fit.error),
            Err(Misfit::Off { error, .. }) => Some(*error),
            Err(Misfit::HardlyWaits(_)) => None,
        }
    }

    /// Can the simulation of the side be trusted? One that hardly waits cannot be off.
    pub(super) const fn is_near(of: &Result<Self, Misfit>) -> bool {
        !matches!(of, Err(Misfit::Off { .. }))
    }
}

/// The simulations of each kind of arrivals.
pub(super) fn kinds(all: &[SimulationOutcome]) -> impl Iterator<Item = &[SimulationOutcome]> {
    all.chunks(SEEDS.len())
}

fn mean(runs: &[SimulationOutcome], sides: &SimulatedSides, side: SimulatedSide) -> Served {
    let count = runs.len() as f64;
    let sum = runs.iter().map(|run| sides.of(side, &run.groups)).fold(Served::default(), |sum, it| Served {
        cpu: sum.cpu + it.cpu,
        work: sum.work + it.work,
        wait: sum.wait + it.wait,
    });
    Served { cpu: sum.cpu / count, work: sum.work / count, wait: sum.wait / count }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEASURED: Served = Served { cpu: 10.0, work: 10.0, wait: 4.0 };

    fn served(work: f64, wait: f64) -> Served {
        Served { cpu: work, work, wait }
    }

    #[test]
    fn two_that_are_off_either_way_are_not_near_together() {
        let both = [served(10.0, 1.6), served(10.0, 6.4)];
        let misfit = Fit::among(&both, MEASURED, SimulatedSide::Light).unwrap_err();
        assert!(matches!(misfit, Misfit::Off { error, .. } if (error - 0.6).abs() < 1e-9), "{misfit:?}");
        assert!(misfit.to_string().contains("waits of the prioritised cgroups +60 % off"), "{misfit}");
    }

    #[test]
    fn the_kind_that_reproduces_what_was_measured_is_gone_by() {
        let open_only = [served(10.0, 5.0), served(10.0, 9.0)];
        assert_eq!(Fit::among(&open_only, MEASURED, SimulatedSide::All), Ok(Fit { kinds: vec![0], error: 0.25 }));
        let both = Fit::among(&[served(10.0, 4.4), served(9.0, 3.2)], MEASURED, SimulatedSide::All).unwrap();
        assert_eq!(both.kinds, [0, 1]);
        assert!((both.error + 0.2).abs() < 1e-9, "that of the one further off: {both:?}");
    }

    /// A backlogged cgroup would take all CPU time.
    #[test]
    fn one_that_takes_more_cpu_time_than_it_had_is_off() {
        let Err(misfit) = Fit::among(&[served(30.0, 4.0)], MEASURED, SimulatedSide::Heavy) else {
            panic!("three times as much")
        };
        assert!(misfit.to_string().contains("CPU time of the heavy cgroups +200 % off"), "{misfit:?}");
    }
}
