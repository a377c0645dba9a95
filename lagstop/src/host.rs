//! The only code that reads `/proc`, `/sys` and cgroupfs, and asks the kernel about sockets.

mod allowed_cpus;
mod bandwidth;
mod busy;
mod cgroup_files;
mod cpu_time;
mod cpus;
mod figures;
mod frequency;
mod groups;
mod hierarchy;
mod identity;
mod levels;
mod limits;
mod listeners;
mod loadavg;
mod made_up;
mod moment;
mod names;
mod netstat;
mod own_cgroup;
mod owners;
mod pressure;
mod process;
mod real_time;
pub(crate) mod schedstat;
mod seen_threads;
mod signs;
mod sock_diag;
mod surroundings;
mod thread_work;
mod threads;
mod turn;
mod vcpus;

pub use allowed_cpus::{AllowedCpus, allowed_cpus};
pub use busy::{Busy, busy};
pub use cgroup_files::CgroupFiles;
pub use cpu_time::CpuTime;
pub use cpus::{Cpus, ExcludedCpus};
pub use figures::figures;
pub use frequency::{Frequencies, Frequency};
pub use groups::GroupDirectory;
pub use hierarchy::{Hierarchy, Version};
pub use identity::Identity;
pub(crate) use limits::level;
pub use limits::limits;
pub use listeners::Listeners;
pub use loadavg::ThreadCounts;
#[doc(hidden)]
pub use made_up::{read_kernel_files, read_mountinfo};
pub use moment::{CgroupMoment, HostMoment};
pub use names::{Nameless, Names, last_unit};
pub use own_cgroup::OwnCgroup;
pub use owners::Owners;
pub use process::{is_runnable, is_stopped, started};
pub use real_time::{RealTime, RealTimeUse};
pub use seen_threads::{SeenThreads, SeenWork};
pub use signs::{SignWatch, Signs};
pub use surroundings::{SeenHierarchy, Surroundings};
pub use thread_work::ThreadWork;
pub use threads::{Threads, ThreadsError, has_processes_in_root, names_of_runnable, populated, tids, tids_inside};

use std::io;

use thiserror::Error;

use crate::display::plain;

/// What about the host cannot be read, with a remedy.
#[derive(Debug, Error)]
pub enum HostError {
    /// A file that should always exist cannot be read.
    #[error("cannot read {path}: {}. Mount /proc and /sys", plain(source))]
    Read { path: String, source: io::Error },
    /// No cgroup hierarchy is mounted.
    #[error(
        "cannot name cgroups: no cgroup hierarchy {0} is mounted. Run mount -t cgroup2 none /sys/fs/cgroup (in a container, \
         mount the host's /sys/fs/cgroup into it)"
    )]
    NoCgroups(&'static str),
    /// `--exclude-cpus` names CPUs that this host cannot have.
    #[error(
        "this host has no CPU {excluded}: it can have {possible}. Correct --exclude-cpus, or exclude-cpus in the configuration"
    )]
    NoSuchCpus {
        /// CPUs that the host cannot have.
        excluded: String,
        /// CPUs that the host can have.
        possible: String,
    },
    /// `--exclude-cpus` leaves no CPU.
    #[error("no CPU is left to measure: --exclude-cpus excludes all that are online. Exclude fewer")]
    NoCpus,
}

/// Reads a text file that should exist. Names in it may hold any bytes: what is not UTF-8 shows as �.
fn read(path: &str) -> Result<String, HostError> {
    let bytes = std::fs::read(path).map_err(|source| HostError::Read { path: path.to_owned(), source })?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
