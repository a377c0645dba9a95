//! Work that takes nothing but CPU time: Fibonacci numbers, as in the paper (§3.1).

use std::{
    hint::black_box,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// How fast this CPU is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Speed {
    /// Steps of the work in a millisecond of CPU time.
    pub steps_per_ms: f64,
}

impl Speed {
    /// Steps between two checks whether to stop: some tenths of a millisecond.
    const CHUNK: u64 = 200_000;
    const TRIES: u32 = 100;
    const PAUSE: Duration = Duration::from_millis(5);

    /// Finds it out, in half a second: the best of many tries, which is the one that was disturbed least, also by what runs
    /// on the same core.
    pub fn calibrate() -> Self {
        let try_it = || {
            thread::sleep(Self::PAUSE);
            let before = cpu_time();
            steps(Self::CHUNK);
            (cpu_time() - before).as_secs_f64() * 1_000.0
        };
        let best = (0..Self::TRIES).map(|_| try_it()).fold(f64::INFINITY, f64::min);
        Self { steps_per_ms: Self::CHUNK as f64 / best.max(1e-6) }
    }

    /// Works for this much CPU time. `false` if it was told to stop before.
    pub(super) fn work(self, time: Duration, stop: &AtomicBool) -> bool {
        let mut left = (time.as_secs_f64() * 1_000.0 * self.steps_per_ms) as u64;
        while left > 0 && !stop.load(Ordering::Relaxed) {
            let now = left.min(Self::CHUNK);
            steps(now);
            left -= now;
        }
        left == 0
    }
}

/// Not inlined, because its speed would depend on the surrounding code.
#[inline(never)]
fn steps(count: u64) {
    let (mut a, mut b) = (0u64, 1u64);
    for _ in 0..count {
        // Otherwise the compiler would compute the result in advance.
        (a, b) = (b, black_box(a.wrapping_add(b)));
    }
    black_box(a);
}

/// CPU time of this thread.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_its_cpu_time() {
        let took = |speed: Speed, ms: u64| {
            let before = cpu_time();
            assert!(speed.work(Duration::from_millis(ms), &AtomicBool::new(false)));
            (cpu_time() - before).as_secs_f64() * 1_000.0
        };
        // Another CPU, another clock: the least of some tries is what counts, and what else runs may begin or end in between.
        let least = || {
            let speed = Speed::calibrate();
            (0..5).map(|_| took(speed, 20)).fold(f64::INFINITY, f64::min)
        };
        let tries: Vec<f64> = (0..5).map(|_| least()).collect();
        assert!(tries.iter().any(|least| (14.0..40.0).contains(least)), "20 ms took {tries:?}");
    }

    #[test]
    fn it_stops_when_told_to() {
        assert!(!Speed { steps_per_ms: 1e9 }.work(Duration::from_secs(3_600), &AtomicBool::new(true)));
    }
}
