//! `cargo xtask overhead`: what lagstop adds to a context switch, beside what bpftrace adds.

mod contestant;
mod error;
mod judge;
mod memory;
mod pairs;
mod programs;
mod report;
mod tools;

use std::{collections::BTreeMap, path::Path, time::Duration};

use contestant::{Contestant, Running};
use error::Error;
use lagstop::random::Random;
use pairs::{Crowd, Pairs};
use programs::Timed;
use report::{Measured, Report};

use crate::{ebpf::MEASURING, interrupt::Interrupt, machine, workspace::Workspace};

/// Short runs of a block, of which the least counts: whatever else the machine does can only add.
const RUNS: u32 = 8;
const RUN: Duration = Duration::from_millis(150);
/// For how long the kernel times the programs.
const TIMED: Duration = Duration::from_secs(2);

/// Measure what lagstop adds to a context switch, and the kernel memory that its maps take.
///
/// Pairs of threads switch to each other on CPU 0. In every round each contestant is attached once, in random order: lagstop, the
/// same without the causes of waits, `lagstop --light`, programs on the hooks of each that only read the clock, and a bpftrace
/// script that measures run-queue latency. What it adds is the CPU time of a switch, as the kernel books it, less that of the
/// blocks without anybody right before and after it. Medians over rounds have bootstrap intervals; where the budget is inside of
/// the interval, the verdict is that it cannot be told. Let nothing else run meanwhile. Needs root, bpftrace and taskset.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  cargo xtask overhead                             Twelve rounds of each crowd, some 25 minutes
  cargo xtask overhead --crowd pair --rounds 5     A first look
  cargo xtask overhead --format json               For a script")]
pub(crate) struct Arguments {
    /// Rounds to measure
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u32).range(3..))]
    rounds: u32,
    /// How crowded the CPU is; several may be given
    #[arg(long, value_enum)]
    crowd: Vec<Crowd>,
    /// Only these; several may be given
    #[arg(long, value_enum)]
    only: Vec<Contestant>,
    /// The lagstop to take; without it, what is released is built
    #[arg(long, value_name = "PATH")]
    lagstop: Option<std::path::PathBuf>,
    /// What the order is drawn with
    #[arg(long, default_value_t = 1)]
    seed: u64,
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
    let contestants = if arguments.only.is_empty() { Contestant::ALL.to_vec() } else { arguments.only.clone() };
    tools::require_root_and_tools(contestants.contains(&Contestant::Bpftrace))?;
    let memory = memory::of_object(&MEASURING.path(workspace))?;
    let lagstop = match &arguments.lagstop {
        Some(path) => path.clone(),
        None => workspace.released()?,
    };
    let crowds = if arguments.crowd.is_empty() { Crowd::ALL.to_vec() } else { arguments.crowd.clone() };
    let interrupt = Interrupt::listen().map_err(|source| Error::Process { load: "this program", source })?;
    let mut measured = BTreeMap::new();
    for crowd in crowds {
        let judge = Judge { pairs: Pairs::start(crowd)?, lagstop: &lagstop, interrupt: &interrupt };
        let mut random = Random::new(arguments.seed, 0);
        let mut of_crowd = Measured::default();
        for number in 1..=arguments.rounds {
            eprintln!("{}: round {number} of {}", crowd.describe(), arguments.rounds);
            judge.round(&shuffled(&contestants, &mut random), &mut of_crowd)?;
        }
        for &contestant in contestants.iter().filter(|contestant| contestant.options().is_some()) {
            of_crowd.programs.extend(judge.timed(contestant)?.map(|ns| (contestant, ns)));
        }
        measured.insert(crowd, of_crowd);
    }
    let report = Report::new(machine::describe(), &measured, memory);
    match arguments.format {
        Format::Text => print!("{report}"),
        Format::Json => println!("{}", serde_json::to_string_pretty(&report)?),
    }
    if report.keeps_the_budgets() { Ok(()) } else { Err(Error::NotMet) }
}

/// What measuring one crowd takes.
struct Judge<'a> {
    pairs: Pairs,
    lagstop: &'a Path,
    interrupt: &'a Interrupt,
}

impl Judge<'_> {
    /// Each of them once, between blocks without anybody.
    fn round(&self, contestants: &[Contestant], measured: &mut Measured) -> Result<(), Error> {
        let mut before = self.block()?;
        for &contestant in contestants {
            let running = Running::start(contestant, self.lagstop)?;
            let with = self.block()?;
            running.stop()?;
            let after = self.block()?;
            measured.added.entry(contestant).or_default().push(with - f64::midpoint(before, after));
            measured.alone.push(after);
            before = after;
        }
        Ok(())
    }

    /// The least CPU time of a switch in a few short runs.
    fn block(&self) -> Result<f64, Error> {
        let mut least = f64::INFINITY;
        for _ in 0..RUNS {
            if self.interrupt.has_come() {
                return Err(Error::Interrupted);
            }
            least = least.min(self.pairs.cpu_per_switch(RUN)?);
        }
        Ok(least)
    }

    /// How long the kernel says that its programs run.
    fn timed(&self, contestant: Contestant) -> Result<Option<f64>, Error> {
        let running = Running::start(contestant, self.lagstop)?;
        let timed = Timed::start()?;
        let ns = programs::ns_per_switch(running.pid(), TIMED)?;
        drop(timed);
        running.stop()?;
        Ok(ns)
    }
}

/// In random order (Fisher and Yates).
fn shuffled(contestants: &[Contestant], random: &mut Random) -> Vec<Contestant> {
    let mut shuffled = contestants.to_vec();
    for last in (1..shuffled.len()).rev() {
        shuffled.swap(last, random.below(last + 1));
    }
    shuffled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_comes_about_as_often_and_nobody_is_left_out() {
        let mut random = Random::new(1, 1);
        let mut firsts = BTreeMap::new();
        for _ in 0..5_000 {
            let order = shuffled(&Contestant::ALL, &mut random);
            *firsts.entry(order[0]).or_insert(0) += 1;
            let mut sorted = order;
            sorted.sort();
            assert_eq!(sorted, Contestant::ALL);
        }
        assert!(firsts.values().all(|count| (700..970).contains(count)), "{firsts:?}");
    }
}
