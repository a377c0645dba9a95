//! `lagstop show`

use std::{fs, path::PathBuf, process::ExitCode};

use clap::{Args as ClapArgs, ValueEnum};

use super::{Failure, print, progress::Progress, terminal_options};
use crate::{
    recording::{Contents, Reader},
    report::show,
};

const EXAMPLES: &str = "\
Examples:
  lagstop show host.jsonl.zst
  lagstop show host.jsonl --format json | jq .gaps

Of a long recording it reads a part: of a compressed one all of its minutes, of a plain one some of its intervals.
It says which.";

#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The recording
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// For people or for programs
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A page to read
    Text,
    /// One JSON document
    Json,
}

pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let mut reader = Reader::open(&args.file)?;
    let bytes = fs::metadata(&args.file).map_or(0, |metadata| metadata.len());
    let mut progress = Progress::new("reading");
    let found = Contents::of(&mut reader, bytes, |done, all| progress.step(done, all))?;
    drop(progress);
    Ok(print(&match args.format {
        Format::Text => show::render(&args.file.to_string_lossy(), &found, terminal_options()),
        Format::Json => show::to_json(&found)?,
    }))
}
