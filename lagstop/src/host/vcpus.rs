//! How long virtual CPUs of guests were ready to run and waited for a CPU: what VMware calls CPU ready.
//!
//! Where a virtual CPU has a cgroup of its own, its wait is the cgroup's. Elsewhere it is what the scheduler has booked to the threads
//! that the hypervisor named as virtual CPUs. Both need no `schedstats=enable`: the scheduler always counts these waits.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    time::Instant,
};

use super::{Hierarchy, schedstat, threads::tids};
use crate::model::{CgroupId, Nanos, Vcpus};

/// Readings between two looks for threads of a guest.
const LOOK_EVERY: u64 = 10;
/// Threads of a guest's cgroup that are looked through at most.
const MOST_THREADS: usize = 2_048;
/// Virtual CPUs that are read at most in a reading: a guest beyond it has no figures.
const MOST_VCPUS: usize = 4_096;

/// What is known of each guest.
#[derive(Debug)]
pub(super) struct VcpuWaits {
    hierarchy: Hierarchy,
    readings: u64,
    /// Virtual CPUs that were read in this reading.
    read: usize,
    /// When this reading began.
    now: Instant,
    known: HashMap<CgroupId, Known>,
}

#[derive(Debug)]
struct Known {
    at: Instant,
    /// When its threads are looked for again.
    look_in: u64,
    threads: HashMap<u32, Booked>,
    ready: Ready,
}

/// What was booked to a thread, by when.
#[derive(Clone, Copy, Debug)]
struct Booked {
    wait: Nanos,
    at: Instant,
}

/// Since the guest was first seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ready {
    /// Wait of its virtual CPUs.
    pub(super) wait_ns: Option<Nanos>,
    /// Time of all of them together.
    pub(super) time_ns: Option<Nanos>,
}

impl Ready {
    const fn begin() -> Self {
        Self { wait_ns: Some(Nanos::ZERO), time_ns: Some(Nanos::ZERO) }
    }

    fn add(&mut self, wait: Nanos, time: Nanos) {
        let sum = |all: Option<Nanos>, more| all.map(|all| all.saturating_add(more));
        (self.wait_ns, self.time_ns) = (sum(self.wait_ns, wait), sum(self.time_ns, time));
    }
}

impl VcpuWaits {
    pub(super) fn new(hierarchy: &Hierarchy) -> Self {
        Self { hierarchy: hierarchy.clone(), readings: 0, read: 0, now: Instant::now(), known: HashMap::new() }
    }

    pub(super) fn begin(&mut self) {
        self.readings += 1;
        self.read = 0;
        self.now = Instant::now();
    }

    /// Forgets those that are not `there` any more.
    pub(super) fn keep(&mut self, there: impl Fn(CgroupId) -> bool) {
        self.known.retain(|&id, _| there(id));
    }

    /// That of a guest's cgroup, which has waited so long since the last reading; `directory` finds where it is. Nothing where no thread
    /// of a virtual CPU is found, or may be read.
    pub(super) fn of(
        &mut self,
        id: CgroupId,
        vcpus: Vcpus,
        waited: Option<Nanos>,
        directory: impl FnOnce() -> Option<PathBuf>,
    ) -> Ready {
        let Self { hierarchy, readings, read, now, known } = self;
        let first = Known { at: *now, look_in: *readings, threads: HashMap::new(), ready: Ready::begin() };
        let is_new = !known.contains_key(&id);
        let known = known.entry(id).or_insert(first);
        match vcpus {
            Vcpus::Own => {
                let Some(waited) = waited else { return Ready::default() };
                if !is_new {
                    known.ready.add(waited, (*now - known.at).into());
                }
                known.at = *now;
                known.ready
            }
            Vcpus::Inside => {
                if known.look_in <= *readings {
                    known.look_in = *readings + LOOK_EVERY;
                    let found = directory().map(|directory| vcpu_threads(hierarchy, &directory)).unwrap_or_default();
                    known.threads.retain(|tid, _| found.contains(tid));
                    for tid in found.into_iter().take(MOST_VCPUS.saturating_sub(*read)) {
                        known.threads.entry(tid).or_insert_with(|| booked(tid).unwrap_or_else(Booked::nothing));
                    }
                }
                *read += known.threads.len();
                if known.threads.is_empty() || *read > MOST_VCPUS {
                    return Ready::default();
                }
                known.read();
                known.ready
            }
        }
    }
}

impl Known {
    /// Adds what was booked to each thread since it was read last.
    fn read(&mut self) {
        let Self { look_in, threads, ready, .. } = self;
        threads.retain(|&tid, last| {
            // Ids are used again: what goes back is another thread's.
            let now = booked(tid).filter(|now| now.wait >= last.wait);
            if let Some(now) = now {
                ready.add(now.wait.saturating_sub(last.wait), (now.at - last.at).into());
                *last = now;
            } else {
                *look_in = 0;
            }
            now.is_some()
        });
    }
}

impl Booked {
    /// For a thread that ended before it could be read: the next read drops it.
    fn nothing() -> Self {
        Self { wait: Nanos(u64::MAX), at: Instant::now() }
    }
}

/// A kernel that does not count says 0 of all: nothing then.
fn booked(tid: u32) -> Option<Booked> {
    let booked = schedstat::read(tid).ok().filter(|booked| booked.timeslices > 0)?;
    Some(Booked { wait: booked.runq_wait_ns, at: Instant::now() })
}

/// The threads of the cgroup in `directory` that are virtual CPUs.
fn vcpu_threads(hierarchy: &Hierarchy, directory: &Path) -> Vec<u32> {
    let all = tids(hierarchy, directory, MOST_THREADS).unwrap_or_default();
    let is_vcpu = |tid: &u32| fs::read_to_string(format!("/proc/{tid}/comm")).is_ok_and(|name| names_vcpu(&name));
    all.into_iter().filter(is_vcpu).collect()
}

/// `CPU 0/KVM` and `CPU 0/TCG` of QEMU, `fc_vcpu 0` of Firecracker. The hypervisor names its threads; a guest that has broken out
/// could rename them, but only give wrong figures of itself.
fn names_vcpu(name: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let name = name.trim_end();
    if let Some(number) = name.strip_prefix("fc_vcpu ") {
        return is_number(number);
    }
    name.strip_prefix("CPU ")
        .and_then(|rest| rest.split_once('/'))
        .is_some_and(|(number, how)| is_number(number) && (how.starts_with("KVM") || how.starts_with("TCG")))
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, thread, time::Duration};

    use super::*;
    use crate::{host::Version, model::GroupBy};

    fn waits(home: &Path) -> VcpuWaits {
        VcpuWaits::new(&Hierarchy::at(Version::V1, home, GroupBy::Scheduler))
    }

    #[test]
    fn threads_are_known_by_their_hypervisors_names() {
        for vcpu in ["CPU 0/KVM\n", "CPU 127/TCG", "fc_vcpu 3\n"] {
            assert!(names_vcpu(vcpu), "{vcpu}");
        }
        for other in
            ["qemu-system-x86", "CPU 0", "CPU x/KVM", "IO iothread0", "fc_vcpu", "fc_api", "CPU /KVM", "vhost-12"]
        {
            assert!(!names_vcpu(other), "{other}");
        }
    }

    #[test]
    fn a_vcpus_own_cgroup_waits_as_the_vcpu_does() {
        let home = tempfile::tempdir().unwrap();
        let mut waits = waits(home.path());
        let mut read = |waited| {
            waits.begin();
            waits.of(CgroupId(5), Vcpus::Own, waited, || None)
        };
        assert_eq!(read(Some(Nanos(7))), Ready::begin(), "that was before");
        thread::sleep(Duration::from_millis(20));
        let Ready { wait_ns, time_ns } = read(Some(Nanos(9)));
        assert_eq!(wait_ns, Some(Nanos(9)));
        assert!((20_000_000..5_000_000_000).contains(&time_ns.unwrap().0), "{time_ns:?}");
        assert_eq!(read(None), Ready::default(), "waits are not measured");
    }

    #[test]
    fn of_other_guests_the_named_threads_are_read_and_no_others() {
        let home = tempfile::tempdir().unwrap();
        let (stop, stopped) = mpsc::channel::<()>();
        let (tell, told) = mpsc::channel();
        let vcpu = thread::Builder::new().name("CPU 0/KVM".to_owned()).spawn(move || {
            tell.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
            let _ = stopped.recv();
        });
        let own = rustix::thread::gettid().as_raw_nonzero();
        fs::write(home.path().join("tasks"), format!("{own}\n{}\n", told.recv().unwrap())).unwrap();
        let mut waits = waits(home.path());
        let mut read = |id| {
            waits.begin();
            waits.of(CgroupId(id), Vcpus::Inside, None, || Some(home.path().to_owned()))
        };
        let first = read(5);
        thread::sleep(Duration::from_millis(20));
        let second = read(5);
        let time = second.time_ns.unwrap().saturating_sub(first.time_ns.unwrap());
        assert!((20_000_000..40_000_000_000).contains(&time.0), "of one thread: {time}");
        assert!(second.wait_ns.is_some());
        fs::write(home.path().join("tasks"), format!("{own}\n")).unwrap();
        assert_eq!(read(6), Ready::default(), "no thread of it is one");
        drop(stop);
        vcpu.unwrap().join().unwrap();
    }
}
