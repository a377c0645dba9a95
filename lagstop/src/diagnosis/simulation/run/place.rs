//! Which CPU a task is on: where it wakes up, and how CPUs balance their load.

use std::cmp::Reverse;

use super::Host;
use crate::diagnosis::simulation::{
    cpu::Cpu,
    fair::{LOAD_TIME, decay},
};

/// Load is only taken from a CPU that has more than this many times the load of another (`imbalance_pct` of `sd_init`,
/// kernel/sched/topology.c).
const IMBALANCE: f64 = 1.17;
/// Seconds between two searches of a busy CPU, for each CPU there is: 1 ms × `busy_factor` (`get_sd_balance_interval`,
/// kernel/sched/fair.c).
const BALANCES: f64 = 0.016;
/// The longest time between two of them, in seconds. Chosen.
const LONGEST_BALANCES: f64 = 1.0;

/// How busy the CPUs are, on average over some tens of milliseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Busy {
    pub(super) part: f64,
    pub(super) at: f64,
}

impl Busy {
    pub(super) fn update(&mut self, now: f64, part: f64) {
        self.part = part + (self.part - part) * decay(now - self.at, LOAD_TIME);
        self.at = now;
    }

    /// If the CPUs are busy, a task that wakes up does not search for an idle one (`SIS_UTIL`, `update_idle_cpu_scan`).
    pub(super) fn allows_search(&self, cpus: usize) -> bool {
        (1.0 - (IMBALANCE * self.part).powi(2)) * cpus as f64 >= 1.0
    }
}

impl Host<'_> {
    /// The CPU on which a task wakes up: the one that it ran on, if that is idle, otherwise another idle one
    /// (`select_idle_sibling`).
    pub(super) fn choose(&mut self, task: usize) -> usize {
        // The search starts after the CPU that it ran on.
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

    /// A CPU without work takes a waiting task from the other one with the most tasks (`sched_balance_newidle`).
    pub(super) fn pull(&mut self, cpu: usize) {
        let waiting = |other: &Cpu| {
            let may = |it: &&usize| {
                Some(**it) != other.running
                    && self.shared.tree[self.shared.tasks[**it].group].may_run_on(cpu)
                    && !self.shared.is_held(**it)
            };
            other.real_time.iter().find(may).or_else(|| other.fair.iter().find(may)).copied()
        };
        let others = self.cpus.iter().filter(|other| other.len() > 1);
        let found = others.filter_map(|other| Some((other, waiting(other)?)));
        if let Some((other, task)) = found.min_by_key(|(other, _)| Reverse(other.len())) {
            self.migrate(task, other.number(), cpu);
        }
    }

    /// Takes a waiting real-time task from another CPU (`pull_rt_task`).
    pub(super) fn pull_real_time(&mut self, cpu: usize) {
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

    pub(super) fn migrate(&mut self, task: usize, from: usize, to: usize) {
        self.account(from);
        self.account(to);
        self.cpus[from].remove(task, &mut self.shared);
        self.shared.tasks[task].cpu = Some(to);
        self.cpus[to].push(task, &mut self.shared);
        self.cpus[to].check_preempt(task, &self.shared);
    }

    /// From time to time a CPU takes load from the one with the highest load (`sched_balance_rq`). An idle CPU is woken
    /// up for it.
    pub(super) fn balance(&mut self, cpu: usize) {
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
        self.cpus[cpu].balances = self.now + (count * BALANCES).min(LONGEST_BALANCES);
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
