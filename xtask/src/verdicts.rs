//! `cargo xtask verdicts`: how often `lagstop run` calls a run disturbed, beside a neighbour and on a quiet host, and what it
//! does to the run time.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde::Deserialize;

use crate::{
    command::{self, CommandError},
    machine,
    tenants::{Tenants, TenantsError, quiet},
    work::{Kind, Work},
    workspace::Workspace,
};

/// Measure how often `lagstop run` calls a run disturbed, and what it does to the run time.
///
/// A run computes the same on every CPU. It is run many times on the host as it is, which should be quiet, and many times beside
/// one thread for every two CPUs that never rests, in a cgroup of its own. Then it is run in pairs, by itself and by lagstop in turn. Needs root.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  cargo xtask verdicts                     Some five minutes, and the figures of docs/run.md
  cargo xtask verdicts --runs 20 --pairs 5 A first look")]
pub(crate) struct Arguments {
    /// The lagstop to try [default: built as it is released]
    #[arg(long, value_name = "FILE")]
    lagstop: Option<PathBuf>,
    /// Runs on the quiet host, and as many beside a neighbour
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(2..=1_000))]
    runs: u32,
    /// Pairs of runs whose times are compared
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u32).range(2..=1_000))]
    pairs: u32,
    /// Million steps that each thread of a run computes
    #[arg(long, default_value_t = 200)]
    millions: u64,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Command(#[from] CommandError),
    #[error("the neighbour has no cgroup: {0}")]
    Tenants(#[from] TenantsError),
    #[error("cannot run it: {0}")]
    Io(#[from] io::Error),
    #[error("lagstop reported no JSON: {0}")]
    Report(#[from] serde_json::Error),
    #[error("{0}")]
    Missed(String),
}

/// What `lagstop run --format json` says, as far as it is needed: docs/run.schema.json.
#[derive(Deserialize)]
struct Report {
    disturbed: Vec<u32>,
    not_judged: Vec<u32>,
    runs: Vec<Run>,
}

#[derive(Deserialize)]
struct Run {
    wall_ns: u64,
    shares: Shares,
}

#[derive(Deserialize)]
struct Shares {
    waited: Option<f64>,
    crowded_out: Option<f64>,
    steal: Option<f64>,
}

/// Of a hundred quiet runs so many may be called disturbed, and of a hundred beside a neighbour so many may not be.
const WRONG: f64 = 0.01;
/// The run time may change by less than this part.
const CHANGE: f64 = 0.01;

pub(crate) fn run(workspace: &Workspace, arguments: &Arguments) -> Result<(), Error> {
    let lagstop = arguments.lagstop.clone().map_or_else(|| workspace.released(), Ok)?;
    let machine::Machine { kernel, cpu, cpus } = machine::describe();
    println!("Linux {kernel}, {cpu}, {cpus} CPUs");
    let threads = thread::available_parallelism()?.get() as u64;
    let steps = Work { seed: 0, threads, seconds: 600, kind: Kind::Steps { millions: arguments.millions } };
    let alone = many(&lagstop, &steps, arguments.runs)?;
    say("quiet host", &alone);
    let beside = {
        let spins = Work { seed: 0, threads: threads.div_ceil(2), seconds: 900, kind: Kind::Spin };
        let mut neighbour = Tenants::make("lagstop-neighbour", "neighbour")?;
        neighbour.spawn("", &mut quiet(spins.command()?))?;
        thread::sleep(Duration::from_secs(1));
        many(&lagstop, &steps, arguments.runs)?
    };
    say("one busy thread for every two CPUs", &beside);
    let change = pairs(&lagstop, &steps, arguments.pairs)?;
    let wrong = |count: usize| count as f64 / f64::from(arguments.runs) > WRONG;
    let missed: Vec<&str> = [
        (wrong(alone.disturbed.len() + alone.not_judged.len()), "quiet runs are called disturbed too often"),
        (wrong(beside.runs.len() - beside.disturbed.len()), "runs beside a neighbour are called undisturbed too often"),
        (change.abs() >= CHANGE, "the run time changes too much"),
    ]
    .into_iter()
    .filter_map(|(is_missed, what)| is_missed.then_some(what))
    .collect();
    if missed.is_empty() { Ok(()) } else { Err(Error::Missed(missed.join("; "))) }
}

/// What lagstop says of so many runs. It asks for as many undisturbed ones, so that no run is left out.
fn many(lagstop: &Path, steps: &Work, runs: u32) -> Result<Report, Error> {
    let runs = runs.to_string();
    report(lagstop, steps, &["--repeat", &runs, "--at-most", &runs])
}

fn report(lagstop: &Path, steps: &Work, arguments: &[&str]) -> Result<Report, Error> {
    let file = tempfile::NamedTempFile::new()?;
    let mut command = Command::new(lagstop);
    command.args(["run", "--format", "json", "--force", "--output"]).arg(file.path()).args(arguments).arg("--");
    let steps = steps.command()?;
    command.arg(steps.get_program()).args(steps.get_args()).stdin(Stdio::null()).stderr(Stdio::null());
    // lagstop fails where too few runs were undisturbed, which is no failure here.
    let status = command.status().map_err(|source| command::not_started(&command, source))?;
    let text = fs::read_to_string(file.path())?;
    if text.is_empty() {
        return Err(Error::Missed(format!("`{}` failed: {status}", command::line(&command))));
    }
    Ok(serde_json::from_str(&text)?)
}

fn say(where_: &str, report: &Report) {
    let share = |of: fn(&Shares) -> Option<f64>| {
        let mut shares: Vec<f64> = report.runs.iter().filter_map(|run| of(&run.shares)).collect();
        shares.sort_by(f64::total_cmp);
        let at =
            |part: f64| shares.get(((shares.len() as f64 - 1.0) * part) as usize).copied().unwrap_or(f64::NAN) * 100.0;
        format!("{:.3} % least, {:.3} % median, {:.3} % most", at(0.0), at(0.5), at(1.0))
    };
    let runs = report.runs.len();
    println!("{where_}: {} of {runs} disturbed, {} not judged", report.disturbed.len(), report.not_judged.len());
    println!("  waited {}", share(|shares| shares.waited));
    println!("  crowded out {}", share(|shares| shares.crowded_out));
    println!("  both {}", share(|shares| Some(shares.waited? + shares.crowded_out?)));
    println!("  steal {}", share(|shares| shares.steal));
}

/// Runs it by itself and by lagstop in turn. Gives the median change of the run time, as a part of it.
fn pairs(lagstop: &Path, steps: &Work, pairs: u32) -> Result<f64, Error> {
    let mut changes = Vec::new();
    let mut attaching = Vec::new();
    let mut plain = Vec::new();
    for pair in 0..pairs {
        let alone = || -> Result<f64, Error> {
            let began = Instant::now();
            command::run(&mut steps.command()?)?;
            Ok(began.elapsed().as_secs_f64())
        };
        let mut measured = || -> Result<f64, Error> {
            let began = Instant::now();
            let report = report(lagstop, steps, &[])?;
            let wall = report.runs.first().map_or(f64::NAN, |run| run.wall_ns as f64 / 1e9);
            attaching.push(began.elapsed().as_secs_f64() - wall);
            Ok(wall)
        };
        // In turns, so that what changes with time is in both.
        let (alone, measured) = if pair % 2 == 0 {
            let alone = alone()?;
            (alone, measured()?)
        } else {
            let measured = measured()?;
            (alone()?, measured)
        };
        changes.push(measured / alone - 1.0);
        plain.push(alone);
    }
    let (low, high) = middle(&mut changes);
    let change = median(&mut changes);
    println!(
        "run time of {:.3} s: {:+.2} % (95 % confidence: {:+.2} to {:+.2} %), median of {pairs} pairs",
        median(&mut plain),
        change * 100.0,
        low * 100.0,
        high * 100.0
    );
    println!("attaching, reporting and detaching, outside of it: {:.2} s", median(&mut attaching));
    Ok(change)
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    let (Some(upper), Some(lower)) = (values.get(half), values.get((values.len() - 1) / 2)) else { return f64::NAN };
    f64::midpoint(*upper, *lower)
}

/// The values between which the median is with a confidence of 95 %, by the binomial distribution's normal approximation.
fn middle(values: &mut [f64]) -> (f64, f64) {
    values.sort_by(f64::total_cmp);
    let (count, half) = (values.len() as f64, 0.98 * (values.len() as f64).sqrt());
    let at = |rank: f64| values.get((rank.max(0.0) as usize).min(values.len() - 1)).copied().unwrap_or(f64::NAN);
    (at((count / 2.0 - half).floor()), at((count / 2.0 + half).ceil()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_in_the_middle() {
        assert_eq!((median(&mut [3.0, 1.0, 2.0]), median(&mut [4.0, 1.0, 2.0, 3.0])), (2.0, 2.5));
        let mut values: Vec<f64> = (0..100).map(f64::from).collect();
        assert_eq!(middle(&mut values), (40.0, 60.0));
    }
}
