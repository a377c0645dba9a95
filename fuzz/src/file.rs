//! Files in memory: a recording is read from a file, and the fuzzer has no time for a disk.

use std::{
    fs::File,
    io::Write,
    os::fd::{AsRawFd, OwnedFd},
    path::PathBuf,
};

use rustix::fs::{MemfdFlags, memfd_create};

/// A file that is in no directory, and gone when it is dropped.
pub struct MemoryFile(File);

impl MemoryFile {
    /// An empty one.
    pub fn new() -> Self {
        let fd: OwnedFd = memfd_create("recording", MemfdFlags::CLOEXEC).expect("a file in memory");
        Self(fd.into())
    }

    /// One that holds `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        let mut file = Self::new();
        file.0.write_all(bytes).expect("room in memory");
        file
    }

    /// To write to it.
    pub fn writable(&self) -> File {
        self.0.try_clone().expect("another descriptor")
    }

    /// Where it can be opened.
    pub fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.0.as_raw_fd()).into()
    }
}
