//! CFS-LAGS-static (§4.1): the light ones' threads are real-time.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use super::{Attr, Kernel, PolicyChange, PolicyError, Sides, THROTTLE, TriedGroup};
use crate::{host::populated, model::kernel_version, trial::cgroup_file::BUDGET};

/// Share of the real-time budget of the root that is given away. Chosen: the kernel keeps a twentieth of each CPU for the others,
/// and what is real-time already keeps something, too.
pub(super) const PART: f64 = 0.9;
/// What took its place, for each CPU: the fair server (kernel/sched/deadline.c), a deadline reservation for tasks that are not
/// real-time, 50 ms in each second by default.
const FAIR_SERVER: &str = "/sys/kernel/debug/sched/fair_server";
const FAIR_SERVER_SINCE: (u32, u32) = (6, 12);

pub(super) fn changes(sides: &Sides, kernel: &Kernel) -> Result<Vec<PolicyChange>, PolicyError> {
    if !kernel.has_throttle && !kernel.has_fair_server {
        return Err(PolicyError::NoThrottle);
    }
    let mut changes = budgets(&sides.light, kernel)?;
    // A thread stays as it is if the kernel would kill it for being real-time too long.
    let real_time = |tid: u32, attr: Attr| {
        let real_time = Attr { policy: Attr::RR, priority: 1, runtime: 0, nice: 0, ..attr };
        may_be_real_time(tid).then_some(real_time)
    };
    changes.extend(
        sides.light.iter().flat_map(|group| PolicyChange::threads(kernel.hierarchy(), &group.directory, real_time)),
    );
    Ok(changes)
}

/// Does the fair server keep a part of every CPU for others than real-time tasks?
pub(super) fn has_fair_server(mount: &Path) -> bool {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    fair_server(Path::new(FAIR_SERVER), &release, mount)
}

/// Does the throttle keep a part of every CPU for others than real-time tasks?
pub(super) fn has_throttle(mount: &Path) -> bool {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let runtime = fs::read_to_string(THROTTLE).unwrap_or_default();
    throttles(&runtime, &release, mount.join(BUDGET).exists())
}

fn throttles(runtime: &str, release: &str, has_groups: bool) -> bool {
    let is_there = has_groups || kernel_version(release).is_some_and(|version| version < FAIR_SERVER_SINCE);
    is_there && runtime.trim().parse::<i64>().is_ok_and(|runtime| runtime >= 0)
}

/// debugfs has its runtime for each CPU, where 0 is off. If that cannot be read, the kernel's release tells the default, which
/// is not relied on where real-time tasks are grouped.
fn fair_server(debugfs: &Path, release: &str, mount: &Path) -> bool {
    let runtime = |cpu: fs::DirEntry| fs::read_to_string(cpu.path().join("runtime")).ok()?.trim().parse::<u64>().ok();
    match fs::read_dir(debugfs) {
        Ok(cpus) => {
            let runtimes: Vec<Option<u64>> = cpus.flatten().map(runtime).collect();
            !runtimes.is_empty() && runtimes.iter().all(|runtime| runtime.is_some_and(|runtime| runtime > 0))
        }
        Err(_) => {
            kernel_version(release).is_some_and(|version| version >= FAIR_SERVER_SINCE) && !mount.join(BUDGET).exists()
        }
    }
}

/// Has the thread no limit of real-time (`RLIMIT_RTTIME`)?
fn may_be_real_time(tid: u32) -> bool {
    let limits = fs::read_to_string(format!("/proc/{tid}/limits")).unwrap_or_default();
    let limit = limits.lines().find_map(|line| line.strip_prefix("Max realtime timeout"));
    limit.is_some_and(|limit| limit.split_whitespace().next() == Some("unlimited"))
}

/// Where real-time tasks are grouped (`CONFIG_RT_GROUP_SCHED`), a cgroup without a budget can have none. All cgroups with
/// threads get the same budget, and each cgroup above them gets their sum.
fn budgets(groups: &[TriedGroup], kernel: &Kernel) -> Result<Vec<PolicyChange>, PolicyError> {
    let hierarchy = kernel.hierarchy();
    let mount = &hierarchy.mount;
    let Ok(root) = fs::read_to_string(mount.join(BUDGET)) else { return Ok(Vec::new()) };
    let root: f64 = match root.trim().parse() {
        Ok(root) => root,
        Err(source) => return Err(PolicyError::RootBudget { says: root, source }),
    };
    let with_threads: Vec<PathBuf> = groups.iter().flat_map(|group| populated(hierarchy, &group.directory)).collect();
    let each = (root * PART / with_threads.len().max(1) as f64).floor();
    if each < 1.0 {
        return Err(PolicyError::BudgetUsedUp(root));
    }
    // Those above come first in order: their paths are shorter.
    let mut needed: BTreeMap<PathBuf, f64> = BTreeMap::new();
    for populated in &with_threads {
        for directory in populated.ancestors().take_while(|directory| *directory != mount) {
            *needed.entry(directory.to_owned()).or_default() += each;
        }
    }
    let change = |(directory, needed): (PathBuf, f64)| {
        let has = fs::read_to_string(directory.join(BUDGET)).ok().and_then(|text| text.trim().parse::<f64>().ok());
        let has = has.ok_or_else(|| PolicyError::NoBudget(directory.clone()))?;
        Ok(if has >= needed { None } else { PolicyChange::file(&directory, BUDGET, needed) })
    };
    needed.into_iter().filter_map(|it| change(it).transpose()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        host::{Hierarchy, Version},
        model::{CgroupId, GroupBy},
    };

    /// A pod's threads are in its containers: a budget of the pod alone would be none.
    #[test]
    fn every_cgroup_with_threads_has_a_budget_and_those_above_have_the_sum() {
        let home = tempfile::tempdir().unwrap();
        for (path, has_threads) in [("", false), ("pod", false), ("pod/a", true), ("pod/b", true), ("pod/empty", false)]
        {
            let directory = home.path().join(path);
            fs::create_dir_all(&directory).unwrap();
            fs::write(directory.join("tasks"), if has_threads { "7\n" } else { "" }).unwrap();
            fs::write(directory.join(BUDGET), if path.is_empty() { "950000" } else { "0" }).unwrap();
        }
        let hierarchy = Hierarchy::at(Version::V1, home.path(), GroupBy::Scheduler);
        let pod =
            TriedGroup { id: CgroupId(7), path: "/pod".to_owned(), directory: home.path().join("pod"), cores: 0.1 };
        let kernel =
            Kernel { hierarchy, has_slices: false, has_fair_server: false, has_throttle: true, other_scheduler: None };
        let changes = budgets(&[pod], &kernel).unwrap();
        let said: Vec<(String, String)> = changes
            .into_iter()
            .filter_map(|change| match change {
                PolicyChange::File { directory, after, .. } => {
                    Some((directory.strip_prefix(home.path()).unwrap().display().to_string(), after))
                }
                PolicyChange::Thread { .. } => None,
            })
            .collect();
        let expected = [("pod", "855000"), ("pod/a", "427500"), ("pod/b", "427500")];
        assert_eq!(said, expected.map(|(path, budget)| (path.to_owned(), budget.to_owned())));
    }

    /// Where the fair server was switched off, a throttle that the kernel does not heed is no reason to try it.
    #[test]
    fn from_6_12_on_the_throttle_is_one_only_where_real_time_tasks_are_grouped() {
        let throttles = |runtime: &str, release: &str| [true, false].map(|groups| throttles(runtime, release, groups));
        assert_eq!(throttles("950000\n", "6.11.9"), [true, true]);
        assert_eq!(throttles("950000\n", "6.18.4"), [true, false]);
        assert_eq!(throttles("-1\n", "6.11.9"), [false, false]);
        assert_eq!(throttles("", "strange"), [false, false]);
        let hierarchy = Hierarchy::at(Version::V2, "/nowhere".as_ref(), GroupBy::Scheduler);
        let kernel =
            Kernel { hierarchy, has_slices: false, has_fair_server: false, has_throttle: false, other_scheduler: None };
        assert!(changes(&Sides::default(), &kernel).unwrap_err().to_string().contains("fair server"));
    }

    #[test]
    fn the_fair_server_is_known_by_debugfs_or_else_by_the_release() {
        let home = tempfile::tempdir().unwrap();
        let (debugfs, mount) = (home.path().join("fair_server"), home.path().join("cpu"));
        fs::create_dir(&mount).unwrap();
        let is_there = |release: &str| fair_server(&debugfs, release, &mount);
        assert_eq!(
            ["6.11.9", "6.12.0-rc1", "6.18.4", "7.0", "strange"].map(is_there),
            [false, true, true, true, false]
        );
        fs::write(mount.join(BUDGET), "950000").unwrap();
        assert!(!is_there("6.18.4"), "real-time tasks are grouped");
        for cpu in ["cpu0", "cpu1"] {
            fs::create_dir_all(debugfs.join(cpu)).unwrap();
            fs::write(debugfs.join(cpu).join("runtime"), "50000000\n").unwrap();
        }
        assert!(is_there("6.18.4") && is_there("6.11.9"), "debugfs decides");
        fs::write(debugfs.join("cpu1/runtime"), "0\n").unwrap();
        assert!(!is_there("6.18.4"), "it is off on one CPU");
    }
}
