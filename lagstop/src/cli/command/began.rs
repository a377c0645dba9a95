//! When a command begins.

use std::{
    io::{self, PipeReader, Read, Write, pipe},
    os::unix::process::CommandExt,
    process::Command,
};

use rustix::io::ioctl_fionbio;

use crate::{model::Nanos, units::KernelTime};

/// Hears when a process is about to execute a command: to enter a cgroup takes it some milliseconds before, in which the kernel waits
/// for all CPUs.
pub(super) struct Began {
    heard: PipeReader,
    /// When nothing of that had begun.
    before: KernelTime,
}

impl Began {
    /// Has the process of `command` say so, behind all that it was asked to do before.
    pub(super) fn of(command: &mut Command) -> io::Result<Self> {
        let (heard, mut writer) = pipe()?;
        // A process that is killed on its way says nothing.
        ioctl_fionbio(&heard, true)?;
        // SAFETY: it reads a clock and makes one system call, on what is open already.
        unsafe { command.pre_exec(move || writer.write_all(&KernelTime::now().0.0.to_ne_bytes())) };
        Ok(Self { heard, before: KernelTime::now() })
    }

    /// When it was, once the command has been executed, or its process was killed on its way.
    pub(super) fn read(mut self) -> KernelTime {
        let mut ns = [0; 8];
        match self.heard.read_exact(&mut ns) {
            Ok(()) => KernelTime(Nanos(u64::from_ne_bytes(ns))),
            Err(_) => self.before,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{thread::sleep, time::Duration};

    use super::*;

    #[test]
    fn what_comes_before_the_command_does_not_count() {
        const BEFORE: Duration = Duration::from_millis(30);
        let mut command = Command::new("true");
        let start = KernelTime::now();
        // SAFETY: one system call.
        unsafe {
            command.pre_exec(|| {
                sleep(BEFORE);
                Ok(())
            })
        };
        let began = Began::of(&mut command).unwrap();
        let mut child = command.spawn().unwrap();
        let executed = KernelTime::now();
        let began = began.read().0;
        assert!(began.saturating_sub(start.0) >= Nanos(BEFORE.as_nanos() as u64) && began <= executed.0);
        child.wait().unwrap();
    }

    #[test]
    fn who_is_killed_on_the_way_is_not_waited_for() {
        let mut command = Command::new("true");
        let kill = || Ok(rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL)?);
        // SAFETY: two system calls.
        unsafe { command.pre_exec(kill) };
        let start = KernelTime::now();
        let began = Began::of(&mut command).unwrap();
        let child = command.spawn();
        let began = began.read().0;
        assert!(began >= start.0 && began <= KernelTime::now().0);
        if let Ok(mut child) = child {
            assert!(!child.wait().unwrap().success());
        }
    }
}
