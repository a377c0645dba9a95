//! Many cgroups, each with a process that sleeps most of the time.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use lagstop::{
    host::{Hierarchy, Version},
    model::GroupBy,
};
use rustix::process::{Signal, set_parent_process_death_signal};

use super::error::Error;

/// How long a process sleeps at a time: between so many milliseconds.
#[derive(Clone, Copy)]
pub(crate) struct Pause {
    least_ms: u64,
    most_ms: u64,
}

impl Pause {
    /// One in ten wakes up in a second.
    pub(crate) const LONG: Self = Self { least_ms: 5_000, most_ms: 15_000 };
    /// Each wakes up three times a second.
    pub(crate) const SHORT: Self = Self { least_ms: 200, most_ms: 400 };
}

/// The cgroups and their processes. Dropping it ends and removes them.
pub(crate) struct Crowd {
    parent: PathBuf,
    members: Vec<(PathBuf, Child)>,
}

impl Crowd {
    pub(crate) fn start(count: u32, pause: Pause) -> Result<Self, Error> {
        let hierarchy = Hierarchy::find(GroupBy::Scheduler)?;
        let parent = hierarchy.mount.join(format!("lagstop-crowd-{}", std::process::id()));
        make(&parent)?;
        let mut crowd = Self { parent, members: Vec::new() };
        if hierarchy.version == Version::V2 {
            for directory in [&hierarchy.mount, &crowd.parent] {
                write(&directory.join("cgroup.subtree_control"), "+cpu")?;
            }
        }
        for number in 0..count {
            crowd.add(number, pause)?;
        }
        Ok(crowd)
    }

    /// Paths are as long as those of Kubernetes.
    fn add(&mut self, number: u32, pause: Pause) -> Result<(), Error> {
        let name = format!("kubepods-burstable-pod{number:08x}_0000_4000_8000_{number:012x}.slice");
        let directory = self.parent.join(name);
        make(&directory)?;
        let program = std::env::current_exe().map_err(Error::file("this program"))?;
        let mut command = Command::new(program);
        command.args(["nap", &pause.least_ms.to_string(), &pause.most_ms.to_string(), &number.to_string()]);
        let spawned = command.stdin(Stdio::null()).spawn();
        let child = match spawned {
            Ok(child) => child,
            Err(source) => {
                let _ = fs::remove_dir(&directory);
                return Err(Error::file("a process of the crowd")(source));
            }
        };
        let id = child.id();
        self.members.push((directory.clone(), child));
        write(&directory.join("cgroup.procs"), &id.to_string())
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        for (_, child) in &mut self.members {
            let _ = child.kill();
        }
        for (directory, child) in &mut self.members {
            let _ = child.wait();
            remove(directory);
        }
        remove(&self.parent);
    }
}

fn make(directory: &Path) -> Result<(), Error> {
    fs::create_dir(directory).map_err(Error::file(directory.display().to_string()))
}

fn write(file: &Path, text: &str) -> Result<(), Error> {
    fs::write(file, text).map_err(Error::file(file.display().to_string()))
}

/// The kernel may take a moment longer to let the last process go.
fn remove(directory: &Path) {
    for _ in 0..100 {
        if fs::remove_dir(directory).is_ok() {
            return;
        }
        thread::sleep(Duration::from_millis(20));
    }
    eprintln!("{} cannot be removed: something is still in it", directory.display());
}

/// A process of the crowd.
#[derive(clap::Args)]
pub(crate) struct Nap {
    least_ms: u64,
    most_ms: u64,
    seed: u64,
}

/// What it works when it is awake.
const WORK: Duration = Duration::from_micros(50);
/// Should nobody end it, it ends.
const LONGEST: Duration = Duration::from_secs(15 * 60);

impl Nap {
    pub(crate) fn run(&self) -> std::process::ExitCode {
        let _ = set_parent_process_death_signal(Some(Signal::KILL));
        let end = Instant::now() + LONGEST;
        let mut random = self.seed;
        while Instant::now() < end {
            // As in Knuth's MMIX: good enough to keep them from waking up at once.
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let span = self.most_ms.saturating_sub(self.least_ms).max(1);
            thread::sleep(Duration::from_millis(self.least_ms + (random >> 33) % span));
            let awake = Instant::now();
            while awake.elapsed() < WORK {
                std::hint::spin_loop();
            }
        }
        std::process::ExitCode::SUCCESS
    }
}
