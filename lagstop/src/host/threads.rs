//! The threads of a cgroup, and what the scheduler booked to each since the look before.

use std::{
    collections::HashMap,
    fs, io,
    path::{Path, PathBuf},
    time::Instant,
};

use thiserror::Error;

use super::{
    hierarchy::{Hierarchy, Version},
    process::{starttime, state},
    schedstat::{self, Schedstat},
};
use crate::{
    display::plain,
    model::{Nanos, Thread},
};

/// Threads that are read at most: more would take too long, and nobody reads them.
pub(super) const MOST: usize = 5_000;

/// Why the threads of a cgroup are not listed.
#[derive(Debug, Error)]
pub enum ThreadsError {
    #[error("cannot read {}: {}", path.display(), plain(source))]
    Read { path: PathBuf, source: io::Error },
    #[error("too many threads or cgroups: lagstop reads at most {0}")]
    TooMany(usize),
    #[error("cannot read which CPUs are allowed to thread {tid}: {}", plain(source))]
    Affinity { tid: u32, source: io::Error },
    #[error("its threads are outside this PID namespace. Run lagstop in the host's PID namespace")]
    Outside,
}

/// What was read of a cgroup's threads the last time.
#[derive(Debug, Default)]
pub struct Threads {
    last: Option<(Instant, HashMap<u32, Reading>)>,
}

/// A thread at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Reading {
    name: String,
    /// When it began, in clock ticks since boot: ids are used again.
    began: u64,
    booked: Schedstat,
}

impl Threads {
    /// The threads that compete in the cgroup in `directory`, by id, with what was booked to each since the last call, and
    /// how long that is ago. A thread that has begun since has no figures, nor has any in the first call.
    ///
    /// # Errors
    /// When they cannot be listed or are more than 5,000.
    pub fn read(
        &mut self,
        hierarchy: &Hierarchy,
        directory: &Path,
    ) -> Result<(Vec<Thread>, Option<Nanos>), ThreadsError> {
        let tids = tids(hierarchy, directory, MOST)?;
        let at = Instant::now();
        // Those that have ended since they were listed are left out.
        let now: HashMap<u32, Reading> = tids.iter().filter_map(|&tid| Some((tid, Reading::of(tid).ok()?))).collect();
        let (earlier, before) = self.last.take().unzip();
        let before = before.unwrap_or_default();
        let threads = tids.iter().filter_map(|tid| Some(now.get(tid)?.since(*tid, before.get(tid)))).collect();
        self.last = Some((at, now));
        Ok((threads, earlier.map(|earlier| Nanos::from(at - earlier))))
    }
}

impl Reading {
    fn of(tid: u32) -> io::Result<Self> {
        // The file of the same name one level up adds up the whole process, each time.
        let stat = fs::read(format!("/proc/{tid}/task/{tid}/stat"))?;
        let (name, began) = parse(&String::from_utf8_lossy(&stat)).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Self { name, began, booked: schedstat::read(tid)? })
    }

    fn since(&self, tid: u32, earlier: Option<&Self>) -> Thread {
        let since = |figure: fn(&Schedstat) -> Nanos| {
            // A kernel that does not count says 0 of all.
            let earlier = earlier.filter(|earlier| earlier.began == self.began && self.booked.timeslices > 0)?;
            figure(&self.booked).0.checked_sub(figure(&earlier.booked).0).map(Nanos)
        };
        Thread {
            tid,
            name: self.name.clone(),
            cpu_ns: since(|booked| booked.cpu_ns),
            runq_wait_ns: since(|booked| booked.runq_wait_ns),
        }
    }
}

/// `<tid> (<name>) …`: the name, which can hold brackets, and when it began.
pub(super) fn parse(stat: &str) -> Option<(String, u64)> {
    let (before, _) = stat.rsplit_once(')')?;
    let (_, name) = before.split_once('(')?;
    Some((name.to_owned(), starttime(stat.as_bytes())?))
}

/// The ids of the threads that compete in the cgroup in directory `of`, in order: its own, and those of cgroups inside of it
/// that have no group.
///
/// # Errors
/// When they cannot be listed or are more than `most`.
pub fn tids(hierarchy: &Hierarchy, of: &Path, most: usize) -> Result<Vec<u32>, ThreadsError> {
    list(hierarchy, of, most, |path| !hierarchy.has_group(path))
}

/// The same with those of all cgroups inside of it.
///
/// # Errors
/// As above.
pub fn tids_inside(hierarchy: &Hierarchy, of: &Path) -> Result<Vec<u32>, ThreadsError> {
    list(hierarchy, of, usize::MAX, |_| true)
}

/// Do others than kernel threads compete in the root cgroup? Yes also where that cannot be told.
pub fn has_processes_in_root(hierarchy: &Hierarchy) -> bool {
    if !hierarchy.is_whole() {
        return true;
    }
    let Ok(tids) = tids(hierarchy, &hierarchy.mount, usize::MAX) else { return true };
    // In order, so that the first process of the host comes first.
    tids.iter().any(|tid| match fs::read(format!("/proc/{tid}/stat")) {
        Ok(stat) => !is_of_the_kernel(&stat),
        Err(error) => !is_gone(&error),
    })
}

/// Has the thread ended since it was listed?
fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}

/// The names of the threads that run now, or wait to, and compete in the cgroup in directory `of`: the most frequent first. None
/// where it has more than `most` threads, which would take too long.
pub fn names_of_runnable(hierarchy: &Hierarchy, of: &Path, most: usize) -> Vec<String> {
    let own = std::process::id().to_string();
    let mut counts: HashMap<String, usize> = HashMap::new();
    for tid in tids(hierarchy, of, most).unwrap_or_default() {
        // Leaves out this process, which asks.
        if Path::new("/proc").join(&own).join("task").join(tid.to_string()).exists() {
            continue;
        }
        let stat = fs::read(format!("/proc/{tid}/stat")).unwrap_or_default();
        if state(&stat) == Some(b'R')
            && !is_of_the_kernel(&stat)
            && let Some((name, _)) = parse(&String::from_utf8_lossy(&stat))
        {
            *counts.entry(name).or_default() += 1;
        }
    }
    let mut names: Vec<(String, usize)> = counts.into_iter().collect();
    names.sort_by(|(a, of_a), (b, of_b)| of_b.cmp(of_a).then_with(|| a.cmp(b)));
    names.into_iter().map(|(name, _)| name).collect()
}

/// `PF_KTHREAD` in the ninth field of proc_pid_stat(5).
fn is_of_the_kernel(stat: &[u8]) -> bool {
    const PF_KTHREAD: u64 = 0x0020_0000;
    let after = stat.rsplit(|byte| *byte == b')').next().and_then(|after| str::from_utf8(after).ok());
    let flags = after.and_then(|after| after.split_whitespace().nth(6)?.parse::<u64>().ok());
    flags.is_some_and(|flags| flags & PF_KTHREAD != 0)
}

/// The cgroup in directory `of` and those inside of it, as far as any thread is in them.
pub fn populated(hierarchy: &Hierarchy, of: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut directories = vec![of.to_owned()];
    while let Some(directory) = directories.pop() {
        directories.extend(inside(&directory));
        if fs::read_to_string(directory.join(file(hierarchy))).is_ok_and(|tids| !tids.is_empty()) {
            found.push(directory);
        }
    }
    found
}

/// The file with the ids of a cgroup's own threads.
const fn file(hierarchy: &Hierarchy) -> &'static str {
    match hierarchy.version {
        Version::V1 => "tasks",
        Version::V2 => "cgroup.threads",
    }
}

pub(super) fn list(
    hierarchy: &Hierarchy,
    of: &Path,
    most: usize,
    goes_on: impl Fn(&Path) -> bool,
) -> Result<Vec<u32>, ThreadsError> {
    let file = file(hierarchy);
    let mut tids = Vec::new();
    let mut directories = vec![of.to_owned()];
    let mut seen = 0;
    while let Some(directory) = directories.pop() {
        seen += 1;
        match fs::read_to_string(directory.join(file)) {
            Ok(text) => tids.extend(text.lines().filter_map(|line| line.parse::<u32>().ok())),
            // Nobody can be in a cgroup that is `domain invalid`: Documentation/admin-guide/cgroup-v2.rst.
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {}
            Err(error) if directory == of => {
                return Err(ThreadsError::Read { path: directory.join(file), source: error });
            }
            // Gone since it was listed.
            Err(_) => {}
        }
        if tids.len().max(seen) > most {
            return Err(ThreadsError::TooMany(most));
        }
        directories.extend(inside(&directory).filter(|path| goes_on(path)));
    }
    // What has no id in this PID namespace reads as 0.
    if tids.contains(&0) {
        return Err(ThreadsError::Outside);
    }
    tids.sort_unstable();
    tids.dedup();
    Ok(tids)
}

/// The cgroups right below `directory`.
fn inside(directory: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::GroupBy;

    #[test]
    fn threads_of_the_kernel_are_told() {
        assert!(is_of_the_kernel(b"2 (kthreadd) S 0 0 0 0 -1 2129984 0 0"));
        assert!(!is_of_the_kernel(b"7 (a) b) R 1 7 7 0 -1 4194560 1 2"));
        assert!(!is_of_the_kernel(b""));
    }

    fn reading(began: u64, cpu: u64, wait: u64) -> Reading {
        let booked = Schedstat { cpu_ns: Nanos(cpu), runq_wait_ns: Nanos(wait), timeslices: 1 };
        Reading { name: "worker".to_owned(), began, booked }
    }

    fn figures(now: &Reading, earlier: Option<&Reading>) -> (Option<u64>, Option<u64>) {
        let thread = now.since(7, earlier);
        assert_eq!((thread.tid, &*thread.name), (7, "worker"));
        (thread.cpu_ns.map(|ns| ns.0), thread.runq_wait_ns.map(|ns| ns.0))
    }

    #[test]
    fn figures_are_those_since_the_look_before() {
        assert_eq!(figures(&reading(1, 50, 9), Some(&reading(1, 30, 9))), (Some(20), Some(0)));
        assert_eq!(figures(&reading(1, 50, 9), None), (None, None), "was not there");
    }

    #[test]
    fn an_id_that_is_used_again_is_another_thread() {
        assert_eq!(figures(&reading(2, 50, 9), Some(&reading(1, 30, 1))), (None, None));
        assert_eq!(figures(&reading(1, 20, 9), Some(&reading(1, 30, 9))).0, None, "backwards");
    }

    #[test]
    fn a_kernel_that_does_not_count_waits_is_not_believed() {
        let mut now = reading(1, 0, 0);
        now.booked.timeslices = 0;
        assert_eq!(figures(&now, Some(&now)), (None, None));
    }

    #[test]
    fn names_can_hold_anything() {
        let rest = "S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20 21";
        assert_eq!(parse(&format!("12 (a) (b c) {rest}\n")), Some(("a) (b c".to_owned(), 4_711)));
        assert_eq!(parse("12 (a) S 1"), None);
        assert_eq!(parse(""), None);
    }

    #[test]
    fn own_threads_are_read_and_those_below_without_a_group_are_among_them() {
        let home = tempfile::tempdir().unwrap();
        let own = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
        let write = |path: &str, text: &str| {
            let file = home.path().join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        // Another thread's id stands for each place; what is not a thread is left out.
        let (stop, wait) = std::sync::mpsc::channel::<()>();
        let (say, hear) = std::sync::mpsc::channel();
        let other = std::thread::spawn(move || {
            say.send(rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs()).unwrap();
            let _ = wait.recv();
        });
        let inner = hear.recv().unwrap();
        write("cgroup.threads", &format!("{own}\n{}\n", u32::MAX));
        write("inner/cgroup.threads", &format!("{inner}\n"));
        write("group/cpu.weight", "100\n");
        write("group/cgroup.threads", "1\n");
        for (group_by, expected) in [(GroupBy::Scheduler, vec![own, inner]), (GroupBy::Leaf, vec![own])] {
            let hierarchy = Hierarchy::at(Version::V2, home.path(), group_by);
            let mut threads = Threads::default();
            let (first, over) = threads.read(&hierarchy, home.path()).unwrap();
            let mut seen: Vec<u32> = first.iter().map(|thread| thread.tid).collect();
            seen.sort_unstable();
            let mut expected = expected;
            expected.sort_unstable();
            assert_eq!((seen, over), (expected, None));
            assert!(first.iter().all(|thread| thread.cpu_ns.is_none()));
            let (second, over) = threads.read(&hierarchy, home.path()).unwrap();
            assert!(over.is_some() && second.iter().all(|thread| thread.cpu_ns.is_some()));
        }
        drop(stop);
        other.join().unwrap();
    }

    #[test]
    fn processes_in_the_root_cgroup_are_told_from_threads_of_the_kernel() {
        let home = tempfile::tempdir().unwrap();
        let hierarchy = Hierarchy::at(Version::V1, home.path(), GroupBy::Scheduler);
        fs::write(home.path().join("tasks"), "").unwrap();
        assert!(has_processes_in_root(&hierarchy), "only a part of the tree is seen");
        fs::write(home.path().join("release_agent"), "").unwrap();
        fs::remove_file(home.path().join("tasks")).unwrap();
        assert!(has_processes_in_root(&hierarchy), "it cannot be told");
        // kthreadd is the second of all, where the kernel's are seen.
        let is_seen = fs::read("/proc/2/stat").is_ok_and(|stat| is_of_the_kernel(&stat));
        let kernel = if is_seen { "2\n" } else { "" };
        fs::write(home.path().join("tasks"), kernel).unwrap();
        assert!(!has_processes_in_root(&hierarchy));
        fs::write(home.path().join("tasks"), format!("{kernel}{}\n", std::process::id())).unwrap();
        assert!(has_processes_in_root(&hierarchy));
    }

    #[test]
    fn threads_that_cannot_be_listed_say_why() {
        let home = tempfile::tempdir().unwrap();
        let read = |text: Option<&str>| {
            if let Some(text) = text {
                fs::write(home.path().join("tasks"), text).unwrap();
            }
            let hierarchy = Hierarchy::at(Version::V1, home.path(), GroupBy::Scheduler);
            Threads::default().read(&hierarchy, home.path()).unwrap_err().to_string()
        };
        assert!(read(None).ends_with("/tasks: No such file or directory"));
        assert!(read(Some("0\n")).contains("PID namespace"));
        let many: String = (1..=5_001).map(|tid| format!("{tid}\n")).collect();
        assert_eq!(read(Some(&many)), "too many threads or cgroups: lagstop reads at most 5000");
    }
}
