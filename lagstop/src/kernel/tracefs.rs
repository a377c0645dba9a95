//! Syscall tracepoints are attached by a number that only tracefs tells.

use std::{io, path::Path, thread};

use rustix::{
    mount::{MountFlags, MountPropagationFlags, mount, mount_change},
    thread::{UnshareFlags, unshare_unsafe},
};
use thiserror::Error;

const TRACEFS: &str = "/sys/kernel/tracing";
/// Where it may be mounted.
pub(super) const PLACES: [&str; 2] = [TRACEFS, "/sys/kernel/debug/tracing"];

/// Why there is no tracefs to attach by.
#[derive(Debug, Error)]
pub(super) enum TracefsError {
    #[error("tracefs is not mounted, and lagstop cannot mount it: {0}. Run mount -t tracefs tracefs {TRACEFS}")]
    Mount(#[from] io::Error),
    /// A fault of lagstop's own, said on standard error.
    #[error("attaching failed")]
    Panicked,
}

/// Runs `task` where tracefs is mounted. Where the host has not mounted it, it is mounted for the thread that runs `task`
/// alone, in a mount namespace that ends with it: nothing is left on the host.
pub(super) fn with_tracefs<T: Send>(task: impl FnOnce() -> T + Send) -> Result<T, TracefsError> {
    if PLACES.iter().any(|path| Path::new(path).join("events").is_dir()) {
        return Ok(task());
    }
    let run = || {
        mount_privately()?;
        Ok(task())
    };
    thread::scope(|scope| scope.spawn(run).join()).unwrap_or(Err(TracefsError::Panicked))
}

fn mount_privately() -> io::Result<()> {
    // SAFETY: this thread alone gets its own mounts, root and working directory; it holds no file descriptor table of
    // its own, and it ends after `task`.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    mount("tracefs", TRACEFS, "tracefs", MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC, None)?;
    Ok(())
}
