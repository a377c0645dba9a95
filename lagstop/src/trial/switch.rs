//! Policies that switch the host to another scheduler: LAGS, or one that an installed program loads.
//!
//! There is nothing to write down: the kernel takes its own scheduler back when the process that loaded another one is gone.

mod aside;
mod program;

use std::{
    ffi::OsString,
    io,
    time::{Duration, Instant},
};

use thiserror::Error;

use aside::aside;
use program::Loaded;
pub use program::ProgramError;

use super::{NoProgram, SchedulerProgram};
use crate::{
    display::plain,
    kernel::{Facts, loaded_scheduler},
    schedule::{
        self, Learnt, PreparedSchedule, RealTimeGuard, RunningScheduler, ScheduleOptions, SchedulerEnd, SchedulerError,
    },
};

/// Settings of policies that switch the host to another scheduler.
#[derive(Clone, Debug, Default)]
pub struct SwitchSettings {
    /// Switch to LAGS although cgroups have CPU quotas, none of which hold then.
    pub ignore_quotas: bool,
    /// Switch although real-time tasks could hang the host.
    pub ignore_real_time: bool,
    /// Arguments of the program of [`SwitchTo::Program`].
    pub arguments: Vec<OsString>,
}

impl SwitchSettings {
    /// Those with which LAGS schedules.
    pub fn options(&self) -> ScheduleOptions {
        let &Self { ignore_quotas, ignore_real_time, .. } = self;
        ScheduleOptions { ignore_quotas, ignore_real_time, ..ScheduleOptions::default() }
    }
}

/// Why the host is not, or no longer, scheduled by another scheduler.
#[derive(Debug, Error)]
pub enum SwitchError {
    #[error(transparent)]
    Scheduler(#[from] SchedulerError),
    #[error(transparent)]
    Program(#[from] ProgramError),
    #[error(transparent)]
    NoProgram(#[from] NoProgram),
    #[error("a CPU went online or offline, so the kernel ended LAGS")]
    CpusChanged,
    #[error("another process ended LAGS")]
    LetGo,
    #[error("the kernel ended LAGS: {0}")]
    ByKernel(String),
    #[error("it was interrupted")]
    Interrupted,
    #[error("cannot start a thread: {}", plain(.0))]
    NoThread(#[from] io::Error),
}

/// A policy's scheduler, which is in force between [`Self::start`] and [`Self::end`]. When it is dropped, the kernel's own is
/// back.
pub struct Switch {
    to: SwitchTo,
    settings: SwitchSettings,
    /// What makes LAGS know who is heavy from the start.
    learning: Option<(PreparedSchedule, Learnt, Instant)>,
    in_force: Option<InForce>,
}

/// Another scheduler than the kernel's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SwitchTo {
    Lags,
    /// The one that a program loads.
    Program(SchedulerProgram),
}

enum InForce {
    Lags(Box<RunningScheduler>),
    Program { loaded: Loaded, real_time: RealTimeGuard, looked: Instant },
}

impl Switch {
    /// Nothing is in force yet.
    pub fn new(to: SwitchTo, settings: &SwitchSettings) -> Self {
        Self { to, settings: settings.clone(), learning: None, in_force: None }
    }

    /// Looks whether this host can be switched. Changes nothing.
    ///
    /// # Errors
    /// When it cannot, and why.
    pub fn check(&self) -> Result<(), SwitchError> {
        match self.to {
            SwitchTo::Lags => Ok(self.prepare()?.look_at_real_time()?),
            SwitchTo::Program(program) => {
                refuse_loaded()?;
                program.find()?;
                Ok(self.real_time_guard()?.look_a_second()?)
            }
        }
    }

    /// For a program's scheduler: LAGS has its own.
    fn real_time_guard(&self) -> Result<RealTimeGuard, SchedulerError> {
        RealTimeGuard::begin(&Facts::probe(None), self.settings.ignore_real_time)
    }

    fn prepare(&self) -> Result<PreparedSchedule, SwitchError> {
        Ok(schedule::prepare(self.settings.options())?)
    }

    /// Begins to see what each cgroup uses until [`Self::start`]. Calls `beat` meanwhile.
    ///
    /// # Errors
    /// When the host cannot be switched any more.
    pub fn learn(&mut self, beat: &mut dyn FnMut()) -> Result<(), SwitchError> {
        if self.to == SwitchTo::Lags {
            let learn = || -> Result<_, SwitchError> {
                let prepared = self.prepare()?;
                let learnt = prepared.learn()?;
                Ok((prepared, learnt, Instant::now()))
            };
            self.learning = Some(aside(PATIENCE, beat, learn)??);
        }
        Ok(())
    }

    /// Switches the host. Calls `beat` meanwhile, and gives up where `is_wanted`, which is asked now and then, says no.
    ///
    /// # Errors
    /// When that does not work. The kernel's own scheduler stays then.
    pub fn start(&mut self, beat: &mut dyn FnMut(), is_wanted: &(dyn Fn() -> bool + Sync)) -> Result<(), SwitchError> {
        self.in_force = Some(match self.to {
            SwitchTo::Lags => {
                let learning = self.learning.take();
                let running = aside(PATIENCE, beat, || self.start_lags(learning, is_wanted))??;
                InForce::Lags(Box::new(running))
            }
            SwitchTo::Program(program) => {
                refuse_loaded()?;
                let real_time = aside(PATIENCE, beat, || self.real_time_guard())??;
                let mut goes_on = || {
                    beat();
                    is_wanted()
                };
                let loaded = Loaded::start(&program.find()?, &self.settings.arguments, &mut goes_on)?;
                InForce::Program { loaded, real_time, looked: Instant::now() }
            }
        });
        Ok(())
    }

    fn start_lags(
        &self,
        learning: Option<(PreparedSchedule, Learnt, Instant)>,
        is_wanted: &(dyn Fn() -> bool + Sync),
    ) -> Result<RunningScheduler, SwitchError> {
        let (prepared, learnt) = match learning {
            Some((prepared, learnt, since)) => (prepared, Some((learnt, since.elapsed()))),
            None => {
                let mut prepared = self.prepare()?;
                prepared.look_at_real_time()?;
                (prepared, None)
            }
        };
        if !is_wanted() {
            return Err(SwitchError::Interrupted);
        }
        // Another one may have come meanwhile, whose name says more than that the kernel refuses.
        refuse_loaded()?;
        Ok(prepared.attach(learnt)?)
    }

    /// Tells LAGS what each cgroup's share is, whenever that is due. To be called often.
    ///
    /// # Errors
    /// When the scheduler is not in force any more.
    pub fn look(&mut self) -> Result<(), SwitchError> {
        match &mut self.in_force {
            None => Ok(()),
            Some(InForce::Program { loaded, real_time, looked }) => {
                loaded.look()?;
                if looked.elapsed() >= LOOK_AT_REAL_TIME {
                    *looked = Instant::now();
                    real_time.look()?;
                }
                Ok(())
            }
            Some(InForce::Lags(running)) if Instant::now() < running.due() => Ok(()),
            Some(InForce::Lags(running)) => match running.look()? {
                None => Ok(()),
                Some(ended) => Err(ended.into()),
            },
        }
    }

    /// Gives the host back to the kernel's own scheduler, and calls `beat` while it waits for that. Gives whether it was in
    /// force.
    ///
    /// # Errors
    /// When the kernel ended it before, or it does not end.
    pub fn end(&mut self, beat: &mut dyn FnMut()) -> Result<bool, SwitchError> {
        self.learning = None;
        match self.in_force.take() {
            None => Ok(false),
            Some(InForce::Program { loaded, .. }) => Ok(loaded.end(beat).map(|()| true)?),
            Some(InForce::Lags(running)) => match aside(PATIENCE, beat, || running.let_go())?? {
                SchedulerEnd::LetGo => Ok(true),
                ended => Err(ended.into()),
            },
        }
    }
}

impl From<SchedulerEnd> for SwitchError {
    fn from(ended: SchedulerEnd) -> Self {
        match ended {
            SchedulerEnd::LetGo => Self::LetGo,
            SchedulerEnd::CpusChanged => Self::CpusChanged,
            SchedulerEnd::ByKernel { reason, .. } => Self::ByKernel(reason),
        }
    }
}

/// Fails if a scheduler is loaded already: there can be only one.
fn refuse_loaded() -> Result<(), SchedulerError> {
    match loaded_scheduler() {
        Some(name) if name.is_empty() => Ok(()),
        Some(name) => Err(SchedulerError::Loaded(name)),
        None => Err(SchedulerError::NoSchedExt { release: Facts::probe(None).release }),
    }
}

/// Time between two looks at real-time tasks beside a program's scheduler: each asks for the policy of every thread.
const LOOK_AT_REAL_TIME: Duration = Duration::from_secs(5);
/// How long the kernel may take to switch, and a program to load its scheduler or to end.
const PATIENCE: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_never_started_ends_at_once() {
        let mut switch = Switch::new(SwitchTo::Lags, &SwitchSettings::default());
        assert!(switch.look().is_ok());
        assert!(!switch.end(&mut || panic!("nothing is waited for")).unwrap());
    }

    #[test]
    fn the_kernels_reason_is_said() {
        let ended = SchedulerEnd::ByKernel { reason: "a runnable task was stalled".to_owned(), report: String::new() };
        let said = SwitchError::from(ended).to_string();
        assert_eq!(said, "the kernel ended LAGS: a runnable task was stalled");
    }
}
