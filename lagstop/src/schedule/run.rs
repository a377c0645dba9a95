//! From the first look at the host to the end: what each cgroup's share is, once a second, and where many wake at once, sooner.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use globset::GlobSet;
use lagstop_scheduler_ebpf::{ANY_GROUP, CORE, Group, Plan as GroupPlan, ROOT_GROUP};

use super::{
    attached::{AttachedScheduler, SchedulerCounts, SchedulerEnd},
    demand::{DemandReader, IgnoredQuota, Learning, Seen, Tree},
    error::SchedulerError,
    plan::SchedulePlan,
    real_time_guard::RealTimeGuard,
    shares::{CpuShares, longest_turn, share, shares},
    status::GroupStatus,
    topology::topology,
    tuning::{Credit, Tuning},
};
use crate::{
    host::{Cpus, GroupDirectory, ThreadCounts},
    kernel::{Facts, loaded_scheduler},
    model::{CgroupId, Nanos},
};

/// How to schedule.
#[derive(Clone, Debug, Default)]
pub struct ScheduleOptions {
    pub tuning: Tuning,
    /// Cgroups that are ranked by what they use; all where `None`.
    pub only: Option<GlobSet>,
    /// Go on although quotas do not hold.
    pub ignore_quotas: bool,
    /// Go on although real-time tasks could hang the host.
    pub ignore_real_time: bool,
}

impl ScheduleOptions {
    /// The checks that are turned off, as flags.
    pub fn ignored(&self) -> Vec<&'static str> {
        let all = [("--ignore-quotas", self.ignore_quotas), ("--ignore-real-time", self.ignore_real_time)];
        all.into_iter().filter(|(_, is_off)| *is_off).map(|(flag, _)| flag).collect()
    }
}

/// Nothing is changed yet, and nothing is in the way.
pub struct PreparedSchedule {
    facts: Facts,
    plan: SchedulePlan,
    options: ScheduleOptions,
    demand: DemandReader,
    cpus: Cpus,
    real_time: RealTimeGuard,
    /// Cgroups below the root, those of them that are ranked, and those with a weight that is not the default.
    pub cgroups: usize,
    pub ranked: usize,
    pub weighted: usize,
    /// Quotas that will not hold.
    pub quotas: Vec<IgnoredQuota>,
}

/// Looks whether this host can be scheduled.
///
/// # Errors
/// When it cannot, and why.
pub fn prepare(options: ScheduleOptions) -> Result<PreparedSchedule, SchedulerError> {
    let facts = Facts::probe(None);
    let plan = SchedulePlan::from_facts(&facts)?;
    match loaded_scheduler() {
        Some(name) if !name.is_empty() => return Err(SchedulerError::Loaded(name)),
        Some(_) => {}
        None => return Err(SchedulerError::NoSchedExt { release: facts.release }),
    }
    let mut demand = DemandReader::new(options.only.clone())?;
    let Tree { nodes, quotas, weighted, .. } = demand.read(&HashMap::new(), RunningScheduler::REFRESH)?;
    refuse_quotas(&quotas, options.ignore_quotas)?;
    if !demand.sees_all() {
        return Err(SchedulerError::HiddenCgroups);
    }
    let below = || nodes.iter().filter(|node| node.parent.is_some());
    if below().next().is_none() {
        return Err(SchedulerError::NoGroups);
    }
    Ok(PreparedSchedule {
        cgroups: below().count(),
        ranked: below().filter(|node| node.is_ranked).count(),
        weighted,
        quotas,
        cpus: Cpus::read()?,
        real_time: RealTimeGuard::begin(&facts, options.ignore_real_time)?,
        facts,
        plan,
        options,
        demand,
    })
}

fn refuse_quotas(quotas: &[IgnoredQuota], ignored: bool) -> Result<(), SchedulerError> {
    match quotas {
        [first, rest @ ..] if !ignored => Err(SchedulerError::Quotas { first: first.clone(), more: rest.len() }),
        _ => Ok(()),
    }
}

/// CPU time of cgroups since [`PreparedSchedule::learn`].
pub struct Learnt(Learning);

/// CPUs in use, from which on a cgroup is one of those that compete.
const RAN: f64 = 0.001;

/// A cgroup before LAGS schedules.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupUse {
    /// Path from the root of its hierarchy.
    pub path: String,
    /// CPUs that its own tasks used.
    pub used_cpus: f64,
    /// CPUs that it is entitled to among those that ran.
    pub share_cpus: f64,
}

impl GroupUse {
    /// What it used, in shares: what LAGS ranks by.
    pub fn of_share(&self) -> f64 {
        self.used_cpus / self.share_cpus.max(f64::MIN_POSITIVE)
    }
}

impl PreparedSchedule {
    /// Could real-time tasks hang this host while LAGS schedules?
    pub const fn fears_real_time(&self) -> bool {
        self.real_time.can_hang()
    }

    /// What was asked for.
    pub const fn options(&self) -> &ScheduleOptions {
        &self.options
    }

    /// Looks for a second what real-time tasks use, where they could hang this host.
    ///
    /// # Errors
    /// When they use much.
    pub fn look_at_real_time(&mut self) -> Result<(), SchedulerError> {
        self.real_time.look_a_second()
    }

    /// Begins to see what each cgroup uses, for credits to begin with.
    ///
    /// # Errors
    /// When cgroups cannot be read.
    pub fn learn(&self) -> Result<Learnt, SchedulerError> {
        Ok(Learnt(self.demand.learn()?))
    }

    /// Last-level caches, each of which gets a queue.
    pub fn queues(&self) -> u32 {
        topology(&self.cpus.places(), &self.cpus.online).1
    }

    /// What each cgroup that ran used in that time, and what it is entitled to, the least of their shares first.
    ///
    /// # Errors
    /// When cgroups cannot be read.
    pub fn group_uses(&mut self, learnt: Learnt, time: Duration) -> Result<Vec<GroupUse>, SchedulerError> {
        let Learnt(mut learning) = learnt;
        let used = learning.used(Nanos::from(time))?;
        let (tree, found) = self.shares(&used)?;
        let of = |(n, group): (usize, &GroupDirectory)| {
            let node = &tree.nodes[n];
            let used_cpus = used.get(&group.id).copied().filter(|used| *used >= RAN)?;
            let counts = node.parent.is_some() && node.is_ranked;
            counts.then(|| GroupUse { path: group.path.clone(), used_cpus, share_cpus: found.cpus[n] })
        };
        let mut all: Vec<GroupUse> = tree.groups.iter().enumerate().filter_map(of).collect();
        all.sort_by(|one, other| one.of_share().total_cmp(&other.of_share()));
        Ok(all)
    }

    /// The tree, and the shares of all, where cgroups use so many CPUs.
    fn shares(&mut self, used: &HashMap<CgroupId, f64>) -> Result<(Tree, CpuShares), SchedulerError> {
        // Whoever used anything is one of those that compete.
        let seen = used.iter().map(|(&id, &used)| {
            let in_time = Nanos((used * RunningScheduler::REFRESH.as_nanos() as f64) as u64);
            (id, Seen { turns: u64::from(used >= RAN), tasks: 0, used: in_time })
        });
        let tree = self.demand.read(&seen.collect(), RunningScheduler::REFRESH)?;
        self.demand.begin();
        let found = shares(&tree.nodes, self.cpus.online.len() as f64, &self.options.tuning);
        Ok((tree, found))
    }

    /// Switches the host to LAGS. Credits begin with what was learnt over so much time.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn attach(mut self, learnt: Option<(Learnt, Duration)>) -> Result<RunningScheduler, SchedulerError> {
        self.real_time.look()?;
        // Some seconds have passed since `prepare`: one may have come or gone.
        self.cpus = Cpus::read()?;
        let used = match learnt {
            Some((Learnt(mut learning), time)) => learning.used(Nanos::from(time))?,
            None => HashMap::new(),
        };
        let (tree, found) = self.shares(&used)?;
        let tuning = self.options.tuning;
        let (cpus, queues) = topology(&self.cpus.places(), &self.cpus.online);
        let seeds = seeds(&tree, &found, &used);
        let mut told = Told::default();
        let mut first = |attached: &AttachedScheduler| told.tell(attached, &tree, &found);
        let attached = AttachedScheduler::new(&self.facts, &self.plan, &tuning, (&cpus, queues), &seeds, &mut first)?;
        let Self { options, demand, cpus, real_time, .. } = self;
        let last = Last { groups: HashMap::new(), tree, found };
        let cpus = cpus.online.len() as f64;
        let now = Instant::now();
        Ok(RunningScheduler {
            attached,
            options,
            demand,
            cpus,
            real_time,
            refreshes: 0,
            told,
            last,
            refreshed: now,
            looked: now,
            took: Duration::ZERO,
        })
    }
}

/// What the programs are to know of cgroups that used so many CPUs: one that used less than its share is behind.
fn seeds(tree: &Tree, found: &CpuShares, used: &HashMap<CgroupId, f64>) -> HashMap<CgroupId, Group> {
    let seed = |(n, group): (usize, &GroupDirectory)| {
        let used = used.get(&group.id).copied().filter(|used| *used > 0.0)?;
        let behind = (1.0 - used / found.cpus[n]).max(0.0) * found.plans[n].behind as f64;
        let virtual_time = -(behind as i64);
        Some((group.id, Group { virtual_time, credit: (used * CORE as f64) as i64, ..Group::default() }))
    };
    tree.groups.iter().enumerate().filter_map(seed).collect()
}

/// Plans that the programs have already.
#[derive(Default)]
struct Told(HashMap<u64, GroupPlan>);

impl Told {
    /// The shares of all cgroups that want to run now together, in CPUs, as far as their tasks can use them. Each of the root's tasks
    /// has one.
    fn promised(&self, groups: &HashMap<CgroupId, Group>) -> f64 {
        let wants = |(_, group): &(&CgroupId, &Group)| group.runnable > 0;
        let of = |(id, group): (&CgroupId, &Group)| {
            let plan = self.0.get(&id.0).or_else(|| self.0.get(&ANY_GROUP))?;
            let (share, tasks) = (share(plan), group.runnable as f64);
            Some(if id.0 == ROOT_GROUP { share.min(1.0) * tasks } else { share.min(tasks) })
        };
        groups.iter().filter(wants).filter_map(of).sum()
    }

    /// Tells what is new.
    fn tell(&mut self, attached: &AttachedScheduler, tree: &Tree, found: &CpuShares) -> Result<(), SchedulerError> {
        let of_groups = tree.groups.iter().map(|group| group.id.0).zip(found.plans.iter().copied());
        for (id, plan) in std::iter::once((ANY_GROUP, found.any)).chain(of_groups) {
            if self.0.get(&id) != Some(&plan) {
                // If the table is full, the cgroup is treated as an unknown one.
                if attached.plan(id, plan).is_ok() {
                    self.0.insert(id, plan);
                }
            }
        }
        Ok(())
    }
}

fn seen(groups: &HashMap<CgroupId, Group>) -> HashMap<CgroupId, Seen> {
    let seen = |(&id, group): (&CgroupId, &Group)| {
        let tasks = u64::try_from(group.runnable.max(0)).unwrap_or(0);
        (id, Seen { turns: group.turns, tasks, used: Nanos(group.used.max(0).cast_unsigned()) })
    };
    groups.iter().map(seen).collect()
}

/// LAGS in force, and what it is told.
pub struct RunningScheduler {
    attached: AttachedScheduler,
    options: ScheduleOptions,
    demand: DemandReader,
    cpus: f64,
    real_time: RealTimeGuard,
    refreshes: u64,
    told: Told,
    last: Last,
    /// When all shares were last worked out from what each cgroup used.
    refreshed: Instant,
    /// When the last look ended, and how long it took.
    looked: Instant,
    took: Duration,
}

/// What was found out last.
struct Last {
    groups: HashMap<CgroupId, Group>,
    tree: Tree,
    found: CpuShares,
}

impl RunningScheduler {
    /// How often it is looked whether too much is promised.
    const LOOK: Duration = Duration::from_millis(100);
    /// How often all shares are worked out again, from what each cgroup used since.
    const REFRESH: Duration = Duration::from_secs(1);
    /// Refreshes between two looks at real-time tasks: each asks for the policy of every thread.
    const REAL_TIME_EVERY: u64 = 5;
    /// CPUs that the cgroups which want to run may have been promised together, for each that there is. Each was promised about the
    /// part that its weight has among those that are active. Where many wake at once nobody is charged enough: all fall behind as
    /// far as can be, and turns come in the order in which they are asked for.
    const MOST_PROMISED: f64 = 4.0;

    /// When [`Self::look`] is to be called next. Each look takes two switches, so there are no more than refreshes where too much cannot
    /// be promised.
    pub fn due(&self) -> Instant {
        let refresh = self.refreshed + Self::REFRESH;
        let may_promise_too_much =
            self.options.tuning.credit == Credit::Used && self.last.found.promisable > self.most_promised();
        let due = if may_promise_too_much { refresh.min(self.looked + Self::LOOK) } else { refresh };
        // Whatever there is to look at, this takes at most half of a CPU.
        due.max(self.looked + self.took)
    }

    /// Works out all shares again where it is time to, or where too much is promised. Gives how it ended, if it did.
    ///
    /// # Errors
    /// When cgroups or maps cannot be read, somebody has set a quota, or real-time tasks could hang the host.
    pub fn look(&mut self) -> Result<Option<SchedulerEnd>, SchedulerError> {
        if let Some(ended) = self.attached.ended()? {
            return Ok(Some(ended));
        }
        let began = Instant::now();
        if self.refreshed.elapsed() >= Self::REFRESH {
            self.refresh()?;
        } else if self.is_crowded() {
            let groups = self.attached.groups()?;
            if self.told.promised(&groups) > self.most_promised() {
                let tree = self.demand.assume(&seen(&groups))?;
                self.apply(groups, tree)?;
            }
        }
        self.looked = Instant::now();
        self.took = self.looked.duration_since(began);
        Ok(None)
    }

    fn most_promised(&self) -> f64 {
        Self::MOST_PROMISED * self.cpus
    }

    /// Nobody is promised more than a CPU for each runnable task, so a host that is not crowded is not looked at any closer.
    fn is_crowded(&self) -> bool {
        ThreadCounts::now().is_none_or(|threads| threads.runnable as f64 > self.most_promised())
    }

    fn refresh(&mut self) -> Result<(), SchedulerError> {
        let time = self.refreshed.elapsed();
        self.refreshed += time;
        self.refreshes += 1;
        if self.refreshes.is_multiple_of(Self::REAL_TIME_EVERY) {
            self.real_time.look()?;
        }
        let groups = self.attached.groups()?;
        let tree = self.demand.read(&seen(&groups), time)?;
        self.forget(&groups, &tree)?;
        self.apply(groups, tree)
    }

    fn apply(&mut self, groups: HashMap<CgroupId, Group>, tree: Tree) -> Result<(), SchedulerError> {
        refuse_quotas(&tree.quotas, self.options.ignore_quotas)?;
        let found = shares(&tree.nodes, self.cpus, &self.options.tuning);
        self.told.tell(&self.attached, &tree, &found)?;
        self.last = Last { groups, tree, found };
        Ok(())
    }

    fn forget(&mut self, groups: &HashMap<CgroupId, Group>, tree: &Tree) -> Result<(), SchedulerError> {
        let there: std::collections::HashSet<u64> = tree.groups.iter().map(|group| group.id.0).collect();
        let is_there = |id: u64| id == ANY_GROUP || there.contains(&id);
        let known = groups.keys().map(|id| id.0).chain(self.told.0.keys().copied());
        for id in known.filter(|id| !is_there(*id)) {
            self.attached.forget(CgroupId(id))?;
        }
        self.told.0.retain(|id, _| is_there(*id));
        Ok(())
    }

    /// How often all shares were worked out from what each cgroup used.
    pub const fn refreshes(&self) -> u64 {
        self.refreshes
    }

    /// Are there cgroups to rank? There are none where somebody took the cpu controller away.
    pub fn has_groups(&self) -> bool {
        self.last.tree.nodes.iter().any(|node| node.parent.is_some())
    }

    /// What it has done so far.
    ///
    /// # Errors
    /// When that cannot be read.
    pub fn counted(&self) -> Result<SchedulerCounts, SchedulerError> {
        self.attached.counted()
    }

    /// The cgroups that had the most turns, up to `most` of them, and the longest turn of all.
    pub fn groups(&self, most: usize) -> (Vec<GroupStatus>, Duration) {
        let Last { groups, tree, found } = &self.last;
        let by_load = self.options.tuning.credit == Credit::Paper;
        let status = |n: usize| {
            let group = &tree.groups[n];
            let state = groups.get(&group.id)?;
            Some(GroupStatus {
                path: group.path.clone(),
                share_cpus: found.cpus[n],
                tasks: tree.nodes[n].tasks,
                turns: state.turns,
                preempted: state.preempted,
                load_credit: by_load.then(|| state.credit as f64 / CORE as f64),
            })
        };
        let mut all: Vec<GroupStatus> = (0..tree.groups.len()).filter_map(status).collect();
        all.sort_by_key(|group| std::cmp::Reverse(group.turns));
        all.truncate(most);
        (all, longest_turn(&found.plans))
    }

    /// Gives the host back to the kernel's own scheduler.
    ///
    /// # Errors
    /// When the reason of an end before cannot be read.
    pub fn let_go(self) -> Result<SchedulerEnd, SchedulerError> {
        self.attached.let_go()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::tuning::fixed_point;

    #[test]
    fn promised_is_what_those_have_that_want_to_run() {
        let plan = |share: f64| GroupPlan { factor: fixed_point(1.0 / share), ..GroupPlan::default() };
        let told = Told(HashMap::from([(ANY_GROUP, plan(0.5)), (7, plan(0.25)), (8, plan(2.0))]));
        let groups = |runnable: [(u64, i64); 3]| {
            runnable.map(|(id, runnable)| (CgroupId(id), Group { runnable, ..Group::default() })).into()
        };
        let promised = told.promised(&groups([(7, 2), (8, 0), (9, 1)]));
        assert!((promised - 0.75).abs() < 1e-3, "{promised}: a known one, and one that has no plan of its own");
        let promised = told.promised(&groups([(ROOT_GROUP, 3), (8, 0), (9, 0)]));
        assert!((promised - 1.5).abs() < 1e-3, "{promised}: each of the root's tasks has it");
        let promised = told.promised(&groups([(7, 0), (8, 1), (9, 0)]));
        assert!((promised - 1.0).abs() < 1e-3, "{promised}: a task uses one CPU");
    }
}
