//! `cargo xtask recorder`: what `lagstop record` costs where there are thousands of cgroups.

mod crowd;
mod error;
mod process;

use std::{path::PathBuf, thread, time::Duration};

pub(crate) use crowd::{Crowd, Pause};
pub(crate) use error::Error;
pub(crate) use process::Process;

use crate::{machine, workspace::Workspace};

/// Measure what `lagstop record` costs with thousands of cgroups.
///
/// Makes them, each with a process that wakes up for a moment now and then, and records at an interval a second: where a
/// tenth of them runs in a second, and where all do. CPU time is the process's own from /proc, memory the most that it ever
/// had. Needs root.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  cargo xtask recorder                  Three minutes, a table
  cargo xtask recorder --cgroups 500    On a small machine")]
pub(crate) struct Arguments {
    /// Cgroups to make, beside those that are there
    #[arg(long, default_value_t = 2_490, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    cgroups: u32,
    /// Seconds to record before measuring: cgroups that are new cost more
    #[arg(long, default_value_t = 40)]
    warm_up: u64,
    /// Seconds to measure
    #[arg(long, default_value_t = 25, value_parser = clap::value_parser!(u64).range(5..))]
    seconds: u64,
}

/// CPU time in a second.
const CPU_BUDGET: Duration = Duration::from_millis(10);
/// The most memory, in KiB.
const MEMORY_BUDGET: u64 = 40 << 10;

/// Builds what users run. Measuring it needs root.
pub(crate) fn released(workspace: &Workspace) -> Result<PathBuf, Error> {
    if !rustix::process::geteuid().is_root() {
        return Err(Error::NotRoot);
    }
    Ok(workspace.released()?)
}

pub(crate) fn run(workspace: &Workspace, arguments: &Arguments) -> Result<(), Error> {
    let lagstop = released(workspace)?;
    let home = tempfile::tempdir().map_err(Error::file("a temporary directory"))?;

    let machine::Machine { kernel, cpu, cpus } = machine::describe();
    println!(
        "{} cgroups beside the host's, an interval a second; Linux {kernel}, {cpu}, {cpus} CPUs",
        arguments.cgroups
    );
    println!("{:>16} {:>16} {:>16}", "run in a second", "CPU time in it", "most memory");
    let mut keeps = true;
    for pause in [Pause::LONG, Pause::SHORT] {
        let crowd = Crowd::start(arguments.cgroups, pause)?;
        let output = home.path().join("crowd.jsonl.zst");
        let mut recorder = Process::record(&lagstop, &output)?;
        thread::sleep(Duration::from_secs(arguments.warm_up));
        let before = recorder.cpu_time()?;
        thread::sleep(Duration::from_secs(arguments.seconds));
        let took = recorder.cpu_time()?.saturating_sub(before) / u32::try_from(arguments.seconds).unwrap_or(u32::MAX);
        let memory = recorder.most_memory()?;
        recorder.end()?;
        drop(crowd);
        let running = process::running(&output, arguments.warm_up as usize)?;
        println!("{running:>16} {:>13.1} ms {:>12.1} MiB", took.as_secs_f64() * 1e3, memory as f64 / 1024.0);
        keeps &= took <= CPU_BUDGET && memory <= MEMORY_BUDGET;
    }
    println!(
        "{:>16} {:>13.1} ms {:>12.1} MiB",
        "budget",
        CPU_BUDGET.as_secs_f64() * 1e3,
        MEMORY_BUDGET as f64 / 1024.0
    );
    if keeps { Ok(()) } else { Err(Error::OverBudget) }
}
