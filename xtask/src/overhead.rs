//! `cargo xtask overhead`: what lagstop adds to a context switch, beside what bpftrace adds.

mod bench;
mod error;
mod load;
mod memory;
mod report;
mod stats;
mod tools;

use error::Error;
use load::{Load, Running};
use report::{Report, Round};

use crate::{machine, workspace::Workspace};

/// Measure what lagstop adds to a context switch, and the kernel memory that its maps take.
///
/// Every round runs `perf bench sched pipe` on CPU 0 without any load, with lagstop, with `lagstop --light`, with programs
/// on the same hooks as each that only read the clock, and with a bpftrace script that measures run-queue latency. Each is compared with its own round's baseline,
/// so that what drifts on the machine drifts out. Needs root, perf, bpftrace and taskset.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  cargo xtask overhead                             Five rounds, a table
  cargo xtask overhead --rounds 15 --loops 500000  For a noisy machine
  cargo xtask overhead --format json               For a script")]
pub(crate) struct Arguments {
    /// Rounds to measure
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Round trips between the two processes in each run; each is two switches
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u32).range(1_000..))]
    loops: u32,
    /// How to print the result
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// A table for people
    Text,
    /// One JSON object
    Json,
}

pub(crate) fn run(workspace: &Workspace, arguments: &Arguments) -> Result<(), Error> {
    tools::require_root_and_tools()?;
    let maps = memory::of_object(&workspace.object())?;
    let lagstop = workspace.released()?;

    let mut rounds = Vec::new();
    for number in 1..=arguments.rounds {
        eprintln!("round {number} of {}", arguments.rounds);
        let measure = |load: Option<Load<'_>>| -> Result<f64, Error> {
            let running = load.map(Running::start).transpose()?;
            let nanos = bench::nanos_per_switch(arguments.loops)?;
            running.map_or(Ok(()), Running::stop)?;
            Ok(nanos)
        };
        // Each round begins with another, so that a drift of the machine favours none.
        let lagstop = |options| Some(Load::Lagstop(&lagstop, options));
        let loads = [
            None,
            lagstop(&["--clock-only"]),
            lagstop(&[]),
            lagstop(&["--clock-only", "--light"]),
            lagstop(&["--light"]),
            Some(Load::Bpftrace),
        ];
        let mut nanos = [0.0; 6];
        for turn in 0..loads.len() {
            let which = (turn + number as usize) % loads.len();
            nanos[which] = measure(loads[which])?;
        }
        let [baseline, clock, lagstop, light_clock, light, bpftrace] = nanos;
        rounds.push(Round { baseline, clock, lagstop, light_clock, light, bpftrace });
    }
    let report = Report::new(machine::describe(), &rounds, maps);
    match arguments.format {
        Format::Text => print!("{report}"),
        Format::Json => println!("{}", serde_json::to_string_pretty(&report)?),
    }
    if report.keeps_the_budgets() { Ok(()) } else { Err(Error::OverBudget) }
}
