//! Keeps sched_ext schedulers away from real-time tasks that could hang the host. Before Linux 7.0 the kernel keeps no time for
//! tasks of sched_ext beside real-time tasks: if these take all CPUs, nothing can end the scheduler.

use std::thread;

use super::error::SchedulerError;
use crate::{
    host::RealTime,
    kernel::{Answer, Facts},
};

/// Watches real-time tasks where they could hang the host.
pub struct RealTimeGuard {
    watched: Option<RealTime>,
    /// Could they hang this host, watched or not?
    can_hang: bool,
    /// `uname -r`
    release: String,
}

impl RealTimeGuard {
    /// From so many CPUs on, real-time tasks may be about to take all.
    const MATTERS: f64 = 0.5;

    /// Begins to watch, where that is needed and not `ignored`.
    ///
    /// # Errors
    /// When they cannot be seen from here.
    pub fn begin(facts: &Facts, ignored: bool) -> Result<Self, SchedulerError> {
        let release = facts.release.clone();
        let keeps_time = facts.sched_ext.as_ref().is_some_and(|types| types.has_server);
        if ignored || keeps_time {
            return Ok(Self { watched: None, can_hang: !keeps_time, release });
        }
        match facts.in_host_pid_namespace {
            Answer::Known(false) => Err(SchedulerError::HiddenRealTime { release }),
            _ => Ok(Self { watched: Some(RealTime::begin()), can_hang: true, release }),
        }
    }

    /// Could they hang this host?
    pub const fn can_hang(&self) -> bool {
        self.can_hang
    }

    /// Refuses a host where they used much since it was last asked.
    ///
    /// # Errors
    /// When they did.
    pub fn look(&mut self) -> Result<(), SchedulerError> {
        match self.watched.as_mut().and_then(RealTime::used) {
            Some(used) if used.cpus >= Self::MATTERS => {
                Err(SchedulerError::RealTime { used, release: self.release.clone() })
            }
            _ => Ok(()),
        }
    }

    /// The same over the next second.
    ///
    /// # Errors
    /// When they use much.
    pub fn look_a_second(&mut self) -> Result<(), SchedulerError> {
        if self.watched.is_some() {
            thread::sleep(RealTime::SHORTEST);
        }
        self.look()
    }
}
