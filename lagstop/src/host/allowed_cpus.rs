//! Which CPUs threads may run on.

use std::path::Path;

use rustix::{
    io::Errno,
    process::Pid,
    thread::{CpuSet, sched_getaffinity},
};

use super::{
    Hierarchy, ThreadsError,
    threads::{MOST, list},
};

/// The CPUs that some threads are allowed, ascending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedCpus {
    /// Allowed to each of them.
    pub to_all: Vec<u32>,
    /// Allowed to one of them at least.
    pub to_any: Vec<u32>,
}

impl AllowedCpus {
    /// What remains if these were allowed at another moment.
    #[must_use]
    pub fn and(mut self, other: &Self) -> Self {
        self.to_all.retain(|cpu| other.to_all.binary_search(cpu).is_ok());
        self.to_any.extend(&other.to_any);
        self.to_any.sort_unstable();
        self.to_any.dedup();
        self
    }
}

/// The CPUs that are allowed to the threads of the cgroup in directory `of`, and of all inside of it. `None` if there are none.
///
/// # Errors
/// When they cannot be listed, are more than 5,000 or in more cgroups, or the host has more than 1,024 CPUs.
pub fn allowed_cpus(hierarchy: &Hierarchy, of: &Path) -> Result<Option<AllowedCpus>, ThreadsError> {
    let mut found: Option<AllowedCpus> = None;
    let mut last = None;
    for tid in list(hierarchy, of, MOST, |_| true)? {
        let Some(pid) = i32::try_from(tid).ok().and_then(Pid::from_raw) else { continue };
        let allowed = match sched_getaffinity(Some(pid)) {
            Ok(allowed) => allowed,
            // It has ended since it was listed.
            Err(Errno::SRCH) => continue,
            Err(error) => return Err(ThreadsError::Affinity { tid, source: error.into() }),
        };
        if last.replace(allowed) == Some(allowed) {
            continue;
        }
        let cpus: Vec<u32> = (0..CpuSet::MAX_CPU as u32).filter(|&cpu| allowed.is_set(cpu as usize)).collect();
        let its = AllowedCpus { to_all: cpus.clone(), to_any: cpus };
        found = Some(match found {
            Some(found) => found.and(&its),
            None => its,
        });
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::{host::Version, model::GroupBy};

    #[test]
    fn what_was_allowed_for_a_part_of_the_time_is_not_allowed() {
        let [one, two] = [[0, 1], [1, 2]].map(|cpus| AllowedCpus { to_all: cpus.to_vec(), to_any: cpus.to_vec() });
        assert_eq!(one.and(&two), AllowedCpus { to_all: vec![1], to_any: vec![0, 1, 2] });
    }

    #[test]
    fn cpus_are_allowed_to_all_threads_or_to_some() {
        let home = tempfile::tempdir().unwrap();
        let hierarchy = Hierarchy::at(Version::V2, home.path(), GroupBy::Scheduler);
        let (stop, wait) = std::sync::mpsc::channel::<()>();
        let (say, hear) = std::sync::mpsc::channel();
        let pinned = std::thread::spawn(move || {
            let all = sched_getaffinity(None).unwrap();
            let last = (0..CpuSet::MAX_CPU).rfind(|&cpu| all.is_set(cpu)).unwrap();
            let mut one = CpuSet::new();
            one.set(last);
            rustix::thread::sched_setaffinity(None, &one).unwrap();
            say.send((rustix::thread::gettid().as_raw_nonzero().get(), last as u32)).unwrap();
            let _ = wait.recv();
        });
        let (tid, last) = hear.recv().unwrap();
        let own = rustix::thread::gettid().as_raw_nonzero().get();
        fs::create_dir(home.path().join("inner")).unwrap();
        // One in a cgroup inside, one that has ended.
        fs::write(home.path().join("inner/cgroup.threads"), format!("{tid}\n{}\n", i32::MAX)).unwrap();
        fs::write(home.path().join("cgroup.threads"), "").unwrap();
        let allowed = || allowed_cpus(&hierarchy, home.path()).unwrap();
        assert_eq!(allowed(), Some(AllowedCpus { to_all: vec![last], to_any: vec![last] }));
        fs::write(home.path().join("cgroup.threads"), format!("{own}\n")).unwrap();
        let both = allowed().unwrap();
        assert_eq!(both.to_all, [last]);
        let own = sched_getaffinity(None).unwrap();
        assert_eq!(both.to_any.len(), (0..CpuSet::MAX_CPU).filter(|&cpu| own.is_set(cpu)).count());
        fs::remove_dir_all(home.path().join("inner")).unwrap();
        assert_eq!(allowed(), Some(AllowedCpus { to_all: both.to_any.clone(), ..both }));
        fs::write(home.path().join("cgroup.threads"), "").unwrap();
        assert_eq!(allowed(), None);
        drop(stop);
        pinned.join().unwrap();
        assert!(allowed_cpus(&hierarchy, &home.path().join("gone")).is_err());
    }
}
