//! The kernel's own figures of a process.

use std::{collections::HashMap, fs};

/// What the kernel says about a process of one thread.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ProcessFigures {
    pub(crate) voluntary: u64,
    pub(crate) involuntary: u64,
    pub(crate) run_delay_ns: u64,
    pub(crate) waits: u64,
    pub(crate) migrations: u64,
}

impl ProcessFigures {
    /// Reads `/proc/<pid>/{status,schedstat,sched}`.
    pub(crate) fn read(pid: u32) -> Self {
        let file = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap();
        let status = file("status");
        let schedstat: Vec<u64> = file("schedstat").split_whitespace().map(|n| n.parse().unwrap()).collect();
        Self {
            voluntary: field(&status, "voluntary_ctxt_switches"),
            involuntary: field(&status, "nonvoluntary_ctxt_switches"),
            run_delay_ns: schedstat[1],
            waits: schedstat[2],
            migrations: field(&file("sched"), "se.nr_migrations"),
        }
    }

    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            voluntary: self.voluntary - earlier.voluntary,
            involuntary: self.involuntary - earlier.involuntary,
            run_delay_ns: self.run_delay_ns - earlier.run_delay_ns,
            waits: self.waits - earlier.waits,
            migrations: self.migrations - earlier.migrations,
        }
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.voluntary += other.voluntary;
        self.involuntary += other.involuntary;
        self.run_delay_ns += other.run_delay_ns;
        self.waits += other.waits;
        self.migrations += other.migrations;
    }
}

fn field(text: &str, name: &str) -> u64 {
    let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("no {name}"));
    line.rsplit([':', '\t', ' ']).next().unwrap().parse().unwrap()
}

/// Involuntary switches of all threads of a process so far.
pub(crate) fn involuntary_switches(pid: u32) -> u64 {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let status = threads.map(|thread| fs::read_to_string(thread.unwrap().path().join("status")).unwrap());
    status.map(|status| field(&status, "nonvoluntary_ctxt_switches")).sum()
}

/// `tg_load_avg` by cgroup path, from the scheduler's debug file.
pub(crate) fn tg_load_avg() -> HashMap<String, u64> {
    // Before 5.13 it was another file.
    let files = ["/sys/kernel/debug/sched/debug", "/proc/sched_debug"];
    let text = files.iter().find_map(|file| fs::read_to_string(file).ok()).unwrap();
    let mut of = HashMap::new();
    let mut path = String::new();
    for line in text.lines() {
        if let Some((_, name)) = line.strip_prefix("cfs_rq[").and_then(|rest| rest.split_once("]:")) {
            path = name.to_owned();
        } else if let Some(value) = line.trim().strip_prefix(".tg_load_avg ") {
            let value = value.rsplit(' ').next().unwrap().parse().unwrap();
            of.insert(path.clone(), value);
        }
    }
    of
}

/// Switches of all CPUs since boot.
pub(crate) fn context_switches() -> u64 {
    let stat = fs::read_to_string("/proc/stat").unwrap();
    stat.lines().find_map(|line| line.strip_prefix("ctxt ")).unwrap().parse().unwrap()
}
