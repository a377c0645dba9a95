//! The tasks of all cgroups on all CPUs, from event to event.

use std::{
    cmp::Ordering,
    collections::{BinaryHeap, VecDeque},
};

use super::{
    Arrivals, Demand, Dynamic, Group, Kernel, Policy, Step, Switching, Trace,
    cpu::Cpu,
    credit::Credits,
    fair::{Entity, LOAD_TIME, Rest, Who},
};
use crate::random::Random;

/// What became of the cgroups.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// By their number.
    pub groups: Vec<Served>,
    /// Switches away from a task.
    pub switches: f64,
    /// What they took, in seconds.
    pub switching: f64,
    /// What had become of the cgroups by half of the time.
    pub half: Vec<Served>,
}

/// What became of one, in seconds of all its tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Served {
    /// CPU time that it got.
    pub cpu: f64,
    /// Of that, what was not taken by switches.
    pub work: f64,
    /// Time that its tasks were runnable without it.
    pub wait: f64,
}

impl Outcome {
    /// All waits, in seconds.
    pub fn wait(&self) -> f64 {
        self.groups.iter().map(|group| group.wait).sum()
    }

    /// All CPU time, in seconds.
    pub fn cpu(&self) -> f64 {
        self.groups.iter().map(|group| group.cpu).sum()
    }
}

/// Simulates what `trace` asks for.
pub fn run(trace: &Trace, kernel: &Kernel, switching: &Switching, policy: &Policy, seed: u64) -> Outcome {
    let mut host = Host::new(trace, kernel, switching, policy, seed);
    for (number, step) in trace.steps.iter().enumerate() {
        if number == trace.steps.len() / 2 {
            host.shared.outcome.half = host.shared.outcome.groups.clone();
        }
        host.step(step);
    }
    host.shared.outcome
}

/// What all CPUs know.
#[derive(Debug)]
pub(super) struct Shared<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) tree: Vec<Group>,
    /// The load of each cgroup on all CPUs, as they told of it last (`tg->load_avg`).
    pub(super) loads: Vec<f64>,
    /// The cgroup in whose queue the tasks of each compete.
    places: Vec<Option<usize>>,
    /// From the root down to each cgroup, all that have a queue.
    lines: Vec<Vec<Who>>,
    policy: &'a Policy,
    tasks: Vec<Task>,
    quotas: Vec<Quota>,
    real_time: Vec<bool>,
    slices: Vec<f64>,
    pub(super) credits: Credits,
    outcome: Outcome,
    /// Cgroups whose quota was used up just now, and those that wait for the next period.
    used_up: Vec<usize>,
    throttled: Vec<usize>,
}

#[derive(Clone, Debug)]
struct Task {
    group: usize,
    state: State,
    /// The CPU that it ran on last, and the one before (`recent_used_cpu`).
    cpu: Option<usize>,
    recent: Option<usize>,
    /// CPU time that it still needs before it sleeps. Without end for one that never does.
    left: f64,
    /// The part of that which switches to and from it still take.
    switching: f64,
    rest: Rest,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Asleep,
    Runnable,
    /// Nothing wakes it before the next step asks for something.
    Done,
}

#[derive(Clone, Copy, Debug, Default)]
struct Quota {
    used: f64,
    is_throttled: bool,
    /// When it may run again.
    renews: f64,
}

/// What a cgroup is about. Its random numbers are its own: they are the same whatever becomes of the others.
#[derive(Clone, Debug)]
struct Source {
    random: Random,
    /// How many of its tasks sleep at times, and those.
    size: usize,
    sleepers: Vec<usize>,
    spinners: Vec<usize>,
    /// How long a task sleeps on average, in seconds.
    sleep: f64,
    /// Bursts to come, by their CPU time.
    bursts: VecDeque<f64>,
    /// How long one is on average where there is always another to come.
    endless: Option<f64>,
}

/// A task will wake up.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Wakeup {
    at: f64,
    task: usize,
}

impl Source {
    /// Bursts, exponentially distributed, and as much in all as was measured. Those that come late are made up for.
    fn expect(&mut self, demand: &Demand) {
        let late = self.bursts.len();
        self.bursts.extend((0..demand.bursts).map(|_| self.random.exponential()));
        let drawn: f64 = self.bursts.range(late..).sum();
        self.bursts.range_mut(late..).for_each(|burst| *burst *= demand.work() / drawn);
        self.sleep = demand.pause * f64::from(demand.bursts) / self.bursts.len().max(1) as f64;
    }

    /// The next burst, if there is one.
    fn next(&mut self) -> Option<f64> {
        let another = self.endless.map(|mean| mean * self.random.exponential());
        another.or_else(|| self.bursts.pop_front())
    }
}

struct Host<'a> {
    shared: Shared<'a>,
    arrivals: Arrivals,
    switching: &'a Switching,
    cpus: Vec<Cpu>,
    sources: Vec<Source>,
    /// Tasks that will wake up, the first one on top.
    asleep: BinaryHeap<Wakeup>,
    now: f64,
    random: Random,
    /// When cgroups are ranked anew.
    ranks: f64,
    busy: Busy,
    events: u32,
}

/// So many tasks are made without as many bursts.
const FEW: u32 = 16;
/// Events of a simulation at most, each of which looks at all CPUs.
const MOST_WORK: u64 = 500_000_000;

/// How busy the CPUs are, on average over some tens of milliseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Busy {
    part: f64,
    at: f64,
}

impl Busy {
    fn update(&mut self, now: f64, part: f64) {
        self.part = part + (self.part - part) * (-(now - self.at) / LOAD_TIME).exp();
        self.at = now;
    }

    /// Where CPUs are busy, one that wakes up is not worth a search for a free one (`SIS_UTIL`, `update_idle_cpu_scan`).
    fn allows_search(&self, cpus: usize) -> bool {
        (1.0 - (IMBALANCE * self.part).powi(2)) * cpus as f64 >= 1.0
    }
}

impl Shared<'_> {
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

    /// All that a task is inside of, from the top, and itself.
    pub(super) fn line(&self, task: usize) -> Vec<Who> {
        let above: &[Who] = self.place(task).map_or(&[], |group| &self.lines[group]);
        above.iter().copied().chain([Who::Task(task)]).collect()
    }

    /// The slice of a task, and what is kept of it.
    pub(super) fn entity(&self, task: usize) -> (f64, Rest) {
        (self.slices[self.tasks[task].group], self.tasks[task].rest)
    }

    pub(super) fn set_rest(&mut self, task: usize, rest: Rest) {
        self.tasks[task].rest = rest;
    }

    pub(super) fn is_real_time(&self, task: usize) -> bool {
        self.real_time[self.tasks[task].group]
    }

    /// Is it inside of an idle cgroup?
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

    /// What a cgroup weighs on a CPU that has `part` of its load, and had told of `told`.
    pub(super) fn weight(&self, number: usize, part: f64, told: f64) -> f64 {
        let all = self.loads[number] - told + part;
        self.tree[number].share(if all > 0.0 { (part / all).clamp(0.0, 1.0) } else { 1.0 })
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

    /// Takes the time off a cgroup's quota. Was that the last of it?
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

    /// Is a quota that it is under used up?
    fn is_held(&self, task: usize) -> bool {
        let up = std::iter::successors(self.place(task), |&number| self.tree[number].parent);
        !self.is_real_time(task) && up.into_iter().any(|number| self.is_throttled(number))
    }

    /// CPU time that a task may use before a quota is used up.
    fn quota_left(&self, task: usize) -> f64 {
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

    /// Where the lightest goes first: whether `mine` goes before `theirs`.
    pub(super) fn goes_first(&self, mine: Who, theirs: Who) -> Option<bool> {
        match (self.policy.lightest_first, mine, theirs) {
            (true, Who::Group(mine), Who::Group(theirs)) => Some(self.credits.of(mine) < self.credits.of(theirs)),
            _ => None,
        }
    }

    /// Where the lightest goes first: the lightest of those that compete, unless it is a task's turn.
    pub(super) fn lightest(&self, picked: Who, all: &[Entity]) -> Who {
        if !self.policy.lightest_first || matches!(picked, Who::Task(_)) {
            return picked;
        }
        let groups = all.iter().filter(|it| !it.is_leaving).filter_map(|it| match it.who {
            Who::Group(number) => Some(number),
            Who::Task(_) => None,
        });
        let first = groups.min_by(|&a, &b| self.credits.of(a).total_cmp(&self.credits.of(b)));
        first.map_or(picked, Who::Group)
    }
}

impl<'a> Host<'a> {
    fn new(trace: &'a Trace, kernel: &'a Kernel, switching: &'a Switching, policy: &'a Policy, seed: u64) -> Self {
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
        let mut real_time = vec![false; groups];
        policy.real_time.iter().for_each(|&number| real_time[number] = true);
        let place = |number: usize| with_queue(&tree, Some(number));
        let places: Vec<Option<usize>> = (0..groups).map(place).collect();
        let line = |number: usize| {
            let up = std::iter::successors(Some(number), |&number| trace.groups[number].parent);
            let mut line: Vec<Who> = up.filter(|&number| trace.groups[number].has_queue).map(Who::Group).collect();
            line.reverse();
            line
        };
        let mut random = Random::new(seed, u64::MAX);
        let cpus = (0..trace.cpus).map(|number| Cpu::new(number, groups, kernel.tick * random.unit())).collect();
        let source = |number| Source {
            random: Random::new(seed, number),
            size: 0,
            sleepers: Vec::new(),
            spinners: Vec::new(),
            sleep: 0.0,
            bursts: VecDeque::new(),
            endless: None,
        };
        Self {
            shared: Shared {
                kernel,
                loads: vec![0.0; groups],
                lines: (0..groups).map(line).collect(),
                places,
                policy,
                tasks: Vec::new(),
                quotas: vec![Quota::default(); groups],
                real_time,
                slices,
                credits: Credits::new(&tree),
                tree,
                outcome: Outcome { groups: vec![Served::default(); groups], ..Outcome::default() },
                used_up: Vec::new(),
                throttled: Vec::new(),
            },
            arrivals: trace.arrivals,
            switching,
            cpus,
            sources: (0..).take(groups).map(source).collect(),
            asleep: BinaryHeap::new(),
            now: 0.0,
            random,
            ranks: 0.0,
            busy: Busy::default(),
            events: 0,
        }
    }

    fn step(&mut self, step: &Step) {
        let ends = self.now + step.duration;
        let mut asks = vec![None; self.sources.len()];
        step.demands.iter().for_each(|(group, demand)| asks[*group] = Some(demand));
        for (group, demand) in asks.into_iter().enumerate() {
            self.ask(group, demand);
        }
        loop {
            // Where nobody waits a timer's interrupt changes nothing.
            let ticks = self.cpus.iter().any(|cpu| cpu.len() > 1);
            let cpu = self.cpus.iter().map(|cpu| self.next_of(cpu, ticks)).enumerate();
            let cpu = cpu.min_by(|a, b| a.1.total_cmp(&b.1));
            let (cpu, on_cpu) = cpu.unwrap_or((0, f64::INFINITY));
            let wakes = self.asleep.peek().map_or(f64::INFINITY, |wakeup| wakeup.at);
            let throttled = self.shared.throttled.iter().map(|&number| self.shared.quotas[number].renews);
            let renews = throttled.fold(f64::INFINITY, f64::min);
            let ranks = if self.shared.policy.dynamic.is_some() { self.ranks } else { f64::INFINITY };
            let next = on_cpu.min(wakes).min(renews).min(ranks);
            if next >= ends {
                break;
            }
            self.events += 1;
            if u64::from(self.events) * self.cpus.len() as u64 > MOST_WORK {
                // No host does so much: there is no answer.
                self.shared.outcome.groups.iter_mut().for_each(|served| served.wait = f64::NAN);
                return;
            }
            self.now = next.max(self.now);
            let busy = self.cpus.iter().filter(|cpu| cpu.running.is_some()).count();
            self.busy.update(self.now, busy as f64 / self.cpus.len() as f64);
            if renews <= next {
                self.renew();
            } else if ranks <= next {
                self.rank();
            } else if wakes <= next {
                if let Some(Wakeup { task, .. }) = self.asleep.pop() {
                    self.wake(task);
                }
            } else {
                self.interrupt(cpu);
            }
            self.settle();
        }
        self.now = ends;
        (0..self.cpus.len()).for_each(|cpu| self.account(cpu));
        self.shared.credits.wait(self.now, &mut self.shared.outcome.groups);
    }

    /// When something happens next on a CPU of itself.
    fn next_of(&self, cpu: &Cpu, ticks: bool) -> f64 {
        let Some(task) = cpu.running else { return f64::INFINITY };
        let left = self.shared.tasks[task].left.min(self.shared.quota_left(task)).max(0.0);
        let tick = if ticks { cpu.tick } else { f64::INFINITY };
        (cpu.at + left).min(tick)
    }

    fn account(&mut self, cpu: usize) {
        self.cpus[cpu].account(self.now, &mut self.shared);
    }

    /// Takes in what a cgroup asks for in the next step.
    fn ask(&mut self, group: usize, demand: Option<&Demand>) {
        let Some(demand) = demand else {
            self.spin(group, 0);
            self.sources[group].endless = None;
            return;
        };
        self.shared.credits.begin(group, demand.credit, self.now);
        self.spin(group, demand.spinners as usize);
        let source = &mut self.sources[group];
        match self.arrivals {
            Arrivals::Open => source.expect(demand),
            Arrivals::Closed => {
                source.endless = (demand.tasks > 0).then_some(demand.service);
                source.sleep = demand.pause;
            }
        }
        // Not many more tasks than bursts: each of the fewer sleeps the shorter.
        source.size = demand.tasks.min(demand.bursts.max(FEW)) as usize;
        source.sleep *= source.size as f64 / f64::from(demand.tasks.max(1));
        while self.sources[group].sleepers.len() < self.sources[group].size {
            let task = self.make(group);
            self.sources[group].sleepers.push(task);
        }
        for place in 0..self.sources[group].size {
            let task = self.sources[group].sleepers[place];
            if self.shared.tasks[task].state == State::Done {
                self.doze(task);
            }
        }
    }

    fn make(&mut self, group: usize) -> usize {
        self.shared.tasks.push(Task {
            group,
            state: State::Done,
            cpu: None,
            recent: None,
            left: 0.0,
            switching: 0.0,
            rest: Rest::default(),
        });
        self.shared.tasks.len() - 1
    }

    /// So many tasks of a cgroup never sleep from now on.
    fn spin(&mut self, group: usize, count: usize) {
        while self.sources[group].spinners.len() > count {
            let Some(task) = self.sources[group].spinners.pop() else { break };
            self.halt(task);
            self.shared.tasks[task].state = State::Done;
        }
        while self.sources[group].spinners.len() < count {
            let task = self.make(group);
            self.sources[group].spinners.push(task);
            self.start(task, f64::INFINITY);
            self.settle();
        }
    }

    /// A task falls asleep.
    fn doze(&mut self, task: usize) {
        let source = &mut self.sources[self.shared.tasks[task].group];
        let at = self.now + source.sleep * source.random.exponential();
        self.shared.tasks[task].state = State::Asleep;
        self.asleep.push(Wakeup { at, task });
    }

    /// A task wakes up. Where there is no burst for it, it is not heard of again before there is.
    fn wake(&mut self, task: usize) {
        let source = &mut self.sources[self.shared.tasks[task].group];
        let is_one = source.sleepers.iter().take(source.size).any(|&one| one == task);
        // One that is too many leaves what there is to do to the others.
        match is_one.then(|| source.next()).flatten() {
            Some(burst) => self.start(task, burst),
            None => self.shared.tasks[task].state = State::Done,
        }
    }

    /// A task becomes runnable.
    fn start(&mut self, task: usize, service: f64) {
        let cpu = self.choose(task);
        self.shared.credits.runnable(self.shared.tasks[task].group, 1.0, self.now, &mut self.shared.outcome.groups);
        let one = &mut self.shared.tasks[task];
        one.recent = one.cpu;
        (one.state, one.left, one.switching, one.cpu) = (State::Runnable, service, 0.0, Some(cpu));
        self.account(cpu);
        self.cpus[cpu].push(task, &mut self.shared);
        self.cpus[cpu].check_preempt(task, &self.shared);
    }

    /// A task is not runnable any more, whatever it still wanted.
    fn halt(&mut self, task: usize) {
        let Some(cpu) = self.shared.tasks[task].cpu else { return };
        self.account(cpu);
        self.stop_running(task, cpu);
        self.cpus[cpu].remove(task, &mut self.shared);
        self.shared.credits.runnable(self.shared.tasks[task].group, -1.0, self.now, &mut self.shared.outcome.groups);
        self.settle();
    }

    fn stop_running(&mut self, task: usize, cpu: usize) {
        if self.cpus[cpu].running == Some(task) {
            self.cpus[cpu].begin(None, &self.shared);
            self.cpus[cpu].must_pick = true;
            let group = self.shared.tasks[task].group;
            self.shared.credits.running(group, -1.0, self.now, &mut self.shared.outcome.groups);
            self.count_switch(cpu);
        }
    }

    /// Where a task wakes up: on the CPU that it ran on, if that is free, else on one that is (`select_idle_sibling`).
    fn choose(&mut self, task: usize) -> usize {
        // The search begins behind the one that it ran on.
        let count = self.cpus.len();
        let from = self.shared.tasks[task].cpu.map_or_else(|| self.random.below(count), |cpu| cpu + 1);
        let shared = &self.shared;
        let one = &shared.tasks[task];
        let may = |cpu: &Cpu| shared.tree[one.group].may_run_on(cpu.number());
        if let Some(cpu) = one.cpu.filter(|&cpu| self.cpus[cpu].holds(task, shared)) {
            return cpu;
        }
        let before = one.cpu.filter(|&cpu| may(&self.cpus[cpu]));
        let is_free = |cpu: &Cpu| !self.has_work(cpu);
        let is_almost = |cpu: &Cpu| cpu.is_idle_class(shared);
        if shared.real_time[one.group] {
            let free = |cpu: &Cpu| (!cpu.real_time.is_empty(), cpu.len());
            let all = self.cpus.iter().filter(|cpu| may(cpu));
            return all.min_by_key(|cpu| (free(cpu), Some(cpu.number()) != before)).map_or(0, Cpu::number);
        }
        if let Some(cpu) = before.filter(|&cpu| is_free(&self.cpus[cpu]) || is_almost(&self.cpus[cpu])) {
            return cpu;
        }
        let recent = one.recent.filter(|&cpu| Some(cpu) != before).map(|cpu| &self.cpus[cpu]);
        if let Some(cpu) = recent.filter(|cpu| may(cpu) && (is_free(cpu) || is_almost(cpu))) {
            return cpu.number();
        }
        let around = || (0..count).map(|step| &self.cpus[(from + step) % count]).filter(|cpu| may(cpu));
        let searches = before.is_none() || self.busy.allows_search(count);
        if let Some(cpu) = around().find(|cpu| is_free(cpu) || is_almost(cpu)).filter(|_| searches) {
            return cpu.number();
        }
        before.or_else(|| around().min_by_key(|cpu| cpu.len()).map(Cpu::number)).unwrap_or(0)
    }

    /// The task that runs is done, the timer interrupts it, or a quota is used up.
    fn interrupt(&mut self, cpu: usize) {
        self.account(cpu);
        let Some(task) = self.cpus[cpu].running else { return };
        if self.shared.tasks[task].left <= 1e-9 {
            self.finish(task, cpu);
        }
        if self.cpus[cpu].tick <= self.now {
            let missed = ((self.now - self.cpus[cpu].tick) / self.shared.kernel.tick).floor() + 1.0;
            self.cpus[cpu].tick += missed * self.shared.kernel.tick;
            self.cpus[cpu].reweigh(&mut self.shared);
            self.rotate(cpu);
            self.balance(cpu);
        }
    }

    /// Real-time tasks of one priority take turns (`SCHED_RR`).
    fn rotate(&mut self, cpu: usize) {
        let cpu = &mut self.cpus[cpu];
        if cpu.real_time.len() > 1 && self.random.unit() < self.shared.kernel.tick / self.shared.kernel.real_time_slice
        {
            cpu.real_time.rotate_left(1);
            cpu.must_pick = true;
        }
    }

    /// A burst is over: the task falls asleep.
    fn finish(&mut self, task: usize, cpu: usize) {
        self.stop_running(task, cpu);
        self.cpus[cpu].sleep(task, &mut self.shared);
        self.shared.credits.runnable(self.shared.tasks[task].group, -1.0, self.now, &mut self.shared.outcome.groups);
        self.doze(task);
    }

    /// Lets all CPUs choose that have to.
    fn settle(&mut self) {
        while let Some(number) = self.shared.used_up.pop() {
            self.shared.throttled.push(number);
            self.throttle(number);
        }
        for cpu in 0..self.cpus.len() {
            if !self.cpus[cpu].must_pick {
                continue;
            }
            self.account(cpu);
            if !self.has_work(&self.cpus[cpu]) {
                self.pull(cpu);
            }
            if self.cpus[cpu].real_time.is_empty() {
                self.pull_real_time(cpu);
            }
            let before = self.cpus[cpu].running;
            let next = self.cpus[cpu].pick(&mut self.shared);
            let groups = &mut self.shared.outcome.groups;
            if next != before {
                if let Some(before) = before {
                    self.shared.credits.running(self.shared.tasks[before].group, -1.0, self.now, groups);
                }
                if let Some(next) = next {
                    self.shared.credits.running(self.shared.tasks[next].group, 1.0, self.now, groups);
                }
                if before.is_some() {
                    self.count_switch(cpu);
                }
                if let Some(next) = next {
                    let cost = self.switching.cost(self.cpus[cpu].len());
                    let task = &mut self.shared.tasks[next];
                    task.left += cost;
                    task.switching += cost;
                }
            }
            self.cpus[cpu].begin(next, &self.shared);
        }
    }

    fn count_switch(&mut self, cpu: usize) {
        self.shared.outcome.switches += 1.0;
        self.shared.outcome.switching += self.switching.cost(self.cpus[cpu].len());
    }

    /// Is there anything to run? What waits for another period of its quota is not.
    fn has_work(&self, cpu: &Cpu) -> bool {
        let is_there = |task: &usize| !self.shared.is_held(*task);
        cpu.len() > 0 && (self.shared.throttled.is_empty() || cpu.real_time.iter().chain(&cpu.fair).any(is_there))
    }

    fn throttle(&mut self, number: usize) {
        for cpu in 0..self.cpus.len() {
            self.account(cpu);
            self.cpus[cpu].throttle(number, &mut self.shared);
        }
    }

    /// Quotas of a new period.
    fn renew(&mut self) {
        let due = |number: &usize| self.shared.quotas[*number].renews <= self.now;
        let (due, others): (Vec<usize>, Vec<usize>) = self.shared.throttled.iter().partition(|number| due(number));
        self.shared.throttled = others;
        for number in due {
            let quota = &mut self.shared.quotas[number];
            (quota.is_throttled, quota.used) = (false, 0.0);
            quota.renews += self.shared.tree[number].quota.map_or(f64::INFINITY, |(_, period)| period);
            self.throttle(number);
        }
    }

    /// Who is heavy now is idle.
    fn rank(&mut self) {
        let Some(Dynamic { ranked, heavy, every, heavy_from, light_below }) = &self.shared.policy.dynamic else {
            return;
        };
        self.ranks = self.now + every;
        let credit = |number: usize| self.shared.credits.at(number, self.now);
        let fair = ranked.iter().map(|&number| credit(number)).sum::<f64>() / ranked.len().max(1) as f64;
        let mut changes = Vec::new();
        for &number in ranked {
            let is_idle = self.shared.tree[number].is_idle;
            let becomes = if self.now == 0.0 {
                heavy.contains(&number)
            } else if is_idle {
                credit(number) >= light_below * fair
            } else {
                credit(number) > heavy_from * fair
            };
            if becomes != is_idle {
                changes.push((number, becomes));
            }
        }
        if !changes.is_empty() {
            changes.iter().for_each(|&(number, is_idle)| self.shared.tree[number].is_idle = is_idle);
            for cpu in 0..self.cpus.len() {
                self.account(cpu);
                self.cpus[cpu].reweigh_all(&mut self.shared);
            }
        }
    }

    /// A CPU without work takes a task that waits on the fullest other one (`sched_balance_newidle`).
    fn pull(&mut self, cpu: usize) {
        let mut others: Vec<usize> = (0..self.cpus.len()).filter(|&other| self.cpus[other].len() > 1).collect();
        others.sort_by_key(|&other| std::cmp::Reverse(self.cpus[other].len()));
        for other in others {
            let waiting = |it: &&usize| {
                Some(**it) != self.cpus[other].running
                    && self.shared.tree[self.shared.tasks[**it].group].may_run_on(cpu)
                    && !self.shared.is_held(**it)
            };
            let real_time = self.cpus[other].real_time.iter().find(waiting).copied();
            if let Some(task) = real_time.or_else(|| self.cpus[other].fair.iter().find(waiting).copied()) {
                self.migrate(task, other, cpu);
                return;
            }
        }
    }

    /// A real-time task that waits elsewhere (`pull_rt_task`).
    fn pull_real_time(&mut self, cpu: usize) {
        let waits = |other: &Cpu| {
            let may = |it: &&usize| self.shared.tree[self.shared.tasks[**it].group].may_run_on(cpu);
            other.real_time.iter().filter(|&&task| Some(task) != other.running).find(may).copied()
        };
        let found = self
            .cpus
            .iter()
            .filter(|other| other.real_time.len() > 1)
            .find_map(|other| Some((waits(other)?, other.number())));
        if let Some((task, other)) = found {
            self.migrate(task, other, cpu);
        }
    }

    fn migrate(&mut self, task: usize, from: usize, to: usize) {
        self.account(from);
        self.account(to);
        self.cpus[from].remove(task, &mut self.shared);
        self.shared.tasks[task].cpu = Some(to);
        self.cpus[to].push(task, &mut self.shared);
        self.cpus[to].check_preempt(task, &self.shared);
    }

    /// Now and then a CPU takes load from the most loaded one (`sched_balance_rq`); one that has none is woken up for it.
    fn balance(&mut self, cpu: usize) {
        if self.cpus[cpu].len() > 1
            && let Some(idle) = (0..self.cpus.len()).find(|&other| !self.has_work(&self.cpus[other]))
        {
            self.account(idle);
            self.cpus[idle].must_pick = true;
        }
        if self.now < self.cpus[cpu].balances {
            return;
        }
        let count = self.cpus.len() as f64;
        self.cpus[cpu].balances = self.now + (count * 0.016).min(1.0);
        (0..self.cpus.len()).for_each(|other| self.account(other));
        let loads: Vec<f64> = self.cpus.iter_mut().map(Cpu::load).collect();
        let busiest = (0..loads.len()).filter(|&other| other != cpu && self.cpus[other].len() > 1);
        let Some(busiest) = busiest.max_by(|&a, &b| loads[a].total_cmp(&loads[b])) else { return };
        if loads[busiest] <= IMBALANCE * loads[cpu] {
            return;
        }
        let mean = loads.iter().sum::<f64>() / count;
        let mut imbalance = (loads[busiest] - mean).min(mean - loads[cpu]);
        let failed = self.cpus[cpu].failed.min(10);
        let tasks: Vec<usize> = self.cpus[busiest].fair.clone();
        let mut is_moved = false;
        for task in tasks {
            let may = self.shared.tree[self.shared.tasks[task].group].may_run_on(cpu);
            if imbalance <= 0.0 || self.cpus[busiest].len() <= 1 {
                break;
            }
            if Some(task) == self.cpus[busiest].running || !may {
                continue;
            }
            let load = self.cpus[busiest].load_of(task, &self.shared);
            if load / f64::from(1u32 << failed) > imbalance {
                continue;
            }
            imbalance -= load;
            is_moved = true;
            self.migrate(task, busiest, cpu);
        }
        self.cpus[cpu].failed = if is_moved { 0 } else { self.cpus[cpu].failed + 1 };
    }
}

/// The next one from `number` upwards that has a queue.
fn with_queue(groups: &[Group], number: Option<usize>) -> Option<usize> {
    std::iter::successors(number, |&number| groups[number].parent).find(|&number| groups[number].has_queue)
}

/// A CPU is left alone up to this many times the load of another (`imbalance_pct`).
const IMBALANCE: f64 = 1.17;

impl Ord for Wakeup {
    /// The one that is due first is the greatest: it is the next one of a heap.
    fn cmp(&self, other: &Self) -> Ordering {
        other.at.total_cmp(&self.at).then(other.task.cmp(&self.task))
    }
}

impl PartialOrd for Wakeup {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Eq for Wakeup {}

#[cfg(test)]
mod tests;
