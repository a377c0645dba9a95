//! What the scheduler has booked to a process and all that it starts, as far as it is seen: without eBPF nothing else tells how
//! long its threads waited.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Hierarchy,
    process::starttime,
    schedstat::{self, Schedstat},
    threads::tids_inside,
};
use crate::model::Nanos;

/// The threads of a command, read again and again while it runs.
#[derive(Debug)]
pub struct SeenThreads {
    of: Whose,
    /// What was read last of each, by id and when it began: ids are used again.
    threads: HashMap<(u32, u64), Schedstat>,
}

#[derive(Debug)]
enum Whose {
    /// All in a cgroup and those inside of it.
    Cgroup(Hierarchy, PathBuf),
    /// A process and its descendants, as long as their parents live.
    Process(u32),
}

/// What the threads that were seen have done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SeenWork {
    /// CPU time of these threads, until they were last seen.
    pub cpu_ns: Nanos,
    /// Time on run queues, whatever for: also behind each other. `None` if this kernel does not count it.
    pub runq_wait_ns: Option<Nanos>,
    /// Threads that were seen.
    pub threads: u64,
}

impl SeenThreads {
    /// Threads that are read at most: to read more would disturb what is looked at.
    const MOST: usize = 2_000;

    /// Those in the cgroup in `directory`.
    pub fn of_cgroup(hierarchy: Hierarchy, directory: PathBuf) -> Self {
        Self { of: Whose::Cgroup(hierarchy, directory), threads: HashMap::new() }
    }

    /// Those of the process `pid` and its descendants.
    pub fn of_process(pid: u32) -> Self {
        Self { of: Whose::Process(pid), threads: HashMap::new() }
    }

    /// Reads those that are there now.
    pub fn read(&mut self) {
        let tids = match &self.of {
            Whose::Cgroup(hierarchy, directory) => tids_inside(hierarchy, directory).unwrap_or_default(),
            Whose::Process(pid) => descendants(*pid, Self::MOST),
        };
        tids.into_iter().take(Self::MOST).for_each(|tid| self.read_one(tid));
    }

    /// Reads the thread `tid`, which may have ended, as long as nobody has taken note of that.
    pub fn read_one(&mut self, tid: u32) {
        let began = fs::read(format!("/proc/{tid}/stat")).ok().and_then(|stat| starttime(&stat));
        if let (Some(began), Ok(booked)) = (began, schedstat::read(tid)) {
            self.threads.insert((tid, began), booked);
        }
    }

    /// The sum of what was read last of each.
    pub fn work(&self) -> SeenWork {
        let sum = |figure: fn(&Schedstat) -> Nanos| self.threads.values().map(figure).sum();
        SeenWork {
            cpu_ns: sum(|booked| booked.cpu_ns),
            runq_wait_ns: schedstat::counts_waits().then(|| sum(|booked| booked.runq_wait_ns)),
            threads: self.threads.len() as u64,
        }
    }
}

/// The threads of `pid` and of its descendants, `most` of them at most, by `/proc/<pid>/task/<tid>/children`
/// (`CONFIG_PROC_CHILDREN`).
fn descendants(pid: u32, most: usize) -> Vec<u32> {
    let mut found = Vec::new();
    let mut processes = vec![pid];
    while let Some(pid) = processes.pop() {
        let tasks = PathBuf::from(format!("/proc/{pid}/task"));
        for tid in numbers_in(&tasks) {
            found.push(tid);
            let children = fs::read_to_string(tasks.join(tid.to_string()).join("children")).unwrap_or_default();
            processes.extend(children.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
            if found.len() >= most {
                return found;
            }
        }
    }
    found
}

fn numbers_in(directory: &Path) -> impl Iterator<Item = u32> + use<> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn what_has_ended_is_still_counted() {
        let mut child = Command::new("sh").args(["-c", "sleep 0.2 & sleep 0.3; wait"]).spawn().unwrap();
        let mut seen = SeenThreads::of_process(child.id());
        while child.try_wait().unwrap().is_none() {
            seen.read();
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let before = seen.work();
        seen.read();
        assert_eq!(seen.work(), before, "there is nothing more to read");
        assert!((1..=5).contains(&before.threads) && before.cpu_ns > Nanos::ZERO, "{before:?}");
    }

    #[test]
    fn of_many_threads_some_are_read() {
        assert_eq!(descendants(std::process::id(), 1).len(), 1);
        assert!(descendants(u32::MAX, 9).is_empty());
    }
}
