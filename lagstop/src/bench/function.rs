//! A function: the process that serves its requests.
//!
//! It reads an [`Assignment`] from standard input, says that it is ready, starts at the moment that the next line says, as all
//! others do, and writes its [`Tally`]. When standard input ends before, whoever started it is gone, and so is it.

mod closed;
mod open;

use std::{
    io::{self, BufRead, Write},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use super::{Assignment, BenchSettings, Speed, Tally};
use crate::{model::Nanos, units::KernelTime};

/// Said when it is ready.
pub const READY: &str = "ready";
/// Stacks of threads, of which there may be thousands on a host.
const STACK: usize = 128 << 10;

/// Does what standard input says, and writes to standard output what came of it.
///
/// # Errors
/// When it was told nothing, or cannot tell.
pub fn serve() -> Result<(), io::Error> {
    let mut stdin = io::stdin().lock();
    let mut line = String::new();
    if stdin.read_line(&mut line)? == 0 {
        return Ok(());
    }
    let assignment: Assignment = serde_json::from_str(&line)?;
    say(READY)?;
    line.clear();
    if stdin.read_line(&mut line)? == 0 {
        return Ok(());
    }
    drop(stdin);
    let start = KernelTime::read(&line).and_then(KernelTime::instant);
    let start = start.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no start time was received"))?;
    thread::Builder::new().stack_size(STACK).spawn(|| {
        // It ends with its parent, and then has no one to report to.
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        std::process::exit(1);
    })?;
    let tally = Function::new(&assignment, start).run(&assignment);
    say(&serde_json::to_string(&tally)?)
}

fn say(line: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{line}")?;
    stdout.flush()
}

/// What all threads of a function share.
struct Function {
    speed: Speed,
    /// The first request comes after this time.
    start: Instant,
    /// Requests count that come from then on, and until then.
    begins: Instant,
    ends: Instant,
    /// Work must stop now.
    stop: AtomicBool,
    tally: Mutex<Tally>,
}

impl Function {
    fn new(assignment: &Assignment, start: Instant) -> Self {
        let begins = start + assignment.warm_up;
        Self {
            speed: assignment.speed,
            start,
            begins,
            ends: begins + assignment.duration,
            stop: AtomicBool::new(false),
            tally: Mutex::default(),
        }
    }

    fn run(self, assignment: &Assignment) -> Tally {
        if assignment.workload.is_closed() {
            closed::run(&self, assignment);
        } else {
            open::run(&self, assignment);
        }
        self.tally.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time when requests of the last moment have had their time, too.
    fn closes(&self) -> Instant {
        self.ends + BenchSettings::IN_TIME
    }

    /// Works for this much CPU time. Returns whether it was completed.
    fn work(&self, time: Duration) -> bool {
        self.speed.work(time, &self.stop)
    }

    /// Books a request that arrived at this time.
    fn book(&self, came: Instant, is_served: bool) {
        if !(self.begins..self.ends).contains(&came) {
            return;
        }
        let latency = came.elapsed();
        let mut tally = lock(&self.tally);
        tally.offered += 1;
        tally.unfinished += u64::from(!is_served);
        tally.in_time += u64::from(is_served && latency <= BenchSettings::IN_TIME);
        tally.latencies.add(Nanos(latency.as_nanos() as u64));
    }

    fn stop_at(&self, when: Instant) {
        thread::sleep(when.saturating_duration_since(Instant::now()));
        self.stop.store(true, Ordering::Relaxed);
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// A lock that a panicking thread held is still usable: what locks guard, counts and waiting requests, stays valid.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a thread, if the system has one left.
fn spawn<'scope, 'env>(scope: &'scope thread::Scope<'scope, 'env>, work: impl FnOnce() + Send + 'scope) -> bool {
    thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work).is_ok()
}

#[cfg(test)]
mod tests {
    use super::{super::BenchWorkload, *};

    fn assignment(workload: BenchWorkload, rate: Option<f64>, work: u64) -> Assignment {
        Assignment {
            function: 3,
            workload,
            rate,
            trace: None,
            seed: 1,
            speed: Speed::calibrate(),
            work: Duration::from_millis(work),
            latency_target: Duration::from_millis(100),
            warm_up: Duration::from_millis(100),
            duration: Duration::from_millis(1_400),
            at_once: BenchSettings::MOST_AT_ONCE,
        }
    }

    fn run(workload: BenchWorkload, rate: Option<f64>, work: u64) -> Tally {
        let assignment = assignment(workload, rate, work);
        Function::new(&assignment, Instant::now() + Duration::from_millis(50)).run(&assignment)
    }

    #[test]
    fn requests_are_served_and_counted() {
        let tally = run(BenchWorkload::Random, Some(200.0), 1);
        assert!((200..360).contains(&tally.offered), "200 a second for 1.4 s: {tally:?}");
        assert_eq!(tally.latencies.count(), tally.offered);
        assert!(tally.latencies.quantile(0.0) >= Some(Nanos(500_000)), "each takes a millisecond: {tally:?}");
    }

    #[test]
    fn two_that_are_told_the_same_moment_measure_the_same_time() {
        let assignment = Assignment {
            warm_up: Duration::from_secs(1),
            duration: Duration::from_secs(2),
            ..assignment(BenchWorkload::Random, Some(1.0), 1)
        };
        let start = Instant::now();
        let early = Function::new(&assignment, start);
        thread::sleep(Duration::from_millis(30));
        let late = Function::new(&assignment, start);
        assert_eq!((early.begins, early.ends), (late.begins, late.ends));
        assert_eq!(early.begins, start + assignment.warm_up);
    }

    #[test]
    fn what_is_not_served_by_the_end_is_said() {
        let tally = run(BenchWorkload::Random, Some(50.0), 60_000);
        assert!(tally.offered > 30 && tally.unfinished == tally.offered && tally.in_time == 0, "{tally:?}");
        assert!(tally.latencies.quantile(1.0) > Some(Nanos(1_000_000_000)), "some waited since the beginning");
    }

    #[test]
    fn closed_loops_keep_going() {
        // One of mix may take a second.
        for (workload, least) in [(BenchWorkload::Resctl, 5), (BenchWorkload::Parallel, 5), (BenchWorkload::Mix, 1)] {
            let tally = run(workload, None, 5);
            assert!(tally.offered >= least, "{workload:?}: {tally:?}");
        }
    }
}
