//! Looks at a command's threads while it runs, where nothing else tells how long they wait.

use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use crate::host::{Hierarchy, SeenThreads, SeenWork};

/// Reads them at a steady beat, on a thread of its own.
pub(super) struct Sampler {
    seen: Arc<Mutex<SeenThreads>>,
    is_over: Arc<AtomicBool>,
    pid: u32,
}

impl Sampler {
    /// What a thread does after its last reading is missed. Reading more often would disturb it.
    const EVERY: Duration = Duration::from_millis(50);

    /// Starts to look at the process `pid`, and at all that are in its cgroup, or else descend from it.
    pub(super) fn start(cgroup: Option<(Hierarchy, PathBuf)>, pid: u32) -> Self {
        let seen = match cgroup {
            Some((hierarchy, directory)) => SeenThreads::of_cgroup(hierarchy, directory),
            None => SeenThreads::of_process(pid),
        };
        let (seen, is_over) = (Arc::new(Mutex::new(seen)), Arc::new(AtomicBool::new(false)));
        let (shared, ends) = (Arc::clone(&seen), Arc::clone(&is_over));
        thread::spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                shared.lock().unwrap_or_else(PoisonError::into_inner).read();
                thread::sleep(Self::EVERY);
            }
        });
        Self { seen, is_over, pid }
    }

    /// What they did. The first process must be a zombie: it has ended, and was not waited for yet, so its figures are
    /// complete.
    pub(super) fn finish(self) -> SeenWork {
        self.is_over.store(true, Ordering::Relaxed);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.read();
        seen.read_one(self.pid);
        seen.work()
    }
}
