//! `lagstop show`

use std::{fs, path::PathBuf, process::ExitCode};

use clap::{Args as ClapArgs, ValueEnum};

use super::{Failure, output::ResultArgs, progress::Progress};
use crate::{
    recording::{Contents, Reader},
    report::show,
};

const EXAMPLES: &str = "\
Examples:
  lagstop show host.jsonl.zst
  lagstop show host.jsonl --format json | jq .gaps

Long recordings are sampled: by minutes if compressed, else by intervals. The output names the part that was read.";

#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Recording to describe
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,

    #[command(flatten)]
    output: ResultArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A page for a terminal
    Text,
    /// One JSON document
    Json,
}

pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let mut reader = Reader::open(&args.file)?;
    let output = args.output.open()?;
    let bytes = fs::metadata(&args.file).map_or(0, |metadata| metadata.len());
    let mut progress = Progress::new("reading");
    let found = Contents::of(&mut reader, bytes, |done, all| progress.step(done, all))?;
    drop(progress);
    let options = output.options();
    output.write(&match args.format {
        Format::Text => show::render(&args.file.to_string_lossy(), &found, options),
        Format::Json => show::to_json(&found)?,
    })?;
    Ok(ExitCode::SUCCESS)
}
