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

/// What the kernel says about one of its own threads, by `/proc/<pid>/schedstat`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KernelThread {
    pub(crate) run_delay_ns: u64,
    pub(crate) waits: u64,
}

impl KernelThread {
    /// All that are not in real time, by pid.
    pub(crate) fn all() -> HashMap<u32, Self> {
        const PF_KTHREAD: u64 = 0x0020_0000;
        let of = |pid: u32| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            // A name may have anything in it. The fields after it are numbered from 3 in proc_pid_stat(5).
            let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
            let field = |number: usize| fields[number - 3].parse::<u64>().ok();
            if field(9)? & PF_KTHREAD == 0 || field(41)? != 0 {
                return None;
            }
            let schedstat = fs::read_to_string(format!("/proc/{pid}/schedstat")).ok()?;
            let figures: Vec<u64> = schedstat.split_whitespace().map(|n| n.parse().unwrap()).collect();
            Some((pid, Self { run_delay_ns: figures[1], waits: figures[2] }))
        };
        let entries = fs::read_dir("/proc").unwrap();
        entries.filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok()).filter_map(of).collect()
    }
}

/// The process of this name.
pub(crate) fn pid_of(name: &str) -> Option<u32> {
    let is_it = |pid: &u32| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim_end() == name);
    let entries = fs::read_dir("/proc").unwrap();
    entries.filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok()).find(is_it)
}

/// CPU time of all threads of a process that live.
pub(crate) fn cpu_ns(pid: u32) -> u64 {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let files = threads.map(|thread| fs::read_to_string(thread.unwrap().path().join("schedstat")).unwrap());
    files.map(|file| file.split(' ').next().unwrap().parse::<u64>().unwrap()).sum()
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
