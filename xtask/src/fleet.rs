//! `cargo xtask simulate-fleet` and `cargo xtask fleet-scale`: what `lagstop fleet` does with a large fleet, on a real
//! Prometheus.

mod model;
mod scale;
mod write;

use std::{fs, io, path::PathBuf};

use clap::Args;

pub(crate) use scale::{Arguments as ScaleArguments, run as scale};

use crate::command::CommandError;

/// A fleet to make up: the same seed gives the same fleet.
#[derive(Args, Clone, Debug)]
pub(crate) struct Fleet {
    /// Nodes
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) nodes: u32,
    /// Pods on each
    #[arg(long, default_value_t = 110, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) pods: u32,
    /// Hours until the end
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u64).range(2..=720))]
    pub(crate) hours: u64,
    /// What the numbers are drawn with
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// When it ends, in seconds since 1970: a multiple of two hours
    #[arg(long, default_value_t = 1_699_999_200)]
    pub(crate) end: u64,
    /// Seconds between samples of nodes and workloads
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u64).range(15..=3_600))]
    pub(crate) every: u64,
    /// Seconds between samples of pods
    #[arg(long, default_value_t = 1_800, value_parser = clap::value_parser!(u64).range(15..=3_600))]
    pub(crate) pods_every: u64,
}

/// Write a made-up fleet as OpenMetrics, a file for every two hours, which is what Prometheus keeps in a block
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  cargo xtask simulate-fleet --nodes 20 --output fleet
  for file in fleet/*.om; do promtool tsdb create-blocks-from openmetrics $file data; done")]
pub(crate) struct Arguments {
    #[command(flatten)]
    fleet: Fleet,
    /// The directory to write to
    #[arg(long)]
    output: PathBuf,
}

/// Why it cannot be done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FleetError {
    /// A file cannot be written or read.
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    /// A program does not do what it should.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// Prometheus does not come up.
    #[error("prometheus is not ready after {0} s")]
    NotReady(u64),
    /// A figure is not what was put in.
    #[error("{0}")]
    Wrong(String),
    /// It takes too long.
    #[error("`lagstop fleet` took {took:.1} s of {budget} s")]
    OverBudget {
        /// Seconds.
        took: f64,
        /// Seconds.
        budget: u64,
    },
}

impl FleetError {
    fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        |source| Self::File { path, source }
    }
}

pub(crate) fn simulate(arguments: &Arguments) -> Result<(), FleetError> {
    let Arguments { fleet, output } = arguments;
    fs::create_dir_all(output).map_err(FleetError::file(output))?;
    for block in write::blocks(fleet) {
        let path = output.join(format!("fleet-{}.om", block.start));
        let samples = write::write(fleet, &block, &path)?;
        println!("{}: {samples} samples", path.display());
    }
    Ok(())
}
