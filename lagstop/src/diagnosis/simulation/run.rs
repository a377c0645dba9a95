//! The tasks of all cgroups on all CPUs, from event to event.

mod asking;
mod changes;
mod place;
#[cfg(test)]
mod tests;

use std::collections::BinaryHeap;

use self::{
    asking::{Source, Wakeup},
    place::Busy,
};
use super::{
    Arrivals, SimulatedKernel, SimulatedPolicy, SimulationOutcome, Step, Switching, Trace,
    cpu::Cpu,
    shared::{Shared, State},
};
use crate::random::Random;

/// Simulates what `trace` asks for.
pub fn run(
    trace: &Trace,
    kernel: &SimulatedKernel,
    switching: &Switching,
    policy: &SimulatedPolicy,
    seed: u64,
) -> SimulationOutcome {
    let mut host = Host::new(trace, kernel, switching, policy, seed);
    for (number, step) in trace.steps.iter().enumerate() {
        if number == trace.steps.len() / 2 {
            host.shared.outcome.half = host.shared.outcome.groups.clone();
        }
        host.step(step);
    }
    host.shared.outcome
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
    /// Time of the next ranking of cgroups.
    ranks: f64,
    busy: Busy,
    events: u32,
}

/// Limit of the number of events × CPUs, because each event examines all CPUs.
const MOST_WORK: u64 = 500_000_000;

impl<'a> Host<'a> {
    fn new(
        trace: &'a Trace,
        kernel: &'a SimulatedKernel,
        switching: &'a Switching,
        policy: &'a SimulatedPolicy,
        seed: u64,
    ) -> Self {
        let groups = trace.groups.len();
        let mut random = Random::new(seed, u64::MAX);
        let cpus = (0..trace.cpus).map(|number| Cpu::new(number, groups, kernel.tick * random.unit())).collect();
        Self {
            shared: Shared::new(trace, kernel, policy),
            arrivals: trace.arrivals,
            switching,
            cpus,
            sources: (0..).take(groups).map(|number| Source::new(seed, number)).collect(),
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
            // If no task waits, a timer interrupt changes nothing.
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
                // No real host does so much, so there is no result.
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

    /// Time of the next event on a CPU itself.
    fn next_of(&self, cpu: &Cpu, ticks: bool) -> f64 {
        let Some(task) = cpu.running else { return f64::INFINITY };
        let left = self.shared.tasks[task].left.min(self.shared.quota_left(task)).max(0.0);
        let tick = if ticks { cpu.tick } else { f64::INFINITY };
        (cpu.at + left).min(tick)
    }

    fn account(&mut self, cpu: usize) {
        self.cpus[cpu].account(self.now, &mut self.shared);
    }

    /// A task becomes runnable.
    fn start(&mut self, task: usize, service: f64) {
        let cpu = self.choose(task);
        self.shared.credits.runnable(self.shared.tasks[task].group, 1.0, self.now, &mut self.shared.outcome.groups);
        let one = &mut self.shared.tasks[task];
        one.recent = one.cpu;
        (one.state, one.left, one.switching, one.cpu) = (State::Runnable, service, 0.0, Some(cpu));
        one.waits_since = self.now;
        self.account(cpu);
        self.cpus[cpu].push(task, &mut self.shared);
        self.cpus[cpu].check_preempt(task, &self.shared);
    }

    /// A task is not runnable any more, even if its burst is not over.
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

    /// The burst of the running task ends, the timer interrupts it, or a quota is used up.
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

    /// Lets all CPUs that must pick a task do so.
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
                    self.shared.tasks[before].waits_since = self.now;
                }
                if let Some(next) = next {
                    let task = &self.shared.tasks[next];
                    self.shared.credits.running(task.group, 1.0, self.now, groups);
                    self.shared.outcome.waits[task.group].add(self.now - task.waits_since);
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

    /// Can anything run? Tasks that wait for the next quota period cannot.
    fn has_work(&self, cpu: &Cpu) -> bool {
        let is_there = |task: &usize| !self.shared.is_held(*task);
        cpu.len() > 0 && (self.shared.throttled.is_empty() || cpu.real_time.iter().chain(&cpu.fair).any(is_there))
    }
}
