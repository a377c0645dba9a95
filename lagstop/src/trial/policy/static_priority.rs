//! CFS-LAGS-static (§4.1): the light ones' threads are real-time.

use std::{collections::BTreeMap, fs, path::PathBuf};

use super::{Attr, Change, Group, Kernel, Sides};

/// Part of the real-time budget of the root that is given away. The kernel keeps a twentieth of each CPU for the others, and
/// what is real-time already keeps something, too.
const PART: f64 = 0.9;
/// What keeps real-time tasks from taking all there is.
const THROTTLE: &str = "/proc/sys/kernel/sched_rt_runtime_us";
const BUDGET: &str = "cpu.rt_runtime_us";

pub(super) fn changes(sides: &Sides, kernel: &Kernel) -> Result<Vec<Change>, String> {
    if fs::read_to_string(THROTTLE).is_ok_and(|runtime| runtime.trim() == "-1") {
        return Err(format!("{THROTTLE} is -1: a real-time task that loops would never let go of its CPU"));
    }
    let mut changes = budgets(&sides.light, kernel)?;
    // One that the kernel kills when it is real-time for too long stays as it is.
    let real_time = |tid: u32, attr: Attr| {
        let real_time = Attr { policy: Attr::RR, priority: 1, runtime: 0, nice: 0, ..attr };
        may_be_real_time(tid).then_some(real_time)
    };
    changes
        .extend(sides.light.iter().flat_map(|group| Change::threads(kernel.hierarchy(), &group.directory, real_time)));
    Ok(changes)
}

/// Has it no limit of real-time (`RLIMIT_RTTIME`)?
fn may_be_real_time(tid: u32) -> bool {
    let limits = fs::read_to_string(format!("/proc/{tid}/limits")).unwrap_or_default();
    let limit = limits.lines().find_map(|line| line.strip_prefix("Max realtime timeout"));
    limit.is_some_and(|limit| limit.split_whitespace().next() == Some("unlimited"))
}

/// Where real-time tasks are grouped (`CONFIG_RT_GROUP_SCHED`), a cgroup without a budget has none: all get as much as any
/// other, and those that they are in as much as all of them together.
fn budgets(groups: &[Group], kernel: &Kernel) -> Result<Vec<Change>, String> {
    let mount = &kernel.hierarchy().mount;
    let Ok(root) = fs::read_to_string(mount.join(BUDGET)) else { return Ok(Vec::new()) };
    let root: f64 = root.trim().parse().map_err(|_| format!("{BUDGET} of the root is {root}"))?;
    let each = (root * PART / groups.len() as f64).floor();
    if each < 1.0 {
        return Err(format!("the root has no real-time budget to give away: its {BUDGET} is {root}"));
    }
    // Those above come first in order: their paths are shorter.
    let mut needed: BTreeMap<PathBuf, f64> = BTreeMap::new();
    for group in groups {
        for directory in group.directory.ancestors().take_while(|directory| *directory != mount) {
            *needed.entry(directory.to_owned()).or_default() += each;
        }
    }
    let change = |(directory, needed): (PathBuf, f64)| {
        let has = fs::read_to_string(directory.join(BUDGET)).ok().and_then(|text| text.trim().parse::<f64>().ok());
        let has = has.ok_or_else(|| format!("{} has no {BUDGET}", directory.display()))?;
        Ok(if has >= needed { None } else { Change::file(&directory, BUDGET, needed) })
    };
    needed.into_iter().filter_map(|it| change(it).transpose()).collect()
}
