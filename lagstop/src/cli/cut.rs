//! `lagstop cut`

use std::{path::PathBuf, process::ExitCode};

use clap::Args as ClapArgs;
use globset::{Glob, GlobSet, GlobSetBuilder};

use super::{
    Failure,
    opened::open,
    output::WholeFile,
    progress::Progress,
    values::glob,
    when::{When, when},
};
use crate::{
    model::Cgroup,
    recording::{CopyError, Cut, Wanted, WriteError},
};

const EXAMPLES: &str = "\
Examples:
  lagstop cut host.jsonl --from 10m --to 15m --output incident.jsonl.zst
  lagstop cut host.jsonl.zst --from 2026-11-21T12:30:00Z --output after.jsonl.zst
  lagstop cut host.jsonl.zst --from -5m --cgroups '*shop*' --output shop.jsonl
  lagstop cut host.jsonl --output host.jsonl.zst
                                       Copy everything, compressed

Times of day are UTC. docs/tools.md describes the output.";

#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Recording to cut
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Output file, compressed if its name ends in .zst, or - for standard output
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,

    /// Keep intervals that start at or after TIME: 10m after the start, -5m before the end, or a time of day
    #[arg(long, value_name = "TIME", value_parser = when, allow_hyphen_values = true)]
    from: Option<When>,

    /// Keep intervals that start before TIME, in the same notation
    #[arg(long, value_name = "TIME", value_parser = when, allow_hyphen_values = true)]
    to: Option<When>,

    /// Keep separate rows only for cgroups whose path or name matches GLOB (repeatable). The rest are summed as (other)
    #[arg(long, alias = "cgroup", value_name = "GLOB", value_parser = glob)]
    cgroups: Vec<Glob>,

    /// Overwrite the output file if it exists
    #[arg(long)]
    force: bool,
}

pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let mut reader = open(&args.file)?;
    let output = WholeFile::create(&args.output, args.force)?;
    let mut at = |when: Option<When>| when.map(|when| when.on_clock_of(&mut reader)).transpose();
    let cut = Cut { from: at(args.from)?, to: at(args.to)?, cgroups: args.selection()? };
    let mut progress = Progress::new("cutting");
    match cut.write(&mut reader, &mut output.recording()?, |done, all| progress.step(done, all)) {
        Ok(()) => output.finish()?,
        Err(CopyError::Write(WriteError::ReaderGone)) => {}
        Err(error @ (CopyError::Read(_) | CopyError::Write(_))) => return Err(error.into()),
        Err(error) => return Err(format!("{}: {error}", args.file.display()).into()),
    }
    Ok(ExitCode::SUCCESS)
}

impl Args {
    /// The cgroups that are wanted.
    fn selection(&self) -> Result<Option<Wanted<impl Fn(&Cgroup) -> bool>>, Failure> {
        if self.cgroups.is_empty() {
            return Ok(None);
        }
        let globs = self.cgroups.iter().fold(GlobSetBuilder::new(), |mut globs, glob| {
            globs.add(glob.clone());
            globs
        });
        let globs: GlobSet = globs.build()?;
        let names: Vec<&str> = self.cgroups.iter().map(Glob::glob).collect();
        let is_wanted = move |cgroup: &Cgroup| globs.is_match(&*cgroup.path) || globs.is_match(&*cgroup.name);
        Ok(Some(Wanted { is_wanted, called: names.join(", ") }))
    }
}
