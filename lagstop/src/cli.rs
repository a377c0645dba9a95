//! The command line: one file a subcommand.

mod measure;
mod record;
mod signals;

use std::{error::Error, process::ExitCode};

use clap::{Parser, Subcommand};

const ABOUT: &str =
    "Measures what the scheduler itself costs on a densely packed Linux host, per cgroup, and says what helps";

const EXAMPLES: &str = "\
Examples:
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
    /// Write one JSON line an interval: every cgroup's switches, their cost, and waits
    Record(record::Args),
}

/// Parses the command line and does what it says.
pub fn run() -> ExitCode {
    let cli = Cli::parse();
    let result = match cli.command {
        Command::Record(args) => record::run(args),
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
fn block_on<F: Future<Output = Result<(), Failure>>>(task: F) -> Result<(), Failure> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(task)
}
