//! `cargo xtask calibrate`: how far lagstop's predictions are from what trials measure and from what the kernel books.

mod block;
mod case;
mod error;
mod fingerprint;
mod load;
mod oracle;
mod page;
mod plan;
mod result;
mod tally;
mod trial;

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use clap::ValueEnum;
use lagstop::{
    host::{Hierarchy, Version},
    model::GroupBy,
    trial::Policy,
};

use self::{
    fingerprint::FINGERPRINT,
    load::Load,
    plan::{Planned, Refusals},
    result::{Calibration, Case, Outcome, Setup},
    trial::Trial,
};
pub(crate) use error::Error;

use crate::{command, interrupt::Interrupt, machine, recorder::released, tenants::TenantsError, workspace::Workspace};

/// Measure how wrong lagstop's predictions are.
///
/// Puts known loads into cgroups of its own, and has `lagstop trial` try each policy on each of them. Compares every figure
/// that lagstop predicts with what the trial measured, and with sums over /proc/PID/task/TID/schedstat taken meanwhile,
/// for which nothing of lagstop's is used. Let nothing else run meanwhile. Needs root.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  sudo -E cargo xtask calibrate                 As much of the matrix as 40 minutes allow
  sudo -E cargo xtask calibrate --quick         Each load with one policy, in 8 minutes
  sudo -E cargo xtask calibrate --only pods --policy weight --policy idle --repeat 3
  sudo -E cargo xtask calibrate --resume        What is missing in target/calibration.json
  cargo xtask calibrate --from target/calibration.json --write-docs
                                                Measure nothing; write docs/accuracy.md")]
pub(crate) struct Arguments {
    /// Take 8 minutes at most
    #[arg(long, conflicts_with = "minutes")]
    quick: bool,
    /// Take so many minutes at most; what does not fit in is not run, and that is said
    #[arg(long, default_value_t = 40)]
    minutes: u64,
    /// Only this load; several may be given
    #[arg(long, value_name = "LOAD")]
    only: Vec<String>,
    /// Only this policy; several may be given
    #[arg(long, value_enum)]
    policy: Vec<Policy>,
    /// How often each case is run, with other random times
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    repeat: u32,
    /// What random times are drawn with
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Seconds to measure before each trial
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(2..=600))]
    before: u64,
    /// Seconds that each trial takes
    #[arg(long = "for", default_value_t = 26, value_parser = clap::value_parser!(u64).range(10..=3_600))]
    duration: u64,
    /// The lagstop to take; without it, what is released is built
    #[arg(long, value_name = "PATH")]
    lagstop: Option<PathBuf>,
    /// Where to write what was measured [default: target/calibration.json]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Keep what the output has already, and run the rest
    #[arg(long)]
    resume: bool,
    /// Measure nothing; show what this file has
    #[arg(long, value_name = "FILE", conflicts_with_all = ["resume", "quick", "only", "policy"])]
    from: Option<PathBuf>,
    /// Write docs/accuracy.md, and docs/calibration.json, which it is made from
    #[arg(long, conflicts_with = "lagstop")]
    write_docs: bool,
    /// Get stress-ng and sysbench from Debian's mirror first
    #[arg(long)]
    install: bool,
    /// Name the loads, and do nothing
    #[arg(long)]
    list: bool,
}

const QUICK_MINUTES: u64 = 8;
/// What `--install` installs; each has the tool of its name.
const PACKAGES: [&str; 2] = ["stress-ng", "sysbench"];

pub(crate) fn run(workspace: &Workspace, arguments: &Arguments) -> Result<(), Error> {
    let machine = machine::describe();
    let loads = load::all(machine.cpus.max(1) as u64);
    if arguments.list {
        for Load { name, class, is_named, .. } in &loads {
            println!("{name:<16} {:<12} {}", class.name(), if *is_named { "light cgroups named" } else { "" });
        }
        return Ok(());
    }
    let calibration = match &arguments.from {
        Some(file) => read(file)?,
        None => measure(workspace, arguments, machine, loads)?,
    };
    println!("\n{}", page::summary(&calibration.stated_now()));
    if arguments.write_docs {
        page::write(workspace, &calibration)?;
    }
    let failed = calibration.cases.iter().filter(|case| matches!(case.outcome, Outcome::Failed { .. })).count();
    match failed {
        0 => Ok(()),
        1 => Err(Error::Failed("one case".to_owned())),
        _ => Err(Error::Failed(format!("{failed} cases"))),
    }
}

/// Runs the cases that are asked for, and writes what came of them after each.
fn measure(
    workspace: &Workspace,
    arguments: &Arguments,
    machine: machine::Machine,
    loads: Vec<Load>,
) -> Result<Calibration, Error> {
    if !rustix::process::geteuid().is_root() {
        return Err(Error::NotRoot);
    }
    if arguments.install {
        let mut apt = Command::new("apt-get");
        command::run(apt.args(["install", "--yes", "--no-install-recommends"]).args(PACKAGES))?;
    }
    let trial = Trial {
        lagstop: match &arguments.lagstop {
            Some(lagstop) => fs::canonicalize(lagstop).map_err(Error::file(lagstop.display().to_string()))?,
            None => released(workspace)?,
        },
        before: Duration::from_secs(arguments.before),
        duration: Duration::from_secs(arguments.duration),
    };
    let planned =
        plan::cases(chosen(loads, &arguments.only)?, &policies(&arguments.policy), arguments.repeat, arguments.seed);
    let output = arguments.output.clone().unwrap_or_else(|| workspace.target().join("calibration.json"));
    let setup = setup(arguments, machine, &trial.lagstop)?;
    let mut calibration = Calibration { schema: Calibration::SCHEMA.to_owned(), setup, cases: Vec::new() };
    if arguments.resume && output.exists() {
        let there = read(&output)?;
        if there.setup != calibration.setup {
            return Err(Error::Otherwise(output));
        }
        calibration.cases = there.cases;
    }

    // Overwrites the results of an earlier run, so that they are not taken for this run's.
    write(&output, &calibration)?;

    let interrupt = Interrupt::listen().map_err(Error::file("signals"))?;
    let minutes = if arguments.quick { QUICK_MINUTES } else { arguments.minutes };
    let deadline = Instant::now() + Duration::from_secs(60 * minutes);
    let usual = case::SETTLES + trial.usual();
    let mut refusals = Refusals::default();
    let count = planned.len();
    for (number, Planned { load, policy, repeat, seed }) in (1..).zip(&planned) {
        if interrupt.has_come() {
            return Err(Error::Interrupted(output));
        }
        let of = |outcome| Case {
            load: load.name.to_owned(),
            class: load.class,
            is_named: load.is_named,
            policy: *policy,
            repeat: *repeat,
            seed: *seed,
            outcome,
        };
        let new = of(Outcome::NotRun { why: "the time was up".to_owned() });
        if calibration.cases.iter().any(|case| case.is_same(&new) && case.is_settled()) {
            continue;
        }
        let case = if let Some(why) = refusals.of(*policy) {
            of(Outcome::Refused { why: format!("{why} (as before; not tried again)") })
        } else if Instant::now() + usual > deadline {
            new
        } else if let Some(tool) = load.tools().into_iter().find(|tool| !is_installed(tool)) {
            of(Outcome::NotRun { why: format!("there is no {tool}: --install gets it") })
        } else {
            of(case::run(load, *policy, *seed, &trial, &interrupt))
        };
        if interrupt.has_come() {
            return Err(Error::Interrupted(output));
        }
        refusals.hear(&case);
        println!("{number:>3} of {count}: {}", page::line(&case));
        calibration.put(case);
        write(&output, &calibration)?;
    }
    println!("{} has all of it", output.display());
    Ok(calibration)
}

/// What all cases share.
fn setup(arguments: &Arguments, machine: machine::Machine, lagstop: &Path) -> Result<Setup, Error> {
    let hierarchy = Hierarchy::find(GroupBy::Scheduler).map_err(TenantsError::from)?;
    // With `sha256sum`, because a lagstop with debug information is hundreds of megabytes, and this program, built
    // likewise, would take a minute for it.
    let sum = command::stdout(Command::new("sha256sum").arg(lagstop))?;
    Ok(Setup {
        lagstop: sum.split_whitespace().next().unwrap_or_default().to_owned(),
        kernel: machine.kernel,
        cpu: machine.cpu,
        cpus: machine.cpus,
        cgroups: match hierarchy.version {
            Version::V1 => 1,
            Version::V2 => 2,
        },
        seed: arguments.seed,
        before_seconds: arguments.before as f64,
        trial_seconds: arguments.duration as f64,
        fingerprint: FINGERPRINT.clone(),
    })
}

/// The loads with these names; without names, all.
fn chosen(loads: Vec<Load>, names: &[String]) -> Result<Vec<Load>, Error> {
    let known = || loads.iter().map(|load| load.name).collect::<Vec<_>>().join(", ");
    if let Some(name) = names.iter().find(|name| !loads.iter().any(|load| load.name == name.as_str())) {
        return Err(Error::NoSuchLoad { name: name.clone(), known: known() });
    }
    Ok(loads.into_iter().filter(|load| names.is_empty() || names.iter().any(|name| name == load.name)).collect())
}

/// The named policies, or all of them where none is named.
fn policies(named: &[Policy]) -> Vec<Policy> {
    if named.is_empty() { Policy::value_variants().to_vec() } else { named.to_vec() }
}

fn is_installed(tool: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(tool).is_file())
}

fn read(file: &Path) -> Result<Calibration, Error> {
    let text = fs::read_to_string(file).map_err(Error::file(file.display().to_string()))?;
    serde_json::from_str(&text).map_err(|source| Error::Json { path: file.to_owned(), source })
}

/// Writes beside the file and renames, so that the file is whole or not there at all.
fn write(file: &Path, calibration: &Calibration) -> Result<(), Error> {
    let mut text =
        serde_json::to_string_pretty(calibration).map_err(|source| Error::Json { path: file.to_owned(), source })?;
    text.push('\n');
    let written = || -> io::Result<()> {
        let beside = file.with_extension("json.new");
        fs::write(&beside, text)?;
        fs::rename(beside, file)
    };
    written().map_err(Error::file(file.display().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_are_chosen_by_name() {
        let names = |only: &[&str]| {
            let only: Vec<String> = only.iter().map(|&name| name.to_owned()).collect();
            chosen(load::all(2), &only).map(|loads| loads.iter().map(|load| load.name).collect::<Vec<_>>())
        };
        assert_eq!(names(&["pods", "bursts"]).unwrap(), ["bursts", "pods"]);
        assert_eq!(names(&[]).unwrap().len(), load::all(2).len());
        assert!(names(&["nonsense"]).unwrap_err().to_string().contains("spinners, stress-ng"));
    }
}
