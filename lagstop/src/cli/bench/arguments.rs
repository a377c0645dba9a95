//! Arguments of `lagstop bench`.

use std::{path::PathBuf, time::Duration};

use clap::Args as ClapArgs;

use super::Render;
use crate::{
    bench::{BenchSettings, Trace, Workload},
    cli::{Failure, output::WholeFile, policy::PolicyOrNone, values::positive},
    report::{bench, html},
    trial::Policy,
};

const EXAMPLES: &str = "\
Examples:
  sudo lagstop bench                     How this host takes 1, 5, 9, 13 and 19 functions a CPU
  sudo lagstop bench --workload resctl --sweep 1,3,5,7,9,11,13,15,17,19 --html bench.html
                                         As in the paper, with its pictures
  sudo lagstop bench --sweep 9 --duration 60s --json before.json
                                         One density, for a script
  sudo lagstop bench --sweep 9 --rounds 5 --policy none --policy weight --policy idle
                                         What changes to scheduling do, on the same requests

Each function is a process in a cgroup of its own below lagstop-bench. Ctrl-C leaves nothing behind.
docs/benchmark.md says how to read it, and how it maps to the paper.";

#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct Args {
    /// How requests come
    #[arg(long, value_enum, default_value = "azure")]
    workload: Workload,

    /// Functions per CPU: a run for each
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,5,9,13,19",
          value_parser = clap::value_parser!(u32).range(1..=1_000))]
    sweep: Vec<u32>,

    /// A change to scheduling to try, as `lagstop trial` has it, or none; several take turns on the same requests
    #[arg(long, value_enum, value_name = "NAME")]
    policy: Vec<PolicyOrNone>,

    /// How often the whole sweep is done, one after the other
    #[arg(long, value_name = "NUMBER", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,

    /// How long a run is measured
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = at_least_a_second)]
    duration: Duration,

    /// How long a run goes on before it is measured
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = positive)]
    warm_up: Duration,

    /// CPU time of a request; those of mix are 10, 100 and 1,000 ms
    #[arg(long, value_name = "TIME", default_value = "40ms", value_parser = work)]
    work: Duration,

    /// Latency that resctl, parallel and mix are tuned to
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = positive)]
    latency_target: Duration,

    /// CPUs' worth of work that a function of azure asks for on average: 0.1 fills the CPUs at 10 functions each
    #[arg(long, value_name = "CPUS", default_value = "0.1", value_parser = demand)]
    demand: f64,

    /// Requests of each second, from FILE (rows of second,concurrency); functions share several in turn
    #[arg(long, value_name = "FILE")]
    trace: Vec<PathBuf>,

    /// Levels of cgroups between the base and a function
    #[arg(long, value_name = "LEVELS", default_value = "0", value_parser = clap::value_parser!(u32).range(0..=16))]
    depth: u32,

    /// Name of the cgroup that all others are made in
    #[arg(long, value_name = "NAME", default_value = "lagstop-bench", value_parser = name)]
    base: String,

    /// What requests are drawn with: the same one gives the same requests
    #[arg(long, value_name = "NUMBER", default_value = "1")]
    seed: u64,

    /// Write everything as JSON to FILE
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Write a row a run to FILE
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,

    /// Write a page with pictures to FILE
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Run on a busy host (except with --policy lags-static), overwrite existing files, and try policies even in a container.
    /// Undo is not guaranteed there: if the container ends, the changes stay on the host
    #[arg(long)]
    force: bool,
}

impl Args {
    pub(super) const fn force(&self) -> bool {
        self.force
    }

    /// What is to be run.
    pub(super) fn settings(&self) -> Result<BenchSettings, Failure> {
        if !self.trace.is_empty() && self.workload != Workload::Azure {
            return Err("--trace is for --workload azure, which follows it".into());
        }
        let policies: Vec<Option<Policy>> = self.policy.iter().map(|tried| tried.0).collect();
        if self.workload.is_closed() && policies.iter().any(Option::is_some) {
            return Err(
                "policies tell light functions from heavy ones, and in closed loops all are alike: use --workload \
                        azure or random"
                    .into(),
            );
        }
        Ok(BenchSettings {
            policies,
            workload: self.workload,
            densities: self.sweep.clone(),
            rounds: self.rounds,
            duration: self.duration,
            warm_up: self.warm_up,
            work: self.work,
            latency_target: self.latency_target,
            demand: self.demand,
            depth: self.depth,
            base: self.base.clone(),
            seed: self.seed,
            traces: self.trace.iter().map(|file| Trace::read(file)).collect::<Result<_, _>>()?,
        })
    }

    /// Files, and how they are written.
    pub(super) fn outputs(&self) -> Result<Vec<(WholeFile, Render)>, Failure> {
        let forms: [(&Option<PathBuf>, Render); 3] = [
            (&self.json, |all| Ok(bench::json(all)?)),
            (&self.csv, |all| bench::csv(all)),
            (&self.html, |all| Ok(html::render_bench(all))),
        ];
        let asked = forms.into_iter().filter_map(|(file, render)| Some((file.as_ref()?, render)));
        asked.map(|(file, render)| Ok((WholeFile::create(file, self.force)?, render))).collect()
    }
}

fn at_least_a_second(text: &str) -> Result<Duration, String> {
    let time = positive(text)?;
    if time < Duration::from_secs(1) { Err("it must be at least 1s".to_owned()) } else { Ok(time) }
}

fn work(text: &str) -> Result<Duration, String> {
    let time = positive(text)?;
    let possible = Duration::from_micros(100)..=Duration::from_secs(60);
    if possible.contains(&time) { Ok(time) } else { Err("it must be from 100us to 1m".to_owned()) }
}

fn demand(text: &str) -> Result<f64, String> {
    let demand: f64 = text.parse().map_err(|_| "it is a number such as 0.1".to_owned())?;
    if demand > 0.0 && demand <= 100.0 { Ok(demand) } else { Err("it must be above 0, and 100 at most".to_owned()) }
}

/// One name, below the root.
fn name(text: &str) -> Result<String, String> {
    let fits = !text.is_empty() && text.chars().all(|one| one.is_ascii_alphanumeric() || "-_".contains(one));
    if fits { Ok(text.to_owned()) } else { Err("letters, digits, - and _ make a name".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_no_sense_is_refused() {
        assert!(work("1us").is_err() && work("2m").is_err() && work("40ms").is_ok());
        assert!(demand("0").is_err() && demand("NaN").is_err() && demand("x").is_err() && demand("0.5").is_ok());
        assert!(name("").is_err() && name("../x").is_err() && name("a/b").is_err() && name(".").is_err());
        assert!(name("my-bench_2").is_ok());
        assert!(at_least_a_second("999ms").is_err());
    }
}
