//! One CPU and its run queue.

use super::{Switching, policy::Rank};

/// A task that wants to run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    pub(super) rank: Rank,
    pub(super) group: usize,
    /// Shares the CPU as if it were a cgroup of its own.
    pub(super) is_alone: bool,
    /// CPU time that it still needs. Without end for one that never sleeps.
    pub(super) left: f64,
    /// The part of that which switches to and from it still take.
    pub(super) switching: f64,
}

impl Job {
    /// Do both get their time as members of one cgroup?
    const fn share(&self, other: &Self) -> bool {
        self.group == other.group && !self.is_alone
    }
}

/// One CPU and its run queue. Those of the first rank share it: each cgroup gets as much as any other, and each task as much
/// as any other of its cgroup; where it is alone, as much as a cgroup.
#[derive(Clone, Debug, Default)]
pub(super) struct Cpu {
    /// By rank, then by cgroup.
    jobs: Vec<Job>,
    /// Up to when they were served.
    at: f64,
    /// The part of the CPU time that they have for work.
    pace: f64,
    /// When the next one is done if nothing else happens, and which one that is.
    next: Option<(f64, usize)>,
    /// Time in which more than one shared it, and of that, what the switches between them took.
    pub(super) shared: f64,
    pub(super) switching: f64,
}

impl Cpu {
    /// Tasks that run or wait here.
    pub(super) fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Those of them that a task of `rank` would not go before.
    pub(super) fn ahead_of(&self, rank: Rank) -> usize {
        self.jobs.partition_point(|job| job.rank <= rank)
    }

    /// When the next task is done; never, where none will be.
    pub(super) fn done_at(&self) -> f64 {
        self.next.map_or(f64::INFINITY, |(at, _)| at)
    }

    /// Serves until `now`. `each` gets for a task what CPU time it got, the part of it that it had for work, and what it waited.
    pub(super) fn serve(&mut self, now: f64, mut each: impl FnMut(&Job, f64, f64, f64)) {
        let time = now - self.at;
        self.at = now;
        if time <= 0.0 || self.jobs.is_empty() {
            return;
        }
        let running = self.running();
        let groups = groups(&self.jobs[..running]);
        let (running, waiting) = self.jobs.split_at_mut(running);
        if running.len() > 1 {
            self.shared += time;
            self.switching += time * (1.0 - self.pace);
        }
        for group in running.chunk_by_mut(Job::share) {
            let got = time / (groups * group.len()) as f64;
            for job in group {
                let worked = got * self.pace;
                job.left -= worked;
                let switched = worked.min(job.switching);
                job.switching -= switched;
                each(job, got, worked - switched, time - got);
            }
        }
        waiting.iter().for_each(|job| each(job, 0.0, 0.0, time));
    }

    /// Whether a task of `rank` takes the CPU away from others.
    pub(super) fn would_take_over(&self, rank: Rank) -> bool {
        self.jobs.first().is_some_and(|first| rank < first.rank)
    }

    /// Takes in a task. The caller has served until now.
    pub(super) fn push(&mut self, job: Job, switching: &Switching) {
        let place = self.jobs.partition_point(|other| (other.rank, other.group) <= (job.rank, job.group));
        self.jobs.insert(place, job);
        self.plan(switching);
    }

    /// Takes out the task that is done. The caller has served until then.
    pub(super) fn pop_done(&mut self, switching: &Switching) -> Option<Job> {
        let (_, index) = self.next?;
        Some(self.remove(index, switching))
    }

    /// Takes out the task that has the least to expect here. The caller has served until now.
    pub(super) fn pop_last(&mut self, switching: &Switching) -> Option<Job> {
        Some(self.remove(self.jobs.len().checked_sub(1)?, switching))
    }

    /// Takes out those that never sleep, and gives each of the others the rank of its cgroup. The caller has served until now.
    pub(super) fn begin_step(&mut self, ranks: &[Rank], switching: &Switching) {
        self.jobs.retain_mut(|job| {
            job.rank = ranks.get(job.group).copied().unwrap_or_default();
            job.left.is_finite()
        });
        self.jobs.sort_by_key(|job| (job.rank, job.group));
        self.plan(switching);
    }

    fn remove(&mut self, index: usize, switching: &Switching) -> Job {
        let job = self.jobs.remove(index);
        self.plan(switching);
        job
    }

    /// How many tasks have the first rank: they run.
    fn running(&self) -> usize {
        self.jobs.first().map_or(0, |first| self.ahead_of(first.rank))
    }

    fn plan(&mut self, switching: &Switching) {
        let (running, at) = (&self.jobs[..self.running()], self.at);
        let groups = groups(running);
        let pace = if running.len() > 1 { switching.pace(self.jobs.len()) } else { 1.0 };
        let done = running.chunk_by(Job::share).flat_map(|group| {
            let takes = (groups * group.len()) as f64 / pace;
            group.iter().map(move |job| at + job.left.max(0.0) * takes)
        });
        self.next = done
            .enumerate()
            .map(|(index, at)| (at, index))
            .min_by(|a, b| a.0.total_cmp(&b.0))
            .filter(|(at, _)| at.is_finite());
        self.pace = pace;
    }
}

fn groups(jobs: &[Job]) -> usize {
    jobs.chunk_by(Job::share).count()
}
