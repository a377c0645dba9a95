//! Tasks start, sleep and wake up, as the trace demands.

use std::{cmp::Ordering, collections::VecDeque};

use super::Host;
use crate::{
    diagnosis::simulation::{
        Arrivals, Demand,
        fair::Rest,
        shared::{State, Task},
    },
    random::Random,
};

/// Up to this many tasks are created even if there are fewer bursts.
const FEW: u32 = 16;

/// The source of a cgroup's bursts. It has its own random numbers, so they do not depend on other cgroups.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) random: Random,
    /// How many of its tasks sleep at times, and those.
    pub(super) size: usize,
    pub(super) sleepers: Vec<usize>,
    pub(super) spinners: Vec<usize>,
    /// How long a task sleeps on average, in seconds.
    pub(super) sleep: f64,
    /// CPU times of the bursts to come.
    pub(super) bursts: VecDeque<f64>,
    /// Mean burst of a source that never runs out.
    pub(super) endless: Option<f64>,
}

/// The coming wakeup of a task.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Wakeup {
    pub(super) at: f64,
    pub(super) task: usize,
}

impl Source {
    pub(super) fn new(seed: u64, number: u64) -> Self {
        Self {
            random: Random::new(seed, number),
            size: 0,
            sleepers: Vec::new(),
            spinners: Vec::new(),
            sleep: 0.0,
            bursts: VecDeque::new(),
            endless: None,
        }
    }

    /// Adds bursts: exponentially distributed, with the measured total. Late bursts are made up for.
    pub(super) fn expect(&mut self, demand: &Demand) {
        let late = self.bursts.len();
        self.bursts.extend((0..demand.bursts).map(|_| self.random.exponential()));
        let drawn: f64 = self.bursts.range(late..).sum();
        self.bursts.range_mut(late..).for_each(|burst| *burst *= demand.work() / drawn);
        self.sleep = demand.pause * f64::from(demand.bursts) / self.bursts.len().max(1) as f64;
    }

    /// The next burst, if there is one.
    pub(super) fn next(&mut self) -> Option<f64> {
        let another = self.endless.map(|mean| mean * self.random.exponential());
        another.or_else(|| self.bursts.pop_front())
    }
}

impl Ord for Wakeup {
    /// The earliest wakeup is the greatest, so that it is on top of the heap.
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

impl Host<'_> {
    /// Sets what a cgroup asks for in the next step.
    pub(super) fn ask(&mut self, group: usize, demand: Option<&Demand>) {
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
        // Not many more tasks than bursts. With fewer tasks, each sleeps for less time.
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

    pub(super) fn make(&mut self, group: usize) -> usize {
        self.shared.tasks.push(Task {
            group,
            state: State::Done,
            cpu: None,
            recent: None,
            left: 0.0,
            switching: 0.0,
            waits_since: 0.0,
            rest: Rest::default(),
        });
        self.shared.tasks.len() - 1
    }

    /// From now on, `count` tasks of a cgroup never sleep.
    pub(super) fn spin(&mut self, group: usize, count: usize) {
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
    pub(super) fn doze(&mut self, task: usize) {
        let source = &mut self.sources[self.shared.tasks[task].group];
        let at = self.now + source.sleep * source.random.exponential();
        self.shared.tasks[task].state = State::Asleep;
        self.asleep.push(Wakeup { at, task });
    }

    /// A task wakes up. If there is no burst for it, it stays asleep until there is one.
    pub(super) fn wake(&mut self, task: usize) {
        let source = &mut self.sources[self.shared.tasks[task].group];
        let is_one = source.sleepers.iter().take(source.size).any(|&one| one == task);
        // A surplus task leaves its work to the others.
        match is_one.then(|| source.next()).flatten() {
            Some(burst) => self.start(task, burst),
            None => self.shared.tasks[task].state = State::Done,
        }
    }
}
