//! Ends a trial before any cgroup starves, whether or not the trial changes it.

use std::{
    collections::{BTreeMap, HashMap},
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use super::{Attr, own::Own};
use crate::{
    host::{Hierarchy, is_runnable, tids},
    model::{Cgroup, CgroupId, Interval, Nanos},
};

/// Cgroups whose threads are checked after an interval, in addition to those that were below their floor before. The
/// others are checked later, to limit the check to a few milliseconds.
const AT_ONCE: usize = 50;
/// A real-time cgroup that got this share of its budget has used it up. Chosen: not every interval contains the end of a
/// period.
const USED_UP: f64 = 0.5;

/// Ends a trial in which a cgroup that wants to run gets less CPU time than its floor.
#[derive(Clone, Debug)]
pub struct Guard {
    floor: f64,
    patience: Nanos,
    watched: BTreeMap<CgroupId, Watched>,
    /// The cgroup that was checked last.
    last: CgroupId,
    /// lagstop's own cgroup, once known.
    own: Option<Own>,
}

#[derive(Clone, Debug)]
struct Watched {
    path: Arc<str>,
    directory: PathBuf,
    /// How long it was runnable and below the floor, over all blocks with the policy.
    below: Nanos,
}

/// Demand of the threads of a cgroup.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Want {
    /// None of them is runnable.
    Nothing,
    /// Some are.
    Cpu,
    /// Some are runnable, and all of these are real-time. The kernel gives them at most this many cores
    /// (`cpu.rt_runtime_us` of each CPU).
    Budget(f64),
}

/// A cgroup that was runnable and got less than its floor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Starves {
    pub path: Arc<str>,
    /// Whether it had used up its real-time budget: no other cgroup took the time.
    pub is_throttled: bool,
}

impl Guard {
    /// The floor in cores; `patience` is how long one may be below it.
    pub fn new(floor: f64, patience: Duration) -> Self {
        let patience = Nanos::from(patience);
        Self { floor, patience, watched: BTreeMap::new(), last: CgroupId::OTHER, own: None }
    }

    /// For how long a cgroup may be below the floor.
    pub fn patience(&self) -> Duration {
        Duration::from_nanos(self.patience.0)
    }

    /// Takes note of who there is. lagstop's own cgroup is left out: lagstop itself is runnable when it looks.
    pub fn see(&mut self, interval: &Interval, hierarchy: &Hierarchy) {
        let own = self.own.get_or_insert_with(|| Own::find(hierarchy));
        for Cgroup { id, path, .. } in &interval.cgroups {
            if *id == CgroupId::OTHER || self.watched.contains_key(id) || own.is_group(*id) {
                continue;
            }
            if let Some(directory) = hierarchy.directory(path).filter(|directory| is_there(*id, directory)) {
                self.watched.insert(*id, Watched { path: Arc::clone(path), directory, below: Nanos::ZERO });
            }
        }
    }

    /// Looks at who got what in an interval. Gives one that starves. `wants` says of a cgroup what its threads want now: one
    /// that never runs is in no interval.
    pub fn look(&mut self, interval: &Interval, wants: impl Fn(&Path) -> Want) -> Option<Starves> {
        let seconds = interval.duration_ns.seconds();
        let of: HashMap<CgroupId, &Cgroup> = interval.cgroups.iter().map(|cgroup| (cgroup.id, cgroup)).collect();
        let cores = |id| of.get(&id).map_or(0.0, |cgroup| cgroup.totals.cpu_ns.seconds() / seconds);
        // What its own quota keeps from running has no more without a trial.
        let is_throttled = |id| of.get(&id).is_some_and(|cgroup| cgroup.files.nr_throttled > Some(0));
        for (id, watched) in &mut self.watched {
            if cores(*id) >= self.floor || is_throttled(*id) {
                watched.below = Nanos::ZERO;
            }
        }
        let mut starves = None;
        let mut gone = Vec::new();
        let floor = self.floor;
        for id in self.turn(|id| cores(id) < floor && !is_throttled(id)) {
            let Some(watched) = self.watched.get_mut(&id) else { continue };
            if !is_there(id, &watched.directory) {
                gone.push(id);
                continue;
            }
            let want = wants(&watched.directory);
            if want == Want::Nothing {
                watched.below = Nanos::ZERO;
                continue;
            }
            watched.below = watched.below.saturating_add(interval.duration_ns);
            if watched.below >= self.patience {
                let is_throttled = matches!(want, Want::Budget(budget) if cores(id) >= USED_UP * budget);
                starves = starves.or(Some(Starves { path: Arc::clone(&watched.path), is_throttled }));
            }
        }
        gone.iter().for_each(|id| drop(self.watched.remove(id)));
        starves
    }

    /// Who is looked at: all that wanted to run the last time, and some of the others in turn, of those that `is_low`.
    fn turn(&mut self, is_low: impl Fn(CgroupId) -> bool) -> Vec<CgroupId> {
        let suspects = self.watched.iter().filter(|(_, watched)| watched.below > Nanos::ZERO);
        let mut turn: Vec<CgroupId> = suspects.map(|(id, _)| *id).collect();
        let rest = || self.watched.iter().filter(|(id, it)| it.below == Nanos::ZERO && is_low(**id)).map(|(id, _)| *id);
        let others: Vec<CgroupId> =
            rest().filter(|id| *id > self.last).chain(rest().filter(|id| *id <= self.last)).take(AT_ONCE).collect();
        self.last = others.last().copied().unwrap_or(self.last);
        turn.extend(others);
        turn
    }
}

/// Is it still the one that was seen? Another may have its name.
fn is_there(id: CgroupId, directory: &Path) -> bool {
    directory.metadata().is_ok_and(|found| found.ino() == id.0)
}

/// What the threads that compete in a cgroup want now.
pub(super) fn wants(hierarchy: &Hierarchy, directory: &Path) -> Want {
    let tids = tids(hierarchy, directory, usize::MAX).unwrap_or_default();
    let mut want = Want::Nothing;
    for tid in tids.into_iter().filter(|&tid| is_runnable(tid)) {
        let is_real_time = Attr::of(tid).is_ok_and(|attr| attr.policy == Attr::RR || attr.policy == Attr::FIFO);
        match budget(directory).filter(|_| is_real_time) {
            Some(budget) => want = Want::Budget(budget),
            None => return Want::Cpu,
        }
    }
    want
}

/// Real-time cores that a cgroup gets at most, on all CPUs. `None` where real-time tasks are not grouped, or have no limit.
fn budget(directory: &Path) -> Option<f64> {
    let read = |file: &str| fs::read_to_string(directory.join(file)).ok()?.trim().parse::<f64>().ok();
    let (runtime, period) = (read("cpu.rt_runtime_us")?, read("cpu.rt_period_us")?);
    (runtime >= 0.0 && period > 0.0).then_some(runtime / period)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        host::Version,
        model::{GroupBy, Totals},
    };

    /// Cgroups by name, in a hierarchy of their own, and a guard that has seen them. Patience is three seconds.
    fn guarded(names: &[&str]) -> (tempfile::TempDir, Guard, HashMap<String, u64>) {
        let home = tempfile::tempdir().unwrap();
        let hierarchy = Hierarchy::at(Version::V2, home.path(), GroupBy::Scheduler);
        let mut interval = <Interval>::default();
        let mut ids = HashMap::new();
        for name in names {
            let directory = home.path().join(name);
            fs::create_dir(&directory).unwrap();
            let id = directory.metadata().unwrap().ino();
            ids.insert((*name).to_owned(), id);
            interval.cgroups.push(Cgroup { id: CgroupId(id), path: format!("/{name}").into(), ..Cgroup::default() });
        }
        let mut guard = Guard::new(0.01, Duration::from_secs(3));
        guard.see(&interval, &hierarchy);
        (home, guard, ids)
    }

    /// A second in which each of these got so many milliseconds.
    fn second(ids: &HashMap<String, u64>, cpu_ms: &[(&str, u64)]) -> Interval {
        let cgroup = |&(name, ms): &(&str, u64)| Cgroup {
            id: CgroupId(ids[name]),
            totals: Totals { cpu_ns: Nanos(ms * 1_000_000), ..Totals::default() },
            ..Cgroup::default()
        };
        Interval { duration_ns: Nanos::SECOND, cgroups: cpu_ms.iter().map(cgroup).collect(), ..Interval::default() }
    }

    #[test]
    fn who_wants_to_run_and_gets_less_than_its_floor_for_long_starves() {
        let (_home, mut guard, ids) = guarded(&["light", "heavy", "idle"]);
        let wants = |directory: &Path| if directory.ends_with("idle") { Want::Nothing } else { Want::Cpu };
        let mut look =
            |cpu: &[(&str, u64)]| guard.look(&second(&ids, cpu), wants).map(|starves| starves.path.to_string());
        // 9 of its 10 ms.
        assert_eq!(look(&[("light", 500), ("heavy", 9)]), None);
        assert_eq!(look(&[("light", 500), ("heavy", 9)]), None, "two seconds");
        assert_eq!(look(&[("light", 500), ("heavy", 10)]), None, "it had its floor, and counts anew");
        assert_eq!((look(&[("light", 500)]), look(&[("light", 500)])), (None, None));
        assert_eq!(look(&[("light", 500)]).as_deref(), Some("/heavy"), "it is in no interval");
    }

    #[test]
    fn of_a_crowd_each_has_its_turn() {
        let names: Vec<String> = (0..3 * AT_ONCE).map(|n| format!("c{n}")).collect();
        let (home, mut guard, ids) = guarded(&names.iter().map(String::as_str).collect::<Vec<_>>());
        let looked = std::cell::Cell::new(0);
        let last = home.path().join(names.last().unwrap());
        let wants = |directory: &Path| {
            looked.set(looked.get() + 1);
            if directory == last { Want::Cpu } else { Want::Nothing }
        };
        // Three to come to each of them, and two more to wait for that one.
        let found = (0..5).find_map(|_| {
            looked.set(0);
            let found = guard.look(&second(&ids, &[]), wants);
            assert!(looked.get() <= AT_ONCE + 1, "{}", looked.get());
            found
        });
        assert_eq!(&*found.unwrap().path, format!("/{}", names.last().unwrap()));
    }

    #[test]
    fn what_its_budget_or_its_quota_holds_back_is_told_apart() {
        let (_home, mut guard, ids) = guarded(&["real-time", "quota"]);
        let wants = |directory: &Path| if directory.ends_with("quota") { Want::Cpu } else { Want::Budget(0.008) };
        let mut look = |ms: u64| {
            let mut interval = second(&ids, &[("real-time", ms), ("quota", 5)]);
            interval.cgroups[1].files.nr_throttled = Some(1);
            guard.look(&interval, wants)
        };
        assert_eq!((look(8), look(8)), (None, None));
        assert!(look(8).unwrap().is_throttled, "it had all that it may have");
        assert!(!look(0).unwrap().is_throttled, "others had it");
    }

    #[test]
    fn who_is_gone_is_not_looked_at() {
        let (home, mut guard, ids) = guarded(&["gone"]);
        fs::remove_dir(home.path().join("gone")).unwrap();
        for _ in 0..4 {
            assert_eq!(guard.look(&second(&ids, &[]), |_| panic!("it is gone")), None);
        }
    }

    #[test]
    fn threads_say_what_a_cgroup_wants() {
        let home = tempfile::tempdir().unwrap();
        let hierarchy = Hierarchy::at(Version::V2, home.path(), GroupBy::Scheduler);
        let wants = || wants(&hierarchy, home.path());
        assert_eq!(wants(), Want::Nothing);
        fs::write(home.path().join("cgroup.threads"), "nonsense\n").unwrap();
        assert_eq!(wants(), Want::Nothing);
        // This very thread runs, in a cgroup inside without a group.
        let tid = rustix::thread::gettid().as_raw_nonzero().get();
        fs::create_dir(home.path().join("inner")).unwrap();
        fs::write(home.path().join("inner/cgroup.threads"), format!("{tid}\n")).unwrap();
        assert_eq!(wants(), Want::Cpu);
        // It is not real-time: a budget has nothing to do with it.
        fs::write(home.path().join("cpu.rt_runtime_us"), "5000\n").unwrap();
        fs::write(home.path().join("cpu.rt_period_us"), "1000000\n").unwrap();
        assert_eq!((wants(), budget(home.path())), (Want::Cpu, Some(0.005)));
    }
}
