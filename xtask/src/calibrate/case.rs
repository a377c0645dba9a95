//! A load, a trial of a policy on it, and the oracle beside them.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    time::Duration,
};

use lagstop::{diagnosis::ForecastFigure, host::Hierarchy, trial::Policy};

use super::{
    block::{Block, Range, change},
    error::Error,
    load::{LIGHT, Load},
    oracle::{Oracle, Seen, Totals, run_time},
    result::{CalibratedFigure, Estimate, Measured, Outcome},
    trial::{self, Ended, Trial},
};
use crate::interrupt::Interrupt;

/// How long a load runs before it is measured.
pub(super) const SETTLES: Duration = Duration::from_secs(2);
/// A cgroup beside the load that takes more of a CPU than this may be taken for light or heavy.
const BUSY: f64 = 0.05;
/// Runs a case. A failure is an outcome too.
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
    let others = run_times(tenants.hierarchy(), tenants.top());
    interrupt.sleep(SETTLES);
    if let Some(busy) = busiest(&others, &run_times(tenants.hierarchy(), tenants.top())) {
        let why =
            format!("{} is busy, and a trial might change how it is scheduled: end what runs there", busy.display());
        return Ok(Outcome::Failed { why });
    }
    let oracle = Oracle::start(tenants.inhabited());
    let ended = trial.run(policy, load.is_named.then_some(LIGHT), interrupt)?;
    let seen = oracle.end();
    if let Some(path) = tenants.ended() {
        return Ok(Outcome::Failed { why: format!("what ran in {path} ended before the trial did") });
    }
    Ok(match ended {
        Ended::Refused(why) => Outcome::Refused { why },
        Ended::Failed(why) => Outcome::Failed { why },
        Ended::Outcome(outcome) => match stranger(&outcome, tenants.hierarchy(), tenants.top()) {
            Some(path) => Outcome::Failed { why: format!("the trial took {path}, too, which is not the load's") },
            None => Outcome::Measured(compare(&outcome, &seen, tenants.hierarchy())),
        },
    })
}

/// CPU time of the threads in each cgroup but the root and those in `top`, by directory.
fn run_times(hierarchy: &Hierarchy, top: &Path) -> HashMap<PathBuf, f64> {
    let groups = hierarchy.groups().unwrap_or_default().into_iter().map(|group| group.directory);
    let others = groups.filter(|directory| *directory != hierarchy.mount && !directory.starts_with(top));
    others.map(|directory| (directory.clone(), run_time(&directory))).collect()
}

/// A cgroup that took more of a CPU than [`BUSY`] while the load settled.
fn busiest<'a>(before: &HashMap<PathBuf, f64>, after: &'a HashMap<PathBuf, f64>) -> Option<&'a Path> {
    let took = |(directory, now): (&'a PathBuf, &f64)| {
        let share = (now - before.get(directory).unwrap_or(&0.0)) / SETTLES.as_nanos() as f64;
        (share > BUSY).then_some((share, directory.as_path()))
    };
    let most = after.iter().filter_map(took).max_by(|(one, _), (other, _)| one.total_cmp(other));
    most.map(|(_, directory)| directory)
}

/// A cgroup that was tried and is not in `top`.
fn stranger<'a>(trial: &'a trial::TrialReport, hierarchy: &Hierarchy, top: &Path) -> Option<&'a str> {
    let is_ours = |path: &str| hierarchy.directory(path).is_some_and(|directory| directory.starts_with(top));
    trial.light.iter().chain(&trial.heavy).map(String::as_str).find(|path| !is_ours(path))
}

/// What was predicted, measured, and seen.
fn compare(trial: &trial::TrialReport, seen: &Seen, hierarchy: &Hierarchy) -> Measured {
    let sides = Sides {
        seen,
        light: trial.light.iter().filter_map(|path| hierarchy.directory(path)).collect(),
        heavy: trial.heavy.iter().filter_map(|path| hierarchy.directory(path)).collect(),
    };
    let figure = |predicted: ForecastFigure| {
        let name = predicted.name();
        let of = trial.figures.iter().find(|figure| figure.name == name);
        let oracle = match &trial.blocks {
            None => Err("this lagstop does not say when its blocks were"),
            Some(blocks) => sides.change(predicted, blocks),
        };
        CalibratedFigure {
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
        others_cores: trial.blocks.as_deref().and_then(|blocks| sides.others(blocks)),
        figures: ForecastFigure::ALL.into_iter().map(figure).collect(),
    }
}

/// What the oracle saw of the cgroups that the trial was made with.
struct Sides<'a> {
    seen: &'a Seen,
    light: Vec<PathBuf>,
    heavy: Vec<PathBuf>,
}

impl Sides<'_> {
    fn change(&self, figure: ForecastFigure, blocks: &[Block]) -> Result<f64, &'static str> {
        if [ForecastFigure::LightP99, ForecastFigure::Overhead].contains(&figure) {
            return Err("nothing but lagstop measures it here");
        }
        let values: Vec<Option<f64>> = blocks.iter().map(|block| self.value(figure, block.time())).collect();
        change(blocks, &values)
    }

    /// CPUs' worth of time that everything but the load took.
    fn others(&self, blocks: &[Block]) -> Option<f64> {
        let (first, last) = (blocks.first()?.time(), blocks.last()?.time());
        let time = Range { from_ns: first.from_ns, to_ns: last.to_ns };
        let load = self.seen.below(Path::new("/"), time)?;
        let others = self.seen.host.over(time)?.run - load.run;
        Some((others / (time.to_ns - time.from_ns) as f64 * 100.0).round() / 100.0)
    }

    fn value(&self, figure: ForecastFigure, time: Range) -> Option<f64> {
        let seconds = (time.to_ns - time.from_ns) as f64;
        let side = |paths: &[PathBuf]| {
            let mut each = paths.iter().map(|path| self.seen.below(path, time));
            each.try_fold(Totals::default(), |sum, totals| Some(sum.plus(totals?)))
        };
        Some(match figure {
            ForecastFigure::LightWaiting => side(&self.light)?.wait / seconds,
            ForecastFigure::HeavyWaiting => side(&self.heavy)?.wait / seconds,
            ForecastFigure::HeavyTime => side(&self.heavy)?.time_for_work(),
            ForecastFigure::OthersTime => {
                let sides = side(&self.light)?.plus(side(&self.heavy)?);
                self.seen.host.over(time)?.minus(sides).time_for_work()
            }
            ForecastFigure::Waiting => self.seen.host.over(time)?.wait / seconds,
            ForecastFigure::Switches => self.seen.switches.over(time)?.run / seconds,
            ForecastFigure::LightP99 | ForecastFigure::Overhead => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibrate::oracle::Series;

    const SECOND: u64 = 1_000_000_000;

    /// Five blocks of a second; with the policy the light wait a quarter as long, the heavy twice as long.
    fn blocks() -> Vec<Block> {
        let block = |number: u64| {
            let (from, to) = (number * SECOND, (number + 1) * SECOND);
            let is_with = number % 2 == 1;
            serde_json::from_str(&format!(r#"{{"is_with": {is_with}, "from_ns": {from}, "to_ns": {to}}}"#)).unwrap()
        };
        (0..5).map(block).collect()
    }

    /// Sums that grow each second by the first value without the policy, and by the second value with it.
    fn series(run: (f64, f64), wait: (f64, f64)) -> Series {
        let mut sum = Totals::default();
        (0..=5)
            .map(|second| {
                let now = (second * SECOND, sum);
                let of = |(without, with): (f64, f64)| if second % 2 == 1 { with } else { without };
                sum = sum.plus(Totals { run: of(run) * 1e9, wait: of(wait) * 1e9 });
                now
            })
            .collect()
    }

    #[test]
    fn sums_over_the_blocks_become_changes() {
        let cgroup = |path: &str, run, wait| (PathBuf::from(path), series(run, wait));
        let seen = Seen {
            cgroups: vec![
                cgroup("/top/light", (0.1, 0.1), (0.4, 0.1)),
                cgroup("/top/pod/a", (0.5, 0.5), (0.5, 1.0)),
                cgroup("/top/pod/b", (0.5, 0.5), (0.5, 1.0)),
            ],
            host: series((1.3, 1.3), (2.0, 3.0)),
            switches: series((50.0, 40.0), (0.0, 0.0)),
        };
        let sides = Sides { seen: &seen, light: vec!["/top/light".into()], heavy: vec!["/top/pod".into()] };
        let of = |figure| sides.change(figure, &blocks());
        let near = |figure, expected: f64| {
            assert!((of(figure).unwrap() - expected).abs() < 1e-9, "{figure:?}: {:?}", of(figure))
        };
        near(ForecastFigure::LightWaiting, -0.75);
        near(ForecastFigure::HeavyWaiting, 1.0);
        near(ForecastFigure::HeavyTime, 3.0 / 2.0 - 1.0);
        // 0.2 of a CPU and 0.6 tasks that wait; with the policy 0.9.
        near(ForecastFigure::OthersTime, (0.2 + 0.9) / (0.2 + 0.6) - 1.0);
        near(ForecastFigure::Waiting, 0.5);
        near(ForecastFigure::Switches, -0.2);
        assert!(of(ForecastFigure::Overhead).unwrap_err().contains("nothing but lagstop"));
        assert_eq!(sides.others(&blocks()), Some(0.2));
    }

    #[test]
    fn what_runs_beside_the_load_is_found() {
        let at = |a: f64, b: f64| HashMap::from([("/a".into(), a * 1e9), ("/b".into(), b * 1e9)]);
        assert_eq!(busiest(&at(5.0, 7.0), &at(5.0, 7.05)), None);
        assert_eq!(busiest(&at(5.0, 7.0), &at(5.5, 8.0)), Some(Path::new("/b")));
        assert_eq!(busiest(&HashMap::new(), &at(0.0, 1.0)), Some(Path::new("/b")), "it came meanwhile");
    }
}
