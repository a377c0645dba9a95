//! `lagstop export`

use std::{
    io::{self, IsTerminal},
    path::PathBuf,
    process::ExitCode,
};

use clap::{Args as ClapArgs, ValueEnum};

use super::{
    Failure,
    opened::open,
    output::{WholeFile, is_stdout},
    progress::Progress,
};
use crate::{
    export::{self, ExportError, TableKind},
    recording::WriteError,
};

const EXAMPLES: &str = "\
Examples:
  lagstop export host.jsonl.zst --format parquet --output cgroups.parquet
  lagstop export host.jsonl --format csv --what host --output - | column -s, -t
  lagstop export host.jsonl --format parquet --what cpus --output cpus.parquet

docs/tools.md lists the columns, docs/recording.md defines them. Unmeasured values are empty.";

#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Recording to export
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Output format
    #[arg(long, value_name = "FORMAT")]
    format: Format,

    /// Rows of the table: one per interval for each of these
    #[arg(long, value_name = "WHAT", default_value = "cgroups")]
    what: What,

    /// Output file, or - for standard output
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,

    /// Overwrite the output file if it exists
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
    /// Each active cgroup
    Cgroups,
    /// The host
    Host,
    /// Each CPU
    Cpus,
    /// Each listening address
    Listeners,
}

pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let mut reader = open(&args.file)?;
    let format = match args.format {
        Format::Csv => export::TableFormat::Csv,
        Format::Parquet => export::TableFormat::Parquet,
    };
    let table = match args.what {
        What::Cgroups => TableKind::Cgroups,
        What::Host => TableKind::Host,
        What::Cpus => TableKind::Cpus,
        What::Listeners => TableKind::Listeners,
    };
    if format == export::TableFormat::Parquet && is_stdout(&args.output) && io::stdout().is_terminal() {
        return Err("Parquet is a binary format and would garble the terminal. Name a file with --output".into());
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
