//! What all CPUs know: the tree of cgroups, its tasks, and what became of them.

use super::{
    Group, Served, SimulatedKernel, SimulatedPolicy, SimulatedWaits, SimulationOutcome, Trace,
    credit::Credits,
    fair::{Entity, LOAD_TIME, Rest, Who, decay},
};
use crate::model::CgroupMode;

/// What all CPUs know.
#[derive(Debug)]
pub(super) struct Shared<'a> {
    pub(super) kernel: &'a SimulatedKernel,
    pub(super) tree: Vec<Group>,
    /// The load of each cgroup on all CPUs, as last reported by them (`tg->load_avg`).
    pub(super) loads: Vec<f64>,
    /// Fair tasks of each cgroup, with all that is inside of it, that run or wait on any CPU.
    runnable: Vec<Runnable>,
    /// How often the weight of each counts at most.
    most_times: Vec<f64>,
    /// For each cgroup, the cgroup in whose queue its tasks compete.
    pub(super) places: Vec<Option<usize>>,
    /// For each cgroup, all from the root down to it that have a queue.
    pub(super) lines: Vec<Vec<Who>>,
    pub(super) policy: &'a SimulatedPolicy,
    pub(super) tasks: Vec<Task>,
    pub(super) quotas: Vec<QuotaState>,
    pub(super) real_time: Vec<bool>,
    pub(super) lightest_first: Vec<bool>,
    pub(super) slices: Vec<f64>,
    pub(super) credits: Credits,
    pub(super) outcome: SimulationOutcome,
    /// Cgroups whose quota was just used up, and those that wait for the next period.
    pub(super) used_up: Vec<usize>,
    pub(super) throttled: Vec<usize>,
}

#[derive(Clone, Debug)]
pub(super) struct Task {
    pub(super) group: usize,
    pub(super) state: State,
    /// The CPU that it ran on last, and the one before (`recent_used_cpu`).
    pub(super) cpu: Option<usize>,
    pub(super) recent: Option<usize>,
    /// CPU time that it still needs before it sleeps. Infinite if it never does.
    pub(super) left: f64,
    /// The part of this time that switches to and from it take.
    pub(super) switching: f64,
    /// Since when it has been waiting for a CPU, if it does.
    pub(super) waits_since: f64,
    pub(super) rest: Rest,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Asleep,
    Runnable,
    /// Asleep until the next step asks for something.
    Done,
}

/// How many are runnable, and on average over some tens of milliseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Runnable {
    tasks: usize,
    mean: f64,
    /// When that was the mean.
    at: f64,
}

impl Runnable {
    fn mean(self, now: f64) -> f64 {
        let tasks = self.tasks as f64;
        tasks + (self.mean - tasks) * decay(now - self.at, LOAD_TIME)
    }

    fn change(&mut self, change: isize, now: f64) {
        *self = Self { tasks: self.tasks.saturating_add_signed(change), mean: self.mean(now), at: now };
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct QuotaState {
    pub(super) used: f64,
    pub(super) is_throttled: bool,
    /// When the next period begins.
    pub(super) renews: f64,
}

impl<'a> Shared<'a> {
    pub(super) fn new(trace: &Trace, kernel: &'a SimulatedKernel, policy: &'a SimulatedPolicy) -> Self {
        let groups = trace.groups.len();
        let mut tree = trace.groups.clone();
        for &(number, weight) in &policy.weights {
            (tree[number].weight, tree[number].is_idle) = (weight.weight, weight.is_idle);
        }
        for (group, asked) in tree.iter_mut().zip(&trace.groups) {
            group.parent = with_queue(&trace.groups, asked.parent);
        }
        let mut slices = vec![kernel.slice; groups];
        policy.slices.iter().for_each(|&(number, slice)| slices[number] = slice);
        let these = |numbers: &[usize]| {
            let mut these = vec![false; groups];
            numbers.iter().for_each(|&number| these[number] = true);
            these
        };
        let line = |number: usize| {
            let up = std::iter::successors(Some(number), |&number| trace.groups[number].parent);
            let mut line: Vec<Who> = up.filter(|&number| trace.groups[number].has_queue).map(Who::Group).collect();
            line.reverse();
            line
        };
        Self {
            kernel,
            loads: vec![0.0; groups],
            runnable: vec![Runnable::default(); groups],
            most_times: trace.groups.iter().map(|it| CgroupMode::most_times_in(&it.cpus, kernel.most_times)).collect(),
            lines: (0..groups).map(line).collect(),
            places: (0..groups).map(|number| with_queue(&tree, Some(number))).collect(),
            policy,
            tasks: Vec::new(),
            quotas: vec![QuotaState::default(); groups],
            real_time: these(&policy.real_time),
            lightest_first: these(&policy.lightest_first),
            slices,
            credits: Credits::new(&tree),
            tree,
            outcome: SimulationOutcome {
                groups: vec![Served::default(); groups],
                waits: vec![SimulatedWaits::default(); groups],
                ..SimulationOutcome::default()
            },
            used_up: Vec::new(),
            throttled: Vec::new(),
        }
    }

    /// The cgroup in whose queue a task competes; `None` is the root's.
    pub(super) fn place(&self, task: usize) -> Option<usize> {
        self.places[self.tasks[task].group]
    }

    /// The cgroup in whose queue one competes; `None` is the root's.
    pub(super) fn parent(&self, who: Who) -> Option<usize> {
        match who {
            Who::Task(task) => self.place(task),
            Who::Group(number) => self.tree[number].parent,
        }
    }

    /// All ancestors of a task that have a queue, from the top, and the task itself.
    pub(super) fn line(&self, task: usize) -> impl Iterator<Item = Who> {
        let above: &[Who] = self.place(task).map_or(&[], |group| &self.lines[group]);
        above.iter().copied().chain([Who::Task(task)])
    }

    /// The lines of two tasks from where they part; all of the first if there is no second one.
    pub(super) fn parting(
        &self,
        one: usize,
        other: Option<usize>,
    ) -> (impl Iterator<Item = Who>, impl Iterator<Item = Who>) {
        let mut of_one = self.line(one).peekable();
        let mut of_other = other.into_iter().flat_map(|task| self.line(task)).peekable();
        while of_one.peek().is_some() && of_one.peek() == of_other.peek() {
            of_one.next();
            of_other.next();
        }
        (of_one, of_other)
    }

    /// The slice of a task, and its kept state.
    pub(super) fn entity(&self, task: usize) -> (f64, Rest) {
        (self.slices[self.tasks[task].group], self.tasks[task].rest)
    }

    pub(super) fn set_rest(&mut self, task: usize, rest: Rest) {
        self.tasks[task].rest = rest;
    }

    pub(super) fn is_real_time(&self, task: usize) -> bool {
        self.real_time[self.tasks[task].group]
    }

    /// Is it inside of a cgroup that is idle (`cpu.idle`)?
    pub(super) fn is_idle(&self, task: usize) -> bool {
        let mut group = self.place(task);
        while let Some(number) = group {
            if self.tree[number].is_idle {
                return true;
            }
            group = self.tree[number].parent;
        }
        false
    }

    /// The weight of a cgroup on a CPU that has `part` of its load, and last reported `told`.
    pub(super) fn weight(&self, number: usize, part: f64, told: f64, now: f64) -> f64 {
        let all = self.loads[number] - told + part;
        let most_times = self.most_times[number];
        let times = if most_times > 1.0 { CgroupMode::times(self.runnable[number].mean(now), most_times) } else { 1.0 };
        self.tree[number].share(if all > 0.0 { (part / all).clamp(0.0, 1.0) } else { 1.0 }, times)
    }

    /// A fair task begins or ends to run or wait on a CPU.
    pub(super) fn count(&mut self, task: usize, change: isize, now: f64) {
        let mut group = self.place(task).filter(|_| self.kernel.most_times > 1.0);
        while let Some(number) = group {
            self.runnable[number].change(change, now);
            group = self.tree[number].parent;
        }
    }

    pub(super) fn is_throttled(&self, number: usize) -> bool {
        self.quotas[number].is_throttled
    }

    /// Books the time that a task ran.
    pub(super) fn worked(&mut self, task: usize, time: f64) {
        let task = &mut self.tasks[task];
        task.left -= time;
        let switched = task.switching.min(time);
        task.switching -= switched;
        let served = &mut self.outcome.groups[task.group];
        served.cpu += time;
        served.work += time - switched;
    }

    /// Deducts time from a cgroup's quota. Returns whether that used it up.
    pub(super) fn use_up(&mut self, number: usize, time: f64, now: f64) -> bool {
        let Some((most, period)) = self.tree[number].quota else { return false };
        let quota = &mut self.quotas[number];
        if now >= quota.renews {
            quota.used = 0.0;
            quota.renews = (now / period).floor() * period + period;
        }
        quota.used += time;
        let is_over = quota.used >= most - 1e-9 && !quota.is_throttled;
        if is_over {
            quota.is_throttled = true;
            self.used_up.push(number);
        }
        is_over
    }

    /// Is the quota of a cgroup that the task is inside of used up?
    pub(super) fn is_held(&self, task: usize) -> bool {
        let up = std::iter::successors(self.place(task), |&number| self.tree[number].parent);
        !self.is_real_time(task) && up.into_iter().any(|number| self.is_throttled(number))
    }

    /// CPU time that a task may use before a quota is used up.
    pub(super) fn quota_left(&self, task: usize) -> f64 {
        if self.is_real_time(task) {
            return f64::INFINITY;
        }
        let mut group = self.place(task);
        let mut left = f64::INFINITY;
        while let Some(number) = group {
            if let Some((most, _)) = self.tree[number].quota {
                left = left.min((most - self.quotas[number].used).max(0.0));
            }
            group = self.tree[number].parent;
        }
        left
    }

    /// With `lightest_first`: does `mine` go before `theirs`?
    pub(super) fn goes_first(&self, mine: Who, theirs: Who, now: f64) -> Option<bool> {
        let (mine, theirs) = (self.ranked(mine)?, self.ranked(theirs)?);
        Some(self.credits.at(mine, now) < self.credits.at(theirs, now))
    }

    /// The cgroup, if it is ranked by `lightest_first`.
    fn ranked(&self, who: Who) -> Option<usize> {
        match who {
            Who::Group(number) if self.lightest_first[number] => Some(number),
            _ => None,
        }
    }

    /// The lightest of those that compete and are ranked by `lightest_first`, if `picked` is one. Otherwise `picked`.
    pub(super) fn lightest(&self, picked: Who, all: &[Entity], now: f64) -> Who {
        if self.ranked(picked).is_none() {
            return picked;
        }
        let groups = all.iter().filter(|it| !it.is_leaving).filter_map(|it| self.ranked(it.who));
        let first = groups.min_by(|&a, &b| self.credits.at(a, now).total_cmp(&self.credits.at(b, now)));
        first.map_or(picked, Who::Group)
    }
}

/// The nearest one from `number` upwards that has a queue.
fn with_queue(groups: &[Group], number: Option<usize>) -> Option<usize> {
    std::iter::successors(number, |&number| groups[number].parent).find(|&number| groups[number].has_queue)
}
