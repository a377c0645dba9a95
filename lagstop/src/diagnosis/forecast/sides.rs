//! Who competes with whom.

use std::{collections::BTreeSet, sync::Arc};

use thiserror::Error;

use super::super::asked::Asked;

/// The two sides of an intervention, by the paths of cgroups: all inside of one belongs to its side.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Competitors {
    /// Who is to go first.
    pub light: Vec<Arc<str>>,
    /// Who pays.
    pub heavy: Vec<Arc<str>>,
}

/// Why no change can reach one side without the other.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CompetitorsError {
    #[error("one of {light} and {heavy} is inside the other, so a change would affect both")]
    Inside { light: Arc<str>, heavy: Arc<str> },
    #[error("{light} and {heavy} compete at several levels of the cgroup tree, so a change would affect both")]
    BothSides { light: Arc<str>, heavy: Arc<str> },
}

/// The cgroups, by number, at which `one` and `other` compete: the children of the lowest cgroup that both are inside of.
/// `None` where one is inside of the other.
pub(in crate::diagnosis) fn siblings(asked: &Asked, one: usize, other: usize) -> Option<(usize, usize)> {
    let (one, other) = (line(asked, one), line(asked, other));
    let same = one.iter().zip(&other).take_while(|(a, b)| a == b).count();
    Some((*one.get(same)?, *other.get(same)?))
}

/// All ancestors of a cgroup that have a queue of their own, from the top, and the cgroup itself.
fn line(asked: &Asked, number: usize) -> Vec<usize> {
    let groups = &asked.trace().groups;
    let up = std::iter::successors(Some(number), |&number| groups[number].parent);
    let mut line: Vec<usize> = up.filter(|&number| groups[number].has_queue).collect();
    line.reverse();
    line
}

impl Competitors {
    /// Replaces `light` and `heavy` by themselves or their ancestors, at the level where the one competes with the
    /// other.
    ///
    /// # Errors
    /// Why no change can reach the one without the other.
    pub(in crate::diagnosis) fn lifted(
        asked: &Asked,
        light: &[usize],
        heavy: &[usize],
    ) -> Result<Self, CompetitorsError> {
        let path = |number: usize| Arc::clone(asked.path(number));
        let (mut first, mut pays) = (BTreeSet::new(), BTreeSet::new());
        for &one in light {
            for &other in heavy {
                match siblings(asked, one, other) {
                    Some((a, b)) => {
                        first.insert(a);
                        pays.insert(b);
                    }
                    None => {
                        return Err(CompetitorsError::Inside { light: path(one), heavy: path(other) });
                    }
                }
            }
        }
        if let Some((a, b)) = first
            .iter()
            .flat_map(|&a| pays.iter().map(move |&b| (a, b)))
            .find(|&(a, b)| asked.is_inside(a, b) || asked.is_inside(b, a))
        {
            return Err(CompetitorsError::BothSides { light: path(a), heavy: path(b) });
        }
        let paths = |numbers: BTreeSet<usize>| numbers.into_iter().map(path).collect();
        Ok(Self { light: paths(first), heavy: paths(pays) })
    }
}

#[cfg(test)]
mod tests {
    use super::CompetitorsError;
    use crate::{
        diagnosis::Observations,
        model::{Cgroup, CgroupId, Level, Nanos, Totals, fixture},
    };

    /// Cgroups by path, each with this many milliseconds of CPU time per second.
    fn competitors(rows: &[(&str, u64)], light: &[&str]) -> Result<[Vec<String>; 2], CompetitorsError> {
        let row = |(id, &(path, ms)): (u64, &(&str, u64))| Cgroup {
            id: CgroupId(id),
            path: path.into(),
            name: path.into(),
            levels: Some(vec![Level::DEFAULT; path.matches('/').count()].into()),
            totals: Totals {
                cpu_ns: Nanos(ms * 1_000_000),
                runq_wait_ns: Some(Nanos(1_000_000)),
                voluntary_switches: 10,
                threads: 1,
                ..Totals::default()
            },
            ..Cgroup::default()
        };
        let mut observations = Observations::new(fixture::session());
        observations.add(&fixture::interval_of(0, (20..).zip(rows).map(row).collect()));
        let sides = observations.competitors(|path| light.contains(&path))?;
        Ok([sides.light, sides.heavy].map(|paths| paths.iter().map(ToString::to_string).collect()))
    }

    #[test]
    fn containers_compete_as_their_pods_and_with_those_nearest() {
        let rows = [("/pods/a/web", 50), ("/pods/b/batch", 900), ("/system/agent", 600)];
        let found = competitors(&rows, &["/pods/a/web"]).unwrap();
        assert_eq!(found, [vec!["/pods/a"], vec!["/pods/b"]], "the agent is no pod");
    }

    #[test]
    fn where_nobody_beside_is_heavy_the_next_level_is_looked_at() {
        let rows = [("/pods/a/web", 50), ("/pods/b/api", 40), ("/system/batch", 900)];
        assert_eq!(competitors(&rows, &["/pods/a/web"]).unwrap(), [vec!["/pods"], vec!["/system"]]);
        let rows = [("/pods/a/web", 50), ("/pods/b/api", 40)];
        let [light, heavy] = competitors(&rows, &["/pods/a/web", "/pods/b/api"]).unwrap();
        assert!(light.is_empty() && heavy.is_empty());
    }

    #[test]
    fn a_change_that_would_reach_both_sides_is_refused() {
        let why = competitors(&[("/a", 900), ("/a/inner", 10)], &["/a/inner"]).unwrap_err().to_string();
        assert!(why.contains("is inside the other, so a change would affect both"), "{why}");
        let rows = [("/pods/a/web", 50), ("/pods/b/batch", 900), ("/system/agent", 60)];
        let why = competitors(&rows, &["/pods/a/web", "/system/agent"]).unwrap_err().to_string();
        assert!(why.contains("compete at several levels of the cgroup tree"), "{why}");
    }
}
