//! CPU time of cgroups by their own files. These hold the time of all cgroups inside as well: it is taken out.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
};

use super::{
    groups::GroupDirectory,
    hierarchy::{Hierarchy, Version},
};
use crate::model::{CgroupId, Nanos};

/// What is known of each cgroup's CPU time.
#[derive(Debug)]
pub struct CpuTime {
    file: Option<&'static str>,
    /// A directory whose file says something else.
    not: Option<PathBuf>,
    accounts: HashMap<CgroupId, Account>,
    readings: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Account {
    /// What the file said when it was last read: the time of the cgroup and all inside.
    usage: Option<Nanos>,
    /// Time without that of those inside. Files are read one after the other, so that it may go back a little.
    own: i64,
    /// The most it has been: what is told.
    told: Nanos,
    /// The reading in which the cgroup was last there.
    reading: u64,
}

impl CpuTime {
    pub fn new(hierarchy: &Hierarchy) -> Self {
        let (file, not) = match hierarchy.version {
            Version::V1 => (CPUACCT, None),
            // The root's is made up from the CPUs' ticks and holds steal time (`kernel/cgroup/rstat.c`,
            // `root_cgroup_cputime`): nothing that the others could be taken out of.
            Version::V2 => (CPU_STAT, hierarchy.is_whole().then(|| hierarchy.mount.clone())),
        };
        // In version 1 `cpuacct` may be mounted apart, where cgroups can hold other tasks.
        let file = hierarchy.mount.join(file).exists().then_some(file);
        Self { file, not, accounts: HashMap::new(), readings: 0 }
    }

    /// The name of the file. `None` where there is none in this hierarchy.
    pub const fn file(&self) -> Option<&'static str> {
        self.file
    }

    /// The CPU time of each of `groups` since it was first seen, without that of those inside. It never goes back. The last
    /// piece of a cgroup that is gone is its parent's. `None` where no file tells.
    pub fn read(&mut self, groups: &[GroupDirectory]) -> Vec<Option<Nanos>> {
        let mut usages = vec![None; groups.len()];
        // A parent before those inside: what they run in between is missing from its own time until the next reading. The
        // other way round it would be told as its own, and what is told does not go back.
        for (usage, group) in usages.iter_mut().zip(groups) {
            *usage = self.usage(&group.directory);
        }
        self.book(groups, &usages)
    }

    fn usage(&self, directory: &Path) -> Option<Nanos> {
        let file = self.file.filter(|_| self.not.as_deref() != Some(directory))?;
        parse(file, &fs::read_to_string(directory.join(file)).ok()?)
    }

    fn book(&mut self, groups: &[GroupDirectory], usages: &[Option<Nanos>]) -> Vec<Option<Nanos>> {
        let is_first = self.readings == 0;
        self.readings += 1;
        let mut own = vec![0i64; groups.len()];
        for (index, (group, usage)) in groups.iter().zip(usages).enumerate() {
            let Some(usage) = *usage else { continue };
            let more = match self.accounts.get(&group.id) {
                Some(account) => usage.saturating_sub(account.usage.unwrap_or(usage)),
                None if is_first => Nanos::ZERO,
                // Made between the two readings.
                None => usage,
            };
            let more = i64::try_from(more.0).unwrap_or(i64::MAX);
            own[index] = own[index].saturating_add(more);
            if let Some(parent) = group.parent {
                own[parent] = own[parent].saturating_sub(more);
            }
        }
        let told = groups.iter().zip(usages).zip(own).map(|((group, usage), own)| {
            let account = self.accounts.entry(group.id).or_default();
            account.usage = usage.or(account.usage);
            account.own = account.own.saturating_add(own);
            account.told = account.told.max(Nanos(u64::try_from(account.own).unwrap_or(0)));
            account.reading = self.readings;
            usage.map(|_| account.told)
        });
        let told = told.collect();
        self.accounts.retain(|_, account| account.reading == self.readings);
        told
    }
}

const CPUACCT: &str = "cpuacct.usage";
const CPU_STAT: &str = "cpu.stat";

pub(super) fn parse(file: &str, text: &str) -> Option<Nanos> {
    if file == CPUACCT {
        return text.trim().parse().ok().map(Nanos);
    }
    let usage: u64 = text.lines().find_map(|line| line.strip_prefix("usage_usec "))?.trim().parse().ok()?;
    Some(Nanos(usage.saturating_mul(1_000)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::GroupBy;

    fn group(id: u64, parent: Option<usize>) -> GroupDirectory {
        GroupDirectory { id: CgroupId(id), path: String::new(), directory: PathBuf::new(), also: Vec::new(), parent }
    }

    fn books() -> CpuTime {
        CpuTime { file: None, not: None, accounts: HashMap::new(), readings: 0 }
    }

    fn told(time: &mut CpuTime, groups: &[GroupDirectory], usages: &[u64]) -> Vec<u64> {
        let usages: Vec<_> = usages.iter().map(|&usage| Some(Nanos(usage))).collect();
        time.book(groups, &usages).into_iter().map(|told| told.unwrap().0).collect()
    }

    #[test]
    fn both_files_are_read() {
        assert_eq!(parse(CPUACCT, "123\n"), Some(Nanos(123)));
        assert_eq!(parse(CPU_STAT, "usage_usec 5\nuser_usec 3\n"), Some(Nanos(5_000)));
        assert_eq!(parse(CPU_STAT, "nr_periods 0\n"), None, "that of version 1");
    }

    #[test]
    fn those_inside_are_taken_out() {
        let mut time = books();
        let root = group(1, None);
        let with_child = [root.clone(), group(2, Some(0))];
        assert_eq!(told(&mut time, &with_child, &[1_000, 500]), [0, 0], "what was before is nobody's");
        assert_eq!(told(&mut time, &with_child, &[1_100, 570]), [30, 70]);
        let born = [root.clone(), group(2, Some(0)), group(3, Some(1))];
        assert_eq!(told(&mut time, &born, &[1_160, 630, 40]), [30, 90, 40], "one born in between is whole");
        assert_eq!(told(&mut time, &[root], &[1_180]), [50], "the last piece of one that went is its parent's");
    }

    #[test]
    fn time_never_goes_back_and_the_sum_stays_right() {
        let mut time = books();
        let groups = [group(1, None), group(2, Some(0))];
        told(&mut time, &groups, &[0, 0]);
        assert_eq!(told(&mut time, &groups, &[100, 110]), [0, 110], "the parent was read too early");
        assert_eq!(told(&mut time, &groups, &[230, 210]), [20, 210]);
    }

    #[test]
    fn a_file_that_cannot_be_read_makes_no_time() {
        let mut time = books();
        let groups = [group(1, None), group(2, Some(0))];
        assert_eq!(time.book(&groups, &[Some(Nanos(50)), None]), [Some(Nanos(0)), None]);
        assert_eq!(told(&mut time, &groups, &[80, 40]), [30, 0]);
        assert_eq!(told(&mut time, &groups, &[90, 45]), [35, 5]);
    }

    #[test]
    fn the_root_of_version_2_tells_nothing() {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join("a")).unwrap();
        for directory in [".", "a"] {
            fs::write(home.path().join(directory).join("cpu.stat"), "usage_usec 7\n").unwrap();
        }
        let mounted = format!("30 23 0:26 / {} rw - cgroup2 none rw\n", home.path().display());
        let hierarchy = Hierarchy::choose(&mounted, GroupBy::Leaf).unwrap();
        let mut time = CpuTime::new(&hierarchy);
        assert_eq!(time.file(), Some("cpu.stat"));
        let groups = hierarchy.groups().unwrap();
        assert_eq!(time.read(&groups), [None, Some(Nanos(0))]);
    }

    proptest! {
        #[test]
        fn own_times_add_up_to_the_roots(steps in prop::collection::vec((0u64..99, 0u64..99, 0u64..99), 1..9)) {
            let groups = [group(1, None), group(2, Some(0)), group(3, Some(1))];
            let mut time = books();
            told(&mut time, &groups, &[0, 0, 0]);
            let mut all = (0, 0, 0);
            for step in steps {
                all = (all.0 + step.0, all.1 + step.1, all.2 + step.2);
                let own = told(&mut time, &groups, &[all.0 + all.1 + all.2, all.1 + all.2, all.2]);
                prop_assert_eq!(own, [all.0, all.1, all.2]);
            }
        }
    }
}
