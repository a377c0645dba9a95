//! `cargo xtask fuzz`: libFuzzer on what reads what others wrote, for a bounded time, and what it begins with.

mod build;
mod run;
mod seeds;
mod target;

use std::{
    fs, io,
    num::NonZero,
    panic::resume_unwind,
    path::{Path, PathBuf},
    process::Command,
    thread,
};

use clap::Args;

use self::{run::Done, target::Target};
use crate::{command::CommandError, workspace::Workspace};

/// Throw made-up recordings, configurations and answers at what reads them. fuzz/README.md says what to do with a finding
///
/// The committed corpus is read and never written. What is found on top is kept in target/fuzz.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  cargo xtask fuzz                                  All targets, for a minute together
  cargo xtask fuzz --target recording --seconds 600 One of them, for longer
  cargo xtask fuzz --executions 10000000            All, until they were executed so often together
  cargo xtask fuzz --seeds                          Write the corpus anew, after a change of the format")]
pub(crate) struct Arguments {
    /// Run this one alone
    #[arg(long)]
    target: Option<Target>,
    /// How long, over all targets; as many of them as there are processors run at a time
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// How often, over all targets, however long that takes
    #[arg(long, value_name = "NUMBER", conflicts_with = "seconds", value_parser = clap::value_parser!(u64).range(1..))]
    executions: Option<u64>,
    /// Run nothing; write the seeds of the corpus and the dictionary
    #[arg(long)]
    seeds: bool,
}

/// What is refused: longer files (a recording of ten intervals has room), slower ones, and those that take more memory: no
/// recording takes 200 MB more than its own size explains, and the fuzzer keeps its corpus beside it.
const LIMITS: [&str; 4] = ["-max_len=65536", "-timeout=10", "-rss_limit_mb=512", "-malloc_limit_mb=256"];

/// How long a target goes on.
#[derive(Clone, Copy, Debug)]
enum Until {
    Seconds(u64),
    Executions(u64),
}

/// Why it did not end well.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FuzzError {
    /// Cargo or rustc.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// A file cannot be written.
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    /// The recording that seeds are made of is not as it was.
    #[error("no seeds can be made of {}: {why}", path.display())]
    Fixture { path: PathBuf, why: String },
    /// A file made it panic, or was too slow or too large for it.
    #[error("{target} fails: {source}. The file is in {}; fuzz/README.md says what to do with it", artifacts.display())]
    Found {
        target: &'static str,
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
    let until = |target: Target| match arguments.executions {
        Some(executions) => Until::Executions(target.share(executions, &targets)),
        None => Until::Seconds(arguments.seconds.div_ceil(targets.len() as u64).max(1)),
    };
    // Each target has one thread.
    let at_a_time = thread::available_parallelism().map_or(1, NonZero::get);
    let every_nth = |first: usize| {
        let these = targets.iter().skip(first).step_by(at_a_time);
        these.map(|&target| Ok((target, fuzz(workspace, &programs, target, until(target))?))).collect()
    };
    let done: Result<Vec<Vec<(Target, Done)>>, FuzzError> = thread::scope(|scope| {
        let workers: Vec<_> = (0..at_a_time).map(|first| scope.spawn(move || every_nth(first))).collect();
        workers.into_iter().map(|worker| worker.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    let mut all = done?.concat();
    all.sort_by_key(|(done, _)| targets.iter().position(|target| target == done));
    println!("\nWithout a finding:");
    for (target, Done { executions, peak_mib }) in &all {
        println!("{:>12} {executions:>12} executions, {peak_mib:>4} MiB at most", target.name());
    }
    println!("{:>12} {:>12} executions", "all", all.iter().map(|(_, done)| done.executions).sum::<u64>());
    Ok(())
}

fn fuzz(workspace: &Workspace, programs: &Path, target: Target, until: Until) -> Result<Done, FuzzError> {
    let of_target = |folder: &str| workspace.target().join("fuzz").join(folder).join(target.name());
    let (found, artifacts) = (of_target("corpus"), of_target("artifacts"));
    for folder in [&found, &artifacts] {
        fs::create_dir_all(folder).map_err(FuzzError::file(folder))?;
    }
    let fuzz = workspace.root().join("fuzz");
    let (said, limit) = match until {
        Until::Seconds(seconds) => (format!("{seconds} s"), format!("-max_total_time={seconds}")),
        Until::Executions(executions) => (format!("{executions} executions"), format!("-runs={executions}")),
    };
    println!("{}: {said}", target.name());
    let mut command = Command::new(programs.join(target.name()));
    command.args(LIMITS).arg(limit).arg(format!("-artifact_prefix={}/", artifacts.display()));
    if target.is_of_recordings() {
        command.arg(format!("-dict={}", fuzz.join(seeds::DICTIONARY).display()));
    }
    command
        .args(["-print_final_stats=1", "-print_funcs=0", "-verbosity=0"])
        // The first folder takes what is new.
        .args([found, fuzz.join("corpus").join(target.name())]);
    run::run(target.name(), &mut command).map_err(|source| FuzzError::Found {
        target: target.name(),
        source,
        artifacts,
    })
}
