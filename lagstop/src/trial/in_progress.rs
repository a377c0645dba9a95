//! Waits that have not ended yet.
//!
//! The kernel accounts a whole wait when it ends. A wait that begins with the policy and ends after it would count as
//! time without the policy. So the threads of both sides are sampled several times per second. The part of a wait that
//! was spent before the end of an interval is moved to that interval.

use std::{
    collections::{BTreeMap, HashMap},
    path::PathBuf,
    time::{Duration, Instant},
};

use rustix::time::{ClockId, clock_gettime};

use super::Sides;
use crate::host::{
    Hierarchy, is_runnable,
    schedstat::{self, Schedstat},
    tids_inside,
};

/// Time between samples of threads.
const LOOK: Duration = Duration::from_millis(50);
/// Time between two listings of the threads.
const LIST: Duration = Duration::from_millis(500);
/// Looking may take this part of a CPU: with more threads it is done less often.
const MOST: f64 = 0.03;
/// Nothing is said of a moment without a look this soon before and after. Chosen: what is between looks is
/// taken to be even.
const NEAR: Duration = Duration::from_secs(2);

/// A figure of the light side, and of the heavy one.
pub(super) type Both = [f64; 2];

/// The threads of both sides, and what they have waited.
#[derive(Debug)]
pub(super) struct InProgress {
    hierarchy: Hierarchy,
    directories: [Vec<PathBuf>; 2],
    threads: HashMap<u32, Thread>,
    listed: Option<Instant>,
    looks: BTreeMap<Instant, Look>,
    /// CPU time that the last look took.
    took: Duration,
    /// Does this kernel count waits of threads?
    counts_waits: bool,
}

/// A thread as it was at a look.
#[derive(Clone, Copy, Debug)]
struct Thread {
    side: usize,
    /// What was booked to it when it was last seen to have had a CPU.
    booked: Schedstat,
    /// When it was looked at last.
    at: Instant,
    /// Since when it waits, if it was on a run queue.
    since: Option<Instant>,
    /// It was on a run queue, and had no CPU since the look before.
    waits: bool,
}

/// The waits in progress at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Look {
    /// How many there are, by side.
    count: Both,
    /// How long they have taken so far, in seconds, by side.
    so_far: Both,
}

impl InProgress {
    /// The threads of these cgroups, none of which was looked at yet.
    pub(super) fn new(sides: &Sides, hierarchy: &Hierarchy) -> Self {
        let directories = [&sides.light, &sides.heavy].map(|side| side.iter().map(|it| it.directory.clone()).collect());
        Self {
            hierarchy: hierarchy.clone(),
            directories,
            threads: HashMap::new(),
            listed: None,
            looks: BTreeMap::new(),
            took: Duration::ZERO,
            counts_waits: schedstat::counts_waits(),
        }
    }

    /// Looks, if it is time to.
    pub(super) fn look_in_time(&mut self) {
        let every = LOOK.max(self.took.div_f64(MOST));
        if self.looks.last_key_value().is_none_or(|(last, _)| last.elapsed() >= every) {
            self.look();
        }
    }

    /// Looks at every thread.
    pub(super) fn look(&mut self) {
        if !self.counts_waits {
            return;
        }
        let began = cpu_time();
        if self.listed.is_none_or(|listed| listed.elapsed() >= LIST) {
            self.list();
        }
        let now = Instant::now();
        self.threads.retain(|&tid, thread| {
            // Its state first: what gets a CPU between the two is seen to have been booked.
            let is_runnable = is_runnable(tid);
            schedstat::read(tid).is_ok_and(|booked| {
                thread.see(is_runnable, booked, Instant::now());
                true
            })
        });
        let mut look = Look::default();
        for Thread { side, since, .. } in self.threads.values().filter(|thread| thread.waits) {
            look.count[*side] += 1.0;
            look.so_far[*side] += since.map_or(0.0, |since| now.saturating_duration_since(since).as_secs_f64());
        }
        self.looks.insert(now, look);
        self.took = cpu_time().saturating_sub(began);
    }

    fn list(&mut self) {
        let mut threads = HashMap::new();
        for (side, directories) in self.directories.iter().enumerate() {
            for directory in directories {
                // A thread waits no more when its cgroup is gone.
                for tid in tids_inside(&self.hierarchy, directory).unwrap_or_default() {
                    let known = self.threads.get(&tid).copied().or_else(|| Thread::first_seen(side, tid));
                    threads.extend(known.map(|known| (tid, known)));
                }
            }
        }
        self.threads = threads;
        self.listed = Some(Instant::now());
    }

    /// Time that the waits in progress at this moment had taken so far, in seconds. `None` without samples around it,
    /// as on a kernel that counts no waits.
    pub(super) fn until(&self, at: Instant) -> Option<Both> {
        let (before, first) = self.looks.range(..=at).next_back()?;
        let (after, second) = self.looks.range(at..).next()?;
        let (past, rest) = (at - *before, *after - at);
        if past > NEAR || rest > NEAR {
            return None;
        }
        // Those that the first saw and the second did not have ended in between: the later `at` is, the likelier before it.
        let part = if past + rest > Duration::ZERO { past.div_duration_f64(past + rest) } else { 0.0 };
        let (past, rest) = (past.as_secs_f64(), rest.as_secs_f64());
        Some([0, 1].map(|side| {
            let from_first = first.count[side].mul_add(past, first.so_far[side]);
            let from_second = second.count[side].mul_add(-rest, second.so_far[side]).max(0.0);
            (from_second - from_first).mul_add(part, from_first)
        }))
    }

    /// How far looks were apart, on average.
    pub(super) fn every(&self) -> Option<Duration> {
        let (first, last) = (self.looks.first_key_value()?.0, self.looks.last_key_value()?.0);
        (*last - *first).checked_div(u32::try_from(self.looks.len() - 1).ok()?)
    }
}

impl Thread {
    fn first_seen(side: usize, tid: u32) -> Option<Self> {
        Some(Self { side, booked: schedstat::read(tid).ok()?, at: Instant::now(), since: None, waits: false })
    }

    fn see(&mut self, is_runnable: bool, booked: Schedstat, at: Instant) {
        // A wait that goes on on another CPU is booked in parts, which says nothing: `sched_info_dequeue`, kernel/sched/stats.h.
        // lagstop's programs count it when it ends, as a whole.
        let had_cpu = (booked.cpu_ns, booked.timeslices) != (self.booked.cpu_ns, self.booked.timeslices);
        self.waits = is_runnable && !had_cpu;
        if !is_runnable {
            self.since = None;
        } else if had_cpu || self.since.is_none() {
            // Since the last look it ran, and ended a wait, of which a part may be from before.
            let ran = Duration::from_nanos(booked.cpu_ns.saturating_sub(self.booked.cpu_ns).0);
            let waited = Duration::from_nanos(booked.runq_wait_ns.saturating_sub(self.booked.runq_wait_ns).0);
            let before = self.since.map_or(Duration::ZERO, |since| self.at.saturating_duration_since(since));
            let earliest = (self.at + ran + waited.saturating_sub(before)).min(at);
            // Whether it slept beside that is not known.
            self.since = Some(earliest + (at - earliest) / 2);
        }
        if had_cpu {
            self.booked = booked;
        }
        self.at = at;
    }
}

/// CPU time of the calling thread.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        host::Version,
        model::{GroupBy, Nanos},
    };

    const MS: Duration = Duration::from_millis(1);

    fn booked(cpu_ms: u64, wait_ms: u64, timeslices: u64) -> Schedstat {
        Schedstat { cpu_ns: Nanos(cpu_ms * 1_000_000), runq_wait_ns: Nanos(wait_ms * 1_000_000), timeslices }
    }

    fn nobody() -> InProgress {
        let hierarchy = Hierarchy::at(Version::V2, "/nowhere".as_ref(), GroupBy::Scheduler);
        InProgress::new(&Sides::default(), &hierarchy)
    }

    #[test]
    fn who_has_had_no_cpu_waits_since_it_last_ran() {
        let began = Instant::now();
        let at = |ms: u32| began + MS * ms;
        let mut thread = Thread { side: 1, booked: booked(10, 0, 1), at: at(0), since: None, waits: false };
        // It ran for 20 ms, and was put aside 30 ms ago, or slept a while.
        thread.see(true, booked(30, 0, 2), at(50));
        assert_eq!((thread.waits, thread.since), (false, Some(at(35))), "whether it runs at the moment is not known");
        thread.see(true, booked(30, 0, 2), at(100));
        assert_eq!((thread.waits, thread.since), (true, Some(at(35))));
        // It was moved to another CPU, where it waits on: a part of its wait is booked.
        thread.see(true, booked(30, 1_000, 2), at(1_100));
        assert_eq!((thread.waits, thread.since), (true, Some(at(35))), "it has had no CPU");
        thread.see(true, booked(30, 1_000, 2), at(3_000));
        assert_eq!((thread.waits, thread.since), (true, Some(at(35))));
        // That wait ended, 25 ms after the last look; it ran for 5 ms.
        thread.see(true, booked(35, 2_990, 3), at(3_050));
        assert!(!thread.waits && thread.since.unwrap() > at(3_030), "{thread:?}");
        thread.see(false, booked(36, 2_990, 3), at(3_100));
        assert_eq!((thread.waits, thread.since), (false, None));
        // It slept until then: on the run queue, and not on a CPU yet.
        thread.see(true, booked(36, 2_990, 3), at(3_150));
        assert_eq!((thread.waits, thread.since), (true, Some(at(3_125))));
    }

    #[test]
    fn a_wait_is_as_long_as_it_was_at_the_moment() {
        let mut all = nobody();
        let began = Instant::now();
        let look = |count: Both, so_far: Both| Look { count, so_far };
        all.looks.insert(began, look([0.0, 2.0], [0.0, 3.0]));
        all.looks.insert(began + MS * 100, look([0.0, 2.0], [0.0, 3.2]));
        all.looks.insert(began + MS * 200, look([0.0, 0.0], [0.0, 0.0]));
        let near = |ms: u32, expected: f64| {
            let [light, heavy] = all.until(began + MS * ms).unwrap();
            assert!(light.abs() < 1e-9 && (heavy - expected).abs() < 1e-9, "{ms}: {heavy}");
        };
        near(0, 3.0);
        near(50, 3.1);
        near(100, 3.2);
        // Both ended by 200 ms, and as likely as not before 150.
        near(150, 3.3 / 2.0);
        near(200, 0.0);
        assert_eq!(all.until(began + MS * 201), None, "nobody has looked since");
        all.looks.insert(began + NEAR * 3, Look::default());
        assert_eq!(all.until(began + NEAR), None, "a second look is too far away");
        assert!(all.every().is_some());
    }
}
