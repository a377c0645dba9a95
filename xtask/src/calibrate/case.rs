//! A load, a trial of a policy on it, and the oracle beside them.

use std::{path::PathBuf, time::Duration};

use lagstop::{host::Hierarchy, trial::Policy};

use super::{
    block::{Block, Range, change},
    error::Error,
    interrupt::Interrupt,
    load::{LIGHT, Load},
    oracle::{Oracle, Seen, Totals},
    result::{Estimate, Figure, Measured, Outcome},
    trial::{self, Ended, Trial},
};

/// A load goes on for so long before it is measured.
pub(super) const SETTLES: Duration = Duration::from_secs(2);
/// Figures that lagstop predicts.
pub(super) const FIGURES: [&str; 6] =
    ["light_waiting", "heavy_waiting", "heavy_time", "waiting", "switches", "overhead"];

/// Runs it. What goes wrong is an outcome too.
pub(super) fn run(load: &Load, policy: Policy, seed: u64, trial: &Trial, interrupt: &Interrupt) -> Outcome {
    let tried = try_it(load, policy, seed, trial, interrupt);
    match tried {
        Ok(outcome) => outcome,
        Err(error) => Outcome::Failed { why: error.to_string() },
    }
}

fn try_it(load: &Load, policy: Policy, seed: u64, trial: &Trial, interrupt: &Interrupt) -> Result<Outcome, Error> {
    let longest = SETTLES + trial.longest();
    let mut tenants = load.start(seed, longest.as_secs() + 60)?;
    interrupt.sleep(SETTLES);
    let oracle = Oracle::start(tenants.inhabited());
    let ended = trial.run(policy, load.is_named.then_some(LIGHT), interrupt)?;
    let seen = oracle.end();
    if let Some(path) = tenants.ended() {
        return Ok(Outcome::Failed { why: format!("what ran in {path} ended before the trial did") });
    }
    Ok(match ended {
        Ended::Refused(why) => Outcome::Refused { why },
        Ended::Failed(why) => Outcome::Failed { why },
        Ended::Outcome(outcome) => Outcome::Measured(compare(&outcome, &seen, tenants.hierarchy())),
    })
}

/// What was predicted, measured, and seen.
fn compare(trial: &trial::Outcome, seen: &Seen, hierarchy: &Hierarchy) -> Measured {
    let sides = Sides {
        seen,
        light: trial.light.iter().filter_map(|path| hierarchy.directory(path)).collect(),
        heavy: trial.heavy.iter().filter_map(|path| hierarchy.directory(path)).collect(),
    };
    let figure = |name: &str| {
        let of = trial.figures.iter().find(|figure| figure.name == name);
        let oracle = match &trial.blocks {
            None => Err("this lagstop does not say when its blocks were"),
            Some(blocks) => sides.change(name, blocks),
        };
        Figure {
            name: name.to_owned(),
            predicted: of.map_or_else(Estimate::default, |of| Estimate {
                change: of.predicted,
                low: of.predicted_low,
                high: of.predicted_high,
                why_not: of.predicted_why_not.clone(),
            }),
            measured: of.map_or_else(Estimate::default, |of| Estimate {
                change: of.change,
                low: of.low,
                high: of.high,
                why_not: of.why_not.clone(),
            }),
            oracle: Estimate { change: oracle.ok(), why_not: oracle.err().map(str::to_owned), ..Estimate::default() },
        }
    };
    Measured {
        light: trial.light.len(),
        heavy: trial.heavy.len(),
        pairs: trial.pairs,
        ended: trial.ended.clone(),
        longest_gap_ms: (seen.longest_gap().as_secs_f64() * 1e3).round(),
        figures: FIGURES.into_iter().map(figure).collect(),
    }
}

/// What the oracle saw of the cgroups that the trial was made with.
struct Sides<'a> {
    seen: &'a Seen,
    light: Vec<PathBuf>,
    heavy: Vec<PathBuf>,
}

impl Sides<'_> {
    fn change(&self, name: &str, blocks: &[Block]) -> Result<f64, &'static str> {
        if name == "overhead" {
            return Err("nothing but lagstop measures it here");
        }
        for side in [&self.light, &self.heavy] {
            if side.iter().any(|path| !self.seen.cgroups.iter().any(|(seen, _)| seen.starts_with(path))) {
                return Err("the trial took a cgroup that is not the load's");
            }
        }
        let values: Vec<Option<f64>> = blocks.iter().map(|block| self.value(name, block.time())).collect();
        change(blocks, &values)
    }

    fn value(&self, name: &str, time: Range) -> Option<f64> {
        let seconds = (time.to_ns - time.from_ns) as f64;
        let side = |paths: &[PathBuf]| {
            let mut each = paths.iter().map(|path| self.seen.below(path, time));
            each.try_fold(Totals::default(), |sum, totals| Some(sum.plus(totals?)))
        };
        Some(match name {
            "light_waiting" => side(&self.light)?.wait / seconds,
            "heavy_waiting" => side(&self.heavy)?.wait / seconds,
            "heavy_time" => side(&self.heavy).map(|heavy| (heavy.run + heavy.wait) / heavy.run)?,
            "waiting" => self.seen.host.over(time)?.wait / seconds,
            "switches" => self.seen.switches.over(time)?.run / seconds,
            _ => return None,
        })
    }
}
