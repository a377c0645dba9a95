//! What the kernel books to threads, read from /proc while a trial goes on: nothing of lagstop's is used for it.
//!
//! Run time and run delay are the first two fields of `/proc/<pid>/task/<tid>/schedstat`
//! (Documentation/scheduler/sched-stats.rst). The kernel books a delay when the wait ends; until then, the time that a thread
//! was seen to be runnable (`R` in proc_pid_stat(5)) without getting on counts. What a thread has in its last moments, between
//! the last look at it and its end, is not seen.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use rustix::{
    process::setpriority_process,
    time::{ClockId, clock_gettime},
};

use super::block::Range;

/// How often the cgroups of the load are looked at.
const STEP: Duration = Duration::from_millis(50);
/// The threads of the whole host are looked at once in so many of these steps.
const HOST_EVERY: u64 = 5;
/// So that the sampler comes in time even on an overloaded host.
const NICE: i32 = -20;

/// Run time and run delay, or others that only grow, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Totals {
    pub(super) run: f64,
    pub(super) wait: f64,
}

impl Totals {
    pub(super) fn plus(self, other: Self) -> Self {
        Self { run: self.run + other.run, wait: self.wait + other.wait }
    }

    pub(super) fn minus(self, other: Self) -> Self {
        Self { run: self.run - other.run, wait: self.wait - other.wait }
    }

    /// Time from wanting to run until it is done, for each second of work.
    pub(super) fn time_for_work(self) -> f64 {
        (self.run + self.wait) / self.run
    }

    fn times(self, factor: f64) -> Self {
        Self { run: self.run * factor, wait: self.wait * factor }
    }
}

/// Sums over threads that come and go.
#[derive(Debug, Default)]
struct Book {
    last: HashMap<u32, Reading>,
    gone: Totals,
}

#[derive(Clone, Copy, Debug)]
struct Reading {
    totals: Totals,
    /// When it was last seen to make progress, or not to want to run.
    since_ns: u64,
}

impl Book {
    /// The sum over all threads there ever were, from the totals of those that exist at `now_ns`.
    fn sum(&mut self, now_ns: u64, now: HashMap<u32, Totals>, is_runnable: impl Fn(u32) -> bool) -> Totals {
        for (tid, Reading { totals: before, .. }) in &self.last {
            // Ids are used again: what falls is another thread's.
            let is_same = now.get(tid).is_some_and(|now| now.run >= before.run && now.wait >= before.wait);
            if !is_same {
                self.gone = self.gone.plus(*before);
            }
        }
        let mut sum = self.gone;
        let mut reading = |(tid, totals): (u32, Totals)| {
            let stuck = self.last.get(&tid).filter(|last| last.totals == totals && is_runnable(tid));
            let since_ns = stuck.map_or(now_ns, |last| last.since_ns);
            sum = sum.plus(totals).plus(Totals { run: 0.0, wait: (now_ns - since_ns) as f64 });
            (tid, Reading { totals, since_ns })
        };
        self.last = now.into_iter().map(&mut reading).collect();
        sum
    }
}

/// What grew over time, by `CLOCK_MONOTONIC`.
#[derive(Debug, Default)]
pub(super) struct Series(Vec<(u64, Totals)>);

impl Series {
    /// How much it grew in this time; between two looks it is taken to grow evenly. `None` where not all of it was seen.
    pub(super) fn over(&self, time: Range) -> Option<Totals> {
        Some(self.at(time.to_ns)?.minus(self.at(time.from_ns)?))
    }

    fn at(&self, ns: u64) -> Option<Totals> {
        let after = self.0.partition_point(|(at, _)| *at < ns);
        let (next, there) = *self.0.get(after)?;
        if next == ns {
            return Some(there);
        }
        let (last, here) = *self.0.get(after.checked_sub(1)?)?;
        Some(here.plus(there.minus(here).times((ns - last) as f64 / (next - last) as f64)))
    }

    /// The longest time between two looks.
    fn longest_gap(&self) -> Duration {
        let gaps = self.0.windows(2).map(|two| two[1].0 - two[0].0);
        Duration::from_nanos(gaps.max().unwrap_or(0))
    }
}

#[cfg(test)]
impl FromIterator<(u64, Totals)> for Series {
    fn from_iter<T: IntoIterator<Item = (u64, Totals)>>(looks: T) -> Self {
        Self(looks.into_iter().collect())
    }
}

#[derive(Debug, Default)]
pub(super) struct Seen {
    /// By directory of the cgroup.
    pub(super) cgroups: Vec<(PathBuf, Series)>,
    /// All threads of the host.
    pub(super) host: Series,
    /// Switches of context, as `run`.
    pub(super) switches: Series,
}

impl Seen {
    /// Of all cgroups in this directory and below. `None` where none was looked at.
    pub(super) fn below(&self, directory: &Path, time: Range) -> Option<Totals> {
        let mut found = self.cgroups.iter().filter(|(path, _)| path.starts_with(directory)).peekable();
        found.peek()?;
        found.try_fold(Totals::default(), |sum, (_, series)| Some(sum.plus(series.over(time)?)))
    }

    /// The longest time between two looks at the load's cgroups.
    pub(super) fn longest_gap(&self) -> Duration {
        self.cgroups.iter().map(|(_, series)| series.longest_gap()).max().unwrap_or_default()
    }
}

/// The thread that looks.
pub(super) struct Oracle {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Seen>>,
}

impl Oracle {
    /// Looks at the threads in these cgroups, which have none inside of them, from now on.
    pub(super) fn start(cgroups: Vec<PathBuf>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        Self { stop, thread: Some(thread::spawn(move || look(cgroups, &told))) }
    }

    /// What was seen until now.
    pub(super) fn end(mut self) -> Seen {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn look(cgroups: Vec<PathBuf>, stop: &AtomicBool) -> Seen {
    // Of this thread alone. Where it is refused, it is only late more often: the longest gap tells.
    let _ = setpriority_process(None, NICE);
    let mut books: Vec<Book> = cgroups.iter().map(|_| Book::default()).collect();
    let mut host = Book::default();
    let mut seen = Seen {
        cgroups: cgroups.into_iter().map(|directory| (directory, Series::default())).collect(),
        ..Seen::default()
    };
    for turn in 0u64.. {
        // The last look is behind all that is to be summed.
        let is_last = stop.load(Ordering::Relaxed);
        for ((directory, series), book) in seen.cgroups.iter_mut().zip(&mut books) {
            series.0.push(stamped(|now| book.sum(now, of(tids(directory)), is_runnable)));
        }
        seen.switches.0.push(stamped(|_| Totals { run: switches().unwrap_or(0.0), wait: 0.0 }));
        if is_last || turn % HOST_EVERY == 0 {
            seen.host.0.push(stamped(|now| host.sum(now, of(everybody()), is_runnable)));
        }
        if is_last {
            break;
        }
        thread::sleep(STEP);
    }
    seen
}

/// What is read, with the middle of the time that reading took.
fn stamped(read: impl FnOnce(u64) -> Totals) -> (u64, Totals) {
    let before = monotonic();
    let totals = read(before);
    (u64::midpoint(before, monotonic()), totals)
}

fn monotonic() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// The threads in a cgroup: `tasks` is version 1's name, `cgroup.threads` version 2's.
fn tids(directory: &Path) -> Vec<u32> {
    let read = |file| fs::read_to_string(directory.join(file));
    let text = read("tasks").or_else(|_| read("cgroup.threads")).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

/// CPU time of the threads that are in a cgroup now, in nanoseconds.
pub(super) fn run_time(directory: &Path) -> f64 {
    of(tids(directory)).values().map(|totals| totals.run).sum()
}

/// The threads of the host.
fn everybody() -> Vec<u32> {
    let numbers = |directory: &str| -> Vec<u32> {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
    };
    numbers("/proc").into_iter().flat_map(|pid| numbers(&format!("/proc/{pid}/task"))).collect()
}

/// What they have; those that have ended since they were listed are left out.
fn of(tids: Vec<u32>) -> HashMap<u32, Totals> {
    let read = |tid| parse(&fs::read_to_string(format!("/proc/{tid}/task/{tid}/schedstat")).ok()?);
    tids.into_iter().filter_map(|tid| Some((tid, read(tid)?))).collect()
}

fn parse(schedstat: &str) -> Option<Totals> {
    let mut fields = schedstat.split_whitespace().map(str::parse::<f64>);
    Some(Totals { run: fields.next()?.ok()?, wait: fields.next()?.ok()? })
}

/// Does it run or want to? Its name, which stands before, may hold anything.
fn is_runnable(tid: u32) -> bool {
    let stat = fs::read(format!("/proc/{tid}/task/{tid}/stat")).unwrap_or_default();
    let name_ends = stat.iter().rposition(|&byte| byte == b')');
    name_ends.is_some_and(|end| stat[end..].starts_with(b") R "))
}

fn switches() -> Option<f64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    stat.lines().find_map(|line| line.strip_prefix("ctxt "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn totals(run: f64, wait: f64) -> Totals {
        Totals { run, wait }
    }

    #[test]
    fn what_ended_still_counts_and_an_id_that_is_used_again_is_another_thread() {
        let mut book = Book::default();
        let mut sum = |threads: &[(u32, Totals)]| book.sum(0, threads.iter().copied().collect(), |_| false);
        assert_eq!(sum(&[(1, totals(10.0, 1.0)), (2, totals(5.0, 5.0))]), totals(15.0, 6.0));
        assert_eq!(sum(&[(2, totals(6.0, 5.0))]), totals(16.0, 6.0), "1 ended");
        assert_eq!(sum(&[(2, totals(1.0, 0.0))]), totals(17.0, 6.0), "2 is another");
    }

    #[test]
    fn a_wait_that_goes_on_counts_until_it_is_booked() {
        let mut book = Book::default();
        let mut wait =
            |now, run, wait, is_runnable| book.sum(now, HashMap::from([(1, totals(run, wait))]), |_| is_runnable).wait;
        assert_eq!(wait(100, 7.0, 0.0, true), 0.0);
        assert_eq!(wait(150, 7.0, 0.0, true), 50.0, "it waits");
        assert_eq!(wait(200, 7.0, 0.0, true), 100.0);
        assert_eq!(wait(250, 8.0, 130.0, true), 130.0, "the kernel has booked it");
        assert_eq!(wait(300, 8.0, 130.0, false), 130.0, "it sleeps");
        assert_eq!(wait(350, 8.0, 130.0, true), 180.0, "it has wanted to run since then at the earliest");
    }

    #[test]
    fn between_two_looks_it_grows_evenly_and_outside_of_them_nothing_is_said() {
        let series = Series(vec![(100, totals(0.0, 0.0)), (200, totals(10.0, 100.0)), (400, totals(30.0, 100.0))]);
        let over = |from_ns, to_ns| series.over(Range { from_ns, to_ns });
        assert_eq!(over(150, 300), Some(totals(15.0, 50.0)));
        assert_eq!(over(100, 400), Some(totals(30.0, 100.0)));
        assert_eq!((over(99, 300), over(150, 401)), (None, None));
        assert_eq!(series.longest_gap(), Duration::from_nanos(200));
    }

    /// Uses the CPU for so long.
    fn spin_for(time: Duration) {
        let began = Instant::now();
        while began.elapsed() < time {
            std::hint::spin_loop();
        }
    }

    /// The CPU time of this thread in nanoseconds, which the kernel tells without /proc.
    fn own_cpu_time() -> u64 {
        let now = clock_gettime(ClockId::ThreadCPUTime);
        u64::try_from(now.tv_sec * 1_000_000_000 + now.tv_nsec).unwrap()
    }

    #[test]
    fn a_thread_that_spins_is_seen_to() {
        let own = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("tasks"), format!("{own}\n{}\n", u32::MAX)).unwrap();
        let oracle = Oracle::start(vec![home.path().to_owned()]);
        // It spins before and after the time that is looked at too: between two looks, what it has is taken to grow evenly.
        spin_for(STEP * 4);
        let (from_ns, ran_before) = (monotonic(), own_cpu_time());
        spin_for(Duration::from_millis(1_200));
        let (ran, time) = ((own_cpu_time() - ran_before) as f64, Range { from_ns, to_ns: monotonic() });
        // The whole host is looked at four times a second.
        spin_for(STEP * 8);
        let seen = oracle.end();
        let here = seen.below(home.path(), time).unwrap();
        let took = (time.to_ns - time.from_ns) as f64;
        assert!((here.run - ran).abs() < 0.1 * took, "{here:?}, {ran} by its clock");
        // It waited for as long as it did not run, or less: a hypervisor may take the CPU from a thread that runs.
        assert!(here.run + here.wait < 1.1 * took, "{here:?} of {took}");
        assert!(seen.host.over(time).unwrap().run >= here.run * 0.9);
        assert!(seen.switches.over(time).unwrap().run > 0.0);
        assert_eq!(seen.below(Path::new("/elsewhere"), time), None);
    }
}
