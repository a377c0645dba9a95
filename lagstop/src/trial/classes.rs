//! Who is to go first, and who pays.

use std::{fs, os::unix::fs::MetadataExt, path::PathBuf};

use globset::GlobSet;

use crate::{
    diagnosis::{Candidate, CandidateClass, Finding, Subject},
    host::Hierarchy,
    model::CgroupId,
};

/// A cgroup.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Its id.
    pub id: CgroupId,
    /// Its path in the hierarchy.
    pub path: String,
    /// Its directory.
    pub directory: PathBuf,
    /// Its mean Load Credit, in tasks.
    pub credit: f64,
}

impl Group {
    /// Is it still the one that was measured? Another may have its name.
    pub fn is_there(&self) -> bool {
        self.directory.metadata().is_ok_and(|found| found.ino() == self.id.0)
    }

    /// Is it idle already (`cpu.idle`)? Somebody wanted that, and it has no weight.
    fn is_idle(&self) -> bool {
        fs::read_to_string(self.directory.join("cpu.idle")).is_ok_and(|idle| idle.trim() == "1")
    }

    /// Does lagstop itself run in it, or inside of it? It has to run to put things back.
    fn is_own(&self) -> bool {
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let paths = own.lines().filter_map(|line| line.splitn(3, ':').nth(2));
        paths.into_iter().any(|path| path == self.path || path.starts_with(&format!("{}/", self.path)))
    }
}

/// Who is to go first, and who pays.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sides {
    /// Who is to go first, the lightest of them first.
    pub light: Vec<Group>,
    /// Who pays, the heaviest of them first.
    pub heavy: Vec<Group>,
}

impl Sides {
    /// From what `diagnose` says on LAGS candidates: the light cgroups whose paths `light` has, or without it those that wait
    /// long; and all heavy ones but these.
    pub fn of(finding: &Finding, light: Option<&GlobSet>, hierarchy: &Hierarchy) -> Self {
        let mut sides = Self::default();
        for candidate in &finding.cgroups {
            let Some(group) = group(candidate, hierarchy) else { continue };
            let goes_first = light.map_or(candidate.waits_long, |light| light.is_match(&group.path));
            if goes_first {
                sides.light.push(group);
            } else if candidate.class == CandidateClass::Heavy {
                sides.heavy.push(group);
            }
        }
        sides.sorted()
    }

    /// The lightest first, and the heaviest.
    #[must_use]
    pub fn sorted(mut self) -> Self {
        self.light.sort_by(|a, b| a.credit.total_cmp(&b.credit).then(a.id.cmp(&b.id)));
        self.heavy.sort_by(|a, b| b.credit.total_cmp(&a.credit).then(a.id.cmp(&b.id)));
        self
    }

    /// Those that are still there.
    #[must_use]
    pub fn present(&self) -> Self {
        let present = |groups: &[Group]| groups.iter().filter(|group| group.is_there()).cloned().collect();
        Self { light: present(&self.light), heavy: present(&self.heavy) }
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &Group> {
        self.light.iter().chain(&self.heavy)
    }

    /// The mean Load Credit of all of them.
    pub fn fair(&self) -> f64 {
        let count = self.light.len() + self.heavy.len();
        self.all().map(|group| group.credit).sum::<f64>() / count.max(1) as f64
    }
}

fn group(candidate: &Candidate, hierarchy: &Hierarchy) -> Option<Group> {
    let Subject::Cgroup { id, path, .. } = &candidate.cgroup else { return None };
    let directory = hierarchy.directory(path)?;
    let group = Group { id: *id, path: path.to_string(), directory, credit: candidate.load_credit.as_f64() };
    (group.is_there() && !group.is_idle() && !group.is_own()).then_some(group)
}
