//! `cargo xtask fuzz`: libFuzzer on what reads recordings, for a bounded time, and what it begins with.

mod build;
mod seeds;

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

use clap::{Args, ValueEnum};

use crate::{
    command::{CommandError, run as run_command},
    workspace::Workspace,
};

/// Throw made-up recordings at what reads them. fuzz/README.md says what to do with a finding
///
/// The committed corpus is read and never written. What is found on top is kept in target/fuzz.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  cargo xtask fuzz                                  All targets, for a minute together
  cargo xtask fuzz --target recording --seconds 600 One of them, for longer
  cargo xtask fuzz --seeds                          Write the corpus anew, after a change of the format")]
pub(crate) struct Arguments {
    /// Run this one alone
    #[arg(long)]
    target: Option<Target>,
    /// How long, over all targets
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Run nothing; write the seeds of the corpus and the dictionary
    #[arg(long)]
    seeds: bool,
}

/// What is in fuzz/fuzz_targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Target {
    /// Any file, read in every way
    Recording,
    /// What was read, written and read back
    #[value(name = "round_trip")]
    RoundTrip,
}

impl Target {
    const ALL: [Self; 2] = [Self::Recording, Self::RoundTrip];

    const fn name(self) -> &'static str {
        match self {
            Self::Recording => "recording",
            Self::RoundTrip => "round_trip",
        }
    }
}

/// What is refused: longer files (a recording of ten intervals has room), slower ones, and those that take more memory: a
/// line may have 256 MiB.
const LIMITS: [&str; 3] = ["-max_len=65536", "-timeout=10", "-rss_limit_mb=1536"];

/// Why it did not end well.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FuzzError {
    /// Cargo or rustc.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// A file cannot be written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The recording that seeds are made of is not as it was.
    #[error("no seeds can be made of {}: {why}", path.display())]
    Fixture {
        /// The recording.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A file made it panic, or was too slow or too large for it.
    #[error("{target} fails: {source}. The file is in {}; fuzz/README.md says what to do with it", artifacts.display())]
    Found {
        /// The target.
        target: &'static str,
        /// How it ended.
        source: CommandError,
        /// Where the file is.
        artifacts: PathBuf,
    },
}

impl FuzzError {
    fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { path: path.to_owned(), source }
    }
}

pub(crate) fn run(workspace: &Workspace, arguments: &Arguments) -> Result<(), FuzzError> {
    if arguments.seeds {
        return seeds::write(workspace);
    }
    let targets = arguments.target.map_or_else(|| Target::ALL.to_vec(), |target| vec![target]);
    let programs = build::build(workspace)?;
    let seconds = arguments.seconds.div_ceil(targets.len() as u64).max(1);
    targets.into_iter().try_for_each(|target| fuzz(workspace, &programs, target, seconds))
}

fn fuzz(workspace: &Workspace, programs: &Path, target: Target, seconds: u64) -> Result<(), FuzzError> {
    let of_target = |folder: &str| workspace.target().join("fuzz").join(folder).join(target.name());
    let (found, artifacts) = (of_target("corpus"), of_target("artifacts"));
    for folder in [&found, &artifacts] {
        fs::create_dir_all(folder).map_err(FuzzError::file(folder))?;
    }
    let fuzz = workspace.root().join("fuzz");
    println!("{}: {seconds} s", target.name());
    let mut command = Command::new(programs.join(target.name()));
    command
        .args(LIMITS)
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-dict={}", fuzz.join(seeds::DICTIONARY).display()))
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .args(["-print_final_stats=1", "-print_funcs=0", "-verbosity=0"])
        // The first takes what is new.
        .args([found, fuzz.join("corpus").join(target.name())]);
    run_command(&mut command).map_err(|source| FuzzError::Found { target: target.name(), source, artifacts })
}
