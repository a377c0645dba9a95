//! How a task is scheduled, sched_setattr(2).

use std::{io, sync::OnceLock};

use rustix::process::{Pid, getpriority_process};
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
    /// `SCHED_FLAG_RESET_ON_FORK`: what a task with it forks is scheduled as usual. Of a real-time task that is
    /// `SCHED_OTHER`, nice 0; of any other a nice value below 0 becomes 0 (`sched_fork`, kernel/sched/core.c).
    pub const RESET_ON_FORK: u64 = 1;
    /// Real-time priority of the trial and its watchdog. Others get 1: who puts things back must not wait for them.
    const FIRST: u32 = 2;

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

    /// The slice of a task that asked for none, in nanoseconds. 0 before Linux 6.12. It is read once, which must be by a thread
    /// that is not real-time.
    pub(super) fn usual_slice() -> u64 {
        static USUAL: OnceLock<u64> = OnceLock::new();
        *USUAL.get_or_init(|| Self::of(0).map_or(0, |own| own.runtime))
    }

    /// Its slice, in nanoseconds: 0 is the usual one.
    pub(super) fn slice(self) -> u64 {
        if self.runtime == Self::usual_slice() { 0 } else { self.runtime }
    }

    /// Does it run before all tasks that share CPU time?
    pub(super) const fn is_real_time(self) -> bool {
        matches!(self.policy, Self::FIFO | Self::RR)
    }

    /// Do both schedule a task in the same way?
    pub(super) fn is_like(self, other: Self) -> bool {
        let shares = |attr: Self| if attr.is_real_time() { (0, 0) } else { (attr.nice, attr.slice()) };
        (self.policy, self.priority, shares(self)) == (other.policy, other.priority, shares(other))
    }

    /// The nice value of the task with this number. A real-time task keeps one too, which sched_getattr(2) does not tell.
    ///
    /// # Errors
    /// When it is gone.
    pub(super) fn nice_of(tid: u32) -> io::Result<i32> {
        let pid = i32::try_from(tid).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidInput)?;
        Ok(getpriority_process(Some(pid))?)
    }

    /// Makes the calling thread run before what a trial makes real-time. What it forks is scheduled as usual. Returns how it
    /// was scheduled before.
    ///
    /// # Errors
    /// When that is refused, as without a real-time budget (`cpu.rt_runtime_us`).
    pub(super) fn go_first() -> io::Result<Self> {
        // While it is not real-time yet: the kernel tells no slice of a real-time task.
        Self::usual_slice();
        let before = Self::of(0)?;
        let flags = before.flags | Self::RESET_ON_FORK;
        Self { policy: Self::RR, priority: Self::FIRST, nice: 0, runtime: 0, flags, ..before }.set(0)?;
        Ok(before)
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

    #[test]
    fn what_a_task_shares_counts_only_where_it_shares() {
        let rr = Attr { policy: Attr::RR, priority: 1, ..Attr::default() };
        assert!(rr.is_like(Attr { nice: 5, runtime: 7, ..rr }) && !rr.is_like(Attr { priority: 2, ..rr }));
        let other = Attr { nice: 5, ..Attr::default() };
        assert!(other.is_like(other) && !other.is_like(Attr { nice: 6, ..other }) && !other.is_like(rr));
        assert!(!other.is_like(Attr { runtime: Attr::usual_slice() + 1, ..other }));
        assert!(other.is_like(Attr { runtime: Attr::usual_slice(), ..other }), "that is the usual one");
    }
}
