//! The tasks of all cgroups on all CPUs, from event to event.

use std::{
    cmp::Ordering,
    collections::{BinaryHeap, VecDeque},
};

use super::{
    Demand, Policy, Step, Switching, Trace,
    cpu::{Cpu, Job},
    policy::Rank,
};
use crate::random::Random;

/// What became of the cgroups.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// By their number.
    pub groups: Vec<Served>,
    /// Switches from one task to another.
    pub switches: f64,
    /// What they took, in seconds.
    pub switching: f64,
    /// CPU time in which tasks took turns, in seconds.
    pub shared: f64,
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
pub fn run(trace: &Trace, switching: &Switching, policy: Policy<'_>, seed: u64) -> Outcome {
    let mut host = Host {
        policy,
        switching,
        cpus: vec![Cpu::default(); trace.cpus.max(1)],
        groups: (0..).take(trace.groups).map(|number| Group::new(Random::new(seed, number))).collect(),
        ranks: vec![Rank::default(); trace.groups],
        asleep: BinaryHeap::new(),
        outcome: Outcome { groups: vec![Served::default(); trace.groups], ..Outcome::default() },
    };
    let mut begins = 0.0;
    for step in &trace.steps {
        host.step(step, begins);
        begins += step.duration;
    }
    let Host { cpus, mut outcome, .. } = host;
    outcome.shared = cpus.iter().map(|cpu| cpu.shared).sum();
    outcome.switching += cpus.iter().map(|cpu| cpu.switching).sum::<f64>();
    outcome.switches += switching.turns(outcome.shared);
    outcome
}

struct Host<'a> {
    policy: Policy<'a>,
    switching: &'a Switching,
    cpus: Vec<Cpu>,
    groups: Vec<Group>,
    ranks: Vec<Rank>,
    /// Tasks that will wake up, the first one on top.
    asleep: BinaryHeap<Wakeup>,
    outcome: Outcome,
}

/// What a cgroup is about. Its random numbers are its own: they are the same whatever becomes of the others.
#[derive(Clone, Debug)]
struct Group {
    random: Random,
    /// Its tasks, and those of them that are runnable and that will wake up.
    tasks: u32,
    runnable: u32,
    asleep: u32,
    /// Each of its tasks shares a CPU as if it were a cgroup.
    is_many: bool,
    /// How long a task sleeps on average, in seconds.
    sleep: f64,
    /// Bursts to come, by their CPU time.
    bursts: VecDeque<f64>,
}

/// A task will wake up.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Wakeup {
    at: f64,
    group: usize,
}

impl Host<'_> {
    fn step(&mut self, step: &Step, begins: f64) {
        let ends = begins + step.duration;
        self.serve_all(begins);
        for &(group, ref demand) in &step.demands {
            self.ranks[group] = self.policy.rank(group, demand.credit);
            let woken = self.groups[group].ask(demand);
            self.asleep.extend(woken.map(|after| Wakeup { at: begins + after, group }));
        }
        for cpu in &mut self.cpus {
            cpu.begin_step(&self.ranks, self.switching);
        }
        for &(group, ref demand) in step.demands.iter().filter(|(_, demand)| demand.never_sleeps()) {
            (0..demand.tasks).for_each(|_| self.wake(group, f64::INFINITY, begins));
        }

        loop {
            let (cpu, done) = self.next_done();
            let wakes = self.asleep.peek().map_or(f64::INFINITY, |wakeup| wakeup.at);
            if wakes.min(done) >= ends {
                break;
            }
            if done < wakes {
                self.finish(cpu, done);
            } else if let Some(Wakeup { at, group }) = self.asleep.pop()
                && let Some(service) = self.groups[group].wake()
            {
                self.wake(group, service, at);
            }
        }
        self.serve_all(ends);
    }

    /// The CPU on which a task is done next, and when.
    fn next_done(&self) -> (usize, f64) {
        let done = self.cpus.iter().map(Cpu::done_at).enumerate();
        done.min_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((0, f64::INFINITY))
    }

    fn serve_all(&mut self, now: f64) {
        (0..self.cpus.len()).for_each(|cpu| self.serve(cpu, now));
    }

    fn serve(&mut self, cpu: usize, now: f64) {
        let groups = &mut self.outcome.groups;
        self.cpus[cpu].serve(now, |job, got, worked, waited| {
            let served = &mut groups[job.group];
            served.cpu += got;
            served.work += worked;
            served.wait += waited;
        });
    }

    /// A task wakes up on the CPU with the fewest that it would have to share with. The switch away from it at the end of its
    /// burst is its own, and so is one more where it took the CPU away from another.
    fn wake(&mut self, group: usize, service: f64, now: f64) {
        let rank = self.ranks[group];
        let crowd = |cpu: &Cpu| (cpu.ahead_of(rank), cpu.len());
        let emptiest = (0..self.cpus.len()).min_by_key(|&cpu| crowd(&self.cpus[cpu])).unwrap_or(0);
        let cpu = &self.cpus[emptiest];
        let switches = if cpu.would_take_over(rank) { 2.0 } else { 1.0 };
        let cost = switches * self.switching.cost(cpu.len() + 1);
        self.outcome.switches += switches;
        self.outcome.switching += cost;
        let is_alone = self.groups[group].is_many;
        self.push(emptiest, Job { rank, group, is_alone, left: service + cost, switching: cost }, now);
    }

    fn push(&mut self, cpu: usize, job: Job, now: f64) {
        self.serve(cpu, now);
        self.cpus[cpu].push(job, self.switching);
    }

    /// A burst is over: its task falls asleep. A CPU that has nothing to do takes a task from the one with the most.
    fn finish(&mut self, cpu: usize, now: f64) {
        self.serve(cpu, now);
        let Some(job) = self.cpus[cpu].pop_done(self.switching) else { return };
        let at = now + self.groups[job.group].fall_asleep();
        self.asleep.push(Wakeup { at, group: job.group });
        if self.cpus[cpu].len() == 0 {
            let fullest = (0..self.cpus.len()).max_by_key(|&other| self.cpus[other].len()).unwrap_or(cpu);
            if self.cpus[fullest].len() > 1 {
                self.serve(fullest, now);
                if let Some(job) = self.cpus[fullest].pop_last(self.switching) {
                    self.push(cpu, job, now);
                }
            }
        }
    }
}

impl Group {
    const fn new(random: Random) -> Self {
        Self { random, tasks: 0, runnable: 0, asleep: 0, is_many: false, sleep: 0.0, bursts: VecDeque::new() }
    }

    /// Takes in what is asked for in the next step: bursts, exponentially distributed, and as much in all as was measured.
    /// Gives after how long those wake up that did not know that they would.
    fn ask(&mut self, demand: &Demand) -> impl Iterator<Item = f64> {
        (self.tasks, self.is_many) = (demand.tasks, demand.is_many);
        let late = self.bursts.len();
        self.bursts.extend((0..demand.bursts).map(|_| self.random.exponential()));
        let drawn: f64 = self.bursts.range(late..).sum();
        let asked = demand.service * f64::from(demand.bursts);
        self.bursts.range_mut(late..).for_each(|burst| *burst *= asked / drawn);
        // Those that come late are made up for.
        self.sleep = demand.slept / self.bursts.len().max(1) as f64;
        let idle = if demand.never_sleeps() { 0 } else { demand.tasks.saturating_sub(self.runnable + self.asleep) };
        self.asleep += idle;
        (0..idle).map(|_| self.sleep * self.random.exponential())
    }

    /// A task wakes up. Gives its burst; `None` where there is none for it, and it is not heard of again before there is.
    fn wake(&mut self) -> Option<f64> {
        self.asleep -= 1;
        if self.runnable >= self.tasks {
            return None;
        }
        let burst = self.bursts.pop_front()?;
        self.runnable += 1;
        Some(burst)
    }

    /// A task falls asleep. Gives for how long.
    fn fall_asleep(&mut self) -> f64 {
        self.runnable = self.runnable.saturating_sub(1);
        self.asleep += 1;
        self.sleep * self.random.exponential()
    }
}

impl Ord for Wakeup {
    /// The one that is due first is the greatest: it is the next one of a heap.
    fn cmp(&self, other: &Self) -> Ordering {
        other.at.total_cmp(&self.at).then(other.group.cmp(&self.group))
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
