//! The next request comes when one is done; as many are worked on at once as keep the latency near a target.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::{Duration, Instant},
};

use super::{super::BenchWorkload, Assignment, Function, lock, spawn};
use crate::{model::Nanos, random::Random};

/// How often the concurrency is changed.
const STEP: Duration = Duration::from_millis(250);

/// What is worked on.
struct Loop<'a> {
    function: &'a Function,
    assignment: &'a Assignment,
    /// Requests that are to be worked on at once.
    wanted: AtomicU32,
    /// Latencies since the last change: their sum in nanoseconds, and how many.
    recent: std::sync::Mutex<(u64, u64)>,
}

pub(super) fn run(function: &Function, assignment: &Assignment) {
    let this = Loop { function, assignment, wanted: AtomicU32::new(1), recent: std::sync::Mutex::default() };
    let this = &this;
    thread::sleep(function.start.saturating_duration_since(Instant::now()));
    thread::scope(|scope| {
        let mut threads = 0;
        while Instant::now() < function.ends {
            while threads < this.wanted.load(Ordering::Relaxed) && spawn(scope, move || this.work(threads)) {
                threads += 1;
            }
            let left = function.ends.saturating_duration_since(Instant::now());
            thread::sleep(left.min(STEP));
            this.tune();
        }
        function.stop_at(function.closes());
    });
}

impl Loop<'_> {
    /// Work of one of the concurrent loops, by its number.
    fn work(&self, number: u32) {
        let stream = u64::from(self.assignment.function) << 32 | u64::from(number);
        let mut random = Random::new(self.assignment.seed, stream);
        while Instant::now() < self.function.ends {
            if number >= self.wanted.load(Ordering::Relaxed) {
                thread::sleep(STEP);
                continue;
            }
            let came = Instant::now();
            let is_served = self.request(&mut random);
            self.function.book(came, is_served);
            let mut recent = lock(&self.recent);
            recent.0 += came.elapsed().as_nanos() as u64;
            recent.1 += 1;
        }
    }

    fn request(&self, random: &mut Random) -> bool {
        let work = self.assignment.work;
        match self.assignment.workload {
            // §5.2.3: both have to be done.
            BenchWorkload::Parallel => thread::scope(|scope| {
                let other = thread::Builder::new().stack_size(super::STACK);
                let other = other.spawn_scoped(scope, || self.function.work(work));
                let mine = self.function.work(work);
                other.is_ok_and(|other| other.join().unwrap_or(false)) && mine
            }),
            BenchWorkload::Mix => self.function.work(Duration::from_millis(match random.unit() {
                draw if draw < 0.3 => 10,
                draw if draw < 0.7 => 100,
                _ => 1_000,
            })),
            _ => self.function.work(work),
        }
    }

    /// One more concurrent request if requests are faster than the target, one less if they are slower.
    fn tune(&self) {
        let (sum, count) = std::mem::take(&mut *lock(&self.recent));
        let Some(mean) = Nanos(sum).mean(count) else { return };
        let wanted = self.wanted.load(Ordering::Relaxed);
        let target = self.assignment.latency_target.as_nanos();
        let next = if u128::from(mean.0) < target { wanted + 1 } else { wanted.saturating_sub(1) };
        self.wanted.store(next.clamp(1, self.assignment.at_once), Ordering::Relaxed);
    }
}
