//! What each level of the cgroup tree is entitled to, and the CPUs that cgroups may run on.
//!
//! Both rarely change, and reading four files of every cgroup each second would be expensive. A cgroup is read at first sight,
//! with all that are above it, and then each of them in its turn. One that many others are below of is read once for all, so
//! that these agree on it.

use std::{
    collections::{HashMap, HashSet},
    hash::Hash,
    sync::Arc,
};

use super::{Hierarchy, Version, limits, turn::Turn};
use crate::model::{CgroupId, Level};

/// What is known about each cgroup that was seen, and about those above.
#[derive(Debug)]
pub(super) struct Levels {
    hierarchy: Hierarchy,
    cpusets: Option<Hierarchy>,
    readings: u64,
    /// By path: those that were seen, and all above them.
    nodes: HashMap<Arc<str>, Node>,
    /// How often what was known has changed.
    changes: u64,
    known: HashMap<CgroupId, Known>,
    /// Equal ones are kept once.
    lists: HashSet<Arc<[Level]>>,
    cpus: HashSet<Arc<str>>,
}

/// A cgroup, by its own files.
#[derive(Debug)]
struct Node {
    turn: Turn,
    /// How much shorter its turns are than others'.
    early: u64,
    /// The last reading in which it was read.
    read: u64,
    level: Option<Level>,
    cpus: Option<Arc<str>>,
}

/// What was last told of a cgroup.
#[derive(Debug)]
struct Known {
    path: Arc<str>,
    /// `Levels::changes` at that time.
    changes: u64,
    placed: Placed,
}

/// Where a cgroup is in the tree, and on which CPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Placed {
    /// See [`crate::model::Cgroup::levels`].
    pub levels: Option<Arc<[Level]>>,
    /// See [`crate::model::Cgroup::cpus`].
    pub cpus: Option<Arc<str>>,
}

impl Levels {
    pub(super) fn new(hierarchy: &Hierarchy) -> Self {
        Self {
            cpusets: hierarchy.with_cpusets(),
            hierarchy: hierarchy.clone(),
            readings: 0,
            nodes: HashMap::new(),
            changes: 0,
            known: HashMap::new(),
            lists: HashSet::new(),
            cpus: HashSet::new(),
        }
    }

    /// Begins a reading: reads those whose turn it is.
    pub(super) fn begin(&mut self) {
        self.readings += 1;
        let Self { hierarchy, cpusets, readings, nodes, changes, cpus, .. } = self;
        for (path, node) in nodes.iter_mut().filter(|(_, node)| node.turn.has_come(*readings)) {
            *changes += u64::from(node.read(hierarchy, cpusets.as_ref(), path, *readings, cpus));
        }
    }

    /// Forgets those that are not `there` any more, and those above that nobody needs.
    pub(super) fn keep(&mut self, there: impl Fn(CgroupId) -> bool) {
        let before = self.known.len();
        self.known.retain(|&id, _| there(id));
        if self.known.len() < before {
            let needed: HashSet<&str> = self.known.values().flat_map(|known| ways(&known.path)).collect();
            self.nodes.retain(|path, _| needed.contains(&**path));
        }
        self.lists.retain(|list| Arc::strong_count(list) > 1);
        self.cpus.retain(|cpus| Arc::strong_count(cpus) > 1);
    }

    /// What is known of the cgroup at `path`.
    pub(super) fn of(&mut self, id: CgroupId, path: &Arc<str>) -> Placed {
        // The row that others share is no cgroup, and a path that was cut leads nowhere.
        if id == CgroupId::OTHER || path.starts_with('…') {
            return Placed::default();
        }
        match self.known.get(&id).filter(|known| known.path == *path) {
            Some(known) if known.changes == self.changes => return known.placed.clone(),
            Some(_) => {}
            // Another cgroup may have been at this path before, and others above it.
            None => self.read(path),
        }
        let placed = self.place(path);
        let known = Known { path: Arc::clone(path), changes: self.changes, placed: placed.clone() };
        self.known.insert(id, known);
        placed
    }

    /// Reads the cgroup at `path` and all above, but for those that this reading has seen.
    fn read(&mut self, path: &str) {
        let Self { hierarchy, cpusets, readings, nodes, changes, cpus, .. } = self;
        for way in ways(path) {
            let node = match nodes.get_mut(way) {
                Some(node) => node,
                None => {
                    // Numbered in sequence, they are spread evenly.
                    let early = CgroupId(nodes.len() as u64).turn(Turn::SPREAD);
                    // Otherwise all would be read again and again in the same readings.
                    let turn = if *readings == 1 { Turn::of_old(1) } else { Turn::first(*readings) };
                    nodes.entry(way.into()).or_insert(Node::new(turn, early))
                }
            };
            if node.read < *readings {
                *changes += u64::from(node.read(hierarchy, cpusets.as_ref(), way, *readings, cpus));
            }
        }
    }

    /// Puts together what is known of the cgroup at `path`.
    fn place(&mut self, path: &str) -> Placed {
        let Self { hierarchy, nodes, lists, .. } = self;
        let mut levels = Some(Vec::new());
        let mut cpus = None;
        for way in ways(path) {
            let node = nodes.get(way);
            if way != ROOT {
                levels = levels.zip(node.and_then(|node| node.level)).map(|(mut levels, level)| {
                    levels.push(level);
                    levels
                });
            }
            let own = node.and_then(|node| node.cpus.clone());
            cpus = match hierarchy.version {
                Version::V1 => own,
                Version::V2 => own.or(cpus),
            };
        }
        Placed { levels: levels.map(|levels| once(lists, &levels[..])), cpus }
    }
}

impl Node {
    const fn new(turn: Turn, early: u64) -> Self {
        Self { turn, early, read: 0, level: None, cpus: None }
    }

    /// Reads its files. What they no longer tell stays as it was last: mostly the cgroup is gone. Gives whether what was told of
    /// cgroups below it has changed.
    fn read(
        &mut self,
        hierarchy: &Hierarchy,
        cpusets: Option<&Hierarchy>,
        path: &str,
        now: u64,
        all_cpus: &mut HashSet<Arc<str>>,
    ) -> bool {
        let is_new = self.read == 0;
        self.turn.was_taken(now, self.early);
        self.read = now;
        let level = hierarchy.directory(path).and_then(|directory| limits::level(hierarchy.version, &directory));
        let cpus = cpusets.and_then(|cpusets| limits::own_cpus(cpusets.version, &cpusets.directory(path)?));
        let mut has_changed = false;
        if level.is_some() && level != self.level {
            (self.level, has_changed) = (level, true);
        }
        if let Some(cpus) = cpus.filter(|cpus| self.cpus.as_deref() != Some(cpus)) {
            (self.cpus, has_changed) = (Some(once(all_cpus, &*cpus)), true);
        }
        has_changed && !is_new
    }
}

const ROOT: &str = "/";

/// The root, and each cgroup from there down to the one at `path`.
fn ways(path: &str) -> impl Iterator<Item = &str> {
    let ends = path.match_indices('/').map(|(at, _)| at).filter(|&at| at > 0).chain([path.len()]);
    std::iter::once(ROOT).chain(ends.map(|end| &path[..end]).filter(|way| *way != ROOT && !way.is_empty()))
}

/// The element of `all` that equals `value`, added if there is none: equal ones are kept once.
fn once<T: ?Sized + Eq + Hash>(all: &mut HashSet<Arc<T>>, value: &T) -> Arc<T>
where
    Arc<T>: for<'v> From<&'v T>,
{
    if let Some(known) = all.get(value) {
        return Arc::clone(known);
    }
    let new: Arc<T> = value.into();
    all.insert(Arc::clone(&new));
    new
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::model::{GroupBy, Nanos};

    const POD: &str = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1.slice";
    const SERVICE: &str = "/system.slice/app.service";

    /// Hierarchies in directories, and what is read of them.
    struct Host {
        home: tempfile::TempDir,
        version: Version,
        levels: Levels,
    }

    impl Host {
        fn new(version: Version) -> Self {
            let home = tempfile::tempdir().unwrap();
            let at = |name| Hierarchy::at(version, &home.path().join(name), GroupBy::Scheduler);
            let cpusets = match version {
                Version::V1 => at("cpuset"),
                Version::V2 => at("cpu"),
            };
            let levels = Levels { cpusets: Some(cpusets), ..Levels::new(&at("cpu")) };
            Self { home, version, levels }
        }

        fn write(&self, mount: &str, path: &str, file: &str, text: &str) {
            let directory = self.home.path().join(mount).join(path.trim_start_matches('/'));
            fs::create_dir_all(&directory).unwrap();
            fs::write(directory.join(file), text).unwrap();
        }

        /// Makes a cgroup, or changes it, with the weight in the unit of version 2 and the quota in ms of 100.
        fn set(&self, path: &str, weight: u64, idle: bool, quota: Option<u64>) {
            let us = quota.map(|ms| (ms * 1_000).to_string());
            match self.version {
                Version::V1 => {
                    let shares = if idle { 3 } else { weight * 1_024 / 100 };
                    self.write("cpu", path, "cpu.shares", &format!("{shares}\n"));
                    self.write("cpu", path, "cpu.cfs_quota_us", us.as_deref().unwrap_or("-1\n"));
                    self.write("cpu", path, "cpu.cfs_period_us", "100000\n");
                }
                Version::V2 => {
                    self.write("cpu", path, "cpu.weight", &format!("{}\n", if idle { 0 } else { weight }));
                    self.write("cpu", path, "cpu.max", &format!("{} 100000\n", us.as_deref().unwrap_or("max")));
                }
            }
            self.write("cpu", path, "cpu.idle", if idle { "1\n" } else { "0\n" });
        }

        fn cpus(&self, path: &str, cpus: &str) {
            match self.version {
                Version::V1 => self.write("cpuset", path, "cpuset.effective_cpus", cpus),
                Version::V2 => self.write("cpu", path, "cpuset.cpus.effective", cpus),
            }
        }

        /// What is read of these in the next reading.
        fn read<const N: usize>(&mut self, paths: [&str; N]) -> [Placed; N] {
            self.levels.begin();
            let mut id = 10;
            paths.map(|path| {
                id += 1;
                self.levels.of(CgroupId(id), &path.into())
            })
        }

        fn weights(&mut self, path: &str) -> Option<Vec<Option<f64>>> {
            let [placed] = self.read([path]);
            Some(placed.levels?.iter().map(|level| level.weight).collect())
        }

        fn pod(version: Version) -> Self {
            let host = Self::new(version);
            for (path, weight) in
                [("/kubepods.slice", 200), ("/kubepods.slice/kubepods-burstable.slice", 75), (POD, 50)]
            {
                host.set(path, weight, false, (path == POD).then_some(150));
            }
            for name in ["a", "b"] {
                host.set(&format!("{POD}/{name}"), 25, false, None);
            }
            host
        }
    }

    const fn weighing(weight: f64) -> Level {
        Level { weight: Some(weight), ..Level::DEFAULT }
    }

    #[test]
    fn both_versions_tell_each_level_from_the_top() {
        for version in [Version::V1, Version::V2] {
            let mut host = Host::pod(version);
            host.set("/system.slice", 100, false, None);
            host.set(SERVICE, 400, true, None);
            let [container, service, root] = host.read([&format!("{POD}/a"), SERVICE, "/"]);
            let quota =
                Level { quota_ns: Some(Nanos(150_000_000)), period_ns: Some(Nanos(100_000_000)), ..weighing(50.0) };
            assert_eq!(container.levels.unwrap()[..], [weighing(200.0), weighing(75.0), quota, weighing(25.0)]);
            let idle = Level { is_idle: true, ..weighing(0.292_968_75) };
            assert_eq!(service.levels.unwrap()[..], [Level::DEFAULT, idle], "{version:?}");
            assert_eq!(root.levels.unwrap()[..], []);
        }
    }

    #[test]
    fn cgroups_beside_each_other_share_a_list() {
        let mut host = Host::pod(Version::V2);
        let [a, b] = host.read([&format!("{POD}/a"), &format!("{POD}/b")]);
        assert!(Arc::ptr_eq(&a.levels.unwrap(), &b.levels.unwrap()));
    }

    #[test]
    fn a_change_above_is_seen_below_at_once_and_within_the_turn() {
        let mut host = Host::pod(Version::V1);
        let (a, b) = (format!("{POD}/a"), format!("{POD}/b"));
        for _ in 0..Turn::MOST_READINGS * 4 {
            host.read([&a, &b]);
        }
        host.set(POD, 300, false, None);
        let seen: Vec<[Option<f64>; 2]> = (0..Turn::MOST_READINGS)
            .map(|_| host.read([&a, &b]).map(|placed| placed.levels.unwrap()[2].weight))
            .collect();
        assert!(seen.iter().all(|[a, b]| a == b), "they agree in every reading: {seen:?}");
        assert_eq!(seen.last(), Some(&[Some(300.0); 2]));
        let changes = host.levels.changes;
        host.read([&a, &b]);
        assert_eq!(host.levels.changes, changes, "nothing more has changed");
    }

    #[test]
    fn what_is_set_soon_after_it_was_made_is_seen_soon() {
        let mut host = Host::pod(Version::V2);
        let a = format!("{POD}/a");
        host.read([]);
        host.weights(&a);
        host.set(&a, 7, false, None);
        assert_eq!(host.weights(&a).unwrap()[3], Some(7.0));
    }

    #[test]
    fn a_turn_reads_few() {
        let mut host = Host::new(Version::V2);
        let paths: Vec<Arc<str>> = (0..300).map(|n| format!("/all/{n}").into()).collect();
        paths.iter().for_each(|path| host.set(path, 100, false, None));
        let (mut most, mut all) = (0, 0);
        for reading in 0..Turn::MOST_READINGS * 5 {
            host.levels.begin();
            for (id, path) in (10..).map(CgroupId).zip(&paths) {
                host.levels.of(id, path);
            }
            let now = host.levels.readings;
            let read = host.levels.nodes.values().filter(|node| node.read == now).count();
            if reading > 0 {
                (most, all) = (most.max(read), all + read);
            }
        }
        let mean = all as f64 / (Turn::MOST_READINGS * 5 - 1) as f64;
        assert!(mean < 6.0 && most < 40, "{mean} in a reading, at most {most}");
    }

    #[test]
    fn another_cgroup_at_the_same_path_is_read_at_once_with_those_above() {
        let mut host = Host::pod(Version::V2);
        let a = format!("{POD}/a");
        for _ in 0..Turn::MOST_READINGS {
            host.weights(&a);
        }
        host.set(POD, 9, false, None);
        host.set(&a, 8, false, None);
        host.levels.begin();
        let placed = host.levels.of(CgroupId(99), &a.as_str().into());
        assert_eq!(placed.levels.unwrap()[2..], [weighing(9.0), weighing(8.0)]);
    }

    #[test]
    fn what_no_file_tells_is_not_known() {
        for version in [Version::V1, Version::V2] {
            let mut host = Host::pod(version);
            assert_eq!(host.weights("/gone/a"), None, "no such directory");
            assert_eq!(host.weights("…/a/b"), None, "a path that was cut");
            host.levels.begin();
            assert_eq!(host.levels.of(CgroupId::OTHER, &"(other)".into()), Placed::default());
            let file = if version == Version::V1 { "cpu.shares" } else { "cpu.weight" };
            for text in ["", "many\n", "-5\n", "0\n", "NaN\n", "99999999999999999999\n", "\0"] {
                host.write("cpu", "/hostile", file, text);
                assert_eq!(host.weights("/hostile"), None, "{text:?}");
                host.levels.keep(|_| false);
            }
            host.set("/hostile", 5, true, None);
            host.write("cpu", "/hostile", "cpu.idle", "maybe\n");
            assert_eq!(host.weights("/hostile"), None);
        }
    }

    #[test]
    fn a_level_without_the_controller_has_no_weight() {
        let mut host = Host::new(Version::V2);
        host.set("/a.service", 30, false, None);
        fs::create_dir(host.home.path().join("cpu/a.service/payload")).unwrap();
        assert_eq!(host.weights("/a.service/payload"), Some(vec![Some(30.0), None]));
    }

    #[test]
    fn one_that_has_just_gone_is_as_it_was() {
        let mut host = Host::pod(Version::V2);
        let a = format!("{POD}/a");
        let before = host.weights(&a);
        fs::remove_dir_all(host.home.path().join("cpu").join(a.trim_start_matches('/'))).unwrap();
        assert_eq!((host.weights(&a), host.weights(&a)), (before.clone(), before));
    }

    #[test]
    fn cpus_are_the_cgroups_own_or_in_version_2_those_of_the_next_above() {
        for version in [Version::V1, Version::V2] {
            let mut host = Host::pod(version);
            host.cpus("/", "0-7\n");
            host.cpus("/kubepods.slice", "0-3\n");
            host.cpus(&format!("{POD}/b"), "2,3\n");
            let cpus = host.read([&format!("{POD}/a"), &format!("{POD}/b"), "/"]).map(|placed| placed.cpus);
            let inherited = (version == Version::V2).then_some("0-3");
            let cpus: Vec<Option<&str>> = cpus.iter().map(Option::as_deref).collect();
            assert_eq!(cpus, [inherited, Some("2,3"), Some("0-7")], "{version:?}");
        }
    }

    #[test]
    fn those_that_are_gone_are_forgotten_with_all_that_nobody_needs_above() {
        let mut host = Host::pod(Version::V2);
        host.set(SERVICE, 100, false, None);
        host.read([&format!("{POD}/a"), SERVICE]);
        host.levels.keep(|id| id == CgroupId(12));
        let mut left: Vec<&str> = host.levels.nodes.keys().map(|path| &**path).collect();
        left.sort_unstable();
        assert_eq!(left, ["/", "/system.slice", SERVICE]);
        assert_eq!(host.levels.lists.len(), 1);
    }
}
