//! CFS-LAGS-static (§4.1): the light ones' threads are real-time.

use std::{collections::BTreeMap, fs, path::PathBuf};

use super::{Attr, Change, Group, Kernel, Sides};

/// Part of the real-time budget of the root that is given away. The kernel keeps a twentieth of each CPU for the others, and
/// what is real-time already keeps something, too.
const PART: f64 = 0.9;
const BUDGET: &str = "cpu.rt_runtime_us";

pub(super) fn changes(sides: &Sides, kernel: &Kernel) -> Result<Vec<Change>, String> {
    let mut changes = budgets(&sides.light, kernel)?;
    let real_time = |attr: Attr| Attr { policy: Attr::RR, priority: 1, runtime: 0, nice: 0, ..attr };
    changes.extend(sides.light.iter().flat_map(|group| Change::threads(&group.directory, kernel.born, real_time)));
    Ok(changes)
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
