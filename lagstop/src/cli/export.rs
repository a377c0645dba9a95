//! `lagstop export`

use std::{
    io::{self, IsTerminal},
    path::PathBuf,
    process::ExitCode,
};

use clap::{Args as ClapArgs, ValueEnum};

use super::{
    Failure,
    output::{WholeFile, is_stdout},
    progress::Progress,
};
use crate::{
    export::{self, ExportError, Table},
    recording::{Reader, WriteError},
};

const EXAMPLES: &str = "\
Examples:
  lagstop export host.jsonl.zst --format parquet --output cgroups.parquet
  lagstop export host.jsonl --format csv --what host --output - | column -s, -t
  lagstop export host.jsonl --format parquet --what cpus --output cpus.parquet

docs/tools.md says what is in which column, docs/recording.md what it means. What was not measured is empty.";

#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The recording
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// What the table is written as
    #[arg(long, value_name = "FORMAT")]
    format: Format,

    /// What has a row in each interval
    #[arg(long, value_name = "WHAT", default_value = "cgroups")]
    what: What,

    /// Where to: a file, or - for standard output
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,

    /// Overwrite the file if it exists
    #[arg(long)]
    force: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Comma-separated values
    Csv,
    /// Apache Parquet
    Parquet,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum What {
    /// Each cgroup in which anything happened
    Cgroups,
    /// The host
    Host,
    /// Each CPU
    Cpus,
    /// Each listening address
    Listeners,
}

pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let mut reader = Reader::open(&args.file)?;
    let format = match args.format {
        Format::Csv => export::Format::Csv,
        Format::Parquet => export::Format::Parquet,
    };
    let table = match args.what {
        What::Cgroups => Table::Cgroups,
        What::Host => Table::Host,
        What::Cpus => Table::Cpus,
        What::Listeners => Table::Listeners,
    };
    if format == export::Format::Parquet && is_stdout(&args.output) && io::stdout().is_terminal() {
        return Err("Parquet is nothing to read on a terminal: name a file with --output".into());
    }
    let output = WholeFile::create(&args.output, args.force)?;
    let mut progress = Progress::new("exporting");
    match export::export(&mut reader, table, format, output.writer()?, |done, all| progress.step(done, all)) {
        Ok(()) => output.finish()?,
        Err(ExportError::Write(WriteError::ReaderGone)) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(ExitCode::SUCCESS)
}
