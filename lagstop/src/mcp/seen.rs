//! A recording that was read: what every tool begins with.

use std::sync::OnceLock;

use super::{
    library::Listed,
    names::{self, Names},
    trouble::Trouble,
};
use crate::{
    diagnosis::{Observations, Report, Thresholds, is_inside},
    diff::DiffSide,
    host::Identity,
    model::{Cgroup, Interval, Merger},
    recording::Reader,
};

/// A recording that was read.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) listed: Listed,
    pub(super) observations: Observations,
    /// All of it as one interval.
    pub(super) whole: Interval,
    pub(super) is_whole: bool,
    thresholds: Thresholds,
    report: OnceLock<Report>,
    names: OnceLock<Names>,
}

impl Seen {
    /// Reads the recording in `path`, merged where it is long, as `lagstop diagnose` does.
    pub(super) fn read(listed: Listed, thresholds: &Thresholds) -> Result<Self, Trouble> {
        let mut reader = Reader::open(&listed.path)?;
        let mut observations = Observations::new(reader.session().clone());
        let mut merger = Merger::new(reader.session().load_credit_time_ns);
        let is_long = reader.is_long()?;
        for n in 0..if is_long { reader.parts() } else { reader.len() } {
            let interval = if is_long { reader.merged(n)? } else { reader.interval(n)? };
            observations.add(&interval);
            merger.add(&interval);
        }
        Ok(Self {
            listed,
            observations,
            whole: merger.finish().unwrap_or_default(),
            is_whole: is_whole(&reader),
            thresholds: thresholds.clone(),
            report: OnceLock::new(),
            names: OnceLock::new(),
        })
    }

    /// What the rules find, with commands only for the boot that this runs in.
    pub(super) fn report(&self) -> &Report {
        self.report.get_or_init(|| {
            let here = Identity::read().ok().map(|identity| identity.boot_id);
            self.observations.diagnose(&self.thresholds).with_commands_only_of(here.as_deref())
        })
    }

    /// The names that may be in what is said of it.
    pub(super) fn names(&self) -> &Names {
        self.names.get_or_init(|| Names::of(self.observations.session(), &self.whole, &self.report().findings))
    }

    /// The recording as one of two that are compared, interval by interval.
    pub(super) fn side(&self) -> Result<DiffSide, Trouble> {
        let mut reader = Reader::open(&self.listed.path)?;
        let mut side = DiffSide::new(reader.session().clone(), reader.len(), is_whole(&reader));
        for n in 0..reader.len() {
            side.add(&reader.interval(n)?);
        }
        Ok(side)
    }

    /// The cgroups that a client calls `said`: by path, with all that is inside of it; by name, or by id.
    pub(super) fn cgroups(&self, said: &str) -> Result<Vec<&Cgroup>, Trouble> {
        let all = || self.whole.cgroups.iter();
        let path = all().map(|cgroup| &*cgroup.path).flat_map(prefixes).find(|path| names::is_called(path, said));
        let found: Vec<&Cgroup> = match path {
            Some(path) => all().filter(|cgroup| is_inside(&cgroup.path, path)).collect(),
            None => {
                let is_called = |cgroup: &&Cgroup| {
                    names::is_called(&cgroup.name, said) || cgroup.id.0.to_string() == names::unquoted(said)
                };
                all().filter(is_called).collect()
            }
        };
        if found.is_empty() { Err(Trouble::NoCgroup(names::quoted(names::unquoted(said)))) } else { Ok(found) }
    }
}

/// A path, and those of all that it is inside of, but for the root.
fn prefixes(path: &str) -> impl Iterator<Item = &str> {
    let ends = path.match_indices('/').map(|(at, _)| at).filter(|at| *at > 0).chain([path.len()]);
    ends.map(|end| &path[..end]).filter(|path| !path.is_empty())
}

/// Was it ended, and not cut off?
pub(super) fn is_whole(reader: &Reader) -> bool {
    reader.footer().is_some() && !reader.is_cut()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_what_it_is_inside_of() {
        assert_eq!(prefixes("/a/b/c").collect::<Vec<_>>(), ["/a", "/a/b", "/a/b/c"]);
        assert_eq!((prefixes("").count(), prefixes("/").collect::<Vec<_>>()), (0, vec!["/"]));
    }
}
