//! Arguments of `lagstop bench`.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use clap::{Args as ClapArgs, ValueEnum};

use crate::{
    bench::{Bench, BenchSettings, BenchWorkload, RequestTrace},
    cli::{Failure, output::WholeFile, policy::PolicyOrNone, values::positive},
    report::{bench, html, text::PageOptions},
    trial::{Policy, SwitchSettings},
};

const EXAMPLES: &str = "\
Examples:
  sudo lagstop bench                     Run 1, 5, 9, 13 and 19 functions per CPU
  sudo lagstop bench --workload resctl --sweep 1,3,5,7,9,11,13,15,17,19 --format html --output bench.html
                                         The sweep and the charts of the paper
  sudo lagstop bench --sweep 9 --duration 60s --format json --output before.json
                                         One density, for a script
  sudo lagstop bench --format json --output bench.json --format text
                                         JSON to a file, and the table to standard output
  sudo lagstop bench --sweep 9 --rounds 5 --policy none --policy weight --policy idle
                                         Compare scheduling policies on the same requests

Each function is a process in its own cgroup below lagstop-bench. Ctrl-C removes all of them.
docs/bench.md explains the results and their relation to the paper.";

#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct Args {
    /// Pattern of requests
    #[arg(long, value_enum, default_value = "azure")]
    workload: BenchWorkload,

    /// Functions per CPU; one run for each number
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,5,9,13,19",
          value_parser = clap::value_parser!(u32).range(1..=1_000))]
    sweep: Vec<u32>,

    /// Scheduling policy of `lagstop trial` to apply, or none (repeatable). All policies run on the same requests
    #[arg(long, value_name = "NAME")]
    policy: Vec<PolicyOrNone>,

    /// Use --policy lags although cgroups have CPU quotas. They are not enforced then
    #[arg(long)]
    ignore_quotas: bool,

    /// Use --policy lags even while real-time tasks use half of a CPU or more. Before Linux 7.0, the host hangs under LAGS if
    /// they take all CPUs
    #[arg(long)]
    ignore_real_time: bool,

    /// How many times to repeat the whole sweep
    #[arg(long, value_name = "NUMBER", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,

    /// How long to measure each run
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = at_least_a_second)]
    duration: Duration,

    /// How long each run warms up before it is measured
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = positive)]
    warm_up: Duration,

    /// CPU time of a request; mix uses 10, 100 and 1,000 ms instead
    #[arg(long, value_name = "TIME", default_value = "40ms", value_parser = work)]
    work: Duration,

    /// Target latency of resctl, parallel and mix
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = positive)]
    latency_target: Duration,

    /// Mean demand of a function of azure, in CPUs; at 0.1, 10 functions per CPU use all CPU time
    #[arg(long, value_name = "CPUS", default_value = "0.1", value_parser = demand)]
    demand: f64,

    /// Run only the light functions, whose demand is below the mean: about the best latency that a scheduler could give them
    #[arg(long, conflicts_with = "policy")]
    light_alone: bool,

    /// Read the requests of each second from FILE, with rows of second,concurrency (repeatable). Several files are assigned to
    /// functions in turn
    #[arg(long, value_name = "FILE")]
    trace: Vec<PathBuf>,

    /// Levels of cgroups between the base cgroup and a function
    #[arg(long, value_name = "LEVELS", default_value = "0", value_parser = clap::value_parser!(u32).range(0..=16))]
    depth: u32,

    /// Name of the base cgroup, which contains all others
    #[arg(long, value_name = "NAME", default_value = "lagstop-bench", value_parser = name)]
    base: String,

    /// Seed of the random requests; the same seed gives the same requests
    #[arg(long, value_name = "NUMBER", default_value = "1")]
    seed: u64,

    /// Output format [default: text]. Repeat --format and --output for several results; the first format goes to the first
    /// file, and so on
    #[arg(long, value_name = "FORMAT")]
    format: Vec<Format>,

    /// Output file, or - for standard output [default: -]
    #[arg(long, short, value_name = "FILE")]
    output: Vec<PathBuf>,

    /// Old name of --format json --output FILE
    #[arg(long, value_name = "FILE", hide = true)]
    json: Option<PathBuf>,

    /// Old name of --format csv --output FILE
    #[arg(long, value_name = "FILE", hide = true)]
    csv: Option<PathBuf>,

    /// Old name of --format html --output FILE
    #[arg(long, value_name = "FILE", hide = true)]
    html: Option<PathBuf>,

    /// Run on a busy host (except with --policy lags-static), overwrite existing files, and apply policies even in a container.
    /// In a container, undo is not guaranteed: if it ends, the changes stay on the host
    #[arg(long)]
    force: bool,
}

/// How a result is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// Tables for a terminal
    Text,
    /// One JSON document
    Json,
    /// Comma-separated values, one row per run
    Csv,
    /// A page with charts, for a browser
    Html,
}

impl Format {
    pub(super) fn render(self, all: &Bench, options: PageOptions) -> Result<String, Failure> {
        Ok(match self {
            Self::Text => bench::text(all, options),
            Self::Json => bench::json(all)?,
            Self::Csv => bench::csv(all)?,
            Self::Html => html::render_bench(all),
        })
    }
}

impl Args {
    pub(super) const fn force(&self) -> bool {
        self.force
    }

    /// What is to be run.
    pub(super) fn settings(&self) -> Result<BenchSettings, Failure> {
        if !self.trace.is_empty() && self.workload != BenchWorkload::Azure {
            return Err("--trace needs --workload azure".into());
        }
        let policies: Vec<Option<Policy>> = self.policy.iter().map(|tried| tried.0).collect();
        let needs_sides = |policy: &Policy| !policy.switches_scheduler();
        if let Some(policy) = policies.iter().flatten().find(|policy| needs_sides(policy) && self.workload.is_closed())
        {
            return Err(format!(
                "--policy {policy} needs light and heavy functions, and with this workload all are alike. Use --workload azure \
                 or random"
            )
            .into());
        }
        if self.light_alone && self.workload.is_closed() {
            return Err("--light-alone needs light and heavy functions: use --workload azure or random".into());
        }
        Ok(BenchSettings {
            policies,
            switch: SwitchSettings {
                ignore_quotas: self.ignore_quotas,
                ignore_real_time: self.ignore_real_time,
                arguments: Vec::new(),
            },
            workload: self.workload,
            densities: self.sweep.clone(),
            rounds: self.rounds,
            duration: self.duration,
            warm_up: self.warm_up,
            work: self.work,
            latency_target: self.latency_target,
            demand: self.demand,
            light_alone: self.light_alone,
            depth: self.depth,
            base: self.base.clone(),
            seed: self.seed,
            traces: self.trace.iter().map(|file| RequestTrace::read(file)).collect::<Result<_, _>>()?,
        })
    }

    /// Files, and how they are written.
    pub(super) fn outputs(&self) -> Result<Vec<(WholeFile, Format)>, Failure> {
        let open = |(file, format)| Ok((WholeFile::create(file, self.force)?, format));
        self.asked().into_iter().map(open).collect()
    }

    /// Each format with its file. A missing format or file gets the default.
    fn asked(&self) -> Vec<(&Path, Format)> {
        let old = [(&self.json, Format::Json), (&self.csv, Format::Csv), (&self.html, Format::Html)];
        let old = old.into_iter().filter_map(|(file, format)| Some((file.as_deref()?, format)));
        let new = (0..self.format.len().max(self.output.len()).max(1)).map(|n| {
            let file = self.output.get(n).map_or(Path::new("-"), PathBuf::as_path);
            (file, self.format.get(n).copied().unwrap_or(Format::Text))
        });
        old.chain(new).collect()
    }
}

fn at_least_a_second(text: &str) -> Result<Duration, String> {
    let time = positive(text)?;
    if time < Duration::from_secs(1) { Err("the time must be at least 1s".to_owned()) } else { Ok(time) }
}

fn work(text: &str) -> Result<Duration, String> {
    let time = positive(text)?;
    let possible = Duration::from_micros(100)..=Duration::from_secs(60);
    if possible.contains(&time) { Ok(time) } else { Err("the time must be from 100us to 1m".to_owned()) }
}

fn demand(text: &str) -> Result<f64, String> {
    let demand: f64 = text.parse().map_err(|_| "write a number such as 0.1".to_owned())?;
    if demand > 0.0 && demand <= 100.0 {
        Ok(demand)
    } else {
        Err("the value must be above 0 and at most 100".to_owned())
    }
}

/// One name, below the root.
fn name(text: &str) -> Result<String, String> {
    let fits = !text.is_empty() && text.chars().all(|one| one.is_ascii_alphanumeric() || "-_".contains(one));
    if fits { Ok(text.to_owned()) } else { Err("use only letters, digits, - and _".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Args {
        #[derive(Debug, clap::Parser)]
        struct Command {
            #[command(flatten)]
            args: Args,
        }
        let words = std::iter::once("bench").chain(line.split_whitespace());
        let command: Command = clap::Parser::try_parse_from(words).unwrap();
        command.args
    }

    #[test]
    fn functions_that_are_all_alike_take_policies_that_only_switch_the_scheduler() {
        assert!(parsed("--workload resctl --policy none --policy lags").settings().is_ok());
        let refused = parsed("--workload resctl --policy lags --policy weight").settings().unwrap_err().to_string();
        assert!(refused.starts_with("--policy weight needs light and heavy functions"), "{refused}");
        assert!(parsed("--workload random --policy weight").settings().is_ok());
    }

    #[test]
    fn formats_go_to_their_files() {
        let asked = |line: &str| {
            let args = parsed(line);
            let all = args.asked().into_iter();
            all.map(|(file, format)| format!("{}:{format:?}", file.display())).collect::<Vec<_>>()
        };
        assert_eq!(asked(""), ["-:Text"]);
        assert_eq!(asked("--format json"), ["-:Json"]);
        assert_eq!(asked("-o a"), ["a:Text"]);
        assert_eq!(asked("--format json -o a --format html -o b --format text"), ["a:Json", "b:Html", "-:Text"]);
        assert_eq!(asked("--json a --html b"), ["a:Json", "b:Html", "-:Text"], "as it was under the old names");
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        assert!(work("1us").is_err() && work("2m").is_err() && work("40ms").is_ok());
        assert!(demand("0").is_err() && demand("NaN").is_err() && demand("x").is_err() && demand("0.5").is_ok());
        assert!(name("").is_err() && name("../x").is_err() && name("a/b").is_err() && name(".").is_err());
        assert!(name("my-bench_2").is_ok());
        assert!(at_least_a_second("999ms").is_err());
    }
}
