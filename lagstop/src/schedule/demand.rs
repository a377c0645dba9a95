//! What the cgroup tree says: weights, quotas, and who used how much lately.

use std::{
    collections::{HashMap, HashSet},
    time::{Duration, Instant},
};

use globset::GlobSet;

use super::shares::{Node, smoothed};
use crate::{
    host::{CpuTime, GroupDirectory, Hierarchy, HostError, level},
    model::{CgroupId, GroupBy, Level, Nanos},
};

/// A cgroup with a quota, which sched_ext schedulers do not enforce.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IgnoredQuota {
    /// Path from the root of its hierarchy.
    pub path: String,
}

/// What is known of a cgroup from before.
#[derive(Clone, Copy, Debug, Default)]
struct Before {
    turns: u64,
    used: Nanos,
    /// Tasks and CPUs on average; `None` while the programs have not told yet.
    averages: Option<(f64, f64)>,
    /// CPU time of a turn on average, in seconds, once there was one.
    turn: Option<f64>,
    /// Turns in the time that was read last.
    lately: u64,
    is_active: bool,
    is_assumed: bool,
}

impl Before {
    /// What follows from what the programs say as of `time` later.
    fn then(self, seen: Seen, time: Duration) -> Self {
        let Seen { turns, tasks, used } = seen;
        let lately = turns.saturating_sub(self.turns);
        let new = used.saturating_sub(self.used);
        let now = (tasks as f64, new.seconds() / time.as_secs_f64().max(0.001));
        let smooth = |(tasks, cpus)| (smoothed(tasks, now.0), smoothed(cpus, now.1));
        let turn = match new.mean(lately) {
            // What was learnt before the start has no turns.
            Some(now) if self.averages.is_some() => {
                Some(self.turn.map_or(now.seconds(), |turn| smoothed(turn, now.seconds())))
            }
            _ => self.turn,
        };
        let averages = Some(self.averages.map_or(now, smooth));
        let is_active = turns != self.turns || tasks > 0;
        Self { turns, used, averages, turn, lately, is_active, is_assumed: false }
    }

    /// What is assumed until there are new averages: all that want to run now go on wanting it. Who ran since and sleeps again wants
    /// no more than before.
    fn assumed(self, seen: Seen) -> Self {
        let (tasks, used) = self.averages.unwrap_or_default();
        let is_active = self.is_active || seen.turns != self.turns || seen.tasks > 0;
        let all = tasks.max(seen.tasks as f64);
        Self { is_active, averages: Some((all, used)), is_assumed: all > tasks, ..self }
    }
}

/// What the programs say of a cgroup at a moment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    /// Turns that its tasks have had so far.
    pub(super) turns: u64,
    /// Tasks that run or wait.
    pub(super) tasks: u64,
    /// CPU time used so far.
    pub(super) used: Nanos,
}

/// Reads the tree again and again.
pub(super) struct DemandReader {
    hierarchy: Hierarchy,
    /// Cgroups that are ranked, by path; all where `None`.
    only: Option<GlobSet>,
    before: HashMap<CgroupId, Before>,
    entitled: Option<Entitled>,
}

/// What the files of the tree said when it was read.
struct Entitled {
    groups: Vec<GroupDirectory>,
    levels: Vec<Level>,
    /// Those that are in it, and those that were looked for in vain.
    known: HashSet<CgroupId>,
    at: Instant,
}

/// How often these files are read: three of each cgroup.
const LOOK: Duration = Duration::from_secs(5);

/// The tree at a moment.
pub(super) struct Tree {
    pub(super) groups: Vec<GroupDirectory>,
    /// One for each group.
    pub(super) nodes: Vec<Node>,
    pub(super) quotas: Vec<IgnoredQuota>,
    /// Of the cgroups with a weight that is not the default, or with `cpu.idle`.
    pub(super) weighted: usize,
}

impl DemandReader {
    pub(super) fn new(only: Option<GlobSet>) -> Result<Self, HostError> {
        Ok(Self { hierarchy: Hierarchy::find(GroupBy::Scheduler)?, only, before: HashMap::new(), entitled: None })
    }

    /// Are there no cgroups outside of the tree, as there are for a cgroup namespace?
    pub(super) fn sees_all(&self) -> bool {
        self.hierarchy.is_whole()
    }

    /// Puts together what the tree says and what the programs know of each cgroup, `seen`, as of `time` after the last time.
    /// The tree is read again when it is a while since, or they know one that is not in it.
    pub(super) fn read(&mut self, seen: &HashMap<CgroupId, Seen>, time: Duration) -> Result<Tree, HostError> {
        let entitled = self.entitled(seen)?;
        let there: HashSet<CgroupId> = entitled.groups.iter().map(|group| group.id).collect();
        self.before.retain(|id, _| there.contains(id));
        for id in there {
            let before = self.before.entry(id).or_default();
            *before = match seen.get(&id) {
                Some(&seen) => before.then(seen, time),
                None => Before { lately: 0, is_active: false, ..*before },
            };
        }
        let tree = self.tree(&entitled, |_, before| before);
        self.entitled = Some(entitled);
        Ok(tree)
    }

    /// The tree as it was read, where all that want to run now are assumed to go on wanting it. Nothing is learnt from that.
    pub(super) fn assume(&mut self, seen: &HashMap<CgroupId, Seen>) -> Result<Tree, HostError> {
        let entitled = self.entitled(seen)?;
        let tree = self.tree(&entitled, |id, before| match seen.get(&id) {
            Some(&seen) => before.assumed(seen),
            None => before,
        });
        self.entitled = Some(entitled);
        Ok(tree)
    }

    fn entitled(&mut self, seen: &HashMap<CgroupId, Seen>) -> Result<Entitled, HostError> {
        match self.entitled.take() {
            Some(entitled) if entitled.at.elapsed() < LOOK && seen.keys().all(|id| entitled.known.contains(id)) => {
                Ok(entitled)
            }
            _ => self.look(seen.keys().copied()),
        }
    }

    fn tree(&self, entitled: &Entitled, now: impl Fn(CgroupId, Before) -> Before) -> Tree {
        let (mut nodes, mut quotas, mut weighted) = (Vec::with_capacity(entitled.groups.len()), Vec::new(), 0);
        for (group, level) in entitled.groups.iter().zip(&entitled.levels) {
            if level.quota_ns.is_some() {
                quotas.push(IgnoredQuota { path: group.path.clone() });
            }
            if level.is_idle || level.weight.is_some_and(|weight| weight != Level::DEFAULT_WEIGHT) {
                weighted += 1;
            }
            let now = now(group.id, self.before.get(&group.id).copied().unwrap_or_default());
            let (tasks, used) = now.averages.unwrap_or_default();
            nodes.push(Node {
                parent: group.parent,
                weight: level.weight.unwrap_or(Level::DEFAULT_WEIGHT),
                is_active: now.is_active,
                tasks,
                is_assumed: now.is_assumed,
                used,
                turns: now.lately,
                turn: now.turn.map(Duration::from_secs_f64),
                is_ranked: self.only.as_ref().is_none_or(|only| only.is_match(&group.path)),
            });
        }
        Tree { groups: entitled.groups.clone(), nodes, quotas, weighted }
    }

    /// Reads the tree, in which these may be, and may not be any more.
    fn look(&self, looked_for: impl Iterator<Item = CgroupId>) -> Result<Entitled, HostError> {
        let groups = self.hierarchy.groups()?;
        let of = |group: &GroupDirectory| match group.parent {
            // What cannot be read is gone by now.
            Some(_) => level(self.hierarchy.version, &group.directory).unwrap_or_default(),
            None => Level::DEFAULT,
        };
        let known = groups.iter().map(|group| group.id).chain(looked_for).collect();
        Ok(Entitled { levels: groups.iter().map(of).collect(), groups, known, at: Instant::now() })
    }

    /// Forgets what was told so far: it is not from the programs, which count from 0.
    pub(super) fn begin(&mut self) {
        self.before.clear();
    }

    /// Begins to read CPU time from the kernel's own files, for credits to begin with.
    pub(super) fn learn(&self) -> Result<Learning, HostError> {
        let mut cpu_time = CpuTime::new(&self.hierarchy);
        let first = self.hierarchy.groups()?;
        let began = cpu_time.read(&first);
        let began = first.iter().zip(began).filter_map(|(group, time)| Some((group.id, time?))).collect();
        Ok(Learning { hierarchy: self.hierarchy.clone(), cpu_time, began })
    }
}

/// CPU time of cgroups since some moment.
pub(super) struct Learning {
    hierarchy: Hierarchy,
    cpu_time: CpuTime,
    began: HashMap<CgroupId, Nanos>,
}

impl Learning {
    /// CPUs that each cgroup used over `time`, without those inside.
    pub(super) fn used(&mut self, time: Nanos) -> Result<HashMap<CgroupId, f64>, HostError> {
        let groups = self.hierarchy.groups()?;
        let now = self.cpu_time.read(&groups);
        let used = |(group, now): (&GroupDirectory, Option<Nanos>)| {
            let began = self.began.get(&group.id).copied().unwrap_or(Nanos::ZERO);
            Some((group.id, now?.saturating_sub(began).0 as f64 / time.0.max(1) as f64))
        };
        Ok(groups.iter().zip(now).filter_map(used).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Version;
    use globset::{Glob, GlobSetBuilder};
    use std::{fs, os::unix::fs::MetadataExt as _};

    #[test]
    fn weights_quotas_and_activity_are_read() {
        let home = tempfile::tempdir().unwrap();
        for (path, files) in [
            ("a", &[("cpu.weight", "300\n"), ("cpu.max", "max 100000\n"), ("cpu.idle", "0\n")][..]),
            ("b", &[("cpu.weight", "100\n"), ("cpu.max", "20000 100000\n"), ("cpu.idle", "0\n")]),
        ] {
            fs::create_dir(home.path().join(path)).unwrap();
            files.iter().for_each(|(name, text)| fs::write(home.path().join(path).join(name), text).unwrap());
        }
        let hierarchy = Hierarchy::at(Version::V2, home.path(), GroupBy::Scheduler);
        let only = GlobSetBuilder::new().add(Glob::new("/a*").unwrap()).build().unwrap();
        let mut demand = DemandReader { hierarchy, only: Some(only), before: HashMap::new(), entitled: None };
        let id = CgroupId(fs::metadata(home.path().join("a")).unwrap().ino());
        let used = Nanos(500_000_000);
        let seen = HashMap::from([(id, Seen { turns: 5, tasks: 1, used })]);
        let second = Duration::from_secs(1);
        let tree = demand.read(&seen, second).unwrap();
        assert_eq!(tree.quotas, [IgnoredQuota { path: "/b".to_owned() }]);
        assert_eq!(tree.weighted, 1);
        let place = |path: &str| tree.groups.iter().position(|group| group.path == path).unwrap();
        let (a, b) = (&tree.nodes[place("/a")], &tree.nodes[place("/b")]);
        assert_eq!((a.weight, a.is_active, a.is_ranked), (300.0, true, true));
        assert_eq!((b.weight, b.is_active, b.is_ranked), (100.0, false, false));
        assert_eq!((a.tasks, a.used), (1.0, 0.5));
        let again = demand.read(&HashMap::from([(id, Seen { turns: 5, tasks: 0, used })]), second).unwrap();
        let a = &again.nodes[place("/a")];
        assert!(!a.is_active && a.used < 0.5, "it had no further turn");
        assert_eq!(a.turn, None, "it had none since it was first seen");
        let third = Seen { turns: 8, tasks: 0, used: Nanos(506_000_000) };
        let tree = demand.read(&HashMap::from([(id, third)]), second).unwrap();
        assert_eq!(tree.nodes[place("/a")].turn, Some(Duration::from_millis(2)));
        let new = home.path().join("c");
        fs::create_dir(&new).unwrap();
        fs::write(new.join("cpu.weight"), "100\n").unwrap();
        assert_eq!(demand.read(&HashMap::new(), second).unwrap().groups.len(), tree.groups.len(), "not so soon");
        let new = CgroupId(fs::metadata(new).unwrap().ino());
        let waits = HashMap::from([(new, Seen { tasks: 1, ..Seen::default() }), (id, third)]);
        let joined = demand.assume(&waits).unwrap();
        let node = joined.groups.iter().position(|group| group.id == new).map(|n| &joined.nodes[n]).unwrap();
        assert_eq!(
            (node.is_active, node.tasks, node.used),
            (true, 1.0, 0.0),
            "it is assumed to want all that it can get"
        );
        let a = &joined.nodes[place("/a")];
        assert_eq!((a.is_active, a.turns, a.turn), (false, 0, Some(Duration::from_millis(2))), "as it was read");
        let third = Seen { tasks: 3, ..third };
        let woken = demand.assume(&HashMap::from([(id, third)])).unwrap();
        let a = &woken.nodes[place("/a")];
        assert_eq!((a.is_active, a.tasks, a.is_assumed), (true, 3.0, true));
        let ran = Seen { turns: 9, tasks: 0, ..third };
        let slept = demand.assume(&HashMap::from([(id, ran)])).unwrap();
        let a = &slept.nodes[place("/a")];
        assert!(a.is_active && a.tasks < 0.75 && !a.is_assumed, "it wants no more: {a:?}");
        let again = demand.assume(&HashMap::new()).unwrap();
        let node = again.groups.iter().position(|group| group.id == new).map(|n| &again.nodes[n]).unwrap();
        assert!(!node.is_active, "nothing was learnt from that");
        let all = demand.read(&HashMap::from([(new, Seen::default()), (id, third)]), second).unwrap();
        assert_eq!(all.groups.len(), tree.groups.len() + 1, "it runs");
        assert!(all.nodes[place("/a")].tasks < 2.0, "a moment says little");
        let gone = HashMap::from([(CgroupId(1 << 40), Seen::default())]);
        let at = |demand: &DemandReader| demand.entitled.as_ref().unwrap().at;
        demand.assume(&gone).unwrap();
        let looked = at(&demand);
        demand.assume(&gone).unwrap();
        assert_eq!(at(&demand), looked, "what is not there is looked for once");
    }
}
