//! Requests arrive independently of earlier ones.

use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use super::{super::arrivals::Arrivals, Assignment, Function, lock, spawn};
use crate::random::Random;

/// Requests that wait for a thread.
#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    changed: Condvar,
    /// Threads at most.
    at_once: u32,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Instant>,
    /// Threads that have nothing to do, and all of them.
    idle: usize,
    threads: u32,
    is_closed: bool,
}

/// One thread per request, up to a limit.
pub(super) fn run(function: &Function, assignment: &Assignment) {
    let seconds = function.ends.duration_since(function.start).as_secs_f64();
    let random = Random::new(assignment.seed, u64::from(assignment.function));
    let rate = assignment.rate.unwrap_or(0.0);
    let queue = Queue { at_once: assignment.at_once, ..Queue::default() };
    thread::scope(|scope| {
        for at in Arrivals::new(assignment.workload, rate, assignment.trace.as_ref(), seconds, random) {
            let comes = function.start + Duration::from_secs_f64(at);
            thread::sleep(comes.saturating_duration_since(Instant::now()));
            if queue.push(comes) && spawn(scope, || queue.work_off(function, assignment.work)) {
                lock(&queue.state).threads += 1;
            }
        }
        function.stop_at(function.closes());
        queue.close();
    });
    for came in lock(&queue.state).waiting.drain(..) {
        function.book(came, false);
    }
}

impl Queue {
    /// Queues a request. Returns whether one more thread is needed for it.
    fn push(&self, came: Instant) -> bool {
        let mut state = lock(&self.state);
        state.waiting.push_back(came);
        self.changed.notify_one();
        state.waiting.len() > state.idle && state.threads < self.at_once
    }

    fn close(&self) {
        lock(&self.state).is_closed = true;
        self.changed.notify_all();
    }

    fn work_off(&self, function: &Function, work: Duration) {
        let mut state = lock(&self.state);
        while !state.is_closed {
            match state.waiting.pop_front() {
                Some(came) if !function.is_stopped() => {
                    drop(state);
                    let is_served = function.work(work);
                    function.book(came, is_served);
                    state = lock(&self.state);
                }
                // There is no time left for it, so it stays in the queue.
                Some(came) => return state.waiting.push_front(came),
                None => {
                    state.idle += 1;
                    state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                    state.idle -= 1;
                }
            }
        }
    }
}
