//! How a task is scheduled, sched_setattr(2).

use std::io;

use serde::{Deserialize, Serialize};

/// How a task is scheduled: the first version of `struct sched_attr`, which every kernel takes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attr {
    pub(super) size: u32,
    /// `SCHED_OTHER` is 0, `SCHED_RR` 2.
    pub policy: u32,
    /// `SCHED_FLAG_*`.
    pub flags: u64,
    /// Of those that share.
    pub nice: i32,
    /// Of real-time tasks.
    pub priority: u32,
    /// From Linux 6.12 on, of those that share: their slice, in nanoseconds. 0 asks for the usual one.
    pub runtime: u64,
    pub(super) deadline: u64,
    pub(super) period: u64,
}

impl Attr {
    /// `SCHED_OTHER`.
    pub const OTHER: u32 = 0;
    /// `SCHED_FIFO`.
    pub const FIFO: u32 = 1;
    /// `SCHED_RR`.
    pub const RR: u32 = 2;
    /// `SCHED_FLAG_RESET_ON_FORK`: what is made by it is scheduled as usual.
    pub const RESET_ON_FORK: u64 = 1;

    /// That of the task with this number; 0 is the caller.
    ///
    /// # Errors
    /// When it is gone, or may not be asked about.
    pub fn of(tid: u32) -> io::Result<Self> {
        let mut attr = Self::default();
        // SAFETY: the kernel writes no more than it is told there is.
        let done = unsafe { libc::syscall(libc::SYS_sched_getattr, tid, &raw mut attr, size_of::<Self>(), 0) };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(attr) }
    }

    /// Has the task with this number scheduled so.
    ///
    /// # Errors
    /// When it is gone, or when that is refused.
    pub fn set(mut self, tid: u32) -> io::Result<()> {
        self.size = size_of::<Self>() as u32;
        // SAFETY: the kernel reads no more than `size` says.
        let done = unsafe { libc::syscall(libc::SYS_sched_setattr, tid, &raw const self, 0) };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_is_had() {
        std::thread::spawn(|| {
            let before = Attr::of(0).unwrap();
            assert_eq!(before.size as usize, size_of::<Attr>());
            Attr { nice: before.nice + 1, ..before }.set(0).unwrap();
            assert_eq!(Attr::of(0).unwrap().nice, before.nice + 1);
        })
        .join()
        .unwrap();
        assert_eq!(Attr::of(u32::MAX >> 1).unwrap_err().raw_os_error(), Some(libc::ESRCH));
    }
}
