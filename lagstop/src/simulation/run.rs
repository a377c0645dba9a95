//! The tasks of all cgroups on all CPUs, from event to event.

use std::collections::VecDeque;

use super::{
    Demand, Policy, Step, Trace,
    cpu::{Cpu, Job},
    policy::Rank,
};
use crate::random::Random;

/// What became of the cgroups.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// By their number.
    pub groups: Vec<Served>,
    /// How often a task took a CPU away from others.
    pub preemptions: u64,
    /// CPU time in which tasks took turns, in seconds.
    pub shared: f64,
}

/// What became of one, in seconds of all its tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Served {
    /// CPU time that it got.
    pub cpu: f64,
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
pub fn run(trace: &Trace, policy: Policy<'_>, seed: u64) -> Outcome {
    let mut host = Host {
        policy,
        cpus: vec![Cpu::default(); trace.cpus.max(1)],
        groups: vec![Group::default(); trace.groups],
        ranks: vec![Rank::default(); trace.groups],
        outcome: Outcome { groups: vec![Served::default(); trace.groups], ..Outcome::default() },
    };
    let mut begins = 0.0;
    for (number, step) in (0..).zip(&trace.steps) {
        host.step(step, begins, Random::new(seed, number));
        begins += step.duration;
    }
    host.outcome.shared = host.cpus.iter().map(|cpu| cpu.shared).sum();
    host.outcome
}

struct Host<'a> {
    policy: Policy<'a>,
    cpus: Vec<Cpu>,
    groups: Vec<Group>,
    ranks: Vec<Rank>,
    outcome: Outcome,
}

/// What a cgroup is about.
#[derive(Clone, Debug, Default)]
struct Group {
    /// Tasks that can be runnable at once, and those that are.
    tasks: u32,
    runnable: u32,
    /// Bursts that wait for a task, by their CPU time.
    pending: VecDeque<f64>,
}

/// A burst comes.
struct Arrival {
    at: f64,
    group: usize,
    service: f64,
}

impl Host<'_> {
    fn step(&mut self, step: &Step, begins: f64, mut random: Random) {
        let ends = begins + step.duration;
        self.serve_all(begins);
        let mut arrivals = Vec::new();
        for &(group, ref demand) in &step.demands {
            self.ranks[group] = self.policy.rank(group, demand.credit);
            self.groups[group].tasks = demand.tasks;
            arrive(group, demand, begins, step.duration, &mut random, &mut arrivals);
        }
        arrivals.sort_by(|a, b| a.at.total_cmp(&b.at).then(a.group.cmp(&b.group)));
        for cpu in &mut self.cpus {
            cpu.begin_step(&self.ranks);
        }
        for &(group, ref demand) in step.demands.iter().filter(|(_, demand)| demand.never_sleeps()) {
            (0..demand.tasks).for_each(|_| self.wake(group, f64::INFINITY, begins));
        }

        let mut arrivals = arrivals.into_iter().peekable();
        loop {
            let (cpu, done) = self.next_done();
            let arrives = arrivals.peek().map_or(f64::INFINITY, |arrival| arrival.at);
            if arrives.min(done) >= ends {
                break;
            }
            if done < arrives {
                self.finish(cpu, done);
            } else if let Some(Arrival { at, group, service }) = arrivals.next() {
                self.arrive(group, service, at);
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
        self.cpus[cpu].serve(now, |job, got, waited| {
            let served = &mut groups[job.group];
            served.cpu += got;
            served.wait += waited;
        });
    }

    fn arrive(&mut self, group: usize, service: f64, now: f64) {
        let state = &mut self.groups[group];
        if state.runnable < state.tasks {
            state.runnable += 1;
            self.wake(group, service, now);
        } else {
            state.pending.push_back(service);
        }
    }

    /// A task wakes up on the CPU with the fewest that it would have to share with.
    fn wake(&mut self, group: usize, left: f64, now: f64) {
        let rank = self.ranks[group];
        let crowd = |cpu: &Cpu| (cpu.ahead_of(rank), cpu.len());
        let emptiest = (0..self.cpus.len()).min_by_key(|&cpu| crowd(&self.cpus[cpu])).unwrap_or(0);
        self.push(emptiest, Job { rank, group, left }, now);
    }

    fn push(&mut self, cpu: usize, job: Job, now: f64) {
        self.serve(cpu, now);
        self.outcome.preemptions += u64::from(self.cpus[cpu].push(job));
    }

    /// A burst is over: its task goes on with the next one that waits for one. A CPU that has nothing to do takes a task from
    /// the one with the most.
    fn finish(&mut self, cpu: usize, now: f64) {
        self.serve(cpu, now);
        let Some(job) = self.cpus[cpu].pop_done() else { return };
        let state = &mut self.groups[job.group];
        match state.pending.pop_front() {
            Some(left) => self.push(cpu, Job { left, ..job }, now),
            None => state.runnable = state.runnable.saturating_sub(1),
        }
        if self.cpus[cpu].len() == 0 {
            let fullest = (0..self.cpus.len()).max_by_key(|&other| self.cpus[other].len()).unwrap_or(cpu);
            if self.cpus[fullest].len() > 1 {
                self.serve(fullest, now);
                if let Some(job) = self.cpus[fullest].pop_last() {
                    self.push(cpu, job, now);
                }
            }
        }
    }
}

/// The bursts of a cgroup: at any time, exponentially distributed, and as much in all as was measured.
fn arrive(group: usize, demand: &Demand, begins: f64, duration: f64, random: &mut Random, arrivals: &mut Vec<Arrival>) {
    let first = arrivals.len();
    arrivals.extend((0..demand.bursts).map(|_| {
        let at = begins + random.unit() * duration;
        Arrival { at, group, service: random.exponential() }
    }));
    let new = &mut arrivals[first..];
    let sum: f64 = new.iter().map(|arrival| arrival.service).sum();
    new.iter_mut().for_each(|arrival| arrival.service *= demand.service * f64::from(demand.bursts) / sum);
}

#[cfg(test)]
mod tests;
