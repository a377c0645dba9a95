//! `lagstop run`

mod gate;
mod looks;
mod measuring;
mod results;
mod turns;

use std::{ffi::OsString, path::PathBuf, process::ExitCode};

use clap::{Args as ClapArgs, ValueEnum};

use self::{gate::Gate, measuring::Measuring, results::Results, turns::Turns};
use super::{
    Failure, block_on,
    command::{Command, Otherwise},
    config::{Config, ConfigError},
    measure::MeasureArgs,
    say,
    values::{share, written},
};
use crate::{
    display::plain,
    run::Limits,
    signals::{ForCommand, die_of},
};

const EXAMPLES: &str = "\
Examples:
  sudo lagstop run -- make -j8                    Whether other work disturbed the command, in one line
  sudo lagstop run --max-wait 1% -- cargo bench   For a pipeline: exit code 122 if it was disturbed
  sudo lagstop run --repeat 5 -- ./benchmark      Run until 5 runs were undisturbed, 15 runs at most
  sudo lagstop run --format json --output run.json --export-github -- ./benchmark
                                                  For programs, and for the summary of a GitHub job
  sudo lagstop run --record run.jsonl.zst -- make Keep a recording for diagnose, top --replay and diff

The line goes to standard error; standard output, input, terminal and signals belong to the command.
Exit code: that of the command, or the signal that ended it. 122: the command succeeded, and a limit was exceeded or
could not be checked. 125: lagstop failed. 126 and 127: the command could not be run, or was not found.
docs/run.md defines each figure, and has recipes for hyperfine, criterion, pytest-benchmark and go test.";

/// How many times --repeat the command runs at most, unless --at-most says it.
const ATTEMPTS: u32 = 3;

#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[arg(long, value_name = "SHARE", value_parser = share, help = format!(
        "Fail if the command waited because of other cgroups for more than this share of the time it ran or waited \
         [verdict without it: {}]",
        written(Limits::default().max_wait),
    ))]
    max_wait: Option<f64>,

    #[arg(long, value_name = "SHARE", value_parser = share, help = format!(
        "Fail if quotas kept the command waiting for more than this share of its time [verdict without it: {}]",
        written(Limits::default().max_throttled),
    ))]
    max_throttled: Option<f64>,

    #[arg(long, value_name = "SHARE", value_parser = share, help = format!(
        "Fail if a hypervisor took more than this share of the time that this host's CPUs needed [verdict without it: {}]",
        written(Limits::default().max_steal),
    ))]
    max_steal: Option<f64>,

    /// Run the command until this many runs were undisturbed
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    repeat: Option<u32>,

    #[arg(long, value_name = "NUMBER", requires = "repeat", value_parser = clap::value_parser!(u32).range(1..=3_000), help = format!(
        "With --repeat: run the command at most this many times [default: {ATTEMPTS} times --repeat]",
    ))]
    at_most: Option<u32>,

    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,

    /// Write the result to FILE, or to standard output with -, instead of standard error
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Append a summary in Markdown to FILE [default: the file that $GITHUB_STEP_SUMMARY names]
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = results::STEP_SUMMARY)]
    export_github: Option<PathBuf>,

    /// Write a recording of the host during the runs to FILE. A name ending in .zst means compressed
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,

    /// Overwrite existing files
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    pub(super) measure: MeasureArgs,

    /// Command to run, and its arguments
    #[arg(last = true, value_name = "COMMAND", required_unless_present = "hooks")]
    command: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A line for people
    Text,
    /// One JSON document
    Json,
}

/// Exit code if lagstop itself failed, the same as that of env(1) and timeout(1).
const OWN_FAILURE: u8 = 125;
/// Exit code for an exceeded limit: one that shells and most programs do not use.
const LIMIT_EXCEEDED: u8 = 122;

/// How lagstop ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Code(u8),
    /// Ended by this signal.
    Signal(i32),
}

pub(super) fn run(args: &Args, config: impl FnOnce() -> Result<Config, ConfigError>) -> ExitCode {
    let ended = config().map_err(Failure::from).and_then(|config| run_all(args, &config));
    match ended {
        Ok(End::Code(code)) => ExitCode::from(code),
        Ok(End::Signal(signal)) => {
            die_of(signal);
            // Only reached if this signal does not end processes.
            ExitCode::from(u8::try_from(128 + signal).unwrap_or(OWN_FAILURE))
        }
        Err(error) => {
            say(format_args!("lagstop: {error}\n"));
            ExitCode::from(OWN_FAILURE)
        }
    }
}

fn run_all(args: &Args, config: &Config) -> Result<End, Failure> {
    if args.command.is_empty() {
        return Err("no command given. Write it behind --".into());
    }
    // What can be refused is checked before anything is started.
    let results = Results::open(args)?;
    let gate = Gate::of(args);
    // Must be done while there is only one thread.
    let mut signals = ForCommand::take().map_err(|error| format!("cannot listen for signals: {}", plain(&error)))?;
    let group_by = args.measure.group_by(&config.measure);
    let command = Command::prepare(&args.command, group_by, Otherwise::Anywhere)?;
    let measuring = Measuring::start(args, config, command.place())?;
    if let Some(why) = measuring.restricted().filter(|_| gate.needs_causes()) {
        return Err(format!("the command was not run, because it could not be judged: {why}").into());
    }
    if let Some(caught) = signals.has_come().filter(|caught| caught.asks_to_end()) {
        say(format_args!("lagstop: interrupted; the command was not run\n"));
        return Ok(End::Signal(caught.signal));
    }
    let turns = Turns::new(args, command, measuring, signals)?;
    let (series, end) = block_on(turns.run())?;
    if !series.runs.is_empty() {
        results.write(&series)?;
    }
    Ok(gate.end(&series, end))
}

impl Args {
    fn limits(&self) -> Limits {
        let default = Limits::default();
        Limits {
            max_wait: self.max_wait.unwrap_or(default.max_wait),
            max_throttled: self.max_throttled.unwrap_or(default.max_throttled),
            max_steal: self.max_steal.unwrap_or(default.max_steal),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_parts_of_a_whole() {
        assert_eq!((share("1%"), share("0.01"), share("0")), (Ok(0.01), Ok(0.01), Ok(0.0)));
        assert!(share("120%").is_err() && share("much").is_err() && share("-1%").is_err() && share("NaN").is_err());
    }
}
