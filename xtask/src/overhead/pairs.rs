//! Threads that do nothing but switch to each other, on one CPU: one pair, or a pair in each of many cgroups.

use std::{fs, path::PathBuf, process::Command, thread, time::Duration};

use serde::Serialize;

use super::error::Error;
use crate::{
    tenants::{Tenants, quiet},
    work::{Kind, Work},
};

/// The CPU that they run on, and the one for everything else.
const CPU: &str = "0";
/// They end by themselves after this time, should nobody end them.
const LONGEST_S: u64 = 3 * 3_600;
/// How long it takes until a pair runs steadily.
const SETTLES: Duration = Duration::from_secs(1);

/// How crowded that CPU is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Crowd {
    /// One pair: all that a switch touches is in the caches
    Pair,
    /// 40 pairs, each in a cgroup of its own: what a dense host pays
    Crowd,
}

impl Crowd {
    pub(super) const ALL: [Self; 2] = [Self::Pair, Self::Crowd];

    const fn pairs(self) -> usize {
        match self {
            Self::Pair => 1,
            Self::Crowd => 40,
        }
    }

    pub(super) const fn describe(self) -> &'static str {
        match self {
            Self::Pair => "two threads that switch to each other",
            Self::Crowd => "40 such pairs, each in a cgroup of its own",
        }
    }
}

/// The threads. Dropping it ends them.
pub(super) struct Pairs {
    threads: Vec<PathBuf>,
    _tenants: Tenants,
}

/// What the kernel has booked to them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Booked {
    cpu_ns: u64,
    switches: u64,
}

impl Pairs {
    pub(super) fn start(crowd: Crowd) -> Result<Self, Error> {
        let mut tenants = Tenants::make("lagstop-overhead", "overhead")?;
        for number in 0..crowd.pairs() {
            let work = Work { seed: 0, threads: 1, seconds: LONGEST_S, kind: Kind::PingPong };
            let of_work = work.command().map_err(|source| Error::Process { load: "a pair", source })?;
            let mut command = Command::new("taskset");
            command.args(["-c", CPU]).arg(of_work.get_program()).args(of_work.get_args());
            tenants.spawn(&format!("pair-{number}"), &mut quiet(command))?;
        }
        thread::sleep(SETTLES);
        let threads = threads_of(&tenants)?;
        Ok(Self { threads, _tenants: tenants })
    }

    /// CPU time of a switch on average over the next `time`, in nanoseconds. Without what a hypervisor or interrupts took, as far
    /// as the kernel knows of it.
    pub(super) fn cpu_per_switch(&self, time: Duration) -> Result<f64, Error> {
        let before = self.booked()?;
        thread::sleep(time);
        let after = self.booked()?;
        let switches = after.switches.saturating_sub(before.switches);
        if switches == 0 {
            return Err(Error::NoSwitches);
        }
        Ok(after.cpu_ns.saturating_sub(before.cpu_ns) as f64 / switches as f64)
    }

    fn booked(&self) -> Result<Booked, Error> {
        let mut sum = Booked::default();
        for thread in &self.threads {
            let read = |file: &str| {
                let path = thread.join(file);
                fs::read_to_string(&path).map_err(|source| Error::File { path, source })
            };
            sum.cpu_ns += read("schedstat")?.split_whitespace().next().and_then(|ns| ns.parse().ok()).unwrap_or(0);
            sum.switches += switches(&read("status")?);
        }
        Ok(sum)
    }
}

fn switches(status: &str) -> u64 {
    let counts = status.lines().filter(|line| line.contains("ctxt_switches:"));
    counts.filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).sum()
}

fn threads_of(tenants: &Tenants) -> Result<Vec<PathBuf>, Error> {
    let mut threads = Vec::new();
    for directory in tenants.inhabited() {
        let path = directory.join("cgroup.procs");
        let processes = fs::read_to_string(&path).map_err(|source| Error::File { path, source })?;
        for process in processes.split_whitespace() {
            let path = PathBuf::from(format!("/proc/{process}/task"));
            let tasks = fs::read_dir(&path).map_err(|source| Error::File { path: path.clone(), source })?;
            threads.extend(tasks.flatten().map(|task| task.path()));
        }
    }
    Ok(threads)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_of_both_kinds_count() {
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t30\n";
        assert_eq!(switches(status), 42);
    }
}
