//! `lagstop schedule`, started and ended by tests.

use std::{
    io::{BufRead, BufReader, Read},
    process::{Child, ChildStderr, Command, ExitStatus, Stdio},
    thread,
};

use lagstop::{
    kernel::loaded_scheduler,
    schedule::{NAME, SchedulePlan},
};
use rustix::process::{Pid, Signal, kill_process};

use crate::{
    command::lagstop,
    fixture::{Load, TestCgroup, facts},
};

/// Can this kernel be scheduled? Where it cannot, that is said, and the command must refuse for the same reason.
pub(crate) fn is_possible() -> bool {
    let why = match SchedulePlan::from_types(facts()) {
        Ok(_) if loaded_scheduler().is_some() => return true,
        Ok(_) => "has no sched_ext".to_owned(),
        Err(error) => error.to_string(),
    };
    println!("*** SKIPPED: {why} ***");
    let refused = Command::new(lagstop()).args(["schedule", "--dry-run"]).output().unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains(&why), "{said}");
    false
}

/// `lagstop schedule`, in force.
pub(crate) struct Lags {
    pub(crate) child: Child,
    said: BufReader<ChildStderr>,
}

impl Lags {
    pub(crate) fn start(flags: &[&str]) -> Self {
        Self::start_with(flags, |_| {})
    }

    /// `settings` are what else the command is given.
    pub(crate) fn start_with(flags: &[&str], settings: impl FnOnce(&mut Command)) -> Self {
        let mut command = Command::new(lagstop());
        command.arg("schedule").args(flags).stdout(Stdio::null()).stderr(Stdio::piped());
        settings(&mut command);
        let mut child = command.spawn().unwrap();
        let said = BufReader::new(child.stderr.take().unwrap());
        let mut lags = Self { child, said };
        lags.waits_for("LAGS schedules this host");
        lags.is_in_force();
        lags
    }

    /// Waits until it says `what`.
    pub(crate) fn waits_for(&mut self, what: &str) {
        let mut all = String::new();
        while !all.contains(what) {
            assert!(self.said.read_line(&mut all).unwrap() > 0, "it ended: {all}");
        }
    }

    pub(crate) fn is_in_force(&self) {
        assert_eq!(loaded_scheduler().as_deref(), Some(NAME), "{}", status());
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Ends it. How, and what it said since.
    pub(crate) fn end(self, signal: Signal) -> (ExitStatus, String) {
        self.signal(signal);
        self.ended()
    }

    /// Waits until it has ended. How, and what it said since.
    pub(crate) fn ended(mut self) -> (ExitStatus, String) {
        let status = self.child.wait().unwrap();
        let mut said = String::new();
        self.said.read_to_string(&mut said).unwrap();
        (status, said)
    }
}

impl Drop for Lags {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What `lagstop schedule --status` prints.
pub(crate) fn status() -> String {
    let status = Command::new(lagstop()).args(["schedule", "--status"]).output().unwrap();
    let said = String::from_utf8(status.stdout).unwrap();
    let code = if said.starts_with("LAGS schedules this host") { 0 } else { 3 };
    assert_eq!(status.status.code(), Some(code), "{said}");
    said
}

pub(crate) fn is_back() -> bool {
    loaded_scheduler().as_deref() == Some("")
}

/// Does this kernel keep time for others where real-time tasks take all CPUs? `None`, and said, where that cannot be tried.
pub(crate) fn beside_real_time_tasks() -> Option<bool> {
    if thread::available_parallelism().unwrap().get() < 2 {
        println!("*** SKIPPED: with one CPU the host would hang ***");
        return None;
    }
    Some(facts().sched_ext.as_ref().unwrap().has_server)
}

/// A real-time task that takes one CPU.
pub(crate) fn spin_in_real_time(cgroup: &TestCgroup) -> Load {
    let mut load = cgroup.start("spin-in-real-time 60000");
    assert_eq!(load.line(), "joined");
    load.go();
    load
}

/// Is a scheduler refused because of this task, by what is said?
pub(crate) fn names_real_time(load: &Load, said: &str) -> bool {
    said.contains("real-time tasks use") && said.contains(&format!("Thread {} ", load.pid()))
}
