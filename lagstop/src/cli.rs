//! The command line: one file a subcommand.

mod diagnose;
mod measure;
mod record;
mod top;

use std::{error::Error, process::ExitCode};

use clap::{Parser, Subcommand};

const ABOUT: &str =
    "Measures what the scheduler itself costs on a densely packed Linux host, per cgroup, and says what helps";

const EXAMPLES: &str = "\
Examples:
  lagstop top                          The host now: who pays for switching, who waits
  lagstop diagnose --duration 1m       A report: what it costs, who waits, what to do
  lagstop record --duration 30s --output host.jsonl
                                       Half a minute into a file
  lagstop record | jq .host.switches   Intervals for a script

It needs root, or CAP_BPF and CAP_PERFMON.";

#[derive(Debug, Parser)]
#[command(name = "lagstop", version, about = ABOUT, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show every cgroup's switches, their cost, and waits, live
    Top(top::Args),
    /// Write one JSON line an interval: every cgroup's switches, their cost, and waits
    Record(record::Args),
    /// Measure for a while, then say what scheduling costs, who pays and who waits
    Diagnose(diagnose::Args),
}

/// Parses the command line and does what it says.
pub fn run() -> ExitCode {
    let cli = Cli::parse();
    let result = match cli.command {
        Command::Top(args) => top::run(&args),
        Command::Record(args) => record::run(args),
        Command::Diagnose(args) => diagnose::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("lagstop: {error}");
            ExitCode::FAILURE
        }
    }
}

/// What ends a subcommand early: a sentence for the user.
type Failure = Box<dyn Error>;

/// Runs `task` on a runtime of its own.
fn block_on<T>(task: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(task)
}
