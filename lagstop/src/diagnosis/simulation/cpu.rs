//! One CPU: its run queues, one for each cgroup, and who runs.

use std::collections::VecDeque;

use super::{
    fair::{Entity, Queue, Rest, Who},
    shared::Shared,
};

#[derive(Clone, Debug)]
pub(super) struct Cpu {
    number: usize,
    /// The queue of the root, followed by those of the cgroups by their number.
    queues: Vec<Queue>,
    /// Real-time tasks. The first one runs. They go before all others.
    pub(super) real_time: VecDeque<usize>,
    /// The task that runs.
    pub(super) running: Option<usize>,
    /// Fair tasks that are runnable here, including the running one.
    pub(super) fair: Vec<usize>,
    /// Time up to which CPU time has been accounted.
    pub(super) at: f64,
    /// Time of the next timer interrupt.
    pub(super) tick: f64,
    /// Time of the next search for work on other CPUs, and the number of searches without success.
    pub(super) balances: f64,
    pub(super) failed: u32,
    /// It must pick the next task.
    pub(super) must_pick: bool,
    /// CPU time that real-time tasks used in the current second (limit: `sched_rt_runtime_us`), and when that began.
    pub(super) real_time_used: f64,
    pub(super) real_time_from: f64,
}

/// The share of each second that real-time tasks may use: `sched_rt_runtime_us` by default (sched(7)).
const REAL_TIME_PART: f64 = 0.95;

const fn index(group: Option<usize>) -> usize {
    match group {
        None => 0,
        Some(number) => number + 1,
    }
}

impl Cpu {
    pub(super) fn new(number: usize, groups: usize, phase: f64) -> Self {
        Self {
            number,
            queues: vec![Queue::default(); groups + 1],
            real_time: VecDeque::new(),
            running: None,
            fair: Vec::new(),
            at: 0.0,
            tick: phase,
            balances: phase,
            failed: 0,
            must_pick: false,
            real_time_used: 0.0,
            real_time_from: 0.0,
        }
    }

    /// Number of tasks that run or wait here.
    pub(super) fn len(&self) -> usize {
        self.fair.len() + self.real_time.len()
    }

    /// Are real-time tasks throttled at the moment?
    pub(super) fn is_real_time_over(&self) -> bool {
        self.real_time_used >= REAL_TIME_PART
    }

    /// Books the time until `now` to those that ran (`update_curr`).
    pub(super) fn account(&mut self, now: f64, shared: &mut Shared<'_>) {
        let time = now - self.at;
        self.at = now;
        let Some(task) = self.running.filter(|_| time > 0.0) else { return };
        shared.worked(task, time);
        if now - self.real_time_from >= 1.0 {
            (self.real_time_from, self.real_time_used) = (now, 0.0);
            self.must_pick |= !self.real_time.is_empty();
        }
        if shared.is_real_time(task) {
            self.real_time_used += time;
            self.must_pick |= self.is_real_time_over() && !self.fair.is_empty();
            return;
        }
        let mut group = shared.place(task);
        loop {
            self.must_pick |= self.queues[index(group)].run(time);
            let Some(number) = group else { break };
            self.must_pick |= shared.use_up(number, time, now);
            group = shared.tree[number].parent;
        }
    }

    /// A task becomes runnable here.
    pub(super) fn push(&mut self, task: usize, shared: &mut Shared<'_>) {
        if shared.is_real_time(task) {
            self.real_time.push_back(task);
            return;
        }
        self.fair.push(task);
        shared.count(task, 1, self.at);
        let group = shared.place(task);
        let (slice, rest) = shared.entity(task);
        self.enqueue(Entity::new(Who::Task(task), 1.0, slice, false), rest, group, shared);
    }

    fn enqueue(&mut self, entity: Entity, rest: Rest, group: Option<usize>, shared: &mut Shared<'_>) {
        self.update_load(group, shared);
        let queue = &mut self.queues[index(group)];
        if queue.find(entity.who).is_some() {
            queue.stay(entity.who);
        } else {
            queue.push(entity, rest);
        }
        self.climb(group, shared);
    }

    /// The contents of a cgroup's queue have changed: updates its own entity in the queue above.
    fn climb(&mut self, mut group: Option<usize>, shared: &mut Shared<'_>) {
        while let Some(number) = group {
            let above = shared.tree[number].parent;
            self.update_load(above, shared);
            let is_idle = shared.tree[number].is_idle;
            let who = Who::Group(number);
            let own = &self.queues[index(group)];
            let is_held = shared.is_throttled(number);
            match own.slice().filter(|_| !is_held) {
                Some(slice) => {
                    let part = own.weight().max(own.load());
                    let weight = shared.weight(number, part, own.load(), self.at);
                    let rest = own.rest;
                    let queue = &mut self.queues[index(above)];
                    if queue.find(who).is_none() {
                        queue.push(Entity::new(who, weight, slice, is_idle), rest);
                    } else {
                        queue.stay(who);
                        queue.reweigh(who, weight, slice, is_idle);
                    }
                }
                None => self.leave(who, above, !is_held, shared),
            }
            group = above;
        }
    }

    /// An entity stops competing, immediately or delayed (`dequeue_entity`).
    fn leave(&mut self, who: Who, group: Option<usize>, sleeps: bool, shared: &Shared<'_>) {
        let queue = &mut self.queues[index(group)];
        if queue.find(who).is_none() {
            return;
        }
        if sleeps && queue.len() > 1 && queue.is_ahead(who) {
            if let Some(entity) = queue.find_mut(who) {
                entity.is_leaving = true;
            }
        } else {
            let rest = queue.remove(who, shared.kernel.tick, false);
            self.keep(who, rest);
        }
        if self.queues[index(group)].current == Some(who) {
            self.queues[index(group)].current = None;
        }
    }

    fn keep(&mut self, who: Who, rest: Rest) {
        if let Who::Group(number) = who {
            self.queues[index(Some(number))].rest = rest;
        }
    }

    /// A task falls asleep. If it had more than its share, it may have to go on competing.
    pub(super) fn sleep(&mut self, task: usize, shared: &mut Shared<'_>) {
        self.take_off(task, shared);
        if shared.is_real_time(task) {
            return;
        }
        let group = shared.place(task);
        self.update_load(group, shared);
        let who = Who::Task(task);
        let queue = &mut self.queues[index(group)];
        if queue.len() > 1 && queue.is_ahead(who) {
            if let Some(entity) = queue.find_mut(who) {
                entity.is_leaving = true;
            }
        } else {
            let rest = queue.remove(who, shared.kernel.tick, false);
            shared.set_rest(task, rest);
        }
        if queue.current == Some(who) {
            queue.current = None;
        }
        self.climb(group, shared);
    }

    /// A task moves to another CPU, or ends.
    pub(super) fn remove(&mut self, task: usize, shared: &mut Shared<'_>) {
        self.take_off(task, shared);
        let group = shared.place(task);
        let who = Who::Task(task);
        if self.queues[index(group)].find(who).is_none() {
            return;
        }
        self.update_load(group, shared);
        let queue = &mut self.queues[index(group)];
        let rest = queue.remove(who, shared.kernel.tick, true);
        if queue.current == Some(who) {
            queue.current = None;
        }
        shared.set_rest(task, rest);
        self.climb(group, shared);
    }

    fn take_off(&mut self, task: usize, shared: &mut Shared<'_>) {
        let before = self.fair.len();
        self.fair.retain(|&it| it != task);
        if self.fair.len() < before {
            shared.count(task, -1, self.at);
        }
        self.real_time.retain(|&it| it != task);
        if self.running == Some(task) {
            self.running = None;
            self.must_pick = true;
        }
    }

    /// Is a sleeping task still queued here?
    pub(super) fn holds(&self, task: usize, shared: &Shared<'_>) -> bool {
        self.queues[index(shared.place(task))].find(Who::Task(task)).is_some()
    }

    /// A cgroup has used up its quota, or may run again.
    pub(super) fn throttle(&mut self, number: usize, shared: &mut Shared<'_>) {
        self.must_pick = true;
        self.climb(Some(number), shared);
    }

    /// Updates weights, which follow loads even while tasks run (`entity_tick`).
    pub(super) fn reweigh(&mut self, shared: &mut Shared<'_>) {
        if let Some(task) = self.running.filter(|&task| !shared.is_real_time(task)) {
            let group = shared.place(task);
            self.update_load(group, shared);
            self.climb(group, shared);
        }
    }

    /// Updates the weights of all cgroups here after some were changed.
    pub(super) fn reweigh_all(&mut self, shared: &mut Shared<'_>) {
        for number in (0..self.queues.len() - 1).rev() {
            if !self.queues[number + 1].is_empty() {
                self.climb(Some(number), shared);
            }
        }
        self.must_pick = true;
    }

    fn update_load(&mut self, group: Option<usize>, shared: &mut Shared<'_>) {
        let change = self.queues[index(group)].update_load(self.at);
        if let Some(number) = group {
            shared.loads[number] += change;
        }
    }

    /// Mean weight of what is runnable here, over some tens of milliseconds.
    pub(super) fn load(&mut self) -> f64 {
        self.queues[0].update_load(self.at);
        self.queues[0].load()
    }

    /// The part of this CPU's load that a task has, by the weights from the root down to it (`task_h_load`).
    pub(super) fn load_of(&self, task: usize, shared: &Shared<'_>) -> f64 {
        let mut group = shared.place(task);
        let mut part = 1.0 / self.queues[index(group)].weight().max(1e-9);
        while let Some(number) = group {
            group = shared.tree[number].parent;
            let queue = &self.queues[index(group)];
            let weight = queue.find(Who::Group(number)).map_or(0.0, |it| it.weight);
            part *= weight / if group.is_none() { 1.0 } else { queue.weight().max(1e-9) };
        }
        part
    }

    /// Does the running task only run because no other wants to (`sched_idle_cpu`)?
    pub(super) fn is_idle_class(&self, shared: &Shared<'_>) -> bool {
        self.real_time.is_empty() && !self.fair.is_empty() && self.fair.iter().all(|&task| shared.is_idle(task))
    }

    /// Does a task that woke up preempt the running one (`check_preempt_wakeup_fair`)?
    pub(super) fn check_preempt(&mut self, task: usize, shared: &Shared<'_>) {
        let Some(running) = self.running else {
            self.must_pick = true;
            return;
        };
        if shared.is_real_time(task) {
            self.must_pick |= !shared.is_real_time(running) && !self.is_real_time_over();
            return;
        }
        if shared.is_real_time(running) || self.must_pick {
            return;
        }
        // The two siblings that contain the tasks, or are the tasks.
        let (mut mine, mut theirs) = shared.parting(task, Some(running));
        let (Some(mine), Some(theirs)) = (mine.next(), theirs.next()) else { return };
        let group = shared.parent(mine);
        let queue = &mut self.queues[index(group)];
        let (Some(woken), Some(current)) = (queue.find(mine).copied(), queue.find(theirs).copied()) else { return };
        if current.is_idle != woken.is_idle {
            self.must_pick |= current.is_idle;
            return;
        }
        if let Some(first) = shared.goes_first(mine, theirs, self.at) {
            self.must_pick |= first;
            return;
        }
        let is_shorter = woken.slice < current.slice;
        if queue.pick(!is_shorter) == Some(mine) {
            queue.unprotect();
            self.must_pick = true;
        }
    }

    /// Chooses the next task to run, and returns it.
    pub(super) fn pick(&mut self, shared: &mut Shared<'_>) -> Option<usize> {
        self.must_pick = false;
        if let Some(&first) = self.real_time.front().filter(|_| !self.is_real_time_over() || self.fair.is_empty()) {
            return Some(first);
        }
        'again: loop {
            let mut group = None;
            loop {
                let queue = &self.queues[index(group)];
                let picked = queue.pick(true)?;
                let who = shared.lightest(picked, queue.entities(), self.at);
                let queue = &mut self.queues[index(group)];
                queue.swap_turns(picked, who);
                if queue.find(who).is_some_and(|it| it.is_leaving) {
                    self.let_go(who, group, shared);
                    continue 'again;
                }
                match who {
                    Who::Group(number) => group = Some(number),
                    Who::Task(task) => return Some(task),
                }
            }
        }
    }

    /// Removes an entity that was kept until it was owed nothing.
    fn let_go(&mut self, who: Who, group: Option<usize>, shared: &mut Shared<'_>) {
        self.update_load(group, shared);
        let rest = self.queues[index(group)].remove(who, shared.kernel.tick, false);
        match who {
            Who::Task(task) => shared.set_rest(task, rest),
            Who::Group(_) => self.keep(who, rest),
        }
        self.climb(group, shared);
    }

    /// A task gets the CPU, or nobody does.
    pub(super) fn begin(&mut self, task: Option<usize>, shared: &Shared<'_>) {
        if let Some(before) = self.running.filter(|&before| Some(before) != task && !shared.is_real_time(before)) {
            for who in shared.parting(before, task).0 {
                let queue = &mut self.queues[index(shared.parent(who))];
                if queue.current == Some(who) {
                    queue.current = None;
                }
            }
        }
        self.running = task;
        if let Some(task) = task.filter(|&task| !shared.is_real_time(task)) {
            for who in shared.line(task) {
                let queue = &mut self.queues[index(shared.parent(who))];
                // A task that just goes on running gets no new protection.
                if queue.current != Some(who) {
                    queue.begin(who);
                }
            }
        }
    }

    pub(super) const fn number(&self) -> usize {
        self.number
    }
}
