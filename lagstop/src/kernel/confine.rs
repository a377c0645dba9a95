//! Which capabilities, and which user, are still needed once everything is attached.
//!
//! Linux keeps both for each thread. So the thread that reads has what reading takes, and those that talk to the network, which
//! is where strangers are, have less or none. All of them share memory: it makes a fault harder to use, and no sandbox.

use std::io;

use rustix::{
    process::{Gid, Uid, geteuid},
    thread::{set_keep_capabilities, set_thread_groups, set_thread_res_gid, set_thread_res_uid},
};

use super::{
    capabilities::{Capabilities, Capability},
    error::KernelError,
    reader::KernelReader,
};
use crate::model::{Measure, kernel_version};

/// Before it every call of bpf(2) takes CAP_BPF where it is kept from ordinary users, which may be switched on any time
/// (c8644cd0efe7).
const BPF_IS_FREE_SINCE: (u32, u32) = (5, 19);
/// The user and the group who own nothing: `overflowuid`, kernel/sys.c, and `nobody` of every distribution.
const NOBODY: u32 = 65_534;

impl Capabilities {
    /// Those that a thread other than the reading one needs: it enters no network namespaces.
    #[must_use]
    pub const fn beside_reading(self) -> Self {
        self.without(Capability::SysPtrace).without(Capability::SysAdmin)
    }

    /// [`Self::keep_only`], also where not all of them are held.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn keep_of_held(self) -> io::Result<()> {
        self.among(Self::held()).keep_only()
    }

    /// [`Self::keep_only`], and root becomes nobody, for good: even without capabilities root owns most files. Where this thread
    /// may not change its user, as in a container without CAP_SETUID, it stays root.
    ///
    /// # Errors
    /// When the kernel refuses to take capabilities away.
    pub fn keep_as_nobody(self) -> io::Result<()> {
        if geteuid().is_root() {
            // Groups and user in this order: once it is nobody it may not change any more.
            let _ = become_nobody();
        }
        self.keep_only()
    }
}

/// Leaves all groups and becomes nobody, with the capabilities that it has.
fn become_nobody() -> io::Result<()> {
    let (user, group) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
    set_keep_capabilities(true)?;
    let changed = set_thread_groups(&[])
        .and_then(|()| set_thread_res_gid(group, group, group))
        .and_then(|()| set_thread_res_uid(user, user, user));
    set_keep_capabilities(false)?;
    Ok(changed?)
}

impl KernelReader {
    /// The capabilities that reading needs, of those that are held. All others can be given up: see
    /// [`Capabilities::keep_only`].
    ///
    /// # Errors
    /// When a map cannot be read even with all of them, or capabilities cannot be changed.
    pub fn needs(&mut self) -> Result<Capabilities, KernelError> {
        let held = Capabilities::held();
        let mut needed = Capabilities::NONE.with(Capability::DacReadSearch);
        if self.measures(Measure::TcpState) {
            // Containers listen in network namespaces of their own: to find and to enter them.
            needed = needed.with(Capability::SysPtrace).with(Capability::SysAdmin);
        }
        let release = rustix::system::uname().release().to_string_lossy().into_owned();
        if kernel_version(&release).is_none_or(|version| version < BPF_IS_FREE_SINCE) {
            needed = needed.with(Capability::Bpf);
        }
        let bpf = Capabilities::NONE.with(Capability::Bpf);
        for more in [Capabilities::NONE, bpf, bpf.with(Capability::Perfmon)] {
            let tried = needed.and(more).among(held);
            let result =
                tried.try_with(|| self.try_to_read()).map_err(|source| KernelError::Capabilities { source })?;
            if result.is_ok() {
                return Ok(tried);
            }
        }
        self.try_to_read()?;
        Ok(held)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use rustix::process::{getgid, getuid};

    use super::*;

    #[test]
    fn what_enters_namespaces_is_for_the_thread_that_reads() {
        let read = Capabilities::NONE.with(Capability::DacReadSearch);
        assert_eq!(read.with(Capability::SysAdmin).with(Capability::SysPtrace).beside_reading(), read);
    }

    /// A thread of its own, for it is for good; others keep what they have.
    #[test]
    fn a_thread_gives_up_what_it_has_and_who_it_is() {
        let before = (Capabilities::held(), geteuid());
        let keep = Capabilities::NONE.with(Capability::DacReadSearch).among(before.0);
        let nobody = thread::spawn(move || {
            keep.keep_as_nobody().unwrap();
            let is_back = set_thread_res_uid(Uid::ROOT, Uid::ROOT, Uid::ROOT).is_ok();
            (Capabilities::held(), getuid(), getgid(), is_back)
        });
        let (held, user, group, is_back) = nobody.join().unwrap();
        assert_eq!(held, keep);
        if before.1.is_root() {
            // Where it may not become another it is root still, as in some containers.
            let is_nobody = user == Uid::from_raw(NOBODY) && group == Gid::from_raw(NOBODY) && !is_back;
            assert!(is_nobody || user.is_root(), "{user:?} {group:?} {is_back}");
        }
        assert_eq!((Capabilities::held(), geteuid()), before);
        let none = thread::spawn(|| {
            Capabilities::FULL.keep_of_held().unwrap();
            Capabilities::NONE.keep_of_held().unwrap();
            Capabilities::held()
        });
        assert_eq!(none.join().unwrap(), Capabilities::NONE);
    }
}
