//! Who is to go first, and who pays.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use globset::GlobSet;

use super::own::Own;
use crate::{
    diagnosis::{self, CandidateClass, CompetitorsError, Finding, Observations, Subject},
    host::Hierarchy,
    model::CgroupId,
};

#[derive(Clone, Debug, PartialEq)]
pub struct TriedGroup {
    pub id: CgroupId,
    /// Its path in the hierarchy.
    pub path: String,
    pub directory: PathBuf,
    /// CPU time of all inside of it before, in cores.
    pub cores: f64,
}

impl TriedGroup {
    /// Is it still the one that was measured? Another may have its name.
    pub fn is_there(&self) -> bool {
        self.directory.metadata().is_ok_and(|found| found.ino() == self.id.0)
    }

    /// Is the cgroup at `path` this one, or inside of it?
    pub fn holds(&self, path: &str) -> bool {
        diagnosis::is_inside(path, &self.path)
    }

    /// Is it idle already (`cpu.idle`)? Somebody wanted that, and it has no weight.
    pub(super) fn is_idle(&self) -> bool {
        is_idle(&self.directory)
    }
}

fn is_idle(directory: &Path) -> bool {
    fs::read_to_string(directory.join("cpu.idle")).is_ok_and(|idle| idle.trim() == "1")
}

/// Who is to go first, and who pays.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sides {
    /// Who is to go first, the lightest of them first.
    pub light: Vec<TriedGroup>,
    /// Who pays, the heaviest of them first.
    pub heavy: Vec<TriedGroup>,
}

impl Sides {
    /// From what `diagnose` says on LAGS candidates: those that are light and wait long, and all heavy ones beside them.
    pub fn of(finding: &Finding, hierarchy: &Hierarchy) -> Self {
        let (mut sides, own) = (Self::default(), Own::find(hierarchy));
        for candidate in &finding.cgroups {
            let Subject::Cgroup { path, .. } = &candidate.cgroup else { continue };
            let Some(group) = group(path, candidate.cpu.as_f64(), hierarchy, &own) else { continue };
            if candidate.waits_long {
                sides.light.push(group);
            } else if candidate.class == CandidateClass::Heavy {
                sides.heavy.push(group);
            }
        }
        sides.sorted()
    }

    /// The first of those that are light and wait long that lagstop itself runs in.
    pub(super) fn own<'f>(finding: &'f Finding, hierarchy: &Hierarchy) -> Option<&'f str> {
        let own = Own::find(hierarchy);
        finding.cgroups.iter().filter(|candidate| candidate.waits_long).find_map(|candidate| {
            let Subject::Cgroup { path, .. } = &candidate.cgroup else { return None };
            let directory = hierarchy.directory(path)?;
            let is_own = own.is_inside(CgroupId(directory.metadata().ok()?.ino()));
            (is_own && !is_idle(&directory)).then_some(&**path)
        })
    }

    /// The cgroups whose paths `light` has, and the heaviest others, each at the level where the one competes with the other.
    ///
    /// # Errors
    /// Why no change can reach the one side without the other.
    pub fn named(
        observations: &Observations,
        light: &GlobSet,
        hierarchy: &Hierarchy,
    ) -> Result<Self, CompetitorsError> {
        let competitors = observations.competitors(|path| light.is_match(path))?;
        let own = Own::find(hierarchy);
        let groups = |paths: &[Arc<str>]| {
            paths.iter().filter_map(|path| group(path, observations.cores_inside(path), hierarchy, &own)).collect()
        };
        Ok(Self { light: groups(&competitors.light), heavy: groups(&competitors.heavy) }.sorted())
    }

    /// The lightest first, and the heaviest.
    #[must_use]
    pub fn sorted(mut self) -> Self {
        self.light.sort_by(|a, b| a.cores.total_cmp(&b.cores).then(a.id.cmp(&b.id)));
        self.heavy.sort_by(|a, b| b.cores.total_cmp(&a.cores).then(a.id.cmp(&b.id)));
        self
    }

    pub(super) const fn is_one_empty(&self) -> bool {
        self.light.is_empty() || self.heavy.is_empty()
    }

    /// Those that are still there.
    #[must_use]
    pub fn present(&self) -> Self {
        let present = |groups: &[TriedGroup]| groups.iter().filter(|group| group.is_there()).cloned().collect();
        Self { light: present(&self.light), heavy: present(&self.heavy) }
    }

    pub fn all(&self) -> impl Iterator<Item = &TriedGroup> {
        self.light.iter().chain(&self.heavy)
    }

    /// CPU time of one of them on average, in cores.
    pub fn fair(&self) -> f64 {
        let count = self.light.len() + self.heavy.len();
        self.all().map(|group| group.cores).sum::<f64>() / count.max(1) as f64
    }
}

/// `None` for a cgroup that does not exist, that is idle already, or that has lagstop in it, which must run to put things back.
fn group(path: &str, cores: f64, hierarchy: &Hierarchy, own: &Own) -> Option<TriedGroup> {
    let directory = hierarchy.directory(path)?;
    let id = CgroupId(directory.metadata().ok()?.ino());
    let group = TriedGroup { id, path: path.to_owned(), directory, cores };
    (!group.is_idle() && !own.is_inside(id)).then_some(group)
}
