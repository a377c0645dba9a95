//! What the threads of cgroups did between two readings, by the kernel's files about each thread.

use std::{collections::HashMap, fs, io, os::unix::fs::MetadataExt, path::Path, str};

use rustix::{
    io::Errno,
    process::{Pid, test_kill_process},
    time::{ClockId, clock_gettime},
};

use super::{
    figures::clock_tick,
    groups::GroupDirectory,
    hierarchy::Version,
    process::starttime,
    schedstat::{self, Schedstat},
};
use crate::model::{Nanos, Totals};

/// What is known of each thread.
#[derive(Debug)]
pub struct ThreadWork {
    /// The file of a cgroup that lists its threads.
    list: &'static str,
    counts_waits: bool,
    threads: HashMap<u32, Known>,
    readings: u64,
    /// When this reading began and when the last one did, in clock ticks since boot.
    began: u64,
    last_began: u64,
    hidden: u64,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    /// When it was born, in clock ticks since boot: ids are used again.
    born: u64,
    /// Of its directory. Another thread's is another, and its own may be when the kernel was short of memory.
    inode: u64,
    figures: Figures,
    /// The reading in which it was last there.
    reading: u64,
}

/// A thread's figures since it was born.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Figures {
    booked: Schedstat,
    voluntary: u64,
    involuntary: u64,
}

impl ThreadWork {
    pub fn new(version: Version) -> Self {
        let list = match version {
            Version::V1 => "tasks",
            Version::V2 => "cgroup.threads",
        };
        let counts_waits = schedstat::counts_waits();
        Self { list, counts_waits, threads: HashMap::new(), readings: 0, began: 0, last_began: 0, hidden: 0 }
    }

    /// Does this kernel count waits?
    pub const fn counts_waits(&self) -> bool {
        self.counts_waits
    }

    /// Threads that may not be read, in this reading.
    pub const fn hidden(&self) -> u64 {
        self.hidden
    }

    /// Begins to read. What was not seen in the last reading, nor in the one before, is forgotten.
    pub fn begin(&mut self) {
        let now = Nanos::from(clock_gettime(ClockId::Boottime));
        self.begin_at(now.0 / clock_tick().0.max(1));
    }

    fn begin_at(&mut self, ticks: u64) {
        self.last_began = self.began;
        self.began = ticks;
        // One that was on its way from one cgroup to another may have been seen in neither.
        let readings = self.readings;
        self.threads.retain(|_, known| known.reading + 1 >= readings);
        self.readings += 1;
        self.hidden = 0;
    }

    /// What the threads did since the last reading that `group` has now. A thread counts in the cgroup that it is in when
    /// it is read.
    pub fn of(&mut self, group: &GroupDirectory) -> Totals {
        let mut all = self.nothing();
        for directory in [&group.directory].into_iter().chain(&group.also) {
            for tid in self.tids(directory) {
                if let Some(did) = self.read(tid) {
                    all.add(&did);
                }
            }
        }
        all
    }

    /// What an idle cgroup does.
    pub fn nothing(&self) -> Totals {
        self.totals(&Figures::default(), 0)
    }

    fn totals(&self, did: &Figures, threads: u64) -> Totals {
        Totals {
            switches: did.voluntary + did.involuntary,
            voluntary_switches: did.voluntary,
            involuntary_switches: did.involuntary,
            cpu_ns: did.booked.cpu_ns,
            threads,
            runq_waits: self.counts_waits.then_some(did.booked.timeslices),
            runq_wait_ns: self.counts_waits.then_some(did.booked.runq_wait_ns),
            ..Totals::default()
        }
    }

    fn tids(&mut self, directory: &Path) -> Vec<u32> {
        // Gone meanwhile; or of a kind that nobody can be in: Documentation/admin-guide/cgroup-v2.rst, `domain invalid`.
        let text = fs::read_to_string(directory.join(self.list)).unwrap_or_default();
        let all: Vec<u32> = text.lines().filter_map(|line| line.parse().ok()).collect();
        // What has no id in this PID namespace reads as 0.
        self.hidden += all.iter().filter(|tid| **tid == 0).count() as u64;
        all.into_iter().filter(|tid| *tid != 0).collect()
    }

    /// What the thread did since the last reading. `None` where it is gone, or may not be read.
    fn read(&mut self, tid: u32) -> Option<Totals> {
        let did = self.try_read(tid);
        if did.is_err() && is_there(tid) {
            self.hidden += 1;
        }
        let (did, ran) = did.ok()?;
        Some(self.totals(&did, ran.into()))
    }

    fn try_read(&mut self, tid: u32) -> io::Result<(Figures, bool)> {
        // Without CONFIG_SCHED_INFO there is no such file.
        let booked = if self.counts_waits { schedstat::read(tid)? } else { Schedstat::default() };
        if let Some(known) = self.threads.get_mut(&tid)
            && known.figures.booked == booked
            && self.counts_waits
        {
            // It did not run, and so it did not switch: the other files, which take longer, need not be read.
            known.reading = self.readings;
            return Ok((Figures::default(), false));
        }
        let (voluntary, involuntary) = switches(tid)?;
        let inode = fs::metadata(format!("/proc/{tid}"))?.ino();
        let born = match self.threads.get(&tid) {
            // Reading it takes ten times as long.
            Some(known) if known.inode == inode => known.born,
            _ => born(tid)?,
        };
        Ok(self.book(tid, (born, inode), Figures { booked, voluntary, involuntary }))
    }

    /// Takes in what was read of a thread. Gives what it did since the last reading, and whether that is anything.
    fn book(&mut self, tid: u32, (born, inode): (u64, u64), figures: Figures) -> (Figures, bool) {
        let since = match self.threads.get(&tid) {
            Some(known) if known.born == born => known.figures,
            // Nothing of it was counted yet.
            _ if self.readings > 1 && born >= self.last_began => Figures::default(),
            // From now on: what it did before may have been before lagstop was there.
            _ => figures,
        };
        self.threads.insert(tid, Known { born, inode, figures, reading: self.readings });
        // Figures that went back are another thread's, which took over the id and the birth when it executed a program.
        let did = figures.since(&since).unwrap_or_default();
        (did, did != Figures::default())
    }
}

impl Figures {
    /// What came on top of `earlier`. `None` where any went back.
    fn since(&self, earlier: &Self) -> Option<Self> {
        let time = |now: Nanos, then: Nanos| now.0.checked_sub(then.0).map(Nanos);
        let (now, then) = (&self.booked, &earlier.booked);
        Some(Self {
            booked: Schedstat {
                cpu_ns: time(now.cpu_ns, then.cpu_ns)?,
                runq_wait_ns: time(now.runq_wait_ns, then.runq_wait_ns)?,
                timeslices: now.timeslices.checked_sub(then.timeslices)?,
            },
            voluntary: self.voluntary.checked_sub(earlier.voluntary)?,
            involuntary: self.involuntary.checked_sub(earlier.involuntary)?,
        })
    }
}

/// Is there such a thread? Also where its files are hidden.
fn is_there(tid: u32) -> bool {
    let pid = i32::try_from(tid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid) != Err(Errno::SRCH))
}

/// Its voluntary and involuntary switches: proc_pid_status(5).
fn switches(tid: u32) -> io::Result<(u64, u64)> {
    parse_status(&fs::read(format!("/proc/{tid}/status"))?).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn parse_status(status: &[u8]) -> Option<(u64, u64)> {
    let mut lines = status.rsplit(|byte| *byte == b'\n');
    let mut field = |name: &str| -> Option<u64> {
        let value = lines.find_map(|line| line.strip_prefix(name.as_bytes()))?;
        str::from_utf8(value).ok()?.trim().parse().ok()
    };
    // From the end: they are the last.
    let involuntary = field("nonvoluntary_ctxt_switches:")?;
    Some((field("voluntary_ctxt_switches:")?, involuntary))
}

/// When it was born, in clock ticks since boot.
fn born(tid: u32) -> io::Result<u64> {
    // The file of the same name one level up adds up the whole process, each time.
    starttime(&fs::read(format!("/proc/{tid}/task/{tid}/stat"))?).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use rustix::thread::gettid;

    use super::*;

    fn work() -> ThreadWork {
        ThreadWork { counts_waits: true, ..ThreadWork::new(Version::V2) }
    }

    /// A thread that did `n` of everything.
    fn figures(n: u64) -> Figures {
        let booked = Schedstat { cpu_ns: Nanos(n), runq_wait_ns: Nanos(n), timeslices: n };
        Figures { booked, voluntary: n, involuntary: n }
    }

    #[test]
    fn a_thread_counts_from_the_first_reading_on() {
        let mut work = work();
        work.begin_at(100);
        assert_eq!(work.book(7, (100, 0), figures(50)), (figures(0), false), "who knows what of it was before");
        work.begin_at(200);
        assert_eq!(work.book(7, (100, 0), figures(53)), (figures(3), true));
        assert_eq!(work.book(7, (100, 0), figures(54)), (figures(1), true), "found again in another cgroup");
    }

    #[test]
    fn one_that_is_new_counts_whole_where_it_was_born_since() {
        let mut work = work();
        for began in [100, 200] {
            work.begin_at(began);
        }
        assert_eq!(work.book(7, (150, 0), figures(5)), (figures(5), true));
        assert_eq!(
            work.book(8, (100, 0), figures(5)),
            (figures(5), true),
            "in the tick in which the last reading began"
        );
        assert_eq!(work.book(9, (99, 0), figures(5)), (figures(0), false));
    }

    #[test]
    fn an_id_that_is_used_again_is_another_thread() {
        let mut work = work();
        work.begin_at(100);
        work.book(7, (50, 0), figures(5));
        work.begin_at(200);
        assert_eq!(work.book(7, (150, 0), figures(9)), (figures(9), true));
        work.begin_at(300);
        assert_eq!(
            work.book(7, (150, 0), figures(2)),
            (figures(0), false),
            "it executed a program from another thread"
        );
        work.begin_at(400);
        assert_eq!(work.book(7, (150, 0), figures(4)), (figures(2), true));
    }

    #[test]
    fn one_that_was_missed_once_is_not_forgotten() {
        let mut work = work();
        for began in [100, 200, 300] {
            work.begin_at(began);
            if began != 200 {
                work.book(7, (50, 0), figures(began));
            }
        }
        assert_eq!(work.threads.len(), 1);
        assert_eq!(work.book(7, (50, 0), figures(301)), (figures(1), true));
        for began in [400, 500, 600] {
            work.begin_at(began);
        }
        assert!(work.threads.is_empty());
    }

    #[test]
    fn names_may_hold_anything() {
        let after = (3..=52).map(|field| field.to_string()).collect::<Vec<_>>().join(" ");
        let stat = [b"7 (a) R 1 (\xff) ".as_slice(), after.as_bytes()].concat();
        assert_eq!(starttime(&stat), Some(22));
        assert_eq!(starttime(b"7 (a) R"), None);
        let status =
            b"Name:\tvoluntary_ctxt_switches:\xff\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3\n";
        assert_eq!(parse_status(status), Some((12, 3)));
        assert_eq!(parse_status(b"Name:\ta\n"), None);
    }

    #[test]
    fn an_own_thread_is_read() {
        let own = gettid().as_raw_nonzero().get().unsigned_abs();
        let mut work = ThreadWork::new(Version::V1);
        work.begin();
        work.read(own).unwrap();
        work.begin();
        std::thread::sleep(std::time::Duration::from_millis(1));
        let did = work.read(own).unwrap();
        assert!(did.voluntary_switches > 0 && did.threads == 1 && did.cpu_ns > Nanos::ZERO, "{did:?}");
        assert_eq!((work.read(u32::MAX), work.hidden()), (None, 0));
    }
}
