//! Nobody is to starve for a trial.

use std::{collections::HashMap, fs, path::Path, time::Duration};

use super::{Group, Sides};
use crate::model::{CgroupId, Interval, Nanos};

/// Ends a trial in which a cgroup that wants to run gets less CPU time than its floor.
#[derive(Clone, Debug)]
pub struct Guard {
    floor: f64,
    patience: Nanos,
    /// How long each has been below it.
    below: HashMap<CgroupId, Nanos>,
}

impl Guard {
    /// The floor in cores; `patience` is how long one may be below it.
    pub fn new(floor: f64, patience: Duration) -> Self {
        Self { floor, patience: Nanos(u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX)), below: HashMap::new() }
    }

    /// Looks at who got what in an interval. Gives one that starves. `wants` says of a cgroup whether any of its threads is
    /// runnable now: one that never runs is in no interval.
    pub fn look<'a>(
        &mut self,
        sides: &'a Sides,
        interval: &Interval,
        wants: impl Fn(&Path) -> bool,
    ) -> Option<&'a Group> {
        let floor = self.floor * interval.duration_ns.0 as f64;
        let got: HashMap<CgroupId, Nanos> =
            interval.cgroups.iter().map(|cgroup| (cgroup.id, cgroup.totals.cpu_ns)).collect();
        let mut starves = None;
        for group in sides.all() {
            let cpu = got.get(&group.id).copied().unwrap_or_default();
            if cpu.0 as f64 >= floor || !wants(&group.directory) {
                self.below.remove(&group.id);
                continue;
            }
            let below = self.below.entry(group.id).or_default();
            *below = below.plus(interval.duration_ns);
            if *below >= self.patience {
                starves = starves.or(Some(group));
            }
        }
        starves
    }

    /// A block is over: nobody is held back any more.
    pub fn forget(&mut self) {
        self.below.clear();
    }
}

/// Is any thread of a cgroup runnable now?
pub(super) fn wants_to_run(directory: &Path) -> bool {
    let lists = ["tasks", "cgroup.threads"].map(|file| fs::read_to_string(directory.join(file)));
    let list = lists.into_iter().find_map(Result::ok).unwrap_or_default();
    list.lines().any(|tid| {
        let stat = fs::read_to_string(format!("/proc/{tid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, fields)| fields.starts_with('R'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Cgroup, Totals};

    fn interval(cpu_ms: &[(u64, u64)]) -> Interval {
        let cgroup = |&(id, ms): &(u64, u64)| Cgroup {
            id: CgroupId(id),
            totals: Totals { cpu_ns: Nanos(ms * 1_000_000), ..Totals::default() },
            ..Cgroup::default()
        };
        Interval { duration_ns: Nanos::SECOND, cgroups: cpu_ms.iter().map(cgroup).collect(), ..Interval::default() }
    }

    #[test]
    fn who_wants_to_run_and_gets_less_than_its_floor_for_long_starves() {
        let group = |id: u64| Group {
            id: CgroupId(id),
            path: format!("/{id}"),
            directory: format!("/{id}").into(),
            credit: 1.0,
        };
        let sides = Sides { light: vec![group(1)], heavy: vec![group(2), group(3)] };
        let mut guard = Guard::new(0.01, Duration::from_secs(3));
        // 2 gets 9 of its 10 ms, 3 nothing: but 3 does not want to run.
        let wants = |directory: &Path| directory != Path::new("/3");
        let mut look = |cpu: &[(u64, u64)]| guard.look(&sides, &interval(cpu), wants).map(|group| group.id.0);
        assert_eq!(look(&[(1, 500), (2, 9)]), None);
        assert_eq!(look(&[(1, 500), (2, 9)]), None, "two seconds");
        assert_eq!(look(&[(1, 500), (2, 10)]), None, "it had its floor, and counts anew");
        assert_eq!((look(&[(1, 500)]), look(&[(1, 500)])), (None, None));
        assert_eq!(look(&[(1, 500)]), Some(2), "it is in no interval");
        guard.forget();
        assert_eq!(guard.look(&sides, &interval(&[]), wants), None);
    }

    #[test]
    fn a_cgroup_without_threads_wants_nothing() {
        let home = tempfile::tempdir().unwrap();
        assert!(!wants_to_run(home.path()));
        fs::write(home.path().join("tasks"), "1\nnonsense\n").unwrap();
        assert!(!wants_to_run(Path::new("/nonexistent")));
        // This very thread runs.
        let tid = rustix::thread::gettid().as_raw_nonzero().get();
        fs::write(home.path().join("tasks"), format!("{tid}\n")).unwrap();
        assert!(wants_to_run(home.path()));
    }
}
