//! Who is to go first, and who pays.

use std::path::PathBuf;

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
    let credit = candidate.load_credit.as_f64();
    directory.exists().then(|| Group { id: *id, path: path.to_string(), directory, credit })
}
