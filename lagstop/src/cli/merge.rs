//! `lagstop merge`

use std::{path::PathBuf, process::ExitCode, time::Duration};

use clap::Args as ClapArgs;

use super::{Failure, opened::open, output::WholeFile, progress::Progress, values::positive};
use crate::{
    model::Nanos,
    recording::{CopyError, Merge, WriteError},
};

const EXAMPLES: &str = "\
Examples:
  lagstop merge host.1.jsonl.zst host.2.jsonl.zst --output host.jsonl.zst
  lagstop merge host.jsonl.zst --interval 1m --output minutes.jsonl.zst

All recordings must be from one boot of one host and use the same measurement options.
docs/tools.md explains gaps between recordings and the limits of longer intervals.";

#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Recordings to merge, in any order
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    /// Output file, compressed if its name ends in .zst, or - for standard output
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,

    /// Merge shorter intervals into intervals of this length
    #[arg(long, value_name = "TIME", value_parser = positive)]
    interval: Option<Duration>,

    /// Overwrite the output file if it exists
    #[arg(long)]
    force: bool,
}

pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let mut recordings = Vec::with_capacity(args.files.len());
    for file in &args.files {
        recordings.push((file.clone(), open(file)?));
    }
    let output = WholeFile::create(&args.output, args.force)?;
    let interval = args.interval.map(Nanos::from);
    let mut progress = Progress::new("merging");
    match (Merge { interval }).write(recordings, &mut output.recording()?, |done, all| progress.step(done, all)) {
        Ok(()) => output.finish()?,
        Err(CopyError::Write(WriteError::ReaderGone)) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(ExitCode::SUCCESS)
}
